"""Exact posteriors of tiny mixtures by brute force, and an honest comparison of chains with them.

The truth uses nothing of the sampler: all partitions of the rows, the probability of a partition from the seating of
the Chinese restaurant, and the reference NumPy likelihood (`log_marginal` of summed `terms`). Holes that the sampler
imputes and hyper-parameters that it samples are integrated out by quadrature.

Chains start from an exact posterior draw, so every one of their states has the posterior as its law if, and only if,
the kernel leaves it invariant. Standard errors come from the spread between independent chains: nothing is assumed
about autocorrelation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations, islice
from typing import Any

import numpy as np
from scipy import special, stats

from unbounded.engines import build
from unbounded.likelihoods import Bound
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.samplers import DIRICHLET
from unbounded.priors import Beta, Gamma
from unbounded.round import rounds
from unbounded.setup import Setup, build_sampler

Array = np.ndarray
LEVEL = 1e-5  # chance that a right sampler fails one comparison


# ---- the truth


def partitions(n: int) -> Array:
    """All partitions of n rows, each as the labels in order of appearance."""
    rows = [[0]]
    for _ in range(1, n):
        rows = [labels + [k] for labels in rows for k in range(max(labels) + 2)]
    return np.array(rows)


def canonical(labels: Any) -> tuple[int, ...]:
    """The same partition with labels in order of appearance."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(z), len(seen)) for z in labels)


def log_eppf(labels: Array, alpha: Any, sigma: Any) -> Any:
    """Log probability of a partition under PY(alpha, sigma), arrays allowed: seat the rows one after another."""
    value = 0.0
    for i, z in enumerate(labels):
        before = labels[:i]
        m = np.count_nonzero(before == z)
        if i:
            atoms = len(np.unique(before))
            value = value + np.log(m - sigma if m else alpha + atoms * sigma) - np.log(alpha + i)
    return value


def hyper_nodes(measure: PitmanYor, size: int = 48) -> tuple[Array, Array, Array]:
    """Gaussian quadrature of the hyper-prior: (alpha, sigma, weight) of every node."""
    alpha, weight_a = np.array([measure.concentration]), np.ones(1)
    sigma, weight_s = np.array([measure.discount]), np.ones(1)
    if isinstance(measure.concentration, Gamma):
        x, weight_a = special.roots_genlaguerre(size, measure.concentration.shape - 1.0)
        alpha = x / measure.concentration.rate
    if isinstance(measure.discount, Beta):
        x, weight_s = special.roots_jacobi(size, measure.discount.b - 1.0, measure.discount.a - 1.0)
        sigma = 0.5 * (1.0 + x)
    weight = np.outer(weight_a / weight_a.sum(), weight_s / weight_s.sum())
    return np.repeat(alpha, len(sigma)), np.tile(sigma, len(alpha)), weight.ravel()


def hole_nodes(X: Array, n_holes: int, size: int = 121) -> tuple[Array, Array]:
    """(values [G, holes], log weights [G]) of a rule for integrals over the holes: x = centre + scale sinh(u).

    The tails are polynomial (Student's t); in u they fall exponentially, and the trapezoid rule converges fast.
    """
    if n_holes == 0:
        return np.empty((1, 0)), np.zeros(1)
    centre, scale = np.nanmean(X), np.nanstd(X)
    u = np.linspace(-9.0, 9.0, size)
    x = centre + scale * np.sinh(u)
    log_step = np.log(scale * np.cosh(u) * (u[1] - u[0]))
    grids = np.meshgrid(*([np.arange(size)] * n_holes), indexing="ij")
    index = np.stack([g.ravel() for g in grids], axis=1)
    return x[index], log_step[index].sum(1)


