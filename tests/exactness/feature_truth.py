"""Exact posteriors of tiny feature models by brute force, and the comparison of chains with them.

A state is the multiset of the non-zero columns of Z. Under a completely random measure the columns with pattern v are
Poisson(rate of v) many, independently over patterns, and loadings are integrated out: nothing of the sampler is used.

There are infinitely many states, and those of little weight are left out. `log_ceiling` is at least the log likelihood
of a state and of every state that has further columns: so all that descends from a state left out weighs less than its
ceiling times its prior, and all states with a column of a large total less than the rate of such columns times their
ceiling. That is a proof, but ten to a thousand times too careful. What an eight times finer cut adds is a better
estimate: more than all finer ones would add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
from enumeration import Run, Verdict, judge
from scipy.special import betaln, digamma, gammaln, logsumexp, softmax, xlogy

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.features.jump import Jumps
from unbounded.models.features.kernel import CompiledFeatures
from unbounded.models.features.kernels import KERNELS
from unbounded.models.features.linear_gaussian import LinearGaussian
from unbounded.models.features.measures import BetaBernoulli, BetaNegativeBinomial, GammaPoisson
from unbounded.models.features.model import Features
from unbounded.models.features.poisson_factors import PoissonFactors
from unbounded.models.features.samplers import FEATURES
from unbounded.priors import Gamma
from unbounded.round import rounds

Array = np.ndarray
MISSING = 1e-6  # posterior mass that may be left out
TOO_MANY = 400_000  # states: then the problem is not tiny
SOME = Jumps(every=1, tries=1, folds=1, ahead=0.5)  # proposals are slow, and tiny data need both directions


# ---- the prior: rates of columns


@dataclass(frozen=True)
class Law:
    """A completely random measure with fixed hyper-parameters: the rates of columns v = (z_1, ..., z_n).

    The rate of v is the integral of prod_i f(z_i | mu) against the Levy measure.
    """

    kind: str
    alpha: float
    c: float
    r: float = 1.0

    def __str__(self) -> str:
        return f"{self.kind}-c{self.c:g}" + (f"-r{self.r:g}" if self.kind == "bnb" else "")

    @property
    def measure(self) -> Any:
        if self.kind == "bb":
            return BetaBernoulli(mass=self.alpha, concentration=self.c)
        if self.kind == "gp":
            return GammaPoisson(mass=self.alpha, concentration=self.c)
        return BetaNegativeBinomial(mass=self.alpha, concentration=self.c, failures=self.r)

    def log_rate(self, v: Array) -> Array:
        """[V] log rates of the columns v [V, n]."""
        n, m = v.shape[1], v.sum(axis=1)
        if self.kind == "bb":
            return np.log(self.alpha * self.c) + betaln(m, n - m + self.c)
        if self.kind == "gp":
            return np.log(self.alpha) + gammaln(m) - m * np.log(self.c + n) - gammaln(v + 1).sum(axis=1)
        ways = gammaln(self.r + v) - gammaln(self.r) - gammaln(v + 1)
        return np.log(self.alpha * self.c) + betaln(m, self.c + n * self.r) + ways.sum(axis=1)

    def total(self, n: int) -> float:
        """The rate of all columns together: the expected number of features of n rows."""
        if self.kind == "bb":
            return self.alpha * sum(self.c / (self.c + i) for i in range(n))
        if self.kind == "gp":
            return self.alpha * np.log1p(n / self.c)
        return self.alpha * self.c * float(digamma(self.c + n * self.r) - digamma(self.c))


def patterns(n: int, largest: int) -> Array:
    """[V, n]: all columns with a total of 1 to `largest`."""
    grid = np.indices((largest + 1,) * n).reshape(n, -1).T
    return grid[(grid.sum(axis=1) > 0) & (grid.sum(axis=1) <= largest)]


def shell(n: int, total: int) -> Array:
    """All columns with this total: every column with a larger one is above one of them in all rows."""
    return np.array([v for v in product(range(total + 1), repeat=n) if sum(v) == total])


# ---- the data given Z, loadings integrated out


@dataclass(frozen=True)
class GaussianTruth:
    """x_id ~ N(intercept_d + sum_k z_ik A_kd, noise^2), normal loadings; missing entries are dropped."""

    X: Array
    noise: float = 0.6
    loading: float = 0.9
    intercept: float | bool = False  # standard deviation around zero

    def bind(self) -> Any:
        return LinearGaussian(self.noise, self.loading, self.intercept).bind(describe(self.X))

    def _groups(self) -> list[tuple[Array, Array]]:
        """(observed rows, their data [rows, columns]) of columns of X that are observed in the same rows."""
        seen = ~np.isnan(self.X.T)
        masks = np.unique(seen, axis=0)
        return [(mask, self.X[:, (seen == mask).all(axis=1)][mask]) for mask in masks]

    def _covariance(self, Z: Array) -> Array:
        """[S, rows, rows] of a column of X given the states Z [S, K, rows]."""
        alone = self.noise**2 * np.eye(Z.shape[2]) + float(self.intercept) ** 2
        return alone + self.loading**2 * np.swapaxes(Z, 1, 2) @ Z.astype(float)

    def log_marginal(self, Z: Array) -> Array:
        value = np.zeros(len(Z))
        for seen, x in self._groups():
            covariance = self._covariance(Z[:, :, seen])
            value -= 0.5 * x.shape[1] * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
            value -= 0.5 * (np.linalg.solve(covariance, x[None]) * x).sum(axis=(1, 2))
        return value

    def begin(self, model: Features, engine: Any, Z: Array, rng: np.random.Generator) -> Any:
        """The chain's state with Z [n, K], holes drawn given Z and what is observed."""
        X, covariance = self.X.copy(), self._covariance(Z.T[None])[0]
        for d in np.flatnonzero(np.isnan(X).any(axis=0)):
            hole, seen = np.isnan(X[:, d]), ~np.isnan(X[:, d])
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, hole)]).T
            spread = covariance[np.ix_(hole, hole)] - gain @ covariance[np.ix_(seen, hole)]
            X[hole, d] = rng.multivariate_normal(gain @ X[seen, d], spread)
        return begin_with(model, engine, X, Z)

    def log_ceiling(self, Z: Array) -> Array:
        """The best of all larger covariances, since further columns make it larger.

        In coordinates in which the covariance is the identity and the scatter is diagonal, it is the scatter over the
        number of columns where that is above one, and one elsewhere.
        """
        value = np.zeros(len(Z))
        for seen, x in self._groups():
            columns, covariance = x.shape[1], self._covariance(Z[:, :, seen])
            white = np.linalg.solve(np.linalg.cholesky(covariance), x[None])
            scatter = np.linalg.svd(white, compute_uv=False) ** 2
            best = np.maximum(scatter / columns, 1.0)
            value -= 0.5 * columns * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
            value -= 0.5 * (columns * np.log(best) + scatter / best).sum(axis=1)
        return value


