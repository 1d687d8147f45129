"""Every rule that has a name keeps the contract: a plan that any number of shards can follow, made without Z."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from unbounded.chain.description import as_written_now, described
from unbounded.chain.store import RunStore
from unbounded.instantiation import MEMBERS, AsPublished, Ghosts, as_published, classify, resolve
from unbounded.models.mixtures.estimator import CHOICES

SIZES = [(10, 1), (10, 2), (1000, 7), (3, 64)]  # rows, shards
KNOWN = ("round_", "n_rounds", "n_rows", "n_shards", "rng")  # all that a rule may know
N_ROUNDS = 64
every_rule = pytest.mark.parametrize("name", MEMBERS)


def plans(rule, n_rows, n_shards, seed=0):
    rng = np.random.default_rng(seed)
    return [rule.plan(round_, N_ROUNDS, n_rows, n_shards, rng) for round_ in range(N_ROUNDS)]


@every_rule
def test_it_knows_sizes_and_never_z(name):
    assert tuple(inspect.signature(MEMBERS[name].plan).parameters) == KNOWN
    assert resolve(name) is MEMBERS[name]


@every_rule
@pytest.mark.parametrize(("n_rows", "n_shards"), SIZES)
def test_plans_can_be_followed(name, n_rows, n_shards):
    rule = MEMBERS[name]
    for plan in plans(rule, n_rows, n_shards):
        assert np.asarray(plan.open).shape == (n_shards,)
        assert np.asarray(plan.open).dtype == bool
        assert plan.open.any(), "somebody must be able to create atoms"
        assert plan.ghosts >= 0
        assert plan.published or n_shards == 1 or plan.ghosts > 0, "without ghosts no atom would ever be mobile"
        assert plan.lone == -1 or (plan.open[plan.lone] and plan.open.sum() == 1)
        assert not (rule.exact and plan.published)
    assert 0 <= rule.settled(N_ROUNDS) < N_ROUNDS


@every_rule
def test_every_shard_has_its_turn_and_plans_repeat(name):
    """A shard that is never open could not create atoms; the same random numbers make the same plan, anywhere."""
    rule = MEMBERS[name]
    settled = plans(rule, 50, 4)[rule.settled(N_ROUNDS) :]
    assert np.any([plan.open for plan in settled], axis=0).all()
    again = plans(pickle.loads(pickle.dumps(rule)), 50, 4)
    assert [plan.open.tolist() for plan in again] == [plan.open.tolist() for plan in plans(rule, 50, 4)]


@every_rule
def test_every_atom_has_one_place(name):
    """Mobile, held or private: never two of them, never none; no ghost sits at a private atom."""
    rng = np.random.default_rng(1)
    ghosts, owner = rng.integers(0, 3, 40), rng.integers(-1, 4, 40)
    for plan in plans(MEMBERS[name], 50, 4)[-3:]:
        mobile, held, private = classify(ghosts, owner, plan)
        assert sorted([*mobile, *held, *private]) == list(range(40))
        assert (ghosts[mobile] > 0).all()
        assert (ghosts[private] == 0).all()
        assert (owner[private] >= 0).all(), "an atom of several shards is nobody's own"


def test_ghosts_may_be_drawn():
    numbers = [plan.ghosts for plan in plans(Ghosts(spread=100.0), 1000, 3)]
    assert min(numbers) >= 10
    assert max(numbers) <= 1000
    assert np.median(numbers) < 400, "log-uniform: half of them below 100"
    assert {plan.ghosts for plan in plans(Ghosts(1, spread=100.0), 1000, 3)} == {1}
    with pytest.raises(ValueError, match="spread must be a number of at least 1"):
        Ghosts(spread=0.5)


def test_the_published_rule_may_leave_atoms_collapsed():
    """Only on the open shard that has them whole: others could not count their rows."""
    counts, owner = np.array([1.0, 5.0, 1.0, 2.0, 1.0]), np.array([0, -1, 1, 0, -1])
    rng = np.random.default_rng(0)
    expected = {
        None: [True] * 5,
        "several": [False, True, True, True, True],
        2: [False, True, True, True, True],
        1: [False, True, True, False, True],
    }
    for j, mask in expected.items():
        plan = AsPublished("cold", j).plan(0, 10, 10, 2, rng)._replace(open=np.array([True, False]))
        np.testing.assert_array_equal(as_published(counts, owner, plan), mask)
    for wrong in (-1, 1.5, "all"):
        with pytest.raises(ValueError, match="j must be"):
            AsPublished("cold", wrong)


def test_the_published_tail_has_the_mass_of_its_rows():
    """B* ~ Beta(n tilde, n - n tilde + alpha), the paper's Lemma on the Dirichlet process."""
    from unbounded.models.mixtures.measure import PitmanYor

    measure, rng = PitmanYor(1.5, 0.0), np.random.default_rng(1)
    masses = [measure.published(measure.start(), np.array([3.0, 2.0]), 4.0, rng)[1].scale for _ in range(4000)]
    mean = (4.0 + 1.5) / (9.0 + 1.5)
    assert abs(np.mean(masses) - mean) < 5 * np.sqrt(mean * (1 - mean) / 11.5 / 4000)


@pytest.mark.parametrize("rule", [Ghosts(3), AsPublished("warm")], ids=str)
def test_runs_from_before_an_option_had_what_is_its_default(rule, tmp_path):
    now = described(rule)
    older = {name: now[name] for name in ("name", "ghosts", "schedule") if name in now}
    assert older != now
    RunStore(tmp_path).prepare({"instantiate": older})
    saved = as_written_now(RunStore(tmp_path), {"instantiate": rule}, CHOICES, CHOICES.samplers["hybrid"], True, "one")
    assert saved["instantiate"] == now
