"""Geweke's joint test: "Getting it right" (2004), for mixtures with sampled hyper-parameters.

Two ways to draw (hyper-parameters, Z, X) from the joint law: straight from the prior, by textbook code that shares
nothing with the package; and by turns, a round of the sampler given X and new rows X given Z. Both must agree in every
moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from enumeration import Array, Verdict, judge

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.likelihoods import Bernoulli, Bound, Gaussian
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.model import Mixture, RowShards
from unbounded.priors import Beta, Gamma
from unbounded.setup import Setup

N_ROWS = 6
YES, NO = np.array([0.6, 1.2, 0.8]), np.array([0.9, 0.5, 1.1])
MEAN, KAPPA, DOF, SCALE = np.array([0.2, -0.3]), 0.5, 5, np.array([[1.5, 0.4], [0.4, 1.0]])
MEASURES = {
    "dp": PitmanYor(Gamma(2.0, 1.5), 0.0),
    "py": PitmanYor(Gamma(1.5, 1.0), Beta(2.0, 2.5)),
}


# ---- the prior, from the textbook


def seat(n: int, alpha: float, sigma: float, rng: np.random.Generator) -> Array:
    """Labels of n customers of a Chinese restaurant."""
    labels = np.zeros(n, int)
    for i in range(1, n):
        counts = np.bincount(labels[:i])
        weights = np.append(counts - sigma, alpha + sigma * len(counts))
        labels[i] = np.searchsorted(np.cumsum(weights), rng.random() * weights.sum())
    return labels


def rows_bernoulli(labels: Array, rng: np.random.Generator) -> Array:
    share = rng.beta(YES, NO, size=(labels.max() + 1, len(YES)))
    return (rng.random((len(labels), len(YES))) < share[labels]).astype(float)


def rows_gaussian(labels: Array, rng: np.random.Generator) -> Array:
    """Sigma is the inverse of the scatter of DOF normal vectors with covariance inverse(SCALE)."""
    k = labels.max() + 1
    vectors = rng.standard_normal((k, DOF, 2)) @ np.linalg.cholesky(np.linalg.inv(SCALE)).T
    factor = np.linalg.cholesky(np.linalg.inv(np.swapaxes(vectors, 1, 2) @ vectors))
    centre = MEAN + (factor @ rng.standard_normal((k, 2, 1)))[:, :, 0] / np.sqrt(KAPPA)
    return centre[labels] + (factor[labels] @ rng.standard_normal((len(labels), 2, 1)))[:, :, 0]


ROWS = {"bernoulli": rows_bernoulli, "gaussian": rows_gaussian}


def bind(kind: str) -> Bound:
    """The likelihood with explicit priors, bound once: rows drawn later do not change it."""
    rng = np.random.default_rng(0)
    X = np.vstack([ROWS[kind](np.zeros(3, int), rng) for _ in range(20)])
    if kind == "bernoulli":
        return Bernoulli(YES, NO).bind(describe(X))
    return Gaussian(MEAN, KAPPA, DOF, SCALE).bind(describe(X))


def draw_hyper(measure: PitmanYor, rng: np.random.Generator) -> PartitionHyper:
    prior = measure.concentration
    alpha = rng.gamma(prior.shape, 1.0 / prior.rate)
    sigma = rng.beta(measure.discount.a, measure.discount.b) if isinstance(measure.discount, Beta) else 0.0
    return PartitionHyper(float(alpha), float(sigma))


# ---- what is compared


def moments(labels: Array, hyper: PartitionHyper, X: Array) -> dict[str, float]:
    """Bounded functions of the data (Gaussian rows have heavy tails), and all that hyper-parameters act on."""
    counts = np.bincount(labels)
    alpha, sigma = hyper
    x = np.tanh(X)
    k = len(counts)
    values = {
        "K": k, "K^2": k**2, "largest": counts.max(), "singletons": np.count_nonzero(counts == 1),
        "together": float(labels[0] == labels[-1]), "log alpha": np.log(alpha), "alpha": alpha, "alpha K": alpha * k,
        "x": x[:, 0].mean(), "x^2": (x[:, 0] ** 2).mean(), "x y": (x[:, 0] * x[:, 1]).mean(),
        "near": x[0] @ x[1], "far": x[0] @ x[-1],
    }  # fmt: skip
    return values | ({"sigma": sigma, "sigma^2": sigma**2, "sigma K": sigma * k} if sigma else {})


def prior_moments(measure: PitmanYor, kind: str, n_draws: int, seed: int = 1) -> tuple[list[str], Array, Array]:
    """(names, means, standard errors) by simulation of the prior."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(n_draws):
        hyper = draw_hyper(measure, rng)
        labels = seat(N_ROWS, *hyper, rng)
        values = moments(labels, hyper, ROWS[kind](labels, rng))
        table.append(list(values.values()))
    seen = np.array(table)
    return list(values), seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(n_draws)


# ---- the successive-conditional simulator


@dataclass(frozen=True)
class Joint:
    """A model, and how it is run by turns with fresh data."""

    measure: str
    kind: str
    rule: Any
    n_shards: int = 2
    sweeps: int = 1
    replicates: int = 40
    rounds: int = 120
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.measure}-{self.kind}-{self.rule}-P{self.n_shards}-L{self.sweeps}".replace("ghosts=", "")


def replicate(joint: Joint, likelihood: Bound, seed: int) -> Array:
    """Mean moments over the rounds of one simulator that starts from a prior draw."""
    measure = MEASURES[joint.measure]
    rng = np.random.default_rng([joint.seed, seed])
    hyper = draw_hyper(measure, rng)
    labels = seat(N_ROWS, *hyper, rng)
    data = ROWS[joint.kind](labels, rng)
    engine = build("serial", RowShards(data, likelihood, joint.n_shards))
    model = HybridMixture(
        Setup(measure, likelihood, N_ROWS, joint.n_shards, 1000 * joint.seed + seed, sweeps=joint.sweeps),
        rule=joint.rule,
    )
    state = model.begin(engine, labels, hyper)
    total: Any = 0.0
    for _ in range(joint.rounds):
        message = model.global_step(state)
        state = model.gather(state, message, engine.run(model.local_step, message))
        labels = model.assignments(state, engine)
        data = new_rows(model, state, labels, rng)
        engine.map(partial(put_rows, data=data))
        state = model.begin(engine, labels, state.hyper, state.round)
        total = total + np.array(list(moments(labels, state.hyper, data).values()))
    engine.close()
    return total / joint.rounds


def new_rows(model: Mixture, state: Any, labels: Array, rng: np.random.Generator) -> Array:
    """X given Z by way of the parameters: theta given (Z, X), then X given (Z, theta)."""
    table, live = state.table, state.occupied
    parameters = model.likelihood.draw(table.counts[live].astype(float), table.statistics[live], rng)
    return model.likelihood.simulate(parameters, labels, rng)


def put_rows(shard: Any, data: Array) -> None:
    shard.data[:] = data[shard.first : shard.first + len(shard.labels)]


def check(joint: Joint, n_draws: int = 20000) -> Verdict:
    names, truth, truth_error = prior_moments(MEASURES[joint.measure], joint.kind, n_draws)
    likelihood = bind(joint.kind)
    seen = np.array([replicate(joint, likelihood, seed) for seed in range(joint.replicates)])
    slowness = seen.var(axis=0, ddof=1) * joint.rounds / (truth_error**2 * n_draws)
    return judge(names, seen, truth, float(np.median(slowness)), joint.rounds / 8, truth_error)