@dataclass(frozen=True)
class PoissonTruth:
    """x_id ~ Poisson(background_d + sum_k z_ik theta_kd), gamma loadings; missing entries are dropped.

    A Poisson count is the sum of independent counts of the background and of the features. Given these the loadings
    integrate in closed form: the likelihood is the convolution, over all counts of a column of X, of one table for the
    background and one for every feature.
    """

    X: Array
    shape: float = 2.0
    rate: float = 1.0
    background: Any = 0.3  # number, or a Gamma prior

    def bind(self) -> Any:
        return PoissonFactors(shape=self.shape, rate=self.rate, background=self.background).bind(describe(self.X))

    def _loaded(self, z: Array, y: Array, shape: float, rate: float) -> Array:
        """[S, Y] probabilities of the counts y [Y, n] of a feature z [S, n] with a gamma loading."""
        total, exposure = y.sum(axis=1), z.sum(axis=1, keepdims=True)
        powers = xlogy(y, z[:, None, :]).sum(axis=2) - gammaln(y + 1).sum(axis=1)
        constant = shape * np.log(rate) + gammaln(shape + total) - gammaln(shape)
        return np.exp(constant - (shape + total) * np.log(rate + exposure) + powers)

    def _background(self, y: Array) -> Array:
        ones = np.ones((1, y.shape[1]))
        if isinstance(self.background, Gamma):
            return self._loaded(ones, y, self.background.shape, self.background.rate)
        return np.exp(xlogy(y, self.background) - self.background - gammaln(y + 1)).prod(axis=1)[None]

    def _columns(self) -> list[tuple[Array, Array]]:
        """(observed rows, their counts) of every column of X."""
        return [(np.flatnonzero(~np.isnan(x)), x[~np.isnan(x)].astype(int)) for x in self.X.T]

    def log_marginal(self, Z: Array) -> Array:
        value = np.zeros(len(Z))
        for seen, x in self._columns():
            y = grid(x)
            table = np.repeat(self._background(y), len(Z), axis=0)
            for k in range(Z.shape[1]):
                table = convolve(table, self._loaded(Z[:, k, seen].astype(float), y, self.shape, self.rate), x + 1)
            value += np.log(table[:, -1])
        return value

    def begin(self, model: Features, engine: Any, Z: Array, rng: np.random.Generator) -> Any:
        """The chain's state with Z [n, K], the parts of the counts drawn given Z and what is observed."""
        state = begin_with(model, engine, np.nan_to_num(self.X), Z)
        parts = np.array([self._parts(Z.T, seen, x, rng) for seen, x in self._columns()]).T
        return replace(state, table=state.table._replace(sums=parts[1:].copy(), rest=parts[0].copy()))

    def _parts(self, Z: Array, seen: Array, x: Array, rng: np.random.Generator) -> Array:
        """A column's counts of (background, features...), summed over rows: the last feature's first, then the others'.

        Counts of holes come from the loadings given the parts of what is observed.
        """
        y = grid(x)
        tables = [self._background(y)]
        loaded = [self._loaded(z[None, seen].astype(float), y, self.shape, self.rate) for z in Z]
        for table in loaded:
            tables.append(convolve(tables[-1], table, x + 1))
        left, sums = x, []
        for k in reversed(range(len(Z))):
            inside = np.flatnonzero((y <= left).all(axis=1))
            other = np.ravel_multi_index(tuple((left - y[inside]).T), tuple(x + 1))
            weight = loaded[k][0, inside] * tables[k][0, other]
            own = y[rng.choice(inside, p=weight / weight.sum())]
            left = left - own
            hidden = Z[k].sum() - Z[k, seen].sum()
            theta = rng.gamma(self.shape + own.sum(), 1.0 / (self.rate + Z[k, seen].sum()))
            sums.append(own.sum() + rng.poisson(hidden * theta))
        hidden, level = len(Z.T) - len(seen), self.background
        if isinstance(self.background, Gamma):
            level = rng.gamma(self.background.shape + left.sum(), 1.0 / (self.background.rate + len(seen)))
        return np.array([left.sum() + rng.poisson(hidden * level), *reversed(sums)], float)

    def log_ceiling(self, Z: Array) -> Array:
        """For any 0 < t < 1, e^-u u^x <= (x / ((1 - t) e))^x e^(-tu), and e^(-tu) factorises over features."""
        value = np.zeros(len(Z))
        for seen, x in self._columns():
            bounds = [self._tilted(Z[:, :, seen], x, np.where(x > 0, t, 1.0)) for t in (0.1, 0.3, 0.5, 0.7, 0.9)]
            value += np.min(bounds, axis=0)
        return value

    def _tilted(self, Z: Array, x: Array, t: Array) -> Array:
        constant = (xlogy(x, x / np.e) - xlogy(x, 1.0 - t) - gammaln(x + 1)).sum()
        if isinstance(self.background, Gamma):
            constant -= self.background.shape * np.log1p(t.sum() / self.background.rate)
        else:
            constant -= t.sum() * self.background
        return constant - self.shape * np.log1p(Z @ t / self.rate).sum(axis=1)


