"""The kernel of features in plain NumPy, slow and obvious: one row and one entry after the other (device="reference").

It uses the same random numbers from the same keys as the compiled kernel. Nothing is updated incrementally: the law of
a private atom given the shard's other rows is computed afresh at every visit, and every entry is drawn from the density
of its whole row. A sweep goes over all rows of the shard; the compiled kernel finishes all sweeps over a block of rows
before it goes on to the next, so the two agree if the shard is a single block, or if there is a single sweep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import binomial, log_gamma
from unbounded.contracts import Summary
from unbounded.models.features.column_moves import HostMoves
from unbounded.models.features.kernel import arrange
from unbounded.models.features.laws import LARGEST, new_count
from unbounded.models.features.operations import Sums, entry_number
from unbounded.models.features.state import FeaturePart, FeatureShard, select_columns, summary
from unbounded.randomness import uniforms

LogDensity = Callable[[Array], float]  # of a row, as a function of all its entries
_NEGLIGIBLE = 45.0  # nats


class ReferenceRows(Protocol):
    """The likelihood of a shard's rows, given the loadings of shared atoms."""

    pairs: ClassVar[bool]  # mobile 0/1 entries are drawn two at a time, unless the row has private ones

    def density(self, Z: Array, i: int) -> LogDensity:
        """The log density of row i, given the entries Z [columns, n] of all other rows."""

    def open_slot(self, slot: int, key: int) -> None:
        """Make a slot a new atom."""

    def sums(self, Z: Array, key: int) -> Sums:
        """Statistics."""


class Tail(NamedTuple):
    rows: ReferenceRows


@dataclass(frozen=True)
class ReferenceFeatures(HostMoves):
    def steps(self, pairs: Iterator[tuple[FeatureShard, FeaturePart]]) -> Iterator[Summary]:
        for shard, part in pairs:
            yield self.statistics(shard, part, self.sweep(shard, part, self.prepare(shard, part)))

    def prepare(self, shard: FeatureShard, part: FeaturePart) -> Tail:
        arrange(self.setup.likelihood, shard, part, 0)
        kind = PoissonRows if self.setup.likelihood.keeps_loadings else GaussianRows
        return Tail(kind(shard, part))

    def sweep(self, shard: FeatureShard, part: FeaturePart, tail: Tail) -> Tail:
        visits = _Visits(shard.Z.astype(np.int64), tail.rows, part, self.setup.measure.binary)
        for s in range(self.setup.sweeps):
            for i in range(shard.Z.shape[1]):
                visits.visit(i, shard.first + i, s)
        shard.Z = visits.Z.astype(shard.Z.dtype)
        return tail

    def statistics(self, shard: FeatureShard, part: FeaturePart, tail: Tail) -> Summary:
        n_shared = len(part.round.loadings)
        sums = tail.rows.sums(shard.Z.astype(np.int64), int(part.round.keys.split))
        kept = np.concatenate([np.arange(n_shared), n_shared + np.flatnonzero(shard.Z[n_shared:].any(axis=1))])
        shard.Z = shard.Z[kept]
        return summary(self.setup, shard, shard.Z, n_shared, select_columns(sums, kept))

    def predictive(self, atoms: FeaturePart, X: FeatureShard) -> Array:
        """[n, K]: entries of the new rows X after sweeps over these atoms, all mobile, that begin at its Z."""
        self.sweep(X, atoms, self.prepare(X, atoms))
        return X.Z[: len(atoms.finite.mobile.order)].T.copy()


# ---- random numbers


def _mixed(word: int) -> int:
    """The finaliser of compiled/draws.py."""
    mask = 2**64 - 1
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def _stream(key: Any, counter: int) -> int:
    return _mixed((int(key) + int(counter) * 0x9E3779B97F4A7C15 + 1) % 2**64)


def _uniform(key: Any, counter: int) -> float:
    return float(uniforms(np.uint64(key), np.array([counter]))[0])


# ---- visits


