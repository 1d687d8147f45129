"""Linear Gaussian factors: x_i ~ N(sum_k Z_ik A_k, sigma_X^2 I), A_kd ~ N(0, sigma_A^2) (docs/features.md).

Loadings of mobile and held atoms are drawn, all together; those of a shard's private atoms are integrated out: given
the shard's other rows they are Gaussian with mean `a` and covariance `V` (the same for all columns), which change by
rank one when a row comes or goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.extending import overload
from scipy.linalg import solve_triangular

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.draws import normal, stream, uniform
from unbounded.compiled.jit import OVERLOAD, implements, inline, jit
from unbounded.likelihoods.base import positive
from unbounded.models.features.kernel import (
    Quadratic,
    apply,
    arrive,
    collect,
    depart,
    draw_column,
    draw_entry,
    draw_pair,
    entry_ratio,
    is_binary,
    mobile_waits,
    on_line,
    open_slot,
    prepare,
    seek,
    shift,
    sweep_mobile,
    visit_mobile,
)
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics
from unbounded.priors import InverseGamma

FLOAT32_TOLERANCE = 0.02  # nats
NARROW = 24  # mobile columns up to which BLAS is faster with rows first
REFRESH = 256  # rank-one changes after which V and a are computed afresh


class Scales(NamedTuple):
    """Variances of the noise and of the loadings."""

    noise: float
    loading: float


class LinearGaussianFamily(NamedTuple):
    centre: Array
    loadings: Array  # [shared, D]
    norms: Array  # [shared] squared lengths
    scaled: Array  # [usable, D] loadings / noise, in the precision of the vectorised part
    turned: Array  # the same, transposed
    offset: Array  # [usable] scaled . centre
    gram: Array  # [usable, shared] products of loadings / noise, zero where an atom meets itself
    noise: float
    loading: float


class LinearGaussianTail(NamedTuple):
    V: Array  # [slots, slots]
    a: Array  # [slots, D]
    zz: Array  # [slots, slots] products of entries
    h: Array  # [slots, D] entries times residuals / noise
    residual: Array  # [D] of the visited row, without its private atoms
    error: Array  # [D] the same minus what its private atoms expect
    Vz: Array  # [slots]
    numbers: Array  # variance that private atoms add, squared error, changes since the last refresh
    norms: Array  # [slots] squared lengths of a
    constant: Array  # [slots]
    inverse: Array  # [slots]
    block: Array  # flat: rows x D


@dataclass(frozen=True)
class LinearGaussian:
    """Linear Gaussian factors.

    noise, loading : float or InverseGamma, default None
        Standard deviation of the noise and of the loadings: a number fixes it; an `InverseGamma` prior on the variance
        is sampled; None is such a prior with shape 1, scaled to the data.
    intercept : bool or float, default False
        Add an atom that every row uses. Its loadings are centred at the column means with ten times the data's
        standard deviation; a number means centred at zero with that standard deviation.
    """

    noise: float | InverseGamma | None = None
    loading: float | InverseGamma | None = None
    intercept: bool | float = False
    name: ClassVar[str] = "linear_gaussian"

    def __post_init__(self) -> None:
        for name in ("noise", "loading"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, InverseGamma):
                positive(value, name)
        if not isinstance(self.intercept, bool):
            positive(self.intercept, "intercept")

    def bind(self, columns: Columns) -> BoundLinearGaussian:
        centre = columns.mean if self.intercept is True else np.zeros(columns.size)
        spread = float(np.sqrt(np.mean(columns.sd**2 + (columns.mean - centre) ** 2)))
        spread = spread if spread > 1e-300 else 1.0
        noise = InverseGamma(1.0, 0.1 * spread**2) if self.noise is None else self.noise
        loading = InverseGamma(1.0, 0.5 * spread**2) if self.loading is None else self.loading
        fixed = 0.0 if self.intercept is False else 10.0 * spread if self.intercept is True else float(self.intercept)
        return BoundLinearGaussian(columns, centre, noise, loading, fixed**2, spread)


@dataclass(frozen=True)
class BoundLinearGaussian(FeatureBound):
    columns: Columns
    centre: Array
    noise: float | InverseGamma
    loading: float | InverseGamma
    intercept: float  # variance of the always-on atom's loadings; 0: none
    spread: float
    gram: ClassVar[bool] = True
    keeps_loadings: ClassVar[bool] = False

    @property
    def fixed(self) -> int:
        return int(self.intercept > 0)

    # ---- scales

    def start(self) -> Scales:
        first = 0.25 * self.spread**2
        return Scales(
            first if isinstance(self.noise, InverseGamma) else self.noise**2,
            4.0 * first if isinstance(self.loading, InverseGamma) else self.loading**2,
        )

    def pack(self, scales: Scales) -> Array:
        return np.array(scales)

    def unpack(self, values: Array) -> Scales:
        return Scales(*(float(v) for v in values))

    def draw_scales(self, rng: np.random.Generator) -> Scales:
        return Scales(
            self.noise.draw(rng) if isinstance(self.noise, InverseGamma) else self.noise**2,
            self.loading.draw(rng) if isinstance(self.loading, InverseGamma) else self.loading**2,
        )

    def scalars(self, scales: Scales) -> dict[str, float]:
        sampled = {"sigma_x": self.noise, "sigma_a": self.loading}
        values = dict(zip(sampled, np.sqrt(scales), strict=True))
        return {name: float(values[name]) for name, prior in sampled.items() if isinstance(prior, InverseGamma)}

    # ---- loadings

    def _precision(self, scales: Scales, size: int) -> Array:
        prior = np.full(size, 1.0 / scales.loading)
        if self.fixed:
            prior[-1] = 1.0 / self.intercept
        return prior

    def draw(self, scales: Scales, statistics: FeatureStatistics, rng: np.random.Generator) -> tuple[Array, Scales]:
        """All loadings jointly, A ~ N(M^-1 Z'X / s, M^-1) with M = Z'Z / s + prior precision; then the variances."""
        size, d = statistics.sums.shape
        # mutant: draw precision
        precision = statistics.products / scales.noise + np.diag(self._precision(scales, size))
        lower = np.linalg.cholesky(precision)
        white = solve_triangular(lower, statistics.sums / scales.noise, lower=True)
        A = solve_triangular(lower, white + rng.standard_normal((size, d)), lower=True, trans="T")
        noise, loading = scales
        if isinstance(self.noise, InverseGamma):
            errors = statistics.square - np.sum(A * (2.0 * statistics.sums - statistics.products @ A))
            noise = self.noise.given(statistics.n_rows * d, max(float(errors), 0.0)).draw(rng)
        if isinstance(self.loading, InverseGamma):
            free = A[: size - self.fixed]
            loading = self.loading.given(free.size, float(np.sum(free**2))).draw(rng)
        return A, Scales(noise, loading)

    def expected(self, scales: Scales, statistics: FeatureStatistics) -> Array:
        """Posterior means of all loadings."""
        size = len(statistics.members)
        precision = statistics.products + scales.noise * np.diag(self._precision(scales, size))
        value: Array = np.linalg.solve(precision, statistics.sums)
        return value

    def draw_prior(self, scales: Scales, size: int, rng: np.random.Generator) -> Array:
        return math.sqrt(scales.loading) * rng.standard_normal((size, self.columns.size))

    def log_joint(self, scales: Scales, statistics: FeatureStatistics) -> float:
        """log p(X | Z, scales) + log p(scales)."""
        size, d = statistics.sums.shape
        prior = self._precision(scales, size)
        lower = np.linalg.cholesky(statistics.products / scales.noise + np.diag(prior))
        white = solve_triangular(lower, statistics.sums / scales.noise, lower=True)
        log_det = 2.0 * np.log(np.diag(lower)).sum() - np.log(prior).sum()
        value = -0.5 * d * (statistics.n_rows * math.log(2.0 * math.pi * scales.noise) + log_det)
        value -= 0.5 * (statistics.square / scales.noise - float(np.sum(white**2)))
        for prior_, scale in ((self.noise, scales.noise), (self.loading, scales.loading)):
            value += prior_.log_density(scale) if isinstance(prior_, InverseGamma) else 0.0
        return float(value)

    # ---- compiled parts

    def family(self, scales: Scales, loadings: Array, usable: int, dtype: str) -> LinearGaussianFamily:
        A = np.ascontiguousarray(loadings)
        products = A @ A.T / scales.noise
        reach = np.maximum(np.abs(self.columns.low - self.centre), np.abs(self.columns.high - self.centre))
        error = np.finfo(np.float32).eps * (np.abs(A) @ reach).max(initial=0.0) / scales.noise
        kind = np.float32 if dtype == "float32" and error < FLOAT32_TOLERANCE else np.float64
        norms = np.ascontiguousarray(np.diag(products)) * scales.noise
        np.fill_diagonal(products, 0.0)
        scaled = A[:usable] / scales.noise
        return LinearGaussianFamily(
            self.centre, A, norms, scaled.astype(kind), np.ascontiguousarray(scaled.T, dtype=kind),
            (scaled @ self.centre).astype(kind), np.ascontiguousarray(products[:usable], dtype=kind), scales.noise,
            scales.loading,
        )  # fmt: skip

    def tail(self, scales: Scales, slots: int, lanes: int, family: Any, private: Array) -> LinearGaussianTail:
        d = self.columns.size
        return LinearGaussianTail(
            np.diag(np.full(slots, scales.loading)), np.zeros((slots, d)), np.zeros((slots, slots)),
            np.zeros((slots, d)), np.empty(d), np.empty(d), np.zeros(slots), np.zeros(3), np.zeros(slots),
            np.zeros(slots), np.zeros(slots),
            np.empty(lanes * d, family.scaled.dtype),
        )  # fmt: skip

    def fill(self, family: Any, tail: Any, data: Array, Z: Array, shared: int) -> None:
        _fill(family, tail, data, Z, shared)

    def impute(
        self, data: Array, holes: Array, Z: Array, loadings: Array, scales: Scales, key: Any, first: int
    ) -> None:
        _impute(data, holes, Z, loadings, self.centre, math.sqrt(scales.noise), key, first)

    # ---- rows

    def mean(self, Z: Array, loadings: Array, scales: Scales) -> Array:
        free = len(loadings) - self.fixed
        return Z @ loadings[:free] + loadings[free:].sum(0) + self.centre

    def log_cells(self, X: Array, mean: Array, scales: Scales) -> Array:
        value: Array = -0.5 * ((X - mean) ** 2 / scales.noise + math.log(2.0 * math.pi * scales.noise))
        return value

    def simulate(self, Z: Array, scales: Scales, rng: np.random.Generator, loadings: Array | None = None) -> Array:
        if loadings is None:
            loadings = self.draw_prior(scales, Z.shape[1], rng)
            if self.fixed:
                own = math.sqrt(self.intercept) * rng.standard_normal((1, self.columns.size))
                loadings = np.concatenate([loadings, own])
        mean = self.mean(Z, loadings, scales)
        value: Array = mean + math.sqrt(scales.noise) * rng.standard_normal(mean.shape)
        return value

    def check(self, X: Array) -> None:
        """Any finite number will do."""


# ---- the mobile columns, in lanes


@implements(mobile_waits, LinearGaussianFamily)
def _mobile_waits(family):
    return True


def _block(data: Any, start: int, size: int, scratch: Any) -> Any:
    """Rows of the data in the precision of the vectorised part: themselves, or a copy."""


@overload(_block, **OVERLOAD)
def _choose_block(data: Any, start: int, size: int, scratch: Any) -> Any:
    if data.dtype == scratch.dtype:
        return lambda data, start, size, scratch: data[start : start + size]

    def converted(data, start, size, scratch):
        d = data.shape[1]
        block = scratch[: size * d].reshape(size, d)
        for r in range(size):
            for j in range(d):
                block[r, j] = data[start + r, j]
        return block

    return converted


@implements(prepare, LinearGaussianFamily)
def _prepare(family, tail, data, start, z, usable, work):
    """pull[k, r] = A_k . (x_r - what held columns explain) / noise."""
    size = z.shape[1]
    if usable == 0:
        return
    block = _block(data, start, size, tail.block)
    pull = work.pull[: usable * size].reshape(usable, size)
    if usable <= NARROW:
        rows = np.dot(block, family.turned)
        for k in range(usable):
            for r in range(size):
                pull[k, r] = rows[r, k] - family.offset[k]
    else:
        np.dot(family.scaled, block.T, pull)
        for k in range(usable):
            for r in range(size):
                pull[k, r] -= family.offset[k]
    for k in range(usable):
        for j in range(usable, family.loadings.shape[0]):
            g = family.gram[k, j]
            for r in range(size):
                pull[k, r] -= g * z[j, r]


@inline
def _explain(gram, k, z, usable, out):
    """Subtract what the mobile columns explain of column k's pull, four at a time."""
    size = z.shape[1]
    fours = usable - usable % 4
    for j in range(0, fours, 4):
        a, b, c, e = gram[k, j], gram[k, j + 1], gram[k, j + 2], gram[k, j + 3]
        for r in range(size):
            out[r] -= a * z[j, r] + b * z[j + 1, r] + (c * z[j + 2, r] + e * z[j + 3, r])
    for j in range(fours, usable):
        a = gram[k, j]
        for r in range(size):
            out[r] -= a * z[j, r]


@implements(sweep_mobile, LinearGaussianFamily)
def _sweep_mobile(family, law, tail, z, usable, order, weights, key, first, work):
    """Gram form: what an entry gains is its pull minus what the other mobile columns explain already.

    0/1 columns go in pairs, neighbours in the random order.
    """
    size = z.shape[1]
    lanes, other = work.lanes[:size], work.other[:size]
    pull = work.pull[: usable * size].reshape(usable, size)
    pairs = usable // 2 if is_binary(law) else 0
    for q in range(pairs):
        j, k = order[2 * q], order[2 * q + 1]
        cross = family.gram[j, k]
        odds = pull.dtype.type(weights[j] - 0.5 * family.norms[j] / family.noise)
        other_odds = pull.dtype.type(weights[k] - 0.5 * family.norms[k] / family.noise)
        for r in range(size):
            lanes[r] = odds + pull[j, r] + cross * z[k, r]
            other[r] = other_odds + pull[k, r] + cross * z[j, r]
        _explain(family.gram, j, z, usable, lanes)
        _explain(family.gram, k, z, usable, other)
        draw_pair(z[j], z[k], lanes, other, cross, stream(key, j), first, work.busy)
    for q in range(2 * pairs, usable):
        k = order[q]
        for r in range(size):
            lanes[r] = pull[k, r]
        _explain(family.gram, k, z, usable, lanes)
        draw_column(law, z[k], lanes, weights[k], family.norms[k] / family.noise, stream(key, k), first, work)


# ---- visits


@inline
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@inline
def _add(x, factor, y):
    for j in range(x.size):
        x[j] += factor * y[j]


@jit
def _residual(family, data, i, z, r, out):
    for j in range(out.size):
        out[j] = data[i, j] - family.centre[j]
    for k in range(family.loadings.shape[0]):
        if z[k, r] > 0:
            _add(out, -float(z[k, r]), family.loadings[k])


@jit
def _measure_row(family, tail, z, r, shared):
    """Vz, z'Vz, and the error of the visited row given its private entries."""
    slots = tail.Vz.size
    tail.Vz[:] = 0.0
    tail.error[:] = tail.residual
    added = 0.0
    for k in range(slots):
        if z[shared + k, r] > 0:
            _add(tail.Vz, float(z[shared + k, r]), tail.V[k])
            _add(tail.error, -float(z[shared + k, r]), tail.a[k])
    for k in range(slots):
        added += z[shared + k, r] * tail.Vz[k]
    tail.numbers[0] = added
    tail.numbers[1] = _dot(tail.error, tail.error)


@jit
def _rank_one(family, tail, z, r, shared, sign):
    """Add (1) or remove (-1) the visited row: V -+ Vz z'V / (noise +- z'Vz), and a with it."""
    slots = tail.Vz.size
    factor = 1.0 / (family.noise + sign * tail.numbers[0])
    for k in range(slots):
        if tail.Vz[k] != 0.0:
            gain = sign * tail.Vz[k] * factor
            _add(tail.a[k], gain, tail.error)
            _add(tail.V[k], -gain, tail.Vz)
            tail.norms[k] = _dot(tail.a[k], tail.a[k])
    for k in range(slots):
        entry = float(z[shared + k, r])
        if entry > 0.0:
            _add(tail.h[k], sign * entry / family.noise, tail.residual)
            for j in range(slots):
                tail.zz[k, j] += sign * entry * z[shared + j, r]
    tail.numbers[2] += 1.0


@jit
def _refresh(family, tail):
    slots = tail.Vz.size
    precision = tail.zz / family.noise
    for k in range(slots):
        precision[k, k] += 1.0 / family.loading
    tail.V[:] = np.linalg.inv(precision)
    tail.a[:] = np.dot(tail.V, tail.h)
    for k in range(slots):
        tail.norms[k] = _dot(tail.a[k], tail.a[k])
    tail.numbers[2] = 0.0


@jit
def _any_private(z, r, shared):
    found = False
    for k in range(shared, z.shape[0]):
        found |= z[k, r] > 0
    return found


@implements(seek, LinearGaussianFamily)
def _seek(family, law, tail, data, start, z, r, shared, members, key, row, work, born):
    """A row without private entries stays so if each of its private columns says no while all others are out."""
    size = z.shape[1]
    slots = members.size
    if not is_binary(law):
        return r
    error, noise = tail.residual, family.noise
    constant, inverse = tail.constant, tail.inverse
    for k in range(slots):
        inverse[k] = 1.0 / (noise + tail.V[k, k])
        constant[k] = -np.inf
        if members[k] > 0:
            odds = entry_ratio(law, float(members[k]), 0.0, 0)
            constant[k] = math.log(odds) + 0.5 * error.size * math.log(noise * inverse[k])
    while r < size:
        if work.busy[r] or born[r] > 0:
            return r
        _residual(family, data, start + r, z, r, error)
        square = _dot(error, error)
        own = stream(key, row + r)
        for k in range(slots):
            if members[k] > 0:
                moved = square - 2.0 * _dot(error, tail.a[k]) + tail.norms[k]
                gain = constant[k] + 0.5 * (square / noise - moved * inverse[k])
                if uniform(own, on_line(k)) * (1.0 + math.exp(min(gain, 700.0))) >= 1.0:  # mutant: seek condition
                    return r
        r += 1
    return r


@implements(arrive, LinearGaussianFamily)
def _arrive(family, tail, data, start, z, r, shared, members):
    _residual(family, data, start + r, z, r, tail.residual)
    _measure_row(family, tail, z, r, shared)
    if not _any_private(z, r, shared):
        return
    _rank_one(family, tail, z, r, shared, -1)
    for k in range(tail.Vz.size):
        if z[shared + k, r] > 0 and members[k] == z[shared + k, r]:
            open_slot(family, tail, k, np.uint64(0))
    _measure_row(family, tail, z, r, shared)


@implements(open_slot, LinearGaussianFamily)
def _open_slot(family, tail, slot, key):
    """A new atom knows nothing yet: its loadings have their prior."""
    tail.V[slot, :] = 0.0
    tail.V[:, slot] = 0.0
    tail.V[slot, slot] = family.loading
    tail.a[slot] = 0.0
    tail.norms[slot] = 0.0
    tail.h[slot] = 0.0
    tail.zz[slot, :] = 0.0
    tail.zz[:, slot] = 0.0


@implements(visit_mobile, LinearGaussianFamily)
def _visit_mobile(family, law, tail, z, r, usable, order, weights, key, row, work):
    variance = family.noise + tail.numbers[0]
    for q in range(usable):
        k = order[q]
        old = int(z[k, r])
        pull = (_dot(family.loadings[k], tail.error) + old * family.norms[k]) / variance
        quadratic = Quadratic(pull, family.norms[k] / variance)
        u = uniform(stream(key, k), row)
        new = draw_entry(law, quadratic, 0, z, r, 0, 0, 0, -1.0, weights[k], True, u, work.ladder)
        if new != old:
            z[k, r] = new
            _add(tail.error, float(old - new), family.loadings[k])
            _add(tail.residual, float(old - new), family.loadings[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(shift, LinearGaussianFamily)
def _shift(family, tail, z, r, shared, column, step):
    if step == 0.0:
        return 0.0
    k = column - shared
    added, square = tail.numbers[0], tail.numbers[1]
    before = family.noise + added
    after = before + step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    moved = square - step * (2.0 * _dot(tail.error, tail.a[k]) - step * tail.norms[k])
    return 0.5 * (square / before - moved / after) - 0.5 * tail.error.size * math.log(after / before)


@implements(apply, LinearGaussianFamily)
def _apply(family, tail, z, r, shared, column, step):
    k = column - shared
    tail.numbers[0] += step * (2.0 * tail.Vz[k] + step * tail.V[k, k])
    _add(tail.error, -step, tail.a[k])
    _add(tail.Vz, step, tail.V[k])
    tail.numbers[1] = _dot(tail.error, tail.error)


@implements(depart, LinearGaussianFamily)
def _depart(family, tail, z, r, shared):
    if _any_private(z, r, shared):
        _rank_one(family, tail, z, r, shared, 1)
        if tail.numbers[2] > REFRESH:
            _refresh(family, tail)


@jit
def _fill(family, tail, data, Z, shared):
    for i in range(Z.shape[1]):
        if _any_private(Z, i, shared):
            _residual(family, data, i, Z, i, tail.residual)
            tail.numbers[0] = 0.0
            _rank_one(family, tail, Z, i, shared, 1)
    _refresh(family, tail)


@implements(collect, LinearGaussianFamily)
def _collect(family, tail, data, start, z, first, key, products, sums, rest):
    products += np.dot(z, z.T)
    sums += np.dot(z, _block(data, start, z.shape[1], tail.block))


@jit
def _impute(data, holes, Z, loadings, centre, deviation, key, first):
    d = data.shape[1]
    for q in range(holes.shape[0]):
        i, j = holes[q, 0], holes[q, 1]
        value = centre[j]
        for k in range(Z.shape[0]):
            value += Z[k, i] * loadings[k, j]
        data[i, j] = value + deviation * normal(key, (first + i) * d + j)