def begin_with(model: Features, engine: Any, X: Array, Z: Array, *others: Any) -> Any:
    """The chain's state with these data, holes included: out of sight while it begins, they are not redrawn."""
    holes = engine.map(partial(_put_rows, X=X))
    state = model.begin(engine, Z, *others)
    engine.map(_put_holes, holes)
    return state


def _put_rows(shard: Any, X: Array) -> Array:
    shard.data[...] = X[shard.first : shard.first + len(shard.data)]
    holes, shard.holes = shard.holes, shard.holes[:0]
    return holes


def _put_holes(shard: Any, holes: Array) -> None:
    shard.holes = holes


def grid(x: Array) -> Array:
    """[Y, n]: all counts up to x, the last row's fastest."""
    return np.indices(x + 1).reshape(len(x), -1).T


def convolve(a: Array, b: Array, shape: Array) -> Array:
    """Convolution of tables [S, Y] over a grid of the given shape, without what falls off the grid."""
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape)).reshape(-1, *shape)
    left, right = a.reshape(-1, *shape), b.reshape(-1, *shape)
    for index in product(*map(range, shape)):
        to = tuple(slice(i, None) for i in index)
        of = tuple(slice(None, size - i) for i, size in zip(index, shape, strict=True))
        out[(slice(None), *to)] += (
            left[(slice(None), *index)].reshape(-1, *[1] * len(shape)) * right[(slice(None), *of)]
        )
    return out.reshape(len(out), -1)


