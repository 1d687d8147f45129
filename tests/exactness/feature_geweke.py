"""Geweke's joint test for feature models with all their hyper-parameters and scales sampled.

Two ways to draw (hyper-parameters, scales, Z, X) from the joint law: straight from the prior, by textbook code that
shares nothing with the package; and by turns, a round of the sampler given X and new rows X given Z, with loadings
drawn afresh. Both must agree in every moment.

And rows without data, whose posterior is the prior: as many as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from enumeration import Array, Verdict, judge
from feature_truth import Law, begin_with, with_lanes
from scipy.special import digamma

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.models.features.linear_gaussian import Intercept, LinearGaussian, Scales
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.models.features.poisson_factors import Background, PoissonFactors
from unbounded.models.features.state import FeatureRecipe
from unbounded.priors import Gamma, InverseGamma
from unbounded.round import rounds
from unbounded.setup import Setup

N_ROWS, N_COLUMNS, FAILURES = 4, 2, 1.3
MASS = Gamma(3.0, 2.5)
CONCENTRATION = {"bb": Gamma(4.0, 2.5), "gp": Gamma(8.0, 4.0), "bnb": Gamma(20.0, 5.0)}  # c near 0: huge counts
NOISE, LOADING, INTERCEPT = InverseGamma(4.0, 3.0), InverseGamma(4.0, 1.5), 0.8
LEVEL = Intercept(0.7, InverseGamma(3.0, 1.2))
SHAPE, RATE, BACKGROUND = 1.5, 3.0, Gamma(2.0, 2.5)
HOLES = ((0, 1), (3, 0))


# ---- the prior, from the textbook


def first_counts(kind: str, c: float, r: float, i: int, size: int, rng: np.random.Generator) -> Array:
    """Entries of features that row i + 1 is the first to have."""
    if kind == "bb":
        return np.ones(size, np.int64)
    if kind == "gp":
        return rng.logseries(1.0 / (c + i + 1), size)
    rest = c + (i + 1) * r
    counts = []
    for left in rng.random(size):
        z, p = 1, r / rest / (digamma(rest) - digamma(c + i * r))
        while left > p:
            left -= p
            p *= (r + z) * z / ((z + 1) * (z + rest))
            z += 1
        counts.append(z)
    return np.array(counts, np.int64)


def buffet(kind: str, alpha: float, c: float, r: float, n: int, rng: np.random.Generator) -> Array:
    """Z [n, K], one row after another: entries of known features given the rows before, then new features."""
    Z = np.zeros((n, 0), np.int64)
    for i in range(n):
        m = Z.sum(axis=0)
        if kind == "bb":
            Z[i] = rng.random(len(m)) < m / (c + i)
            new = alpha * c / (c + i)
        elif kind == "gp":
            Z[i] = rng.poisson(rng.gamma(m, 1.0 / (c + i)))
            new = alpha * np.log((c + i + 1) / (c + i))
        else:
            Z[i] = rng.negative_binomial(r, 1.0 - rng.beta(m, c + i * r))
            new = alpha * c * (digamma(c + (i + 1) * r) - digamma(c + i * r))
        entries = first_counts(kind, c, r, i, rng.poisson(new), rng)
        block = np.zeros((n, len(entries)), np.int64)
        block[i] = entries
        Z = np.hstack([Z, block])
    return Z


def draw_hyper(kind: str, rng: np.random.Generator) -> FeatureHyper:
    c = CONCENTRATION[kind]
    return FeatureHyper(rng.gamma(MASS.shape, 1.0 / MASS.rate), rng.gamma(c.shape, 1.0 / c.rate))


def inverse_gamma(prior: InverseGamma, rng: np.random.Generator) -> float:
    return prior.scale / rng.gamma(prior.shape)


@dataclass(frozen=True)
class GaussianRows:
    """Rows given Z, without an intercept or with one, around zero or around a level."""

    intercept: bool = False
    level: bool = False

    def bind(self, X: Array) -> Any:
        bound = LinearGaussian(NOISE, LOADING, INTERCEPT if self.intercept else False).bind(describe(X))
        return replace(bound, intercept=LEVEL) if self.level else bound

    def draw_scales(self, rng: np.random.Generator) -> Scales:
        scales = Scales(inverse_gamma(NOISE, rng), inverse_gamma(LOADING, rng), 0.0, INTERCEPT**2)
        if not self.level:
            return scales
        return scales._replace(level=rng.normal(0.0, LEVEL.wide), base=inverse_gamma(LEVEL.base, rng))

    def rows(self, Z: Array, scales: Scales, rng: np.random.Generator) -> tuple[Array, None]:
        mean = Z @ rng.normal(0.0, np.sqrt(scales.loading), (Z.shape[1], N_COLUMNS))
        if self.intercept:
            mean = mean + rng.normal(scales.level, np.sqrt(scales.base), N_COLUMNS)
        return rng.normal(mean, np.sqrt(scales.noise)), None

    def put(self, state: Any, parts: None) -> Any:
        return state

    def moments(self, scales: Scales, X: Array, k: int) -> dict[str, float]:
        noise, loading, base = np.log([scales.noise, scales.loading, scales.base])
        x = np.tanh(X)
        return {
            "log noise": noise, "log loading": loading, "log noise^2": noise**2, "log loading^2": loading**2,
            "noise loading": noise * loading, "noise K": noise * k, "loading K": loading * k,
            "x": x[:, 0].mean(), "x^2": (x**2).mean(), "x y": (x[:, 0] * x[:, 1]).mean(), "near": x[0] @ x[1],
            "far": x[0] @ x[-1], "noise x^2": noise * (x**2).mean(), "K x^2": k * (x**2).mean(),
            "level": scales.level, "level^2": scales.level**2, "log base": base, "log base^2": base**2,
            "level x": scales.level * x.mean(), "base x^2": base * (x**2).mean(),
        }  # fmt: skip


@dataclass(frozen=True)
class PoissonRows:
    """Counts given Z, as sums of the counts of the background and of the features."""

    def bind(self, X: Array) -> Any:
        return PoissonFactors(SHAPE, RATE, BACKGROUND).bind(describe(X))

    def draw_scales(self, rng: np.random.Generator) -> Background:
        return Background(rng.gamma(BACKGROUND.shape, 1.0 / BACKGROUND.rate, N_COLUMNS))

    def rows(self, Z: Array, scales: Background, rng: np.random.Generator) -> tuple[Array, tuple[Array, Array]]:
        theta = rng.gamma(SHAPE, 1.0 / RATE, (Z.shape[1], N_COLUMNS))
        parts = rng.poisson(Z[:, :, None] * theta)
        rest = rng.poisson(scales.background, (len(Z), N_COLUMNS))
        return (parts.sum(axis=1) + rest).astype(float), (parts.sum(axis=0), rest.sum(axis=0))

    def put(self, state: Any, parts: tuple[Array, Array]) -> Any:
        """The parts of the counts are part of the chain's state."""
        sums, rest = (part.astype(float) for part in parts)
        return replace(state, table=state.table._replace(sums=sums, rest=rest))

    def moments(self, scales: Background, X: Array, k: int) -> dict[str, float]:
        background = np.log(scales.background)
        x = np.log1p(X)
        return {
            "log background": background[0], "log background^2": background[1] ** 2,
            "background K": k * background.sum(), "x": x[:, 0].mean(), "x^2": (x**2).mean(),
            "x y": (x[:, 0] * x[:, 1]).mean(), "near": x[0] @ x[1], "far": x[0] @ x[-1], "zeros": (X == 0).mean(),
            "background x": background[0] * x[:, 0].mean(), "K x": k * x.mean(),
        }  # fmt: skip