@dataclass(frozen=True)
class Problem:
    """Rows, a bound likelihood and a measure: everything the posterior over partitions depends on."""

    name: str
    X: Any
    likelihood: Bound
    measure: PitmanYor

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @cached_property
    def partitions(self) -> Array:
        return partitions(self.n)

    @cached_property
    def holes(self) -> Array:
        """Positions (row, column) whose values are part of the chain's state."""
        if not self.likelihood.imputed.size:
            return np.empty((0, 2), int)
        parts = getattr(self.likelihood, "parts", (self.likelihood,))
        columns = np.concatenate([part.columns.index for part in parts if part.imputed.size])
        holes = np.argwhere(np.isnan(self.X))
        return holes[np.isin(holes[:, 1], columns)]

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        return hole_nodes(self.X, len(self.holes))

    @cached_property
    def _log_blocks(self) -> Array:
        """[2^n, G]: log marginal likelihood of every set of rows (a bit mask), at every value of the holes."""
        values, _ = self.nodes
        terms = np.stack([self._features(v) for v in values], axis=1)
        masks = (np.arange(1, 2**self.n)[:, None] >> np.arange(self.n)) & 1
        sums = np.einsum("mi,igf->mgf", masks, terms)
        counts = np.repeat(masks.sum(1).astype(float), len(values))
        scores = self.likelihood.log_marginal(counts, sums.reshape(len(counts), -1))
        return np.vstack([np.zeros(len(values)), scores.reshape(len(masks), -1)])

    def _features(self, values: Array) -> Array:
        if not len(self.holes):
            return self.likelihood.terms(self.X)
        filled = self.X.copy()
        filled[tuple(self.holes.T)] = values
        return self.likelihood.terms(filled)

    @cached_property
    def _log_data(self) -> Array:
        """[B, G]: log likelihood of every partition at every value of the holes, with the weights of the nodes."""
        bits = 1 << np.arange(self.n)
        rows = []
        for labels in self.partitions:
            masks = [bits[labels == k].sum() for k in range(labels.max() + 1)]
            rows.append(self._log_blocks[masks].sum(0) + self.nodes[1])
        return np.stack(rows)

    @cached_property
    def _log_prior(self) -> Array:
        """[B, H]: log probability of every partition at every node of the hyper-prior, weights included."""
        alpha, sigma, weight = hyper_nodes(self.measure)
        return np.stack([log_eppf(z, alpha, sigma) for z in self.partitions]) + np.log(weight)

    @cached_property
    def probabilities(self) -> Array:
        """[B]: the exact posterior."""
        log_p = special.logsumexp(self._log_data, axis=1) + special.logsumexp(self._log_prior, axis=1)
        return special.softmax(log_p)

    @cached_property
    def hyper_means(self) -> dict[str, float]:
        """Exact posterior means of sampled hyper-parameters."""
        given = special.softmax(self._log_prior, axis=1)
        alpha, sigma, _ = hyper_nodes(self.measure)
        means = {}
        if isinstance(self.measure.concentration, Gamma):
            means["alpha"] = float(self.probabilities @ given @ alpha)
        if isinstance(self.measure.discount, Beta):
            means["sigma"] = float(self.probabilities @ given @ sigma)
        return means

    def draw(self, rng: np.random.Generator) -> tuple[Array, PartitionHyper, Array]:
        """An exact posterior draw: labels, hyper-parameters (resampled from many prior draws) and hole values."""
        b = rng.choice(len(self.partitions), p=self.probabilities)
        node = rng.choice(len(self.nodes[0]), p=special.softmax(self._log_data[b]))
        hypers = np.array([self.measure.draw_prior(rng) for _ in range(1 if not self.hyper_means else 500)])
        weights = special.softmax(log_eppf(self.partitions[b], hypers[:, 0], hypers[:, 1]) * np.ones(len(hypers)))
        return self.partitions[b], PartitionHyper(*hypers[rng.choice(len(hypers), p=weights)]), self.nodes[0][node]


# ---- the chains