# ---- all states that matter


@dataclass(frozen=True)
class States:
    """Multisets of columns: indices [S, K] into the patterns [V + 1, n], whose last one is zero and fills up."""

    patterns: Array
    index: Array
    log_prior: Array
    left_out: float  # bound on the log of (prior times likelihood) of all others together

    @property
    def Z(self) -> Array:
        """[S, K, n]"""
        return self.patterns[self.index]


@dataclass(frozen=True)
class Columns:
    """Single columns with their log rates and ceilings, the most promising first."""

    v: Array
    log_rate: Array
    ceiling: Array
    high: float  # bound on the weight of all states that have another column


def single_columns(law: Law, likelihood: Any, largest: int) -> Columns:
    """All columns with a total of at most `largest`."""
    n = len(likelihood.X)
    v = patterns(n, largest)
    if law.kind == "bb":
        v = v[v.max(axis=1) == 1]
    log_rate, ceiling = law.log_rate(v), likelihood.log_ceiling(v[:, None, :])
    order = np.argsort(-(log_rate + ceiling))
    rest = law.total(n) - float(np.exp(log_rate).sum())
    lowest = shell(n, largest + 1)
    high = rest * float(np.exp(likelihood.log_ceiling(lowest[:, None, :]).max())) if law.kind != "bb" else 0.0
    return Columns(v[order], log_rate[order], ceiling[order], high)


def multisets(law: Law, likelihood: Any, columns: Columns, log_cut: float) -> States:
    """States with one more column at a time, while rates times ceiling are above the cut.

    Columns are added in their order, so that no state comes twice. With a state all that descends from it is cut: a
    factor of exp(rate of the columns from its last one on), of which the prior's exp(-rate of all) leaves exp(-before).
    """
    n, promise = columns.v.shape[1], columns.log_rate + columns.ceiling
    rate = np.exp(columns.log_rate)
    before = np.cumsum(rate) - rate
    beyond = np.append(np.cumsum(np.exp(promise - before)[::-1])[::-1], 0.0)
    index, weight, ceiling = np.zeros((1, 0), int), np.zeros(1), likelihood.log_ceiling(np.zeros((1, 0, n)))
    repeats, cut, levels = np.zeros(1, int), columns.high, []
    while len(index):
        levels.append((index, weight))
        last = index[:, -1] if index.shape[1] else np.zeros(1, int)
        stop = np.maximum(np.searchsorted(-promise, weight - log_cut), last)
        cut += float(np.exp(weight) @ beyond[stop])
        parent = np.repeat(np.arange(len(index)), stop - last)
        column = np.arange(len(parent)) - np.searchsorted(parent, parent) + last[parent]
        repeats = np.where(column == last[parent], repeats[parent] + 1, 1)
        weight = weight[parent] + columns.log_rate[column] - np.log(repeats)
        bound = weight + np.minimum(ceiling[parent], columns.ceiling[column])
        keep = bound > log_cut
        cut += float(np.exp((bound - before[column])[~keep]).sum())
        index, weight, repeats = np.column_stack([index[parent], column])[keep], weight[keep], repeats[keep]
        ceiling = likelihood.log_ceiling(columns.v[index])
    width = levels[-1][0].shape[1]
    empty = len(columns.v)
    padded = [np.pad(i.astype(np.int32), ((0, 0), (0, width - i.shape[1])), constant_values=empty) for i, _ in levels]
    log_prior = np.concatenate([weight for _, weight in levels]) - law.total(n)
    return States(np.vstack([columns.v, np.zeros((1, n), int)]), np.concatenate(padded), log_prior, float(np.log(cut)))