class _Visits:
    """Visits of one row after the other. Z: [columns, n]; columns from `shared` on are private, or free."""

    def __init__(self, Z: Array, rows: ReferenceRows, part: FeaturePart, binary: bool):
        self.Z, self.rows, self.binary = Z, rows, binary
        self.law, self.keys = part.law, part.round.keys
        self.mobile, self.shared = part.finite.mobile, part.finite.shared

    def visit(self, i: int, row: int, s: int) -> None:
        """All updates of row i, which is number `row` among all rows, in sweep s."""
        self._mobile(i, row, _stream(self.keys.entry, s))
        own = _stream(_stream(self.keys.tail, s), row)
        born = _births(self.law.rate, _uniform(_stream(self.keys.birth, s), row))
        others = self.Z[self.shared :].sum(axis=1) - self.Z[self.shared :, i]
        singles = np.flatnonzero((others == 0) & (self.Z[self.shared :, i] > 0))
        slots = np.flatnonzero(others > 0)
        for j in range(len(slots) - 1, 0, -1):
            k = int(_uniform(own, 3 * j) * (j + 1))
            slots[k], slots[j] = slots[j], slots[k]
        density = self.rows.density(self.Z, i)
        for slot in slots.tolist():
            old = int(self.Z[self.shared + slot, i])
            weight = self.law.draw_weight(float(others[slot]), old, np.uint64(_stream(own, 3 * slot + 1)))
            u = _uniform(own, entry_number(slot))
            self.Z[self.shared + slot, i] = self._draw(density, i, self.shared + slot, float(others[slot]), weight, u)
        if len(singles) or born:
            self._replace(i, singles, born, _stream(own, 0))

    def _mobile(self, i: int, row: int, key: int) -> None:
        density, order, weights = self.rows.density(self.Z, i), self.mobile.order, self.mobile.weights
        waits = self.rows.pairs and bool(self.Z[self.shared :, i].any())
        pairs = len(order) // 2 if self.binary and self.rows.pairs and not waits else 0
        for j, k in order[: 2 * pairs].reshape(-1, 2).tolist():
            self._draw_pair(density, i, j, k, _uniform(_stream(key, j), row))
        for k in order[2 * pairs :].tolist():
            u = _uniform(_stream(key, k), row)
            if self.binary and not waits:
                u = 1.0 - u  # the lanes ask first whether the entry is 1
            self.Z[k, i] = self._draw(density, i, k, -1.0, float(weights[k]), u)

    def _draw_pair(self, density: LogDensity, i: int, j: int, k: int, u: float) -> None:
        z, logs = self.Z[:, i].copy(), []
        cases = ((0, 0), (1, 0), (0, 1), (1, 1))
        for a, b in cases:
            z[[j, k]] = a, b
            logs.append(density(z) + a * self.mobile.weights[j] + b * self.mobile.weights[k])
        total = np.cumsum(np.exp(np.array(logs) - max(logs)))
        self.Z[[j, k], i] = cases[min(int(np.searchsorted(total, u * total[-1], side="right")), 3)]

    def _draw(self, density: LogDensity, i: int, column: int, others: float, weight: float, u: float) -> int:
        """Draw an entry by inversion, truncated where the remaining mass is negligible."""
        z, logs, value = self.Z[:, i].copy(), [], 0
        while value <= (1 if self.binary else LARGEST):
            z[column] = value
            logs.append(self.law.log_entry(others, weight, value) + density(z))
            value += 1
            if logs[-1] < max(logs) - _NEGLIGIBLE and logs[-1] - logs[-2] < math.log(0.9):
                break
        total = np.cumsum(np.exp(np.array(logs) - max(logs)))
        return min(int(np.searchsorted(total, u * total[-1], side="right")), len(logs) - 1)

    def _replace(self, i: int, singles: Array, born: int, key: int) -> None:
        """Propose new atoms in place of those that only row i uses; accept by the ratio of the row's densities."""
        used = set(np.flatnonzero(self.Z[self.shared :].any(axis=1)))
        free = [slot for slot in range(len(self.Z) - self.shared + born) if slot not in used][:born]
        self.Z = np.concatenate([self.Z, np.zeros((born, self.Z.shape[1]), np.int64)])
        for j, slot in enumerate(free):
            self.rows.open_slot(slot, _stream(key, 2 * j))
        density = self.rows.density(self.Z, i)
        old = self.Z[:, i].copy()
        new = old.copy()
        new[self.shared + singles] = 0
        new[self.shared + np.array(free, np.int64)] = [
            new_count(self.law, _uniform(_stream(key, 2 * j + 1), 0)) for j in range(born)
        ]
        if math.log(_uniform(key, 0)) < density(new) - density(old):
            self.Z[:, i] = new


