"""Resuming equals never having stopped, bit for bit, however the run was stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runs import CHAINS, DRAWS, ROUNDS, THIN, WARMUP, at_round, cut_the_power, everything, model, press_ctrl_c, rows

from unbounded import Ghosts, RunError
from unbounded.chain.run import Length
from unbounded.chain.store import ChainStore
from unbounded.estimator import ChainEstimator

sys.path.append(str(Path(__file__).parents[1] / "engines"))
import fits

X = rows()
RANDOM_ROUNDS = sorted(
    int(r) for r in np.random.default_rng(0).choice(np.arange(WARMUP + THIN, CHAINS * ROUNDS), 5, False)
)


@pytest.fixture(scope="module")
def undisturbed():
    """The run that nobody stops and nobody stores."""
    return everything(model().fit(X))


def test_storing_changes_nothing(tmp_path, undisturbed):
    assert everything(model(tmp_path).fit(X)) == undisturbed


@pytest.mark.parametrize("when", RANDOM_ROUNDS)
def test_ctrl_c_and_resume(tmp_path, monkeypatch, undisturbed, when):
    """One Ctrl-C: fit returns what there is and says so; the same call goes on, on another engine too."""
    with monkeypatch.context() as patch:
        at_round(patch, when, press_ctrl_c)
        part = model(tmp_path).fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes["draw"] <= DRAWS
    assert len(part.labels_) == len(X)
    assert part.predict_proba(X).shape == (len(X), part.n_clusters_)
    whole = model(tmp_path, engine="serial").fit(X)
    assert not whole.interrupted_
    assert everything(whole) == undisturbed


def test_ctrl_c_again_and_again(tmp_path, monkeypatch, undisturbed):
    for _ in range(4):
        with monkeypatch.context() as patch:
            at_round(patch, 8, press_ctrl_c)
            assert model(tmp_path).fit(X).interrupted_
    assert everything(model(tmp_path).fit(X)) == undisturbed


def test_ctrl_c_without_a_run_directory_returns_what_there_is(monkeypatch, undisturbed):
    at_round(monkeypatch, WARMUP + 3 * THIN, press_ctrl_c)
    part = model().fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes == {"chain": 1, "draw": 3, "row": len(X)}
    everything_drawn = undisturbed[0]["data_vars"]["n_clusters"]["data"][0][:3]
    assert part.posterior_["n_clusters"].values[0].tolist() == everything_drawn


@pytest.mark.parametrize(
    ("sampler", "asked", "ran"),
    [
        ("collapsed", {"n_shards": 3, "dtype": "float32"}, {"n_shards": 1, "dtype": "float64"}),
        ("algorithm8", {}, {"n_shards": 1, "dtype": "float64"}),
        ("slice", {"n_shards": 2, "dtype": "float32"}, {"n_shards": 2, "dtype": "float32"}),
    ],
)
def test_the_run_directory_says_what_was_run(tmp_path, monkeypatch, sampler, asked, ran):
    """Older versions wrote down what was asked for, also where it had no effect: they go on, new ones are refused."""
    default, options = {"n_shards": 8, "dtype": "float64"}, {"sampler": sampler}
    whole = everything(model(**options | ran).fit(X))
    config = ChainEstimator._config
    with monkeypatch.context() as patch:
        patch.setattr(ChainEstimator, "_config", lambda *given: config(*given) | default | asked)
        at_round(patch, WARMUP + 3 * THIN, press_ctrl_c)
        assert model(tmp_path, **options | ran).fit(X).interrupted_
    assert everything(model(tmp_path, **options | default | asked).fit(X)) == whole
    model(tmp_path / "new", **options | ran).fit(X)
    said = json.loads((tmp_path / "new" / "run.json").read_text())
    assert {name: said[name] for name in ran} == ran
    if asked and asked != ran:
        with pytest.raises(ValueError, match=r"has one shard|computes in float64"):
            model(tmp_path / "newer", **options | default | asked).fit(X)


def test_an_early_ctrl_c_leaves_something_to_predict_with(tmp_path, monkeypatch):
    """However few whole draws are kept, the first ones are among them until there are more."""
    with monkeypatch.context() as patch:
        at_round(patch, WARMUP + 2 * THIN, press_ctrl_c)
        part = model(tmp_path, n_snapshots=1, n_chains=1).fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes["draw"] == 2
    assert part.score_samples(X).shape == (len(X),)
    again, never = model(tmp_path, n_snapshots=1, n_chains=1).fit(X), model(n_snapshots=1, n_chains=1).fit(X)
    assert everything(again) == everything(never)


def test_ctrl_c_before_the_first_draw_says_so_and_resumes(tmp_path, monkeypatch, undisturbed):
    with monkeypatch.context() as patch:
        at_round(patch, WARMUP - 1, press_ctrl_c)
        with pytest.raises(KeyboardInterrupt, match="before the first draw"):
            model(tmp_path).fit(X)
    assert everything(model(tmp_path).fit(X)) == undisturbed


@pytest.mark.parametrize("when", [ROUNDS, ROUNDS + 1])
def test_ctrl_c_between_chains_keeps_the_finished_one(tmp_path, monkeypatch, undisturbed, when):
    """In the last round of the first chain, or before the second has a draw: one chain is what there is."""
    with monkeypatch.context() as patch:
        at_round(patch, when, press_ctrl_c)
        part = model(tmp_path).fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes["chain"] == 1
    assert part.posterior_.sizes["draw"] == DRAWS
    assert everything(model(tmp_path).fit(X)) == undisturbed


def test_ctrl_c_while_a_later_chain_starts_keeps_the_finished_one(monkeypatch):
    """The start takes a while on many rows; Ctrl-C then must not throw away whole chains."""
    from unbounded.models.mixtures import start

    begin, calls = start.begin, []

    def slow(*args):
        calls.append(1)
        if len(calls) == 2:
            press_ctrl_c()
        return begin(*args)

    monkeypatch.setattr(start, "begin", slow)
    part = model().fit(X)
    assert part.interrupted_
    assert part.posterior_.sizes["chain"] == 1


def test_a_second_ctrl_c_interrupts_at_once(tmp_path, monkeypatch, undisturbed):
    def twice():
        press_ctrl_c()
        press_ctrl_c()

    with monkeypatch.context() as patch:
        at_round(patch, 9, twice)
        with pytest.raises(KeyboardInterrupt):
            model(tmp_path).fit(X)
    assert everything(model(tmp_path).fit(X)) == undisturbed


def test_ctrl_c_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    model(n_chains=1, n_draws=1).fit(X)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("every", [1, 4, 1000])
@pytest.mark.parametrize("when", RANDOM_ROUNDS[1:4])
def test_a_crash_and_resume(tmp_path, monkeypatch, undisturbed, when, every):
    """Whatever is on disk beyond the last checkpoint is made again; without any checkpoint, everything is."""
    save = ChainStore.save_checkpoint

    def sometimes(self, arrays):
        if int(arrays["state/round"]) % every == 0 or int(arrays["state/round"]) == ROUNDS:
            save(self, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(ChainStore, "save_checkpoint", sometimes)
        patch.setitem(_run_defaults(), "checkpoint_seconds", 0.0)
        at_round(patch, when, cut_the_power)
        with pytest.raises(RuntimeError, match="power"):
            model(tmp_path).fit(X)
    assert everything(model(tmp_path).fit(X)) == undisturbed
    assert everything(model(tmp_path).fit(X)) == undisturbed, "as it is read again"


def _run_defaults():
    from unbounded.chain.run import run

    return run.__kwdefaults__


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
import runs
from unbounded.chain import store
from unbounded.chain.run import run

run.__kwdefaults__["checkpoint_seconds"] = 0.0
count = 0

def fit(place, when):
    def now():
        global count
        count += 1
        if count == when:
            os.kill(os.getpid(), signal.SIGKILL)

    if place == "write":
        sync = os.fsync
        def half(file):
            now()
            sync(file)
        store.os.fsync = half
    elif place == "append":
        append = store.ChainStore.append_draw
        def torn(self, *draw):
            if count == when - 1:
                (self.path / "trace.jsonl").open("a").write('{"n_clus')
            now()
            append(self, *draw)
        store.ChainStore.append_draw = torn
    elif place == "rewind":
        cut = os.truncate
        def between(*args):
            cut(*args)
            now()
        store.os.truncate = between
    runs.model(sys.argv[1], n_workers=1).fit(runs.rows())

for case in sys.argv[3:]:
    child = os.fork()
    if child == 0:
        place, when = case.split()
        fit(place, int(when))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_sigkill_and_resume(tmp_path, undisturbed):
    """Killed in the middle of writing a checkpoint, of a line of the trace, and of the clean-up at a resume."""
    cases = ["write 9", "append 4", "rewind 1"]
    command = [sys.executable, "-c", KILLED, tmp_path, Path(__file__).parent, *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(cases)
    assert everything(model(tmp_path).fit(X)) == undisturbed


def test_a_finished_run_is_read_not_run(tmp_path, monkeypatch, undisturbed):
    model(tmp_path).fit(X)
    at_round(monkeypatch, 1, cut_the_power)
    assert everything(model(tmp_path).fit(X)) == undisturbed


@pytest.mark.parametrize("lengths", [(3,), (5,), (1, 2, 7)])
def test_a_run_that_was_extended_is_that_of_its_length(tmp_path, undisturbed, lengths):
    """In all that it says: which draws are kept whole does not depend on how a run was cut."""
    for n_draws in lengths:
        model(tmp_path, n_draws=n_draws).fit(X)
    assert everything(model(tmp_path).fit(X)) == undisturbed
    assert json.loads((tmp_path / "run.json").read_text())["n_draws"] == DRAWS
    assert len(list(tmp_path.glob("chain-0/snapshots/*.ub"))) == 4  # those that the fit used, and no others


@pytest.mark.parametrize("name", fits.ALL_FITS)
def test_every_model_that_was_extended_says_what_one_of_its_length_says(tmp_path, name):
    """Draws, whole draws, and the estimates that are made of them."""
    fit = fits.ALL_FITS[name]
    straight = fit(engine="serial")
    for n_draws in (1, 5, 8):
        extended = fit(engine="serial", checkpoint=tmp_path, n_draws=n_draws)
    assert fits.everything(extended) == fits.everything(straight)
    for estimate in {"labels_", "assignments_", "components_", "proportions_"} & vars(straight).keys():
        np.testing.assert_array_equal(getattr(extended, estimate), getattr(straight, estimate))


@pytest.mark.parametrize("fewer", [{"n_draws": DRAWS - 1}, {"n_draws": "auto", "max_draws": 5}])
def test_fewer_draws_than_a_run_has_are_refused(tmp_path, undisturbed, fewer):
    model(tmp_path).fit(X)
    with pytest.raises(RunError, match=rf"holds {DRAWS} draws, more than .*; ask for "):
        model(tmp_path, **fewer).fit(X)
    assert everything(model(tmp_path).fit(X)) == undisturbed


@pytest.mark.parametrize("when", [WARMUP + 6 * THIN + 1, WARMUP + 7 * THIN])
def test_the_power_fails_while_snapshots_are_dropped(tmp_path, monkeypatch, undisturbed, when):
    """Before, and after the checkpoint that does without them: those files are known, and removed when it goes on."""
    with monkeypatch.context() as patch:
        patch.setattr(ChainStore, "_remove_dropped", lambda self: None)
        at_round(patch, when, cut_the_power)
        with pytest.raises(RuntimeError, match="power"):
            model(tmp_path, checkpoint_seconds=0.0).fit(X)
    assert len(list(tmp_path.glob("chain-0/snapshots/*.ub"))) > 4
    assert everything(model(tmp_path).fit(X)) == undisturbed
    assert len(list(tmp_path.glob("chain-0/snapshots/*.ub"))) == 4


@pytest.mark.parametrize("few", [1, 3, 16])
def test_whole_draws_are_evenly_spaced_and_neither_few_nor_many(few):
    length = Length(0, 1000, n_snapshots=few)
    for count in range(1, 200):
        kept = [draw for draw in range(count) if length.is_snapshot(draw, count)]
        assert min(few, count) / 2 <= len(kept) <= few
        assert len({*np.diff([-1, *kept])}) == 1
        longer = [draw for draw in range(count + 1) if length.is_snapshot(draw, count + 1)]
        assert set(longer) <= {*kept, count}


def test_schedules_that_know_their_length_cannot_be_extended(tmp_path):
    """The published warm start depends on the number of rounds: a longer run would be another chain."""
    model(tmp_path, n_draws=3, instantiate="published-warm").fit(X)
    with pytest.raises(RunError, match="other n_draws"):
        model(tmp_path, n_draws=4, instantiate="published-warm").fit(X)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)])
def test_without_a_seed_a_run_goes_on_with_its_own(tmp_path, monkeypatch, random_state):
    with monkeypatch.context() as patch:
        at_round(patch, 9, press_ctrl_c)
        part = model(tmp_path, random_state=random_state).fit(X)
    whole = model(tmp_path, random_state=random_state).fit(X)
    assert not whole.interrupted_
    n = part.posterior_.sizes["draw"]
    np.testing.assert_array_equal(part.posterior_["log_joint"], whole.posterior_["log_joint"][:1, :n])


def test_what_does_not_change_the_chain_may_change_at_a_resume(tmp_path, monkeypatch, undisturbed):
    with monkeypatch.context() as patch:
        at_round(patch, 9, press_ctrl_c)
        model(tmp_path, engine="serial", n_workers=None).fit(X)
    other = model(tmp_path, engine="threads", n_workers=3, loss="binder").fit(X)
    assert other.posterior_.to_dict() == undisturbed[0]


def test_holdout_resumes_with_the_same_rows_only(tmp_path, monkeypatch):
    extra = rows(6)
    with monkeypatch.context() as patch:
        at_round(patch, 9, press_ctrl_c)
        model(tmp_path).fit(X, holdout=extra)
    with pytest.raises(RunError, match="other holdout"):
        model(tmp_path).fit(X)
    whole = model(tmp_path).fit(X, holdout=extra)
    np.testing.assert_array_equal(whole.posterior_["holdout"], model().fit(X, holdout=extra).posterior_["holdout"])


def test_rules_given_as_objects_resume(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        at_round(patch, 9, press_ctrl_c)
        model(tmp_path, instantiate=Ghosts(40)).fit(X)
    assert everything(model(tmp_path, instantiate=Ghosts(40)).fit(X)) == everything(
        model(instantiate=Ghosts(40)).fit(X)
    )