class Posterior(NamedTuple):
    states: States
    probabilities: Array
    added: float  # by the last refinement of the cut: more than is missing
    missing: float  # proven bound


@dataclass(frozen=True)
class Problem:
    """A measure and a likelihood with its data: everything the posterior of Z depends on."""

    name: str
    law: Law
    likelihood: Any

    @property
    def largest(self) -> int:
        """The largest total of a column that is enumerated."""
        return self.n if self.law.kind == "bb" else {2: 300, 3: 50}[self.n]

    @property
    def X(self) -> Array:
        return self.likelihood.X

    @property
    def n(self) -> int:
        return len(self.X)

    @cached_property
    def bound(self) -> Any:
        return self.likelihood.bind()

    @cached_property
    def posterior(self) -> Posterior:
        log_cut = np.log(1e-9) + self.likelihood.log_ceiling(np.zeros((1, 0, self.n)))[0]
        columns, before = single_columns(self.law, self.likelihood, self.largest), -np.inf
        while True:
            states = multisets(self.law, self.likelihood, columns, log_cut)
            log_p = states.log_prior + self.likelihood.log_marginal(states.Z)
            evidence = float(logsumexp(log_p))
            added = -np.expm1(before - evidence)
            if added < MISSING:
                return Posterior(states, softmax(log_p), added, float(np.exp(states.left_out - evidence)))
            if len(log_p) > TOO_MANY:
                raise RuntimeError(f"{self.name}: {len(log_p)} states, and the last cut added {added:.1e}.")
            log_cut, before = log_cut - np.log(8.0), evidence

    @property
    def states(self) -> States:
        return self.posterior.states

    @property
    def probabilities(self) -> Array:
        return self.posterior.probabilities

    def draw(self, rng: np.random.Generator) -> Array:
        """Z [n, K] from the exact posterior, columns in random order."""
        s = rng.choice(len(self.probabilities), p=self.probabilities)
        columns = self.states.patterns[self.states.index[s]]
        return rng.permutation(columns[columns.any(axis=1)]).T.astype(np.int64)


# ---- what is compared


@dataclass(frozen=True)
class Questions:
    """Indicators of a state: cells, numbers of features, totals of Z, totals of rows, patterns that are there.

    Cells are the sharpest questions, the others the strongest: a small error spread over many cells adds up.
    """

    cells: list[tuple[tuple[int, ...], ...]]  # states as sorted columns; all others are one cell
    shown: list[tuple[int, ...]]  # columns whose presence is asked for
    n_rows: int
    top: int = 6  # sizes from here on are one question

    @property
    def names(self) -> list[str]:
        cells = ["{" + " ".join("".join(map(str, v)) for v in cell) + "}" for cell in self.cells]
        sizes = [f"{what}={k}" for what in self._sizes for k in range(self.top + 1)]
        return [*cells, "rare", *sizes, *("has " + "".join(map(str, v)) for v in self.shown)]

    @property
    def _sizes(self) -> list[str]:
        return ["K", "total", *(f"row {i}" for i in range(self.n_rows))]

    def answers(self, columns: Array) -> Array:
        """Indicators [Q] of the state with these columns [K, n]."""
        state = sorted(map(tuple, columns.tolist()))
        cell = np.array([*(tuple(state) == c for c in self.cells), False])
        cell[-1] = not cell.any()
        sizes = [len(state), int(columns.sum()), *(int(t) for t in columns.sum(axis=0))]
        size = np.array([[min(s, self.top) == k for k in range(self.top + 1)] for s in sizes])
        return np.concatenate([cell, size.ravel(), np.array([v in state for v in self.shown], bool)]).astype(float)

    def truth(self, problem: Problem) -> Array:
        """Posterior probabilities [Q] of the indicators."""
        p, states = problem.probabilities, problem.states
        index = {tuple(v): j for j, v in enumerate(states.patterns.tolist())}
        cell = [p[self._find(states, [index[v] for v in c])] for c in self.cells]
        Z = states.Z
        sizes = [(states.index < len(states.patterns) - 1).sum(axis=1), Z.sum(axis=(1, 2)), *Z.sum(axis=1).T]
        size = [np.bincount(np.minimum(s, self.top), p, self.top + 1) for s in sizes]
        shown = [p @ (states.index == index[v]).any(axis=1) for v in self.shown]
        return np.concatenate([cell, [1.0 - sum(cell)], *size, shown])

    @staticmethod
    def _find(states: States, wanted: list[int]) -> int:
        filler = len(states.patterns) - 1
        padded = np.pad(sorted(wanted), (0, states.index.shape[1] - len(wanted)), constant_values=filler)
        return int(np.flatnonzero((states.index == padded).all(axis=1))[0])


