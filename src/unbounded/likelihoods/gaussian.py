"""Full-covariance Gaussian with a normal-inverse-Wishart prior (docs/model.md, "Gaussian").

Columns are shifted and scaled to mean 0 and standard deviation 1 before anything else, which the prior follows exactly:
quadratic features lose no digits to a large mean, and no copy of the data is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from unbounded.kernels.compiled import implements, jit, lane_log, normal
from unbounded.kernels.operations import accumulate, clear, dense_logits, evaluate, featurise, logits, screen, update
from unbounded.likelihoods.base import Array, Bound, Columns, Parameters, positive, repair, vector

STAGED_COLUMNS = 32  # from here on, atoms are bounded by a quarter of the columns first
NEGLIGIBLE = 40.0  # nats: e^-40 is below the rounding error of a sum in double precision


@dataclass(frozen=True)
class Gaussian:
    """Clusters with any covariance: x ~ N(mu, Sigma), mu ~ N(mean, Sigma / kappa), Sigma ~ IW(dof, scale).

    mean: prior mean of a cluster's centre; default the column means.
    kappa: how many observations the prior mean is worth; default 0.05.
    dof: degrees of freedom, above D - 1; default D + 2.
    scale: the prior scale matrix (D x D), its diagonal, or one number; by default a cluster is expected to have half of
        each column's variance.
    """

    mean: Any = None
    kappa: float = 0.05
    dof: float | None = None
    scale: Any = None

    name: ClassVar[str] = "gaussian"

    def bind(self, columns: Columns) -> BoundGaussian:
        size = columns.size
        spread = columns.spread()
        centre = np.where(np.isfinite(columns.mean), columns.mean, 0.0)
        dof = float(size + 2 if self.dof is None else self.dof)
        if dof <= size - 1:
            raise ValueError(f"Gaussian: dof must be above the number of columns minus one ({size - 1}), got {dof}.")
        if self.scale is None:
            scale = np.diag(np.full(size, 0.5 * max(dof - size - 1, 1.0)))
        else:
            scale = _scale_matrix(self.scale, size) / np.outer(spread, spread)
        mean = np.zeros(size) if self.mean is None else (vector(self.mean, size, "mean") - centre) / spread
        return BoundGaussian(columns, centre, 1.0 / spread, mean, positive(self.kappa, "kappa"), dof, scale)


def _scale_matrix(scale: Any, size: int) -> Array:
    matrix = np.asarray(scale, dtype=float)
    if matrix.ndim < 2:
        matrix = np.diag(np.broadcast_to(matrix, size))
    definite = matrix.shape == (size, size) and np.allclose(matrix, matrix.T)
    if not definite or np.linalg.eigvalsh(matrix).min() <= 0:
        raise ValueError(f"Gaussian: scale must be a symmetric positive definite {size} x {size} matrix.")
    return matrix


@dataclass(frozen=True)
class BoundGaussian(Bound):
    columns: Columns
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    dof0: float
    scale0: Array

    @property
    def size(self) -> int:
        return self.columns.size

    @property
    def n_features(self) -> int:
        return self.size * (self.size + 1) // 2 + self.size

    @property
    def imputed(self) -> Array:
        return self.columns.index if self.columns.missing else self.columns.index[:0]

    def features(self, X: Array) -> Array:
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        a, b = np.triu_indices(self.size)
        return np.concatenate([x[:, a] * x[:, b], x], axis=1)

    def log_base(self, X: Array) -> Array:
        observed = ~np.isnan(X[:, self.columns.index])
        return observed @ (np.log(self.inverse_scale) - 0.5 * math.log(2 * math.pi))

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array, Array, Array]:
        """(kappa_n, dof_n, mean_n, scale_n) for every atom."""
        square = self.size * (self.size + 1) // 2
        a, b = np.triu_indices(self.size)
        products = np.empty((len(counts), self.size, self.size))
        products[:, a, b] = products[:, b, a] = statistics[:, :square]
        kappa = self.kappa0 + counts
        mean = (self.kappa0 * self.mean0 + statistics[:, square:]) / kappa[:, None]
        scale = (
            self.scale0
            + products
            + self.kappa0 * np.outer(self.mean0, self.mean0)
            - kappa[:, None, None] * mean[:, :, None] * mean[:, None, :]
        )
        return kappa, self.dof0 + counts, mean, repair(scale, self.scale0)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        kappa, dof, _, scale = self._posterior(counts, statistics)
        d = self.size
        return (
            multigammaln_rows(dof / 2, d)
            - multigammaln(self.dof0 / 2, d)
            + 0.5 * self.dof0 * np.linalg.slogdet(self.scale0)[1]
            - 0.5 * dof * np.linalg.slogdet(scale)[1]
            + 0.5 * d * (math.log(self.kappa0) - np.log(kappa))
            + 0.5 * d * counts * math.log(2.0)
        )

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        """mu and the Cholesky factor W of the precision, Lambda = W W': Bartlett's decomposition."""
        kappa, dof, mean, scale = self._posterior(counts, statistics)
        k, d = mean.shape
        noise = rng.standard_normal((k, d, d))
        chi = np.sqrt(rng.chisquare(dof[:, None] - np.arange(d)))
        bartlett = np.tril(noise, -1)
        bartlett[:, np.arange(d), np.arange(d)] = chi
        # scale = C C', so inverse(scale) = C^-T C^-1 and Lambda = (C^-T B)(C^-T B)'.
        factor = np.linalg.solve(np.swapaxes(np.linalg.cholesky(scale), 1, 2), bartlett)
        jitter = rng.standard_normal((k, d, 1)) / np.sqrt(kappa)[:, None, None]
        # Lambda^-1 = factor^-T factor^-1.
        mu = mean + np.linalg.solve(np.swapaxes(factor, 1, 2), jitter)[:, :, 0]
        return {"mean": mu, "factor": factor}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        mu, factor = parameters["mean"], parameters["factor"]
        precision = factor @ np.swapaxes(factor, 1, 2)
        a, b = np.triu_indices(self.size)
        pull = np.einsum("kij,kj->ki", precision, mu)
        quadratic = np.where(a == b, -0.5, -1.0) * precision[:, a, b]
        log_det = np.linalg.slogdet(factor)[1]
        bias = log_det - 0.5 * np.einsum("ki,ki->k", pull, mu)
        return bias, np.concatenate([quadratic, pull], axis=1)

    def finite(self, parameters: Parameters, log_weights: Array, dtype: Any) -> Any:
        if self.size < STAGED_COLUMNS:
            return super().finite(parameters, log_weights, dtype)
        mu, half = parameters["mean"], parameters["factor"]
        precision = half @ np.swapaxes(half, 1, 2)
        # Lambda = T'T with T lower triangular: the Cholesky factor of Lambda with rows and columns reversed.
        reverse = np.linalg.cholesky(precision[:, ::-1, ::-1])
        factor = np.swapaxes(reverse, 1, 2)[:, ::-1, ::-1]
        offset = np.einsum("kij,kj->ki", factor, mu)
        weight = log_weights + np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
        j = self.size // 4
        top = factor[:, :j, :j]
        lead_precision = np.swapaxes(top, 1, 2) @ top
        a, b = np.triu_indices(j)
        quadratic = np.where(a == b, -0.5, -1.0) * lead_precision[:, a, b]
        linear = np.einsum("kij,ki->kj", top, offset[:, :j])
        constant = weight - 0.5 * (offset[:, :j] ** 2).sum(1)
        eta = super().finite(parameters, log_weights, dtype)
        parts = (np.concatenate([quadratic, linear], axis=1), constant, factor, offset, eta)
        return StagedGaussian(*(np.ascontiguousarray(part, dtype=dtype) for part in parts))

    def float32_error(self, parameters: Parameters) -> float:
        """Rounding error (nats) to expect of a log likelihood in single precision, near the worst atom's centre."""
        mu, factor = np.abs(parameters["mean"]), parameters["factor"]
        precision = np.abs(factor @ np.swapaxes(factor, 1, 2))
        width = np.sqrt(np.einsum("kij,kij->ki", *(2 * [np.linalg.inv(factor).swapaxes(1, 2)])))
        reach = mu + width
        terms = np.einsum("ki,kij,kj->k", reach, precision, reach)
        return float(np.finfo(np.float32).eps * terms.max(initial=0.0))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal((len(labels), self.size, 1))
        white = np.linalg.solve(np.swapaxes(parameters["factor"], 1, 2)[labels], noise)[:, :, 0]
        return (parameters["mean"][labels] + white) / self.inverse_scale + self.shift

    def family(self, first: int = 0) -> tuple[Any, ...]:
        factor = np.ascontiguousarray(np.linalg.cholesky(self.scale0).T)
        return (
            GaussianFamily(
                self.columns.index, first, self.shift, self.inverse_scale, self.mean0, self.kappa0, self.dof0, factor
            ),
        )

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        d = self.size
        return (
            GaussianTail(
                np.zeros((slots, d, d)), np.zeros((slots, d)), np.zeros(slots), np.zeros(slots),
                np.empty((d, lanes)), np.empty(lanes), np.empty(d),
            ),
        )  # fmt: skip

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        kappa, dof, mean, scale = self._posterior(counts, statistics)
        (tail,) = self.tail(len(counts), lanes)
        tail.factor[:] = np.swapaxes(np.linalg.cholesky(scale), 1, 2)
        tail.mean[:], tail.n[:] = mean, counts
        d = self.size
        tail.constant[:] = (
            gammaln(0.5 * (dof + 1))
            - gammaln(0.5 * (dof + 1 - d))
            + 0.5 * d * (np.log(kappa / (kappa + 1)) + math.log(2.0))
            - np.log(np.diagonal(tail.factor, axis1=1, axis2=2)).sum(1)
        )
        return (tail,)

    def impute(
        self, data: Array, holes: Array, labels: Array, parameters: Parameters, key: np.uint64, first: int
    ) -> None:
        own = holes[np.isin(holes[:, 1], self.columns.index)]
        if len(own):
            column = np.full(data.shape[1], -1)
            column[self.columns.index] = np.arange(self.size)
            rows, starts = np.unique(own[:, 0], return_index=True)
            precision = parameters["factor"] @ np.swapaxes(parameters["factor"], 1, 2)
            _impute(
                data, rows, np.append(starts, len(own)), column[own[:, 1]], self.columns.index, labels,
                parameters["mean"], precision, self.shift, self.inverse_scale, key, first,
            )  # fmt: skip

    def log_predictive_missing(self, counts: Array, statistics: Array, X: Array) -> Array:
        """Log predictive [K, n] of rows with holes: the marginal of a multivariate t over the observed columns."""
        kappa, dof, mean, scale = self._posterior(counts, statistics)
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        patterns, which = np.unique(np.isnan(x), axis=0, return_inverse=True)
        out = np.zeros((len(counts), len(x)))
        for p, pattern in enumerate(patterns):
            keep = np.flatnonzero(~pattern)
            rows = np.flatnonzero(which.ravel() == p)
            if len(keep):
                freedom = dof - self.size + 1
                spread = scale[:, keep[:, None], keep] * ((kappa + 1) / kappa)[:, None, None]
                out[:, rows] = _student(x[rows][:, keep], mean[:, keep], spread, freedom)
        return out