@dataclass(frozen=True)
class Run:
    """A way to run the sampler, and how long."""

    rule: Any
    n_shards: int = 1
    sweeps: int = 1
    engine: str = "serial"
    dtype: str = "float64"
    chains: int = 40
    rounds: int = 125
    seed: int = 0
    sampler: str = "hybrid"
    options: tuple[tuple[str, Any], ...] = ()  # of the sampler
    device: str = "cpu"

    def __str__(self) -> str:
        words = f"{self.rule}-P{self.n_shards}-L{self.sweeps}-{self.engine}-{self.dtype}"
        words = words if self.sampler == "hybrid" else f"{self.sampler}-{words}"
        words += "".join(f"-{name}{value}" for name, value in self.options)
        words += "" if self.device == "cpu" else f"-{self.device}"
        return words.replace("ghosts=", "").replace("schedule=", "")

    def model(self, members: dict[str, Any], measure: Any, likelihood: Any, extent: Any, seed: int, **more: Any) -> Any:
        """The sampler of this name among the members; without jumps, if nobody asks for them (test_jumps.py does)."""
        more = ({"jumps": None} if self.sampler == "hybrid" else {}) | more | dict(self.options)
        length = (4 * self.rounds, self.sweeps)
        setup = Setup(measure, likelihood, extent, self.n_shards, seed, *length, self.dtype, self.device)
        return build_sampler(members, self.sampler, setup, self.rule, **more)


@dataclass(frozen=True)
class Tally:
    """What chains saw: how often each partition [C, B], and the means of sampled hyper-parameters, name -> [C]."""

    frequencies: Array
    hypers: dict[str, Array] = field(default_factory=dict)

    def joined(self, *others: Tally) -> Tally:
        hypers = {name: np.concatenate([t.hypers[name] for t in (self, *others)]) for name in self.hypers}
        return Tally(np.concatenate([t.frequencies for t in (self, *others)]), hypers)


def put_holes(engine: Any, holes: Array, values: Array) -> None:
    """Write the values of holes, given by their positions in the whole data, into the shards."""
    engine.map(partial(_put_holes, holes=holes, values=values))


def _put_holes(shard: Any, holes: Array, values: Array) -> None:
    inside = (holes[:, 0] >= shard.first) & (holes[:, 0] < shard.first + len(shard.labels))
    for (row, column), value in zip(holes[inside], values[inside], strict=True):
        shard.data[row - shard.first, column] = value


def simulate(problem: Problem, run: Run) -> Tally:
    """C independent chains of M rounds, each from an exact posterior draw."""
    index = {tuple(z): b for b, z in enumerate(problem.partitions.tolist())}
    frequencies = np.zeros((run.chains, len(index)))
    hypers = {name: np.zeros(run.chains) for name in problem.hyper_means}
    model = run.model(DIRICHLET, problem.measure, problem.likelihood, problem.n, 0)
    engine = build(run.engine, model.recipe(problem.X))
    rng = np.random.default_rng([run.seed, 2024])
    for c in range(run.chains):
        model = model.reseeded(1000 * run.seed + c)
        labels, hyper, values = problem.draw(rng)
        put_holes(engine, problem.holes, values)
        start = model.begin(engine, labels, hyper)
        for state in islice(rounds(model, engine, start), run.rounds):
            frequencies[c, index[canonical(model.assignments(state, engine))]] += 1.0 / run.rounds
            for name, means in hypers.items():
                means[c] += getattr(state.hyper, name) / run.rounds
    engine.close()
    return Tally(frequencies, hypers)


# ---- the comparison


def questions(problem: Problem, n_states: float, n_chains: int) -> tuple[list[str], Array]:
    """(names, [B, Q] indicators) of what is compared: every cell, the number of clusters, every pair of rows.

    Cells are the sharpest questions, clusters and pairs the strongest: a small error spread over many cells adds up.
    Cells that chains seldom visit are pooled: visits come in runs, and the t distribution does not hold for a few runs.
    """
    p = problem.probabilities
    enough = max(60, 2 * n_chains)
    rare = p * n_states < enough
    names = ["".join(map(str, z)) for z in problem.partitions[~rare]]
    columns = list(np.eye(len(p))[:, ~rare].T)
    names.append("rare")
    columns.append(rare.astype(float))
    size = problem.partitions.max(1) + 1
    for k in range(1, problem.n + 1):
        names.append(f"K={k}")
        columns.append((size == k).astype(float))
    for i, j in combinations(range(problem.n), 2):
        names.append(f"{i}~{j}")
        columns.append((problem.partitions[:, i] == problem.partitions[:, j]).astype(float))
    matrix = np.stack(columns, axis=1)
    share = p @ matrix
    asked = np.minimum(share, 1.0 - share) * n_states >= enough
    return [name for name, ask in zip(names, asked, strict=True) if ask], matrix[:, asked]


