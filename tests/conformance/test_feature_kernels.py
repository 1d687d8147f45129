"""Kernels of features: every device samples the same chain from the same keys."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from unbounded.columns import describe
from unbounded.engines.local import Serial
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.kernels import KERNELS
from unbounded.models.features.likelihoods import LIKELIHOODS
from unbounded.models.features.linear_gaussian import LinearGaussian, LinearGaussianAtZero
from unbounded.models.features.measures import MEASURES, BetaBernoulli
from unbounded.models.features.poisson_factors import PoissonFactors
from unbounded.round import rounds
from unbounded.setup import Setup

N, ROUNDS = 24, 12
rng = np.random.default_rng(2)
Z = rng.random((N, 3)) < 0.4
LOADINGS = np.array([[2.0, 2.0, 0.0, 0.0], [0.0, 2.0, 2.0, 0.0], [0.0, -1.0, 0.0, 3.0]])
REAL = Z @ LOADINGS + 0.5 * rng.normal(size=(N, 4))
COUNTS = rng.poisson(0.3 + Z @ np.abs(LOADINGS)).astype(float)
HOLES = rng.random((N, 4)) < 0.05
START = np.column_stack([np.ones(N), np.arange(N) == 3, np.arange(N) % 12 == 5, np.arange(N) > 20]).astype(int)
CASES = {
    "gaussian": (LinearGaussianAtZero(), REAL),
    "intercept-holes": (LinearGaussian(), np.where(HOLES, np.nan, REAL + 2.0)),
    "poisson": (PoissonFactors(), COUNTS),
}


ON_GPU = {(BetaBernoulli, "gaussian"), (BetaBernoulli, "intercept-holes")}
DEVICES = [
    (device, measure, case)
    for device in KERNELS
    for measure in MEASURES
    for case in CASES
    if device != "cpu" and (device != "cuda" or (measure, case) in ON_GPU)
]


def chain(device, measure, case, rule, sweeps, n_rounds=ROUNDS):
    """Z after every round, and whether a shard had private atoms."""
    likelihood, X = CASES[case]
    setup = Setup(measure(5.0, 2.0), likelihood.bind(describe(X)), N, 2, 3, sweeps=sweeps, device=device)
    model = HybridFeatures(setup, rule=rule, jumps=None if n_rounds < ROUNDS else Jumps())
    engine = Serial(model.recipe(X))
    states = islice(rounds(model, engine, model.begin(engine, START)), n_rounds)
    return [(model.assignments(state, engine), int(state.n_private.sum())) for state in states]


def test_every_likelihood_comes_to_the_test():
    assert set(LIKELIHOODS) == {type(likelihood) for likelihood, _ in CASES.values()}


@pytest.mark.parametrize(("device", "measure", "case"), DEVICES)
def test_devices_sample_the_same_chain(device, measure, case):
    """On a GPU for a few rounds without jumps: its interpreter takes a second for one."""
    if device == "cuda":
        pytest.importorskip("torch", reason="the kernels of GPUs need torch: pip install -e '.[dev]'")
    alive, n_rounds = 0, 4 if device == "cuda" else ROUNDS
    for rule, sweeps in ((Ghosts(1), 2), (OneOpen(2), 1)):
        expected, found = (chain(name, measure, case, rule, sweeps, n_rounds) for name in ("cpu", device))
        alive += sum(private for _, private in expected)
        for (one, private), (other, same) in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)
            assert private == same
    assert alive, "private atoms must come to the test"


def test_a_model_asks_the_kernel_of_its_device():
    setup = Setup(MEASURES[0](), LinearGaussian().bind(describe(REAL)), N, 1, 0)
    kinds = {type(HybridFeatures(replace(setup, device=device)).kernel) for device in ("cpu", "reference")}
    assert len(kinds) >= 2