def _student(x: Array, mean: Array, scatter: Array, freedom: Array) -> Array:
    """Log density [K, n] of t_freedom(mean, scatter / freedom), without the (2 pi)^(-d/2) that all atoms share."""
    d = x.shape[1]
    factor = np.linalg.cholesky(scatter)
    white = np.linalg.solve(factor, np.swapaxes(x[None] - mean[:, None], 1, 2))
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    constant = gammaln(0.5 * (freedom + d)) - gammaln(0.5 * freedom) - log_det + 0.5 * d * math.log(2.0)
    return constant[:, None] - 0.5 * (freedom + d)[:, None] * np.log1p((white**2).sum(1))


def multigammaln_rows(a: Array, d: int) -> Array:
    return gammaln(a[:, None] - 0.5 * np.arange(d)).sum(1) + 0.25 * d * (d - 1) * math.log(math.pi)


class GaussianFamily(NamedTuple):
    columns: Array
    first: int
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    dof0: float
    factor0: Array


class StagedGaussian(NamedTuple):
    """The finite part for many columns: a quadratic form |factor x - offset|^2 with a lower triangular factor.

    Its first coordinates alone bound the log weight from above: constant + lead . (their products, themselves).
    """

    lead: Array
    constant: Array
    factor: Array
    offset: Array
    eta: Array  # for blocks whose atoms overlap too much