def questions(problem: Problem, n_cells: int = 60, n_shown: int = 20) -> Questions:
    """The likeliest cells and the columns that are there most often."""
    p, states = problem.probabilities, problem.states
    likely = [states.patterns[states.index[s]] for s in np.argsort(-p)[:n_cells]]
    cells = [tuple(sorted(tuple(v) for v in columns.tolist() if any(v))) for columns in likely]
    there = np.zeros(len(states.patterns))
    for column in states.index.T:
        there += np.bincount(column, p, len(there))
    there[-1] = 0.0
    shown = [tuple(states.patterns[j].tolist()) for j in np.argsort(-there)[:n_shown] if there[j] > 0.0]
    return Questions(cells, shown, problem.n)


# ---- the chains


@dataclass(frozen=True)
class FeatureRun(Run):
    """A way to run the sampler, and how long."""

    chains: int = 50
    rounds: int = 50
    lanes: int | None = None  # rows per block
    jumps: Jumps | None = None  # of whole columns, before every round

    def __str__(self) -> str:
        return super().__str__() + (f"-lanes{self.lanes}" if self.lanes else "") + "-jumps" * (self.jumps is not None)


def on_device(model: Any, device: str) -> Any:
    return replace(model, setup=replace(model.setup, device=device))


def with_lanes(model: Any, lanes: int) -> Any:
    """The same model with so many rows per block, which are the business of its kernel."""
    device = f"cpu-lanes{lanes}"
    KERNELS[device] = partial(CompiledFeatures, lanes=lanes)
    return on_device(model, device)


def simulate(problem: Problem, run: FeatureRun, asked: Questions) -> Array:
    """Mean answers [C, Q] of C independent chains of M rounds, each from an exact posterior draw."""
    known: dict[bytes, Array] = {}
    seen = np.zeros((run.chains, len(asked.names)))
    measure = problem.law.measure
    more = {"jumps": run.jumps} if run.sampler == "hybrid" else {}
    model = run.model(FEATURES, measure, problem.bound, problem.n, 0, **more)
    model = with_lanes(model, run.lanes) if run.lanes else model
    engine = build(run.engine, model.recipe(problem.X.copy()))
    rng = np.random.default_rng([run.seed, 2024])
    for c in range(run.chains):
        model = model.reseeded(1000 * run.seed + c)
        start = problem.likelihood.begin(model, engine, problem.draw(rng), rng)
        for state in islice(rounds(model, engine, start), run.rounds):
            Z = np.asarray(model.assignments(state, engine), np.int64)
            key = Z.tobytes()
            if key not in known:
                known[key] = asked.answers(Z.T)
            seen[c] += known[key] / run.rounds
    engine.close()
    return seen


def compare(problem: Problem, seen: Array, n_rounds: int, asked: Questions, least: float = 0.0) -> Verdict:
    """Judge chains against the exact posterior, by the questions that they answer often enough either way.

    Visits to a rare state come in runs: Student's t needs some in most chains, or many in all chains together. least:
    the rarest answer that counts, for chains that stay in a state for a long time.
    """
    chains, truth = len(seen), asked.truth(problem)
    rarer = np.minimum(truth, 1.0 - truth)
    often = (rarer * chains * n_rounds >= min(2 * chains, 200)) & (rarer >= least)
    share, seen = truth[often], seen[:, often]
    names = [name for name, ask in zip(asked.names, often, strict=True) if ask]
    slowness = np.median(seen.var(axis=0, ddof=1) * n_rounds / (share * (1.0 - share)))
    return judge(names, seen, share, float(slowness), n_rounds / 8)


def check(problem: Problem, run: FeatureRun) -> Verdict:
    asked = questions(problem)
    return compare(problem, simulate(problem, run, asked), run.rounds, asked)
