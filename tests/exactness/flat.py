"""Rows without data: the posterior is the prior, whose moments are known for any number of rows.

Enumeration stops at six rows; here blocks of rows, tails with many atoms and shards with many rows are put to the test.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from enumeration import Array, Verdict, judge
from geweke import seat
from scipy.special import digamma, gammaln

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Bernoulli
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

QUESTIONS = ["K", "singletons", "pairs", "triples"]


@dataclass(frozen=True)
class Flat:
    alpha: float
    sigma: float
    n_rows: int
    rule: Any
    n_shards: int = 1
    sweeps: int = 1
    chains: int = 60
    rounds: int = 60
    sampler: str = "hybrid"

    def __str__(self) -> str:
        words = f"PY({self.alpha},{self.sigma})-n{self.n_rows}-{self.rule}-P{self.n_shards}-L{self.sweeps}"
        return words.replace("ghosts=", "") + ("" if self.sampler == "hybrid" else f"-{self.sampler}")


def expected_atoms(alpha: float, sigma: float, n: int) -> float:
    if sigma == 0.0:
        return float(alpha * (digamma(alpha + n) - digamma(alpha)))
    ratio = gammaln(alpha + sigma + n) + gammaln(alpha + 1.0) - gammaln(alpha + n) - gammaln(alpha + sigma)
    return float((np.exp(ratio) - alpha) / sigma)


def prior_means(alpha: float, sigma: float, n: int) -> Array:
    """Expected K, singletons, ordered pairs and ordered triples of rows together: Pitman (2006), chapter 3."""
    new = (alpha + sigma * expected_atoms(alpha, sigma, n - 1)) / (alpha + n - 1)
    two = (1.0 - sigma) / (1.0 + alpha)
    three = two * (2.0 - sigma) / (2.0 + alpha)
    return np.array([expected_atoms(alpha, sigma, n), n * new, n * (n - 1) * two, n * (n - 1) * (n - 2) * three])


def answers(m: Array) -> list[float]:
    return [len(m), np.count_nonzero(m == 1), (m * (m - 1)).sum(), (m * (m - 1) * (m - 2)).sum()]


def check(flat: Flat) -> Verdict:
    """Chains that start from prior draws against the prior."""
    X = np.full((flat.n_rows, 1), np.nan)
    likelihood = Bernoulli(1.0, 1.0).bind(describe(X))
    measure = PitmanYor(flat.alpha, flat.sigma)
    setup = Setup(measure, likelihood, flat.n_rows, flat.n_shards, 0, n_rounds=1000, sweeps=flat.sweeps)
    alone = {"jumps": None} if flat.sampler == "hybrid" else {}  # jumps have tests of their own
    model = build_sampler(DIRICHLET, flat.sampler, setup, flat.rule, **alone)
    engine = build("serial", model.recipe(X))
    every, seen = np.ones(flat.chains), []
    starts = seat(flat.n_rows, flat.alpha * every, flat.sigma * every, np.random.default_rng(0))
    for chain, labels in enumerate(starts):
        model = model.reseeded(chain)
        states = islice(rounds(model, engine, model.begin(engine, labels)), flat.rounds)
        seen.append(np.mean([answers(state.table.counts[state.occupied]) for state in states], axis=0))
    engine.close()
    return judge(QUESTIONS, np.array(seen), prior_means(flat.alpha, flat.sigma, flat.n_rows))
