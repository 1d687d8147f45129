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
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.model import Mixture
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


def seat(n: int, alpha: Array, sigma: Array, rng: np.random.Generator) -> Array:
    """Labels [D, n] of the n customers of D Chinese restaurants."""
    every = np.arange(len(alpha))
    labels, counts = np.zeros((len(alpha), n), int), np.zeros((len(alpha), n))
    counts[:, 0] = 1
    for i in range(1, n):
        atoms = np.count_nonzero(counts, axis=1)
        weights = np.where(counts > 0, counts - sigma[:, None], 0.0)
        weights[every, atoms] = alpha + sigma * atoms
        ends = np.cumsum(weights, axis=1)
        labels[:, i] = (ends < rng.random((len(alpha), 1)) * ends[:, -1:]).sum(axis=1)
        counts[every, labels[:, i]] += 1
    return labels


def rows_bernoulli(labels: Array, rng: np.random.Generator) -> Array:
    """Rows [..., n, d] for labels [..., n]."""
    share = rng.beta(YES, NO, size=(*labels.shape[:-1], labels.max() + 1, len(YES)))
    own = np.take_along_axis(share, labels[..., None], axis=-2)
    return (rng.random(own.shape) < own).astype(float)


def rows_gaussian(labels: Array, rng: np.random.Generator) -> Array:
    """Sigma is the inverse of the scatter of DOF normal vectors with covariance inverse(SCALE)."""
    atoms = (*labels.shape[:-1], labels.max() + 1)
    vectors = rng.standard_normal((*atoms, DOF, 2)) @ np.linalg.cholesky(np.linalg.inv(SCALE)).T
    factor = np.linalg.cholesky(np.linalg.inv(np.swapaxes(vectors, -1, -2) @ vectors))
    centre = MEAN + (factor @ rng.standard_normal((*atoms, 2, 1)))[..., 0] / np.sqrt(KAPPA)
    own = np.take_along_axis(factor, labels[..., None, None], axis=-3)
    noise = (own @ rng.standard_normal((*labels.shape, 2, 1)))[..., 0]
    return np.take_along_axis(centre, labels[..., None], axis=-2) + noise


ROWS = {"bernoulli": rows_bernoulli, "gaussian": rows_gaussian}


def bind(kind: str) -> Bound:
    """The likelihood with explicit priors, bound once: rows drawn later do not change it."""
    rng = np.random.default_rng(0)
    X = np.vstack([ROWS[kind](np.zeros(3, int), rng) for _ in range(20)])
    if kind == "bernoulli":
        return Bernoulli(YES, NO).bind(describe(X))
    return Gaussian(MEAN, KAPPA, DOF, SCALE).bind(describe(X))


def draw_hypers(measure: PitmanYor, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Concentrations and discounts from their priors."""
    prior, discount = measure.concentration, measure.discount
    sigma = rng.beta(discount.a, discount.b, size) if isinstance(discount, Beta) else np.zeros(size)
    return rng.gamma(prior.shape, 1.0 / prior.rate, size), sigma


# ---- what is compared


def moments(labels: Array, alpha: Array, sigma: Array, X: Array) -> dict[str, Array]:
    """Of D draws: bounded functions of the data (whose tails are heavy) and all that hyper-parameters act on."""
    counts = (labels[:, :, None] == np.arange(N_ROWS)).sum(axis=1)
    x = np.tanh(X)
    k = np.count_nonzero(counts, axis=1)
    values = {
        "K": k, "K^2": k**2, "largest": counts.max(axis=1), "singletons": np.count_nonzero(counts == 1, axis=1),
        "together": labels[:, 0] == labels[:, -1], "log alpha": np.log(alpha), "alpha": alpha, "alpha K": alpha * k,
        "x": x[:, :, 0].mean(axis=1), "x^2": (x[:, :, 0] ** 2).mean(axis=1),
        "x y": (x[:, :, 0] * x[:, :, 1]).mean(axis=1), "near": (x[:, 0] * x[:, 1]).sum(axis=1),
        "far": (x[:, 0] * x[:, -1]).sum(axis=1),
    }  # fmt: skip
    return values | ({"sigma": sigma, "sigma^2": sigma**2, "sigma K": sigma * k} if sigma.any() else {})


def prior_moments(measure: PitmanYor, kind: str, n_draws: int, seed: int = 1) -> tuple[list[str], Array, Array]:
    """(names, means, standard errors) by simulation of the prior."""
    rng = np.random.default_rng(seed)
    hypers = draw_hypers(measure, n_draws, rng)
    labels = seat(N_ROWS, *hypers, rng)
    values = moments(labels, *hypers, ROWS[kind](labels, rng))
    seen = np.stack(list(values.values()), axis=1)
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
    jumps: Jumps | None = None
    device: str = "cpu"

    def __str__(self) -> str:
        words = f"{self.measure}-{self.kind}-{self.rule}-P{self.n_shards}-L{self.sweeps}".replace("ghosts=", "")
        words += "" if self.device == "cpu" else f"-{self.device}"
        return words + ("" if self.jumps is None else "-jumps")


def replicate(joint: Joint, likelihood: Bound, seed: int) -> Array:
    """Mean moments over the rounds of one simulator that starts from a prior draw."""
    measure = MEASURES[joint.measure]
    rng = np.random.default_rng([joint.seed, seed])
    (alpha,), (sigma,) = hypers = draw_hypers(measure, 1, rng)
    (labels,) = seat(N_ROWS, *hypers, rng)
    data = ROWS[joint.kind](labels, rng)
    own = 1000 * joint.seed + seed
    setup = Setup(measure, likelihood, N_ROWS, joint.n_shards, own, sweeps=joint.sweeps, device=joint.device)
    model = HybridMixture(setup, rule=joint.rule, jumps=joint.jumps)
    engine = build("serial", model.recipe(data))
    state = model.begin(engine, labels, PartitionHyper(float(alpha), float(sigma)))
    total: Any = 0.0
    for _ in range(joint.rounds):
        state = model.jump(state, engine)
        message = model.global_step(state)
        state = model.gather(state, message, engine.run(model.local_step, message))
        labels = model.assignments(state, engine)
        data = new_rows(model, state, labels, rng)
        engine.map(partial(put_rows, data=data))
        state = model.begin(engine, labels, state.hyper, state.round)
        now = moments(labels[None], *np.array(state.hyper)[:, None], data[None])
        total = total + np.concatenate(list(now.values()))
    engine.close()
    return total / joint.rounds


def new_rows(model: Mixture, state: Any, labels: Array, rng: np.random.Generator) -> Array:
    """X given Z by way of the parameters: theta given (Z, X), then X given (Z, theta)."""
    table, live = state.table, state.occupied
    parameters = model.likelihood.draw(table.counts[live].astype(float), table.statistics[live], rng)
    return model.likelihood.simulate(parameters, labels, rng)


def put_rows(shard: Any, data: Array) -> None:
    shard.data[:] = data[shard.first : shard.first + len(shard.labels)]
    shard.held = None  # what a GPU has of other rows


def check(joint: Joint, n_draws: int = 60_000) -> Verdict:
    names, truth, truth_error = prior_moments(MEASURES[joint.measure], joint.kind, n_draws)
    likelihood = bind(joint.kind)
    seen = np.array([replicate(joint, likelihood, seed) for seed in range(joint.replicates)])
    slowness = seen.var(axis=0, ddof=1) * joint.rounds / (truth_error**2 * n_draws)
    return judge(names, seen, truth, float(np.median(slowness)), joint.rounds / 8, truth_error)