def _births(rate: float, u: float) -> int:
    count, p = 0, math.exp(-rate)
    left = u - p
    while rate > 0.0 and left >= 0.0 and count < 64:
        count += 1
        p *= rate / count
        left -= p
    return count


# ---- likelihoods


class GaussianRows:
    """Loadings of private atoms integrated out: Gaussian given the other rows."""

    pairs: ClassVar[bool] = True

    def __init__(self, shard: FeatureShard, part: FeaturePart):
        self.data, self.loadings = shard.data.astype(float), part.round.loadings
        self.centre = shard.centre
        self.noise, self.prior = part.round.scales.noise, part.round.scales.loading

    def density(self, Z: Array, i: int) -> LogDensity:
        shared = len(self.loadings)
        residuals = self.data - self.centre - Z[:shared].T @ self.loadings
        own = Z[shared:].astype(float)
        own[:, i] = 0.0
        V = np.linalg.inv(own @ own.T / self.noise + np.eye(len(own)) / self.prior)
        a = V @ own @ residuals / self.noise
        row = self.data[i] - self.centre

        def log_density(z: Array) -> float:
            error = row - z[:shared] @ self.loadings - z[shared:] @ a
            variance = self.noise + z[shared:] @ V @ z[shared:]
            return float(-0.5 * (error @ error / variance + len(row) * math.log(variance)))

        return log_density

    def open_slot(self, slot: int, key: int) -> None:
        """The loadings of a new atom have their prior."""

    def sums(self, Z: Array, key: int) -> Sums:
        z = Z.astype(float)
        return Sums(z @ z.T, z @ (self.data - self.centre), np.zeros(self.data.shape[1]))


class PoissonRows:
    """Loadings of private atoms are kept."""

    pairs: ClassVar[bool] = False

    def __init__(self, shard: FeatureShard, part: FeaturePart):
        self.data, self.first, self.spec = shard.data, shard.first, part.finite.spec
        self.loadings = part.loadings

    def density(self, Z: Array, i: int) -> LogDensity:
        def log_density(z: Array) -> float:
            rates = self.spec.background + z[: len(self.loadings)] @ self.loadings[: len(z)]
            return float(np.where(self.data[i] > 0, self.data[i] * np.log(rates), 0.0).sum() - rates.sum())

        return log_density

    def open_slot(self, slot: int, key: int) -> None:
        """A new atom's loadings come from the prior."""
        logs = [log_gamma(self.spec.shape, np.uint64(_stream(key, j))) for j in range(self.data.shape[1])]
        column = len(self.spec.loadings) + slot
        missing = max(0, column + 1 - len(self.loadings))
        self.loadings = np.concatenate([self.loadings, np.ones((missing, self.data.shape[1]))])
        self.loadings[column] = np.exp(np.maximum(logs, -460.0)) / self.spec.rate

    def sums(self, Z: Array, key: int) -> Sums:
        """Split every count between the background and the row's atoms."""
        d = self.data.shape[1]
        sums, rest = np.zeros((len(Z), d)), np.zeros(d)
        known = min(len(Z), len(self.loadings))  # free slots may have none
        for i, j in np.argwhere(self.data > 0).tolist():
            own, left = _stream(key, (self.first + i) * d + j), int(self.data[i, j])
            parts = Z[:known, i] * self.loadings[:known, j]
            mass = self.spec.background[j] + parts.sum()
            for k in np.flatnonzero(Z[:, i]).tolist():
                taken = binomial(left, min(parts[k] / mass, 1.0), np.uint64(_stream(own, k)))
                sums[k, j] += taken
                left -= taken
                mass = max(mass - parts[k], self.spec.background[j])
            rest[j] += left
        return Sums(np.zeros((len(Z), 0)), sums, rest)