@dataclass(frozen=True)
class Verdict:
    """z-scores of a comparison and whether they are those of a right sampler."""

    names: list[str]
    z: Array
    limit: float  # of the largest |z|
    rms_range: tuple[float, float]
    slowness: float  # autocorrelation time in rounds, median over questions
    too_slow: float

    @property
    def largest(self) -> float:
        return float(np.abs(self.z).max())

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.z**2)))

    @property
    def failures(self) -> list[str]:
        """What speaks against the sampler: a question, all of them together, or chains that do not mix."""
        wrong = {
            "max": not self.largest < self.limit,
            "rms": not self.rms_range[0] < self.rms < self.rms_range[1],
            "slow": not self.slowness < self.too_slow,
        }
        return [name for name, failed in wrong.items() if failed]

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        worst = np.argsort(-np.abs(self.z))[:4]
        low, high = self.rms_range
        return (
            f"max |z| {self.largest:.1f} (limit {self.limit:.1f}), rms {self.rms:.2f} ({low:.2f} to {high:.2f}), "
            f"{len(self.z)} questions, autocorrelation time {self.slowness:.1f} (limit {self.too_slow:.0f}), worst: "
            + ", ".join(f"{self.names[q]} {self.z[q]:+.1f}" for q in worst)
        )


def compare(problem: Problem, tally: Tally, n_rounds: int) -> Verdict:
    """Judge chains against the exact posterior."""
    chains = len(tally.frequencies)
    names, matrix = questions(problem, chains * n_rounds, chains)
    seen = np.column_stack([tally.frequencies @ matrix, *tally.hypers.values()])
    names = names + list(tally.hypers)
    share = problem.probabilities @ matrix
    truth = np.append(share, [problem.hyper_means[name] for name in tally.hypers])
    error = seen.std(axis=0, ddof=1) / np.sqrt(chains)
    slowness = np.median((error[: len(share)] ** 2) * chains * n_rounds / (share * (1.0 - share)))
    return judge(names, seen, truth, float(slowness), n_rounds / 8)


def judge(
    names: list[str], seen: Array, truth: Array, slowness: float = 1.0, too_slow: float = np.inf, truth_error: Any = 0.0
) -> Verdict:
    """z-scores of independent replicates seen [C, Q] against the truth [Q], and their statistical range.

    A chain that hardly moves agrees with any truth it starts from, so slowness is a failure too.
    """
    chains, n = seen.shape
    error = np.maximum(np.hypot(seen.std(axis=0, ddof=1) / np.sqrt(chains), truth_error), 1e-12)
    z = (seen.mean(axis=0) - truth) / error
    limit = float(stats.t.isf(LEVEL / n / 2, chains - 1))
    return Verdict(names, z, limit, rms_range(seen), slowness, too_slow)


def rms_range(seen: Array) -> tuple[float, float]:
    """Where the root mean square of the z-scores lies but for a chance of LEVEL.

    z-scores of overlapping questions are correlated: the mean of their squares is close to a chi-squared variable over
    its degrees of freedom, Q^2 / sum of squared correlations (Satterthwaite), here corrected for their estimation.
    """
    chains, n = seen.shape
    spread = np.maximum(seen.std(axis=0), 1e-12)
    scores = (seen - seen.mean(axis=0)) / spread
    squares = ((scores.T @ scores / chains) ** 2).sum() - (n * n - n) / (chains - 1)
    freedom = n * n / max(squares, n)
    heavy = (chains - 1) / (chains - 3)  # the variance of Student's t
    low, high = stats.chi2.ppf([LEVEL / 2, 1.0 - LEVEL / 2], freedom) / freedom
    return float(np.sqrt(low)), float(np.sqrt(high * heavy))


def check(problem: Problem, run: Run) -> Verdict:
    return compare(problem, simulate(problem, run), run.rounds)