class GaussianTail(NamedTuple):
    factor: Array  # upper triangular, factor' factor = scale_n
    mean: Array
    n: Array
    constant: Array  # log predictive at the mode
    lanes: Array
    squares: Array
    step: Array


@jit
def _linear(family, data, start, size, features):
    d = family.columns.size
    x0 = family.first + d * (d + 1) // 2
    for j in range(d):
        c, shift, scale = family.columns[j], family.shift[j], family.inverse_scale[j]
        for r in range(size):
            features[x0 + j, r] = (data[start + r, c] - shift) * scale
        for r in range(size, features.shape[1]):
            features[x0 + j, r] = 0
    return x0


@jit
def _quadratic(features, x0, coordinates, first):
    """Products of the first coordinates, pair by pair, from row `first` on."""
    f = first
    for a in range(coordinates):
        for b in range(a, coordinates):
            for r in range(features.shape[1]):
                features[f, r] = features[x0 + a, r] * features[x0 + b, r]
            f += 1
    return f


@implements(featurise, GaussianFamily)
def _featurise(family, data, start, size, features):
    x0 = _linear(family, data, start, size, features)
    _quadratic(features, x0, family.columns.size, family.first)


@implements(logits, StagedGaussian)
def _staged_logits(finite, family, data, start, size, features, out, top):
    """Bound every atom by its first coordinates, then finish only those that can still matter.

    An atom more than NEGLIGIBLE nats below another one of the same row weighs less than a rounding error of their sum.
    Where most atoms still matter, one dense product is faster.
    """
    atoms, lanes = out.shape
    x0 = _linear(family[0], data, start, size, features)
    lead = finite.lead.shape[1]
    j = _lead_coordinates(x0)
    end = _quadratic(features, x0, j, 0)
    for a in range(j):
        features[end + a] = features[x0 + a]
    np.dot(finite.lead, features[:lead], out)
    guess = np.zeros(lanes, np.int64)
    for r in range(lanes):
        top[r] = -np.inf
    for k in range(atoms):
        c = finite.constant[k]
        for r in range(lanes):
            out[k, r] += c
            if out[k, r] > top[r]:
                top[r] = out[k, r]
                guess[r] = k
    floor = np.empty(lanes, out.dtype)
    rows = np.empty(lanes, np.int64)
    for k in range(atoms):
        m = 0
        for r in range(lanes):
            rows[m] = r
            m += guess[r] == k
        if m:
            _finish(finite, k, rows[:m], features, x0, lead, j, out)
        for q in range(m):
            floor[rows[q]] = out[k, rows[q]]
            top[rows[q]] = out[k, rows[q]]
    open_ = 0
    for k in range(atoms):
        for r in range(lanes):
            open_ += out[k, r] >= floor[r] - NEGLIGIBLE
    if 2 * open_ > atoms * lanes:
        dense_logits(finite.eta, family, data, start, size, features, out, top)
        return
    for k in range(atoms):
        m = 0
        for r in range(lanes):
            rows[m] = r
            m += (guess[r] != k) & (out[k, r] >= floor[r] - NEGLIGIBLE)
        if m:
            _finish(finite, k, rows[:m], features, x0, lead, j, out)
        for q in range(m):
            top[rows[q]] = max(top[rows[q]], out[k, rows[q]])


