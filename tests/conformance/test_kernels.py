"""Every kernel of mixtures gives the labels of every other: the same random numbers, and all else but rounding."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from examples import MORE, case, holed

from unbounded.columns import describe
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.engines import build
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import MEMBERS, Bernoulli
from unbounded.models.labelled.halves import Cuts, Sides
from unbounded.models.labelled.labels import Atoms
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.kernels import KERNELS
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.model import RowRecipe
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.randomness import key, uniforms
from unbounded.round import rounds
from unbounded.rows import rows_of
from unbounded.setup import Setup, build_sampler

NAMES = [member.name for member in MEMBERS] + list(MORE)
ALL = NAMES + [f"{name}-holes" for name in NAMES if "multinomial" not in name]
GPU = ("cuda",)  # the same law by other numbers: tests/gpu, exactness/test_device.py
OTHERS = [device for device in KERNELS if device != "cpu" and device not in GPU]
MEASURE = PitmanYor(1.0, 0.25)
OWN_STEPS = ("algorithm8", "slice")  # samplers with a local step of their own


def chain(subject, device, rule=None, sampler="hybrid", n_rounds=8):
    """Labels of all rows after every round, from every row on its own: atoms are born, shared, frozen and die."""
    n = subject.X.shape[0]
    setup = Setup(MEASURE if sampler != "subcluster" else PitmanYor(1.0, 0.0), subject.bound, n, 3, 5, device=device)
    model = build_sampler(DIRICHLET, sampler, setup, rule or Ghosts(n // 2))
    engine = build("serial", model.recipe(subject.X))
    states = islice(rounds(model, engine, model.begin(engine, np.arange(n) % 9)), n_rounds)
    return [model.assignments(state, engine).tolist() for state in states]


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("name", ALL)
def test_kernels_give_the_same_labels(name, device):
    subject = case(name)
    labels = chain(subject, "cpu")
    assert len(set(map(tuple, labels))) > 1
    assert chain(subject, device) == labels


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("rule", [Ghosts(3), Ghosts(200), OneOpen(6), AsPublished("cold"), AsPublished("hot")], ids=str)
def test_kernels_agree_under_every_rule(rule, device):
    subject = case("bernoulli")
    assert chain(subject, device, rule) == chain(subject, "cpu", rule)


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("sampler", [name for name in DIRICHLET if name != "hybrid"])
def test_kernels_agree_for_every_sampler(sampler, device):
    subject = case("bernoulli")
    if sampler in OWN_STEPS:
        with pytest.raises(ValueError, match="device='cpu' only"):
            chain(subject, device, sampler=sampler)
    else:
        assert chain(subject, device, sampler=sampler) == chain(subject, "cpu", sampler=sampler)


@pytest.mark.parametrize("device", OTHERS)
def test_bounds_follow_an_atom_that_a_row_has_left(device):
    """A private atom of two opposite rows says little to others; once one of them has left, those like the other one
    want to join, which nobody who trusts the old bound would see."""
    rng, n = np.random.default_rng(1), 200
    X = (rng.random((n, 12)) < 0.5).astype(float)
    X[0], X[1:7], X[-1] = 0.0, 1.0, 1.0
    start = np.zeros(n, int)
    start[[0, -1]] = 1
    bound, joined = Bernoulli(0.2, 0.2).bind(describe(X)), 0
    for seed in range(4):
        ways = []
        for way in ("cpu", device):
            setup = Setup(PitmanYor(1.0, 0.0), bound, n, 1, seed, device=way)
            model = HybridMixture(setup, rule=Ghosts(3), jumps=None)
            engine = build("serial", model.recipe(X))
            state = next(iter(rounds(model, engine, model.begin(engine, start))))
            ways.append(model.assignments(state, engine))
        np.testing.assert_array_equal(*ways)
        joined += np.count_nonzero(ways[0][1:7] == ways[0][-1])
    assert joined > 6


@pytest.mark.parametrize("device", ["cpu", *OTHERS])
@pytest.mark.parametrize("name", ALL)
def test_totals_and_predictives(name, device):
    """Sums of terms, and ratios of marginals; with holes that are imputed, the marginal of what is seen."""
    subject, kernel = case(name), KERNELS[device](case(name).bound, "float64")
    n = subject.rows.shape[0]
    labels = (np.arange(n) % 4).astype(np.int32)
    atoms = kernel.totals(rows_of(subject.rows, 0, n), labels, 5)
    terms = subject.bound.terms(subject.rows)
    assert atoms.counts.tolist() == np.bincount(labels, minlength=5).tolist()
    assert atoms.statistics == pytest.approx(np.stack([terms[labels == k].sum(0) for k in range(5)]))
    known = Atoms(atoms.counts.astype(float), atoms.statistics)
    expected = subject.bound.log_predictive(*known, subject.rows)
    assert kernel.predictive(known, subject.rows) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("device", OTHERS)
def test_predictives_of_rows_with_holes(device):
    X = holed(case("gaussian").X)
    bound = case("gaussian").example.likelihood.bind(describe(X))
    terms = bound.terms(X[~np.isnan(X).any(1)][:3])
    known = Atoms(np.array([3.0, 0.0]), np.stack([terms.sum(0), 0.0 * terms[0]]))
    ours, theirs = (KERNELS[name](bound, "float64").predictive(known, X) for name in ("cpu", device))
    assert theirs == pytest.approx(ours, abs=1e-8)


@jit
def _compiled_uniforms(own_key, counters, out):
    for i in range(counters.size):
        out[i] = uniform(own_key, counters[i])


def test_numbers_of_numpy_are_those_of_compiled_code():
    counters, out = np.append(np.arange(1000), 2**40 + np.arange(10)), np.empty(1010)
    _compiled_uniforms(key(3, "label", 7), counters, out)
    assert uniforms(key(3, "label", 7), counters).tobytes() == out.tobytes()


def test_an_unknown_device_is_refused():
    subject = case("bernoulli")
    with pytest.raises(ValueError, match="device must be one of"):
        _ = HybridMixture(Setup(MEASURE, subject.bound, 4, 1, 0, device="abacus")).kernel


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("soft", [True, False], ids=["soft", "drawn"])
@pytest.mark.parametrize("name", ALL)
def test_kernels_cut_alike(name, soft, device):
    """Two cuts: a set whose halves are drawn, and one whose halves are two atoms."""
    subject = case(name)
    n = subject.rows.shape[0]
    rng = np.random.default_rng(4)
    terms = subject.bound.terms(subject.rows)
    odds = 0.3 * rng.normal(size=(2, terms.shape[1] + 1)) / np.abs(terms).mean()
    odds[:, -1] = -odds[:, :-1] @ terms.mean(0)
    cuts = Cuts(odds, np.array([[10, 12], [-1, -1]]), np.array([-1, 8]), key(3, "halves"), soft)
    sides = Sides(np.array([0, -1, 1, 1]), np.array([-1, -1, 0, 1]), np.array([-1 if soft else 7, -1]))
    found = []
    for kernel in (KERNELS["cpu"], KERNELS[device]):
        shard = RowRecipe(subject.rows, subject.bound, 1)(0)
        shard.first, shard.labels[:] = 6, np.arange(n) % 4
        found.append((kernel(subject.bound, "float64").halve(shard, cuts, sides), shard.labels))
    (one, labels), (two, others) = found
    assert labels.tolist() == others.tolist()
    assert (7 in labels) == (not soft)
    assert one.rows.tolist() == two.rows.tolist()
    np.testing.assert_allclose(one.log_q, two.log_q, rtol=1e-9)
    np.testing.assert_allclose(one.totals, two.totals, rtol=1e-9, atol=1e-9)
