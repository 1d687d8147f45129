"""The skeleton of a likelihood (docs/skeletons/geometric.py) conforms, is exact, and fits: as a copy of it would."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import test_likelihoods as conformance
from examples import EXAMPLES, Example, case
from scipy import stats

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent / "docs" / "skeletons"), str(TESTS / "exactness")]

from enumeration import Problem, Run, check  # noqa: E402
from geometric import Geometric  # noqa: E402

import unbounded as ub  # noqa: E402
from unbounded.columns import describe  # noqa: E402
from unbounded.instantiation import Ghosts  # noqa: E402
from unbounded.likelihoods import MEMBERS, resolve  # noqa: E402
from unbounded.models.mixtures.measure import PitmanYor  # noqa: E402

FAILURES = np.random.default_rng(8).geometric(np.array([[0.5, 0.2], [0.15, 0.7], [0.3, 0.3]])[np.arange(40) % 3]) - 1.0


def log_density(bound, parameters, k, X):
    share = np.broadcast_to(parameters["share"][k], X.shape)
    return np.where(np.isnan(X), 0.0, stats.geom(share, loc=-1).logpmf(np.nan_to_num(X))).sum(1)


def posterior_mean(prior, X):
    hits, misses = prior.hits + len(X), prior.misses + X.sum(0)
    return {"share": hits / (hits + misses)}


EXAMPLE = Example(
    Geometric(hits=np.array([2.5, 3.0]), misses=np.array([4.0, 3.5])),
    FAILURES,
    log_density,
    lambda bound, parameters: ((1 - parameters["share"]) / parameters["share"],
                               (1 - parameters["share"]) / parameters["share"] ** 2),
    posterior_mean,
    (np.arange(20_000.0), np.ones(20_000)),
)  # fmt: skip

OF_A_SUBJECT = [
    test for name, test in vars(conformance).items()
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["subject"]
]  # fmt: skip
OF_A_NAME = (
    conformance.test_block_features_are_features,
    conformance.test_posterior_draws_have_the_textbook_mean,
    conformance.test_ready_for_holes_changes_nothing_on_whole_rows,
)


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    """One line in a list, for this process only."""
    monkeypatch.setitem(EXAMPLES, "geometric", EXAMPLE)


@pytest.mark.parametrize("name", ["geometric", "geometric-holes"])
@pytest.mark.parametrize("test", OF_A_SUBJECT, ids=lambda test: test.__name__)
def test_the_skeleton_conforms(test, name):
    test(case(name))


@pytest.mark.parametrize("test", OF_A_NAME, ids=lambda test: test.__name__)
def test_the_skeleton_conforms_by_name(test):
    test("geometric")


@pytest.mark.parametrize("bound_to", ["", "-holes"])
def test_the_skeleton_skips_holes(bound_to):
    conformance.test_a_hole_is_summed_out("geometric", bound_to)
    conformance.test_a_row_of_holes_says_nothing("geometric-holes")


def test_the_skeleton_is_exact():
    X = np.array([[0, 5], [1, 3], [4, 2], [6, np.nan], [2, 2.0]])
    problem = Problem("geometric", X, EXAMPLE.likelihood.bind(describe(X)), PitmanYor(0.6, 0.4))
    verdict = check(problem, Run(Ghosts(), 2, chains=24, rounds=60))
    assert verdict.passed, str(verdict)


def test_the_skeleton_fits():
    assert isinstance(resolve("geometric", (*MEMBERS, Geometric)), Geometric)
    model = ub.DirichletProcessMixture(Geometric(), n_chains=1, n_warmup=4, n_draws=3, random_state=1).fit(FAILURES)
    assert len(model.labels_) == len(FAILURES)
    with pytest.raises(ValueError, match="not counts"):
        Geometric().bind(describe(FAILURES - 5.0))