ROWS = {
    "gaussian": GaussianRows(),
    "intercept": GaussianRows(True),
    "level": GaussianRows(True, True),
    "poisson": PoissonRows(),
}


def measure(kind: str) -> Any:
    c = CONCENTRATION[kind]
    if kind == "bb":
        return BetaBernoulli(MASS, c)
    return GammaPoisson(MASS, c) if kind == "gp" else BetaNegativeBinomial(MASS, c, FAILURES)


# ---- what is compared


def moments(Z: Array, hyper: FeatureHyper) -> dict[str, float]:
    """Functions of slow growth (counts have heavy tails) of Z, and all that hyper-parameters act on."""
    k, users = Z.shape[1], (Z > 0).sum(axis=0)
    total = np.log1p(Z.sum())
    alpha, c = hyper
    return {
        "K": k, "K^2": k**2, "none": float(k == 0), "singletons": np.count_nonzero(users == 1),
        "all": np.count_nonzero(users == len(Z)), "log total": total, "more than one": np.count_nonzero(Z > 1) > 0,
        "first row": np.log1p(Z[0].sum()), "last row": np.log1p(Z[-1].sum()),
        "together": np.count_nonzero((Z[0] > 0) & (Z[-1] > 0)), "alpha": alpha, "log alpha": np.log(alpha),
        "alpha K": alpha * k, "c": c, "log c": np.log(c), "c K": c * k, "c total": c * total, "alpha c": alpha * c,
    }  # fmt: skip


