"""What kernels of a GPU do, in NumPy: slow code by other means, to compare them with, and quick enough for enumeration.

Triton's interpreter takes a tenth of a second for what this does in a millisecond; `tests/gpu` compares the two.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

import feature_truth
import numpy as np
import torch
from answers import Answers, asked
from enumeration import Run, Verdict, check
from feature_problems import problem as feature_problem
from feature_truth import FeatureRun
from problems import problem as named

from unbounded.gpu.device import torch_device
from unbounded.models.features.gpu import bits
from unbounded.models.mixtures import device
from unbounded.models.mixtures.gpu import forms, sets
from unbounded.randomness import stream, uniforms

WHERE = torch_device("cuda")


def scores(cells: np.ndarray, atoms: Any, shape: Any) -> np.ndarray:
    """[n, usable]: scores of rows, in double precision."""
    cells, matrix, bias = cells.astype(float), atoms.matrix.numpy().astype(float), atoms.bias.numpy().astype(float)
    if shape.group == 0:
        return cells @ matrix[: cells.shape[1], : atoms.usable] + bias[: atoms.usable]
    factors = matrix.transpose(0, 2, 1, 3).reshape(-1, shape.columns, shape.columns)[: atoms.usable, : cells.shape[1]]
    white = np.einsum("rj,kji->rki", cells, factors) - atoms.offset.numpy().astype(float)[: atoms.usable]
    return bias[: atoms.usable] - 0.5 * (white**2).sum(2)


def drawn(values: np.ndarray, key: np.uint64, numbers: np.ndarray, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """(log of the sum of weights, chosen atom) of each row: one tile after another."""
    log_total, choice = np.full(len(values), -np.inf), np.zeros(len(values), int)
    for t, first in enumerate(range(0, values.shape[1], tile)):
        part = values[:, first : first + tile]
        sums = np.cumsum(np.exp(part - part.max(1, keepdims=True)), axis=1)
        u = uniforms(key if t == 0 else stream(key, 2 * t), numbers)
        here = np.minimum((sums < u[:, None] * sums[:, -1:]).sum(1), part.shape[1] - 1)
        log_here = part.max(1) + np.log(sums[:, -1])
        log_total = np.logaddexp(log_total, log_here)
        takes = uniforms(stream(key, 2 * t + 1), numbers) < np.exp(log_here - log_total)
        choice = np.where((t == 0) | takes, first + here, choice)
    return log_total, choice


def pick(rows: Any, atoms: Any, apart: Any, turn: int, shape: Any) -> None:
    if not rows.n:
        return
    label, birth, opening = apart.keys.numpy().view(np.uint64)[turn]
    numbers, z = rows.first + np.arange(rows.n), rows.labels.numpy()
    log_usable, choice = drawn(scores(rows.cells.numpy(), atoms, shape), label, numbers, shape.tile)
    with np.errstate(invalid="ignore", over="ignore"):
        odds = np.exp(rows.log_new.numpy() + apart.log_birth - log_usable) if atoms.usable else np.full(rows.n, np.inf)
    born = uniforms(birth, numbers) * (1.0 + odds) >= 1.0
    slot = z - apart.shared
    lone = (slot >= 0) & (apart.lone.numpy()[np.maximum(slot, 0)] != 0)
    free = (z < atoms.usable) | lone
    new = np.where(free & ~born, choice, np.where(free & born & (slot < 0), -1, z))
    is_open = uniforms(opening, numbers) < apart.rate + apart.boost * odds
    beyond = (new < 0) | (new >= apart.shared)
    rows.labels[:] = torch.from_numpy(new.astype(np.int32))
    rows.marks[:] = torch.from_numpy((is_open + 2 * beyond).astype(np.int8))


def terms(cells: np.ndarray, quadratic: bool) -> np.ndarray:
    if not quadratic:
        return cells
    a, b = np.triu_indices(cells.shape[1])
    return np.concatenate([cells[:, a] * cells[:, b], cells], axis=1)


def ranges(by_set: Any) -> list[tuple[int, int]]:
    edges = by_set.starts.tolist()
    return list(pairwise(edges))


def sums(rows: Any, by_set: Any, share: Any, quadratic: bool) -> Any:
    ordered = terms(rows.cells.numpy().astype(float), quadratic)[by_set.order.numpy()]
    weighted = ordered if share is None else ordered * share.numpy()[:, None]
    total = np.zeros((by_set.n_sets, weighted.shape[1]))
    for m, (a, b) in enumerate(ranges(by_set)):
        total[m] = weighted[a:b].sum(0)
    return torch.from_numpy(total)


def cut(rows: Any, by_set: Any, cuts: Any, codes: Any, soft: bool) -> tuple[Any, Any, Any]:
    cells, order = rows.cells.numpy().astype(float), by_set.order.numpy()
    share, log_q = np.zeros(len(order)), np.zeros(by_set.n_sets)
    totals = np.zeros(by_set.n_sets)
    for m, (a, b) in enumerate(ranges(by_set)):
        x, numbers = cells[order[a:b]], codes.first + order[a:b]
        odds = x @ cuts.linear.numpy()[m] + cuts.constant.numpy()[m]
        if cuts.matrix is not None:
            odds += np.einsum("ri,ij,rj->r", x, cuts.matrix.numpy()[m, : x.shape[1], : x.shape[1]], x)
        away, stay = -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)
        side = codes.side.numpy()[codes.labels.numpy()[order[a:b]]]
        hard = np.where(side >= 0, side, uniforms(cuts.key.numpy().view(np.uint64)[0], numbers) < np.exp(away))
        own = np.exp(away) if soft else hard
        goes = numbers == cuts.partners.numpy()[m]
        free = ~(goes | (numbers[:, None] == cuts.anchors.numpy()[m]).any(1))
        share[a:b] = np.where(free, own, goes)
        log_q[m] = (own * away + (1.0 - own) * stay)[free].sum()
        totals[m] = share[a:b].sum()
        if not soft and codes.fresh[m] >= 0:
            codes.labels[order[a:b][share[a:b] == 1.0]] = codes.fresh[m]
    return torch.from_numpy(share), torch.from_numpy(totals), torch.from_numpy(log_q)


# ---- 0/1 entries


def entries_of(values: np.ndarray, size: int) -> np.ndarray:
    return (values[None] >> np.arange(size)[:, None]) & 1


def sweep_bits(rows: Any, columns: Any, births: Any) -> None:
    """All sweeps of `models/features/gpu/bits.py`, a row at a time, from the density of the row."""
    usable, shared, sweeps = columns.sizes.tolist()
    order, sources, A = columns.order.tolist(), columns.sources.numpy(), columns.loadings.numpy()
    keys, (first, noise, more, slack) = births.keys.numpy().view(np.uint64).reshape(-1, 3), births.numbers.tolist()
    odds = columns.odds.numpy().astype(float)[:usable] + 0.5 * (A[:usable] ** 2).sum(1) / noise
    for p, begin, end in rows.blocks.tolist():
        for at in range(begin, end) if not births.away[p] else ():
            number, x = np.array([at + int(births.offsets[p])]), rows.cells.numpy()[:, at].astype(float)
            old = int(rows.bits[at])
            z = np.array([(old >> s) & 1 if s >= 0 else 0 for s in sources[p]], float)
            for s in range(sweeps):
                for some in [order[q : q + 2] for q in range(0, usable, 2)]:
                    cases = ((0, 0), (1, 0), (0, 1), (1, 1)) if len(some) == 2 else ((1,), (0,))
                    logs = []
                    for case in cases:
                        z[some] = case
                        logs.append(odds[some] @ case - 0.5 * ((x - z @ A) ** 2).sum() / noise)
                    sums = np.cumsum(np.exp(np.array(logs) - max(logs)))
                    u = uniforms(stream(keys[s, 0], some[0]), number)[0]
                    z[some] = cases[min(int((sums <= u * sums[-1]).sum()), len(cases) - 1)]
                u = uniforms(keys[s, 2], number)[0]
                own = stream(stream(keys[s, 1], int(number[0])), 0)
                square, zero = ((x - z @ A) ** 2).sum(), np.array([0])
                log_ratio = 0.5 * (square / noise - square / more - len(x) * np.log(more / noise))
                plain = u < births.single[p] and uniforms(stream(own, 1), zero)[0] < first
                refused = plain and np.log(uniforms(own, zero)[0]) >= log_ratio + slack
                if u >= births.none[p] and not refused:
                    births.proposed[p] = 1
            rows.next_bits[at] = int(z @ 2 ** np.arange(shared))


def sum_bits(rows: Any, chunks: Any, units: Any, n_columns: int) -> Any:
    wide, total = bits.padded(n_columns), []
    for p in range(chunks.n_sets):
        at = [i for q, begin, end in rows.blocks.tolist() for i in range(begin, end) if q == p]
        Z = entries_of(rows.next_bits.numpy()[at], wide).astype(float)
        total.append(np.concatenate([(rows.cells.numpy()[:, at].astype(float) @ Z.T).ravel(), (Z @ Z.T).ravel()]))
    return torch.from_numpy(np.array(total))


@contextmanager
def mirrored_bits(slack: float = bits.SLACK):
    """Kernels of 0/1 entries replaced by their mirrors; slack: how many refusals are left to the host."""
    with mock.patch.multiple(bits, sweep=sweep_bits, sums=sum_bits, SLACK=slack):
        yield


def pooled(case: str, law: str, run: FeatureRun) -> Verdict:
    """Enumeration of features, kernels mirrored."""
    with mirrored_bits():
        return feature_truth.check(feature_problem(case, law, 3), run)


@contextmanager
def mirrored(open_rows: float = 0.6, boost: float = 0.3):
    """Kernels replaced by their mirrors; few rows are open, so that most of them move in bulk."""
    opening = mock.patch.multiple(device, OPEN_ROWS=open_rows, BOOST=boost)
    with opening, mock.patch.object(device.pick, "pick", pick), mock.patch.multiple(sets, sums=sums, cut=cut):
        yield


@contextmanager
def few_open(open_rows: float = 0.6, boost: float = 0.3):
    """The kernels themselves, with few open rows."""
    with mock.patch.multiple(device, OPEN_ROWS=open_rows, BOOST=boost):
        yield


# ---- small problems for kernels and mirrors


def there(array):
    return torch.from_numpy(np.array(array)).to(WHERE)


def on_host(things):
    """The same on the CPU, for the mirror."""
    return things._replace(**{n: v.cpu().clone() for n, v in things._asdict().items() if hasattr(v, "cpu")})


def problem(quadratic, double, n_atoms, n=70, d=5):
    """(rows, atoms, what is beyond them, shape): mobile, frozen, lone and other private rows."""
    rng = np.random.default_rng(n_atoms)
    kind = np.float64 if double else np.float32
    matrix = rng.normal(size=(n_atoms, d, d) if quadratic else (n_atoms, d)).astype(kind)
    offset = rng.normal(size=(n_atoms, d)).astype(kind) if quadratic else None
    atoms = forms.AtomForms(matrix, offset, rng.normal(size=n_atoms).astype(kind))
    usable = n_atoms - 1
    shape = forms.shape_of(atoms, usable)
    labels = rng.integers(0, n_atoms + 4, n).astype(np.int32)
    rows = device.pick.PickRows(
        there(rng.normal(size=(n, d)).astype(np.float32).astype(float)), there(labels), there(rng.normal(size=n)),
        torch.zeros(n, dtype=torch.int8, device=WHERE), n, d, 11,
    )  # fmt: skip
    keys = there(rng.integers(0, 2**62, (2, 3)))
    lone = there(np.array([1, 0, 0, 1], np.int8))
    return (
        rows,
        forms.scored(atoms, usable, shape, WHERE),
        device.pick.Leaving(keys, lone, n_atoms, 0.3, 0.1, 0.2),
        shape,
    )


def cut_problem(quadratic):
    """(rows, sets, cuts, codes, labels): some rows are anchors, the last of a set goes, some halves are given."""
    rng = np.random.default_rng(3)
    n, d, m = 90, 5, 3
    rows = sets.SetRows(there(rng.normal(size=(n, d))), d)
    which = there(rng.integers(0, m + 2, n).astype(np.int32))
    by_set = sets.sets_of(which, m)
    matrix = np.zeros((m, 16, 16))
    matrix[:, :d, :d] = rng.normal(size=(m, d, d))
    cuts = sets.CutForms(
        there(matrix) if quadratic else None, there(rng.normal(size=(m, d))), there(rng.normal(size=m)),
        there(np.array([[4, 30], [-1, -1], [50, 51]])), 2, there(2 + by_set.order[by_set.starts[1:] - 1].cpu().numpy()),
        there(rng.integers(0, 2**62, 1)),
    )  # fmt: skip
    labels = rng.integers(0, 4, n).astype(np.int32)
    side, fresh = np.array([-1, 0, 1, -1], np.int32), np.array([9, -1, 7], np.int32)
    codes = sets.CutLabels(there(labels), there(side), there(fresh), 2)
    return rows, by_set, cuts, codes, labels


def kernels() -> Answers:
    """Whether kernels do what their mirrors do."""
    said = {}
    for quadratic in (True, False):
        rows, atoms, apart, shape = problem(quadratic, True, 7)
        other = on_host(rows)
        device.pick.pick(rows, atoms, apart, 1, shape)
        pick(other, on_host(atoms), on_host(apart), 1, shape)
        said[f"labels {quadratic}"] = rows.labels.tolist() == other.labels.tolist()
        rows, by_set, cuts, codes, _ = cut_problem(quadratic)
        theirs = cut(on_host(rows), on_host(by_set), on_host(cuts), on_host(codes), False)
        ours = sets.cut(rows, by_set, cuts, codes, False)
        said[f"cuts {quadratic}"] = all(np.allclose(a.cpu(), b) for a, b in zip(ours, theirs, strict=True))
    return asked(said)


def bulk(case: str, measure: str, run: Run, opened: float = 0.6) -> Verdict:
    """Enumeration of the law of a sweep, kernels mirrored."""
    with mirrored(opened):
        return check(named(case, measure, 5), run)
