"""The local step of mixtures on a GPU (docs/gpu.md): rows in bulk on the device, a few of them in order on the host.

In every sweep a row first moves over the usable atoms and a new one of its own, all others as they are: rows in private
atoms that have more rows stay. That is a Gibbs step over some of a row's atoms, and no row's step needs to know of
another's. Then rows that are *open* move over everything that the shard has, one after another, as on the CPU. Which
rows are open depends on parameters, weights, data and a number drawn for it, and never on labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.gpu.device import torch_device
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.gaussian import BoundGaussian
from unbounded.models.labelled.device import DeviceRows, DeviceShard
from unbounded.models.labelled.halves import Cuts, Halves, Sides
from unbounded.models.labelled.labels import FLOAT32_TOLERANCE, Atoms, LabelRows, LabelShard, linear_part
from unbounded.models.mixtures.gpu import forms, pick, sets
from unbounded.models.mixtures.kernel import FREE_SLOTS, CompiledLabels, Scope, sweep
from unbounded.models.mixtures.message import MixturePart, SweepKeys
from unbounded.randomness import stream
from unbounded.rows import row_blocks

OPEN_ROWS, BOOST = 256, 16.0  # about how many rows of a shard are always open; and a factor of odds of births
ON_HOST, OPENING = 2**62, 2**62 + 1  # streams of a sweep's keys


class DeviceFinite(NamedTuple):
    """Weights and parameters, as the device and as compiled code take them."""

    atoms: forms.AtomForms
    host: Any


@dataclass
class DeviceTail:
    """Private atoms: how many rows each slot has, and which rows are in which slot."""

    members: Array
    rows: Array
    slots: Array


@dataclass(frozen=True)
class DeviceLabels:
    """dtype: the precision of scores; rounds that would lose accuracy in float32 run in float64."""

    likelihood: Bound
    dtype: str = "float64"
    device: str = "cuda"

    shard: ClassVar = DeviceShard

    def __post_init__(self) -> None:
        likelihood = self.likelihood
        if likelihood.columns.sparse:
            raise ValueError("device='cuda' takes dense rows; sparse ones run on device='cpu'.")
        if likelihood.imputed.size:
            raise ValueError("device='cuda' does not draw missing values of a full covariance; use device='cpu'.")
        if isinstance(likelihood, BoundGaussian) and likelihood.size > forms.MOST_COLUMNS:
            raise ValueError(f"device='cuda' takes full covariances of up to {forms.MOST_COLUMNS} columns.")

    @cached_property
    def host(self) -> CompiledLabels:
        return CompiledLabels(self.likelihood, self.dtype)

    @cached_property
    def place(self) -> Any:
        return torch_device(self.device)

    @cached_property
    def quadratic(self) -> bool:
        return isinstance(self.likelihood, BoundGaussian)

    # ---- what travels, and what the device holds

    def finite(self, parameters: Parameters, log_weights: Array) -> DeviceFinite:
        single = self.dtype == "float32" and self.likelihood.float32_error(parameters) < FLOAT32_TOLERANCE
        dtype = np.float32 if single else np.float64
        if self.quadratic:
            factor = parameters["factor"]
            offset = np.matmul(parameters["mean"][:, None], factor)[:, 0]
            bias = parameters["log_det"] + log_weights
            atoms = forms.AtomForms(factor.astype(dtype), offset.astype(dtype), bias.astype(dtype))
        else:
            bias, eta = self.likelihood.natural(parameters)
            atoms = forms.AtomForms(eta.astype(dtype), None, (bias + log_weights).astype(dtype))
        return DeviceFinite(atoms, self._on_cpu(parameters, log_weights, dtype))

    def _on_cpu(self, parameters: Parameters, log_weights: Array, dtype: Any) -> Any:
        """For a few rows: the form that is fastest to make."""
        plain = self.quadratic and self.likelihood.columns.size > 2
        eta = linear_part(self.likelihood, dtype, parameters, log_weights)
        return eta if plain else self.likelihood.finite(eta, parameters, log_weights)

    def cells(self, X: Array) -> Array:
        """What scores are forms of: columns, shifted and scaled, or all terms."""
        likelihood = self.likelihood
        if isinstance(likelihood, BoundGaussian):
            return (X[:, likelihood.columns.index] - likelihood.shift) * likelihood.inverse_scale
        return likelihood.terms(X)

    def hold(self, shard: DeviceShard) -> DeviceRows:
        """The shard's rows on the device, where they stay from their first use on."""
        if shard.resident is None:
            data, n = shard.data, len(shard.data)
            width = self.likelihood.size if isinstance(self.likelihood, BoundGaussian) else self.likelihood.n_terms
            cells = torch.empty((n, width), dtype=torch.float64, device=self.place)
            for rows in row_blocks(data):
                cells[rows] = torch.from_numpy(self.cells(data[rows]).astype(np.float64)).to(self.place)
            labels = torch.from_numpy(shard.current()).to(self.place, copy=True)
            marks = torch.zeros(n, dtype=torch.int8, device=self.place)
            shard.resident = DeviceRows(cells, labels, self._log_new(data, cells), marks)
        return shard.resident

    def _log_new(self, data: Array, cells: Any) -> Any:
        """[n]: log density of every row under a new atom, on the device."""
        none = np.zeros(1), np.zeros((1, self.likelihood.n_terms))
        if not isinstance(self.likelihood, BoundGaussian):
            return torch.from_numpy(self.host.predictive(Atoms(*none), data)[0]).to(self.place)
        (tail,) = self.likelihood.pack(*none, 1)
        kappa, dof = self.likelihood.kappa0, self.likelihood.dof0
        factor, mean = (torch.from_numpy(v[0]).to(self.place) for v in (tail.factor, tail.mean))
        log_new = torch.empty(len(cells), dtype=torch.float64, device=self.place)
        for start in range(0, len(cells), 2**18):
            white = torch.linalg.solve_triangular(factor, cells[start : start + 2**18] - mean, upper=True, left=False)
            log_new[start : start + 2**18] = torch.log1p(kappa / (kappa + 1.0) * (white * white).sum(1))
        return float(tail.constant[0]) - 0.5 * (dof + 1.0) * log_new

    # ---- counting

    def totals(self, data: Any, labels: Array, n_atoms: int) -> Atoms:
        return self.host.totals(data, labels, n_atoms)

    def count(self, shard: Any, n_atoms: int) -> Atoms:
        resident = self.hold(shard)
        by_atom = sets.sets_of(shard.placed(), n_atoms)
        return Atoms(*self._sums(resident, by_atom, None))

    def _sums(self, resident: DeviceRows, by_set: sets.Sets, share: Any) -> tuple[Array, Array]:
        """(rows, sums of terms) of every set."""
        rows = sets.SetRows(resident.cells, resident.cells.shape[1])
        total = sets.sums(rows, by_set, share, self.quadratic).cpu().numpy()
        return np.diff(by_set.starts.cpu().numpy()), total

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return self.host.predictive(atoms, X)

    def halve(self, shard: Any, cuts: Cuts, sides: Sides) -> Halves:
        resident, n_cuts = self.hold(shard), len(cuts.odds)
        labels = shard.placed()
        cut, side, fresh = (torch.from_numpy(np.asarray(v, np.int32)).to(self.place) for v in sides)
        which = cut[labels]
        by_cut = sets.sets_of(torch.where(which < 0, n_cuts, which), n_cuts)
        codes = sets.CutLabels(labels, side, fresh, shard.first)
        rows = sets.SetRows(resident.cells, resident.cells.shape[1])
        share, n_away, log_q = sets.cut(rows, by_cut, self._cut_forms(cuts), codes, cuts.soft)
        if (sides.fresh >= 0).any():
            shard.written()
        n_rows, away = self._sums(resident, by_cut, share)
        return Halves(np.column_stack([away, n_away.cpu().numpy()]), log_q.cpu().numpy(), n_rows)

    def _cut_forms(self, cuts: Cuts) -> sets.CutForms:
        def there(array: Any) -> Any:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.place)

        matrix, linear = None, cuts.odds[:, :-1]
        if self.quadratic:
            d = self.likelihood.columns.size
            a, b = np.triu_indices(d)
            padded = max(forms.LEAST, 1 << (d - 1).bit_length())
            symmetric = np.zeros((len(linear), padded, padded))
            symmetric[:, a, b] = 0.5 * linear[:, : len(a)]
            symmetric[:, b, a] += 0.5 * linear[:, : len(a)]
            matrix, linear = there(symmetric), linear[:, len(a) :]
        anchors, partners = there(cuts.anchors.astype(np.int64)), there(cuts.partners.astype(np.int64))
        key = there(np.array([cuts.key]).view(np.int64))
        return sets.CutForms(matrix, there(linear), there(cuts.odds[:, -1]), anchors, anchors.shape[1], partners, key)

    # ---- a sweep

    def step(self, shard: Any, part: MixturePart) -> Summary:
        return self.statistics(shard, part, self.sweep(shard, part, self.prepare(shard, part)))

    def prepare(self, shard: Any, part: MixturePart) -> DeviceTail:
        if part.elsewhere is not None or part.law.extra != 0.0 or part.law.step != 0.0:
            raise ValueError("device='cuda' runs sampler='hybrid' with an exact rule; others run on device='cpu'.")
        self.hold(shard)
        rows, slots = np.empty(0, np.int64), np.empty(0, np.int32)
        if part.n_private:
            there = torch.nonzero(shard.placed() >= part.n_shared).ravel()
            rows, slots = there.cpu().numpy(), shard.placed()[there].cpu().numpy() - part.n_shared
        return DeviceTail(np.bincount(slots, minlength=part.n_private), rows, slots)

    def sweep(self, shard: Any, part: MixturePart, tail: DeviceTail) -> DeviceTail:
        """All L sweeps. While there are no private atoms and none may be born, the host is not asked."""
        resident = self.hold(shard)
        shape = forms.shape_of(part.finite.atoms, part.usable)
        atoms = forms.scored(part.finite.atoms, part.usable, shape, self.place)
        keys = [(k.label, k.tail, stream(k.tail, OPENING)) for k in part.keys]
        on_device = torch.from_numpy(np.array(keys).view(np.int64)).to(self.place)
        # mutant: device births
        log_birth = math.log(part.law.birth * part.law.scale / part.law.base) if part.law.birth > 0.0 else -math.inf
        alone = not part.law.makes_atoms and not part.n_private
        rate = 0.0 if alone else min(1.0, OPEN_ROWS / max(len(shard.data), 1))
        for turn, own in enumerate(part.keys):
            lone = tail.members == 1  # mutant: device lone rows
            is_lone = torch.from_numpy(np.append(lone, False).astype(np.int8)).to(self.place)
            n, width = resident.cells.shape
            rows = pick.PickRows(
                resident.cells, shard.placed(), resident.log_new, resident.marks, n, width, shard.first
            )
            leaving = pick.Leaving(on_device, is_lone, part.n_shared, log_birth, rate, BOOST)
            pick.pick(rows, atoms, leaving, turn, shape)
            shard.written()
            if not alone:
                tail = self._on_host(shard, part, own, tail)
        return tail

    def _on_host(self, shard: DeviceShard, part: MixturePart, keys: SweepKeys, tail: DeviceTail) -> DeviceTail:
        """Births get slots, and open rows move over all atoms of the shard, one after another."""
        resident = self.hold(shard)
        rows, labels, marks = pick.marked(resident.labels, resident.marks)
        born = labels < 0
        labels[born] = part.n_shared + len(tail.members) + np.arange(born.sum())  # mutant: device slots of births
        is_open = (marks & pick.OPEN) > 0  # mutant: device open rows
        order = np.argsort(is_open, kind="stable")  # rows that are not open come first, and stay
        rows, labels, begin = rows[order], labels[order], int((~is_open).sum())
        few = LabelShard(shard.index, shard.first - begin, shard.data[rows], len(rows), np.empty(0, np.int64))
        few.labels = labels
        if begin < len(rows):
            self._open_rows(few, part, keys, begin, len(tail.members) + int(born.sum()))
        there = torch.from_numpy(rows).to(self.place)
        resident.labels[there] = torch.from_numpy(few.labels).to(self.place)
        private = few.labels >= part.n_shared
        slots = few.labels[private] - part.n_shared
        return DeviceTail(np.bincount(slots), rows[private], slots)

    def _open_rows(self, few: LabelShard, part: MixturePart, keys: SweepKeys, begin: int, slots: int) -> None:
        """A sweep of the CPU over the rows from `begin` on; those before are there for the sake of their atoms."""
        host, here = self.host, part._replace(finite=part.finite.host)
        own = SweepKeys(*(stream(key, ON_HOST) for key in keys))
        scope = Scope(part.usable, part.n_shared, part.law)
        rows, row = LabelRows(few.data, few.labels, few.first), begin
        free = slots + (FREE_SLOTS if part.law.makes_atoms else 0)
        tail = host.tail(few, here, free)
        while (row := sweep(host.spec, rows, here.finite, scope, tail, own, row)) < len(few.labels):
            tail = host.tail(few, here, 2 * len(tail.members) + FREE_SLOTS)

    def statistics(self, shard: Any, part: MixturePart, tail: DeviceTail) -> Summary:
        """What the shard reports; from here on the codes of its private atoms are consecutive."""
        resident = self.hold(shard)
        alive = tail.members > 0
        slots = (np.cumsum(alive) - 1)[tail.slots].astype(np.int32) if len(tail.slots) else tail.slots
        if not alive.all():
            there = torch.from_numpy(tail.rows).to(self.place)
            resident.labels[there] = torch.from_numpy(part.n_shared + slots).to(self.place)
        counts, statistics = self.count(shard, part.n_shared)
        own = self.totals(shard.data[tail.rows], slots, int(alive.sum()))
        return shard.summary(
            part.n_shared, Atoms(np.append(counts, own.counts), np.append(statistics, own.statistics, 0))
        )