def prior_moments(kind: str, rows: Any, n_draws: int, seed: int = 1) -> tuple[list[str], Array, Array]:
    """(names, means, standard errors) by simulation of the prior."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(n_draws):
        hyper, scales = draw_hyper(kind, rng), rows.draw_scales(rng)
        Z = buffet(kind, *hyper, FAILURES, N_ROWS, rng)
        values = moments(Z, hyper) | rows.moments(scales, rows.rows(Z, scales, rng)[0], Z.shape[1])
        table.append(list(values.values()))
    seen = np.array(table, float)
    return list(values), seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(n_draws)


# ---- the successive-conditional simulator


@dataclass(frozen=True)
class Joint:
    """A model, and how it is run by turns with fresh data."""

    kind: str
    rows: str
    rule: Any
    n_shards: int = 2
    sweeps: int = 1
    holes: bool = False
    replicates: int = 40
    rounds: int = 64
    seed: int = 0
    jumps: Jumps | None = None

    def __str__(self) -> str:
        words = f"{self.kind}-{self.rows}-{self.rule}-P{self.n_shards}-L{self.sweeps}".replace("ghosts=", "")
        return words + "-holes" * self.holes


def replicate(joint: Joint, seed: int) -> Array:
    """Mean moments over the rounds of one simulator that starts from a prior draw."""
    rows = ROWS[joint.rows]
    rng = np.random.default_rng([joint.seed, seed])
    hyper, scales = draw_hyper(joint.kind, rng), rows.draw_scales(rng)
    Z = buffet(joint.kind, *hyper, FAILURES, N_ROWS, rng)
    X, parts = rows.rows(Z, scales, rng)
    masked = X.copy()
    if joint.holes:
        masked[tuple(np.transpose(HOLES))] = np.nan
    likelihood, law = rows.bind(masked), measure(joint.kind)
    engine = build("serial", FeatureRecipe(masked, likelihood, joint.n_shards, law.binary))
    model = HybridFeatures(
        Setup(
            law,
            likelihood,
            N_ROWS,
            joint.n_shards,
            1000 * joint.seed + seed,
            n_rounds=4 * joint.rounds,
            sweeps=joint.sweeps,
        ),
        rule=joint.rule,
        jumps=joint.jumps,
    )
    total: Any = 0.0
    for round_ in range(joint.rounds):
        state = next(rounds(model, engine, rows.put(begin_with(model, engine, X, Z, hyper, scales, round_), parts)))
        Z, hyper, scales = model.assignments(state, engine).astype(np.int64), state.hyper, state.scales
        X, parts = rows.rows(Z, scales, rng)
        values = moments(Z, hyper) | rows.moments(scales, X, Z.shape[1])
        total = total + np.array(list(values.values()), float)
    engine.close()
    return total / joint.rounds


def check(joint: Joint, n_draws: int = 6000) -> Verdict:
    names, truth, truth_error = prior_moments(joint.kind, ROWS[joint.rows], n_draws)
    seen = np.array([replicate(joint, seed) for seed in range(joint.replicates)])
    slowness = seen.var(axis=0, ddof=1) * joint.rounds / np.maximum(truth_error**2 * n_draws, 1e-300)
    varies = truth_error > 0.0
    return judge(
        [name for name, there in zip(names, varies, strict=True) if there], seen[:, varies], truth[varies],
        float(np.median(slowness[varies])), joint.rounds / 8, truth_error[varies],
    )  # fmt: skip


# ---- many rows without data


@dataclass(frozen=True)
class Many:
    """Rows that are all holes: their posterior is the prior. Blocks, long tails and large shards come to the test."""

    law: Law
    rule: Any
    n_shards: int = 1
    lanes: int | None = None
    n_rows: int = 60
    chains: int = 50
    rounds: int = 30
    jumps: Jumps | None = None

    def __str__(self) -> str:
        words = f"{self.law}-n{self.n_rows}-{self.rule}-P{self.n_shards}-lanes{self.lanes}"
        return words.replace("ghosts=", "")

    def expected(self) -> Array:
        """Numbers of columns of any kind are Poisson; by exchangeability what one row adds it adds as the last one."""
        n, law = self.n_rows, self.law
        pair, double = np.eye(2, n, dtype=int).sum(axis=0), 2 * np.eye(1, n, dtype=int)[0]
        twos = 0.5 * n * (n - 1) * np.exp(law.log_rate(pair[None]))[0]
        if law.kind != "bb":
            twos += n * np.exp(law.log_rate(double[None]))[0]
        return np.array([law.total(n), n * (law.total(n) - law.total(n - 1)), twos, law.total(1) ** 2])


def kinds_of_columns(Z: Array) -> list[float]:
    """Features, those of one row only, those with a total of two, and ordered pairs of features of row 0."""
    own = np.count_nonzero(Z[0])
    users = np.count_nonzero(Z, axis=0)
    return [Z.shape[1], np.count_nonzero(users == 1), np.count_nonzero(Z.sum(axis=0) == 2), own * (own - 1)]


def check_many(many: Many) -> Verdict:
    """Chains that start from prior draws against the prior. Weak loadings: imputed data hardly slow the chains down."""
    n, rng, seen = many.n_rows, np.random.default_rng(0), []
    X = np.full((n, 1), np.nan)
    likelihood, measure_ = LinearGaussian(2.0, 0.5, False).bind(describe(X)), many.law.measure
    engine = build("serial", FeatureRecipe(X, likelihood, many.n_shards, measure_.binary))
    for chain in range(many.chains):
        model = HybridFeatures(Setup(measure_, likelihood, n, many.n_shards, chain), rule=many.rule, jumps=many.jumps)
        model = with_lanes(model, many.lanes) if many.lanes else model
        Z = buffet(many.law.kind, many.law.alpha, many.law.c, many.law.r, n, rng)
        X = rng.normal(Z @ rng.normal(0.0, 0.5, (Z.shape[1], 1)), 2.0)
        states = islice(rounds(model, engine, begin_with(model, engine, X, Z)), many.rounds)
        seen.append(np.mean([kinds_of_columns(model.assignments(state, engine)) for state in states], axis=0))
    engine.close()
    return judge(["K", "singletons", "twos", "pairs"], np.array(seen), many.expected())
