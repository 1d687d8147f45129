"""A measure that is not the library's needs nothing of it but the protocol: the whole round is exact, and fits run."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from finite_dirichlet import FiniteDirichlet

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "exactness"))

from enumeration import Problem, Run, canonical, check
from problems import CASES

import unbounded
from unbounded.columns import describe
from unbounded.instantiation import Ghosts, OneOpen
from unbounded.models.families import FAMILIES
from unbounded.models.features.beta_bernoulli import FiniteBetaBernoulli
from unbounded.models.mixtures.estimator import MixtureEstimator
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measures import PartitionMeasure

N = 5


class FiniteProblem(Problem):
    """Every row picks one of H components whose shares are integrated out: all ways to do so, one by one."""

    @cached_property
    def _log_prior(self):
        (a,), h = self.measure.start(), self.measure.n_components
        index = {tuple(z): b for b, z in enumerate(self.partitions.tolist())}
        shares = np.zeros(len(index))
        for labels in product(range(h), repeat=self.n):
            chance = 1.0
            for i, z in enumerate(labels):
                chance *= (labels[:i].count(z) + a / h) / (i + a)
            shares[index[canonical(labels)]] += chance
        with np.errstate(divide="ignore"):
            return np.log(shares)[:, None]

    @property
    def hyper_means(self):
        return {}

    def draw(self, rng):
        b = rng.choice(len(self.partitions), p=self.probabilities)
        return self.partitions[b], self.measure.start(), self.nodes[0][0]


def problem(case, measure):
    X, likelihood = CASES[case]
    return FiniteProblem(case, X[:N], likelihood.bind(describe(X[:N])), measure)


JUMPS = ("jumps", Jumps(every=1, joined=0.3, coin=0.3, merges=3))


@pytest.mark.parametrize(
    ("case", "measure", "run"),
    [
        ("gaussian-1", FiniteDirichlet(3, 1.5), Run(Ghosts(), 1, options=(JUMPS,), rounds=50)),
        ("gaussian-1", FiniteDirichlet(3, 1.5), Run(Ghosts(2), 2, options=(JUMPS,), rounds=50)),
        ("bernoulli", FiniteDirichlet(3, 6.0), Run(Ghosts(2), 2, rounds=250)),
        ("bernoulli", FiniteDirichlet(4, 3.0), Run(Ghosts(1), 3, sweeps=2)),
        ("bernoulli", FiniteDirichlet(3, 4.0), Run(OneOpen(3), 2)),
        ("bernoulli", FiniteDirichlet(3, 6.0), Run(Ghosts(0), 1)),
        ("bernoulli", FiniteDirichlet(3, 6.0), Run(Ghosts(2), 2, device="reference")),
    ],
    ids=str,
)
def test_rounds_agree_with_enumeration(case, measure, run):
    verdict = check(problem(case, measure), run)
    assert verdict.passed, verdict


def test_nobody_else_knows_what_hyper_parameters_there_are():
    """Only the classes of measures read one of their hyper-parameters by its name."""
    kinds = {kind for family in FAMILIES for measure in family.measures for kind in measure.__mro__}
    kinds.add(FiniteBetaBernoulli)  # of a rival
    own = {(inspect.getfile(kind), kind.__name__) for kind in kinds if kind.__module__.startswith("unbounded.models")}
    assert len(own) >= 6
    for path in Path(unbounded.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        others = (node for node in tree.body if (str(path), getattr(node, "name", "")) not in own)
        for node in chain.from_iterable(map(ast.walk, others)):
            if isinstance(node, ast.Attribute) and node.attr in ("alpha", "sigma", "gamma", "c"):
                name = getattr(node.value, "id", getattr(node.value, "attr", ""))
                assert name not in ("hyper", "measure"), f"{path}:{node.lineno}: {ast.unparse(node)}"


@dataclass(eq=False, repr=False, kw_only=True)
class FiniteMixture(MixtureEstimator):
    n_components: int = 4

    def _measure(self) -> PartitionMeasure:
        return FiniteDirichlet(self.n_components)


X = np.repeat([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0], [0.0, -9.0], [20.0, 9.0]], 12, axis=0)
X += np.random.default_rng(3).normal(size=X.shape)
BRIEF = {"n_warmup": 10, "n_draws": 10, "n_shards": 3, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return FiniteMixture(**BRIEF).fit(X)


def test_no_draw_has_more_atoms_than_there_are(fitted):
    assert fitted.posterior_["n_clusters"].max() <= 4  # though the rows are five groups
    with_one = FiniteMixture(n_components=1, init="one", **BRIEF).fit(X)
    assert (with_one.posterior_["n_clusters"] == 1).all()


def test_predictions(fitted):
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1.0)
    assert fitted.score_samples(X).mean() > fitted.score_samples(X + 50.0).mean()
    assert fitted.sample(20, random_state=0).shape == (20, 2)
    assert np.isfinite(fitted.to_arviz(X).log_likelihood["rows"]).all()
    assert "concentration" in fitted.posterior_


def test_a_run_resumes(fitted, tmp_path, monkeypatch):
    brief = BRIEF | {"checkpoint": tmp_path, "checkpoint_seconds": 0.0, "engine": "serial"}
    whole = HybridMixture.global_step

    def fails(model, state, parallel):
        if state.round == 14:
            raise RuntimeError("the power is gone")
        return whole(model, state, parallel)

    with monkeypatch.context() as patch:
        patch.setattr(HybridMixture, "global_step", fails)
        with pytest.raises(RuntimeError, match="power"):
            FiniteMixture(**brief).fit(X)
    assert FiniteMixture(**brief).fit(X).posterior_.equals(fitted.posterior_)