@jit
def _finish(finite, k, rows, features, x0, lead, j, out):
    """Complete the bound to the exact value for the given rows: one product with the rest of the triangular factor."""
    d = finite.factor.shape[1]
    lanes = features.shape[1]
    m, rest = rows.size, d - j
    x = features[lead : lead + d].reshape(d * lanes)[: d * m].reshape(d, m)
    y = features[lead + d : lead + 2 * d].reshape(d * lanes)[: rest * m].reshape(rest, m)
    for i in range(d):
        for q in range(m):
            x[i, q] = features[x0 + i, rows[q]]
    np.dot(finite.factor[k, j:], x, y)
    for q in range(m):
        x[0, q] = 0
    for i in range(rest):
        b = finite.offset[k, j + i]
        for q in range(m):
            white = y[i, q] - b
            x[0, q] += white * white
    for q in range(m):
        out[k, rows[q]] -= out.dtype.type(0.5) * x[0, q]


@jit
def _lead_coordinates(x0):
    """A quarter of the coordinates; x0 = d (d + 1) / 2 tells d."""
    d = int((math.sqrt(8.0 * x0 + 1.0) - 1.0) / 2.0 + 0.5)
    return d // 4


@implements(accumulate, GaussianFamily)
def _accumulate(family, data, rows, statistics):
    d = family.columns.size
    members = rows.size
    x = np.empty((members, d))
    for i in range(members):
        for j in range(d):
            x[i, j] = (data[rows[i], family.columns[j]] - family.shift[j]) * family.inverse_scale[j]
    f = family.first
    x0 = f + d * (d + 1) // 2
    if d <= 4 or members <= 4:
        for i in range(members):
            f = family.first
            for a in range(d):
                for b in range(a, d):
                    statistics[f] += x[i, a] * x[i, b]
                    f += 1
    else:
        products = np.dot(x.T, x)
        for a in range(d):
            for b in range(a, d):
                statistics[f] += products[a, b]
                f += 1
    for i in range(members):
        for j in range(d):
            statistics[x0 + j] += x[i, j]


