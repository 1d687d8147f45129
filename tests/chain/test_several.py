"""Several chains: side by side or in turn, to a number of draws or until they agree, always with the same bits."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from runs import CHAINS, THIN, WARMUP, at_round, cut_the_power, everything, model, press_ctrl_c, rows

from unbounded import RunError, estimator
from unbounded.chain import several
from unbounded.chain.several import complete, stages
from unbounded.report import view

X = rows()
FIRST, ENOUGH = 2, 8


@pytest.fixture
def easy(monkeypatch):
    """A look after 2, 4, 8, 16 draws; at 8 the chains agree."""
    monkeypatch.setattr(several, "FIRST", FIRST)
    looks = []

    def agree(chains, n_draws):
        looks.append([len(chain.draws) for chain in chains])
        return n_draws >= ENOUGH

    monkeypatch.setattr("unbounded.estimator.agree", agree)
    monkeypatch.setattr(several, "agree", agree)
    return looks


def auto(checkpoint=None, **options):
    return model(checkpoint, n_draws="auto", max_draws=20, n_snapshots=4, **options)


@pytest.fixture(scope="module")
def asked_for():
    """The fit of as many draws as will turn out to be enough."""
    return everything(model(n_draws=ENOUGH, n_snapshots=4).fit(X))


def test_stages_double_up_to_the_limit():
    assert stages(7, 3) == [7]
    assert stages("auto", 8000) == [250, 500, 1000, 2000, 4000, 8000]
    assert stages("auto", 7999) == [250, 500, 1000, 2000, 4000]
    assert stages("auto", 90) == [90]


def test_chains_go_on_until_they_agree_and_are_those_of_a_fit_of_that_length(easy, asked_for):
    fitted = auto().fit(X)
    assert easy == [[2, 2], [4, 4], [8, 8]]
    assert not fitted.interrupted_
    assert everything(fitted) == asked_for


def test_the_limit_ends_it(easy):
    fitted = model(n_draws="auto", max_draws=4, n_chains=1).fit(X)
    assert fitted.posterior_.sizes["draw"] == 4
    assert not fitted.interrupted_


@pytest.mark.parametrize("when", [WARMUP + 1, CHAINS * (WARMUP + 2 * THIN) + 3, CHAINS * (WARMUP + 4 * THIN) + 9])
def test_an_interruption_changes_nothing(easy, asked_for, tmp_path, monkeypatch, when):
    with monkeypatch.context() as patch:
        at_round(patch, when, press_ctrl_c if when > WARMUP + 1 else cut_the_power)
        if when > WARMUP + 1:
            assert auto(tmp_path).fit(X).interrupted_
        else:
            with pytest.raises(RuntimeError, match="power"):
                auto(tmp_path).fit(X)
    assert everything(auto(tmp_path).fit(X)) == asked_for
    config = json.loads((tmp_path / "run.json").read_text())
    assert (config["n_draws"], config["max_draws"]) == ("auto", 20)
    assert len(view.read(tmp_path).chains[0].snapshots) == 2  # of those on disk


def test_a_run_of_few_draws_goes_on_by_itself(easy, asked_for, tmp_path):
    model(tmp_path, n_draws=4, n_snapshots=4).fit(X)
    assert everything(auto(tmp_path).fit(X)) == asked_for
    with pytest.raises(RunError, match="other n_snapshots"):
        model(tmp_path, n_draws="auto", n_snapshots=6).fit(X)


def test_complete(easy):
    short, long = (several.Chain(True, [{"alpha": 0.0}] * n) for n in (4, 9))
    assert complete([short, long], 4, 0)
    assert not complete([short, long], 5, 0)
    assert not complete([short, long], "auto", 20)
    assert complete([long, long], "auto", 20)
    assert complete([short, long], "auto", 4)


# ---- side by side


@pytest.fixture
def pairs(monkeypatch):
    """Which threads chains began in."""
    from unbounded.models.mixtures import start

    begin, seen = start.begin, []

    def watched(*args):
        seen.append(threading.current_thread().name)
        return begin(*args)

    monkeypatch.setattr(start, "begin", watched)
    return seen


def test_side_by_side_or_in_turn(pairs, monkeypatch):
    """Chains of few rows take turns; those of more do not wait for each other."""
    both = everything(model(n_workers=2).fit(X))
    with monkeypatch.context() as patch:
        patch.setattr(estimator, "_TINY", 0)
        assert everything(model(n_workers=2).fit(X)) == both
    assert all(name.startswith("unbounded-chain") for name in pairs)
    pairs.clear()
    assert everything(model(n_workers=1).fit(X)) == both
    assert everything(model(engine="serial", n_workers=None).fit(X)) == both
    assert set(pairs) == {"MainThread"}


def test_threads_take_turns(monkeypatch):
    """One at a time, everybody as often, and nobody for longer than a turn where somebody waits."""
    monkeypatch.setattr(several, "TURN", 0.0)
    turns, inside, order = several.Turns(), [], []

    def work(name):
        with turns:
            for _ in range(50):
                inside.append(name)
                order.append(name)
                time.sleep(0.0005)
                assert inside == [name]
                inside.pop()
                turns.offer()

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, name) for name in "abc"]:
            done.result()
    middle = order[30:-30]
    assert {middle[i] for i in range(3)} == {"a", "b", "c"}
    assert all(one != other for one, other in pairwise(middle))
    turns.offer()  # nobody waits: nothing happens


@pytest.mark.parametrize("n_chains", [2, 3])
def test_ctrl_c_stops_all_of_them(tmp_path, monkeypatch, n_chains):
    options = {"n_workers": 2, "n_chains": n_chains}
    with monkeypatch.context() as patch:
        at_round(patch, 2 * (WARMUP + 3 * THIN), press_ctrl_c)
        part = model(tmp_path, **options).fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes["chain"] <= n_chains
    whole = model(tmp_path, **options).fit(X)
    assert not whole.interrupted_
    assert everything(whole) == everything(model(**options | {"n_workers": 1}).fit(X))


def test_an_error_in_one_of_them_ends_the_fit(monkeypatch):
    at_round(monkeypatch, 5, cut_the_power)
    with pytest.raises(RuntimeError, match="power"):
        model(n_workers=2, n_draws=10**6).fit(X)


# ---- starts


def test_chains_begin_where_they_are_told_in_turn(monkeypatch, tmp_path):
    from unbounded.models.mixtures import start

    begin, seen = start.begin, []
    monkeypatch.setattr(start, "begin", lambda *args: seen.append(args[3]) or begin(*args))
    brief = {"n_draws": 1, "n_warmup": 0}
    model(tmp_path, init=("prior", "one"), n_chains=3, **brief).fit(X)
    assert seen == ["prior", "one", "prior"]
    assert json.loads((tmp_path / "run.json").read_text())["init"] == ["prior", "one", "prior"]
    with pytest.raises(RunError, match="other init"):
        model(tmp_path, init="one", n_chains=3, **brief).fit(X)
    model(tmp_path / "b", init=("one", "prior"), n_chains=1, **brief).fit(X)
    assert json.loads((tmp_path / "b" / "run.json").read_text())["init"] == "one"


def test_chains_have_numbers_of_their_own():
    """From the same start; else their agreement would say nothing."""
    one, other = model(init="one").fit(X).posterior_["log_joint"].values
    assert (one != other).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"init": ()}, "init has no start"),
        ({"init": ("one", "somewhere")}, "init must be one of"),
        ({"n_draws": "enough"}, "n_draws must be an integer of at least 1 or 'auto', got 'enough'"),
        ({"n_draws": "auto", "max_draws": 0}, "max_draws must be an integer of at least 1, got 0"),
    ],
)
def test_bad_options_get_one_sentence(options, said):
    with pytest.raises(ValueError, match=said):
        model(**options).fit(X)