@jit
def _set_constant(family, tail, slot):
    d = family.columns.size
    n = tail.n[slot]
    kappa = family.kappa0 + n
    dof = family.dof0 + n
    log_det = 0.0
    for j in range(d):
        log_det += math.log(tail.factor[slot, j, j])
    tail.constant[slot] = (
        math.lgamma(0.5 * (dof + 1.0)) - math.lgamma(0.5 * (dof + 1.0 - d))
        + 0.5 * d * math.log(2.0 * kappa / (kappa + 1.0)) - log_det
    )  # fmt: skip


@implements(clear, GaussianFamily)
def _clear(family, tail, slot):
    tail.factor[slot] = family.factor0
    tail.mean[slot] = family.mean0
    tail.n[slot] = 0.0
    _set_constant(family, tail, slot)


@implements(update, GaussianFamily)
def _update(family, tail, slot, data, start, features, r, sign):
    """Rank-one update (or downdate) of the Cholesky factor of scale_n, and of mean_n."""
    if sign < 0 and tail.n[slot] < 1.5:
        clear(family, tail, slot)
        return
    d = family.columns.size
    x0 = family.first + d * (d + 1) // 2
    kappa = family.kappa0 + tail.n[slot]
    weight = math.sqrt(kappa / (kappa + sign))
    step = tail.step
    factor = tail.factor[slot]
    for j in range(d):
        x = np.float64(features[x0 + j, r])
        step[j] = weight * (x - tail.mean[slot, j])
        tail.mean[slot, j] = (kappa * tail.mean[slot, j] + sign * x) / (kappa + sign)
    for j in range(d):
        old = factor[j, j]
        square = old * old + sign * step[j] * step[j]
        new = math.sqrt(max(square, 1e-12 * old * old))
        c, s = new / old, step[j] / old
        factor[j, j] = new
        inverse = 1.0 / c
        for i in range(j + 1, d):
            entry = (factor[j, i] + sign * s * step[i]) * inverse
            factor[j, i] = entry
            step[i] = c * step[i] - s * entry
    tail.n[slot] += sign
    _set_constant(family, tail, slot)


@jit
def _student_lanes(family, tail, slot, features, begin, end, out, coordinates):
    """Add the log t predictive of rows in lanes, from the first coordinates of the forward substitution."""
    d = family.columns.size
    x0 = family.first + d * (d + 1) // 2
    n = tail.n[slot]
    kappa = family.kappa0 + n
    ratio = kappa / (kappa + 1.0)
    power = 0.5 * (family.dof0 + n + 1.0)
    factor = tail.factor[slot]
    constant = tail.constant[slot]
    lanes, squares = tail.lanes, tail.squares
    for r in range(begin, end):
        squares[r] = 0.0
    for j in range(coordinates):
        mean = tail.mean[slot, j]
        inverse = 1.0 / factor[j, j]
        for r in range(begin, end):
            lanes[j, r] = features[x0 + j, r] - mean
        i = 0
        while i + 3 < j:
            a, b, c, e = factor[i, j], factor[i + 1, j], factor[i + 2, j], factor[i + 3, j]
            for r in range(begin, end):
                lanes[j, r] -= a * lanes[i, r] + b * lanes[i + 1, r] + (c * lanes[i + 2, r] + e * lanes[i + 3, r])
            i += 4
        while i < j:
            a = factor[i, j]
            for r in range(begin, end):
                lanes[j, r] -= a * lanes[i, r]
            i += 1
        for r in range(begin, end):
            white = lanes[j, r] * inverse
            lanes[j, r] = white
            squares[r] += white * white
    for r in range(begin, end):
        out[r] += constant - power * lane_log(1.0 + ratio * squares[r])


@implements(evaluate, GaussianFamily)
def _evaluate(family, tail, slot, data, start, features, begin, end, out):
    """log t = constant - (dof + 1)/2 log(1 + kappa/(kappa+1) |U^-T (x - mean)|^2), by forward substitution in lanes."""
    d = family.columns.size
    x0 = family.first + d * (d + 1) // 2
    n = tail.n[slot]
    kappa = family.kappa0 + n
    ratio = kappa / (kappa + 1.0)
    power = 0.5 * (family.dof0 + n + 1.0)
    factor = tail.factor[slot]
    constant = tail.constant[slot]
    if end - begin < 4:
        y = tail.step
        for r in range(begin, end):
            for j in range(d):
                y[j] = features[x0 + j, r] - tail.mean[slot, j]
            total = 0.0
            for j in range(d):
                white = y[j] / factor[j, j]
                total += white * white
                for i in range(j + 1, d):
                    y[i] -= white * factor[j, i]
            out[r] += constant - power * math.log1p(ratio * total)
        return
    _student_lanes(family, tail, slot, features, begin, end, out, d)


@implements(screen, GaussianFamily)
def _screen(family, tail, slot, data, start, features, begin, end, out):
    """The first coordinates of the forward substitution alone bound the quadratic form from below."""
    d = family.columns.size
    _student_lanes(family, tail, slot, features, begin, end, out, min(d, max(4, d // 3)))


@jit
def _impute(data, rows, starts, holes, columns, labels, means, precisions, shift, inverse_scale, key, first):
    """Draw the holes of each row from their normal law given its other columns and its atom's parameters."""
    d = columns.size
    for q in range(rows.size):
        i = rows[q]
        hole = holes[starts[q] : starts[q + 1]]
        h = hole.size
        mean, precision = means[labels[i]], precisions[labels[i]]
        is_hole = np.zeros(d, np.bool_)
        for a in range(h):
            is_hole[hole[a]] = True
        block = np.empty((h, h))
        pull = np.zeros(h)
        for a in range(h):
            for b in range(h):
                block[a, b] = precision[hole[a], hole[b]]
            for j in range(d):
                if not is_hole[j]:
                    x = (data[i, columns[j]] - shift[j]) * inverse_scale[j]
                    pull[a] -= precision[hole[a], j] * (x - mean[j])
        lower = np.linalg.cholesky(block)
        # centre = block^-1 pull; noise = L^-T e.
        for a in range(h):
            for b in range(a):
                pull[a] -= lower[a, b] * pull[b]
            pull[a] /= lower[a, a]
        for a in range(h):
            pull[a] += normal(key, (first + i) * d + hole[a])
        for a in range(h - 1, -1, -1):
            for b in range(a + 1, h):
                pull[a] -= lower[b, a] * pull[b]
            pull[a] /= lower[a, a]
        for a in range(h):
            j = hole[a]
            data[i, columns[j]] = (mean[j] + pull[a]) / inverse_scale[j] + shift[j]
