"""Groups on their shards: what they hold, what a round sends to them, and what they report.

Groups hold rows (rows.py) or words (words/). These differ in how statistics are kept (dense, or sparse and counted by
word), in how the atoms of a round are drawn, and in a hyper-parameter of the likelihood that only words have.

Labels are coded 0 .. usable-1 for atoms that the shard's rows may join and leave, up to n_shared-1 for *frozen* ones
(nobody leaves, nobody joins), and n_shared + slot for atoms that are private to the shard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.contracts import Kernel, Parallel, Summary
from unbounded.instantiation import Roles, relabel
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.groups.measure import Law, Urn
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.words.repeats import Repeats
from unbounded.models.labelled.labels import Atoms, LabelShard, packed_labels
from unbounded.priors import Gamma
from unbounded.randomness import RoundSeed
from unbounded.rows import Csr, rows_of

KeptT = TypeVar("KeptT")


@dataclass
class Tables:
    """Who sits at which table, and what each serves, while whole atoms move (tables.py); None between rounds."""

    at: Array  # the table of every row, through all groups
    served: Array  # the atom of every table
    rows: Csr | None = None  # tables as rows; made on first use


class GroupShard(LabelShard):
    """Whole groups: rows first .. first + n of the data, cut by `offsets`; seats and dishes in the franchise only.

    Where documents repeat themselves, the rows are the words that are fresh now.
    """

    repeats: Repeats | None = None

    def __init__(self, index: int, first: int, data: Any, offsets: Array, imputed: Array, form: str):
        super().__init__(index, first, data, int(offsets[-1]), imputed)
        self.offsets = offsets
        self.seated = form == "franchise"
        self.seats = np.zeros(len(self.labels) if self.seated else 0, np.int32)
        self.dishes = np.zeros_like(self.seats)
        self.tables: Tables | None = None
        self._kept: Any = None

    def kept(self, make: Callable[[Any], KeptT]) -> KeptT:
        """What a kernel keeps alongside the data, in whatever order suits it; made on first use."""
        if self._kept is None:
            self._kept = make(self.data)
        kept: KeptT = self._kept
        return kept

    def may_repeat(self, longest: int) -> None:
        """Words may repeat others of their document from now on; as yet all are fresh."""
        self.repeats = Repeats.of(self.data, self.offsets, longest)
        self.take_fresh()

    def take_fresh(self) -> None:
        """The fresh words become the rows; they have labels already."""
        assert self.repeats is not None
        self.data, self.offsets = self.repeats.fresh()
        self._kept = None

    def begin(self, labels: Array) -> None:
        """Labels of all rows as they were given; no word is a repeat."""
        if self.repeats is not None:
            repeats = self.repeats
            repeats.sources = np.arange(len(repeats.words), dtype=np.int32)
            self.labels = np.zeros(len(repeats.words), np.int32)
            self.take_fresh()
            labels = labels[repeats.order]
        self.put(labels)

    def coded(self, codes: Array) -> Array:
        """Labels of all rows as they were given, translated to other codes."""
        found = super().coded(codes)
        return found if self.repeats is None else self.repeats.spread(found)

    def replace(self, data: Array) -> None:
        """Other rows, as many as before."""
        self.data[:] = data
        self._kept = None

    def relabel(self, codes: Array) -> None:
        """Translate labels to new codes, and dishes with them."""
        relabel(self.labels, codes)
        if self.seated:
            labels_to_dishes(self.seats, self.labels, self.offsets, self.dishes)

    def seat(self, seats: Array) -> None:
        """Seat rows at these tables of their groups; labels say what each table serves."""
        self.seats[:] = seats
        labels_to_dishes(self.seats, self.labels, self.offsets, self.dishes)

    def arrays(self) -> dict[str, Array]:
        found = super().arrays()
        if self.seated:
            found |= {"seats": packed_labels(self.seats), "dishes": packed_labels(self.dishes)}
        if self.tables is not None:
            found |= {"at": self.tables.at, "served": self.tables.served}
        if self.repeats is not None:
            found["sources"] = self.repeats.sources
        return found

    def restore(self, arrays: Arrays) -> None:
        if self.repeats is not None:
            self.repeats.sources = arrays["sources"].copy()
            self.labels = np.zeros(len(arrays["labels"]), np.int32)
            self.take_fresh()
        super().restore(arrays)
        if self.seated:
            self.seats[:], self.dishes[:] = arrays["seats"], arrays["dishes"]
        self.tables = Tables(arrays["at"].copy(), arrays["served"].copy()) if "at" in arrays else None


@jit
def labels_to_dishes(seats, labels, offsets, dishes):
    """Every table serves the dish of its rows."""
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            dishes[offsets[g] + seats[i]] = labels[i]


def seat_rows(n_atoms: int, shard: GroupShard, seats: Array | None = None) -> Array:
    """Seat the rows, by default at one table for each atom of a group; returns [K] the numbers of tables of atoms."""
    sizes, tables = np.diff(shard.offsets), np.zeros(n_atoms, np.int64)
    taken = np.zeros(len(shard.labels) if shard.seated else 0, np.int32)
    for first, last in group_blocks(sizes):
        own = slice(shard.offsets[first], shard.offsets[last])
        labels, group = shard.labels[own], np.repeat(np.arange(last - first), sizes[first:last])
        at = labels if seats is None else seats[own]
        width = int(at.max(initial=0)) + 1
        pairs, where, at = np.unique(group * width + at, return_index=True, return_inverse=True)
        tables += np.bincount(labels[where], minlength=n_atoms)
        if shard.seated:
            taken[own] = at - np.searchsorted(pairs, np.arange(last - first) * width)[group]
    if shard.seated:
        shard.seat(taken)
    return tables


def group_blocks(sizes: Array, rows: int = 2**18) -> Iterator[tuple[int, int]]:
    """Ranges first .. last of groups that have about this many rows together."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + rows, side="right")))
        yield first, last
        first = last


def cut(sizes: Array, n_shards: int) -> list[Array]:
    """Where the groups of each shard begin and end, among all rows. Shards have whole groups, and as nearly the same
    number of rows as possible."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    wanted = np.arange(n_shards + 1) * offsets[-1] // n_shards
    right = np.searchsorted(offsets, wanted)
    left = np.maximum(right - 1, 0)
    edges = np.where(wanted - offsets[left] < offsets[right] - wanted, left, right)
    edges[0], edges[-1] = 0, len(sizes)
    return [offsets[start : stop + 1] for start, stop in pairwise(edges)]


@dataclass(frozen=True)
class GroupRecipe:
    """The recipe: rows, group after group of these sizes, cut into P shards of whole groups."""

    X: Any
    sizes: Array
    likelihood: Bound
    n_shards: int
    form: str = "direct"
    repeats: bool = False  # whether documents repeat themselves

    @cached_property
    def _groups(self) -> list[Array]:
        return cut(self.sizes, self.n_shards)

    @property
    def edges(self) -> Array:
        return np.array([0, *(own[-1] for own in self._groups)])

    def __call__(self, p: int) -> GroupShard:
        own = self._groups[p]
        data = rows_of(self.X, int(own[0]), int(own[-1]))
        shard = GroupShard(p, int(own[0]), data, own - own[0], self.likelihood.imputed, self.form)
        shard.fill(self.likelihood.columns.mean)
        if self.repeats:
            shard.may_repeat(int(self.sizes.max(initial=0)))
        return shard


# ---- what travels in a round, and what a kernel is given of it


NO_BASE = np.empty(0)


class ContentHyper(NamedTuple):
    """Hyper-parameters of a content's likelihood: words have some, other rows none."""

    eta: float = 0.0  # concentration of the topics over words
    base: Array = NO_BASE  # of words, where it is learned
    after: float = math.inf  # of documents that repeat themselves: how soon they do

    @property
    def pseudo(self) -> Any:
        """Pseudo-counts of words: one for all of them, or one for each."""
        return self.eta * self.base if len(self.base) > 0 else self.eta


class GroupHyper(NamedTuple):
    """All hyper-parameters: the measure's, of its own type, and the content's."""

    measure: Any
    content: ContentHyper = ContentHyper()

    @classmethod
    def of(cls, measure: GroupMeasure | type[GroupMeasure], values: Array) -> GroupHyper:
        """From what `array` wrote."""
        n = len(measure.hyper_type._fields)
        own, (eta, *_), base = measure.hyper_type(*values[:n].tolist()), values[n:].tolist(), values[n + 1 :]
        if len(base) > 0 and base[-1] < 0.0:
            return cls(own, ContentHyper(eta, base[:-1], -float(base[-1])))
        return cls(own, ContentHyper(eta, base))

    def array(self) -> Array:
        """Numbers in a row; how soon documents repeat themselves, if they do, comes last and is negative."""
        eta, base, after = self.content
        return np.concatenate([self.measure, [eta], base, [-after] if after < math.inf else []])


class DishTable(NamedTuple):
    """Atoms: rows, tables and statistics; `owner` is the only shard with rows, or -1 when several or none have some."""

    counts: Array
    tables: Array
    statistics: Any  # [K, terms], of words a CSR matrix
    owner: Array


class GroupRound(NamedTuple):
    """What every shard needs to know about the round."""

    round: int
    hyper: GroupHyper
    finite: Any  # as the kernel wants it
    n_shared: int
    masses: Array  # gamma beta of shared atoms
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class GroupShare(NamedTuple):
    """What one shard needs to know about its own atoms."""

    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    urn: Urn  # the shard's tail
    sticks: Array  # log beta of its private atoms (direct assignment), and of the rest of its tail
    parameters: Parameters | None


class GroupPart(NamedTuple):
    """What a kernel needs to move the labels of a shard."""

    likelihood: Any  # with its own hyper-parameter, if it has one
    finite: Any
    usable: int
    n_shared: int
    n_private: int
    law: Law
    sticks: Array
    seed: RoundSeed
    elsewhere: Atoms | None = None  # rows of other shards in the private atoms, which stay where they are


# ---- what groups hold


class Draw(NamedTuple):
    """What prediction needs of a draw: rows, tables and statistics of its atoms, and hyper-parameters."""

    counts: Array
    tables: Array
    statistics: Any
    hyper: GroupHyper
    masses: Array  # gamma times the expected top weights, of each atom and (last) of all others


class Predictives(NamedTuple):
    """Row i has likelihoods table[rows[i]] under each atom and (last) a new one, times exp(log_scale[i])."""

    table: Array
    rows: Array
    log_scale: Array


class Instantiated(NamedTuple):
    """Usable atoms, as they are drawn and, when holes are imputed, parameters of all atoms, private ones last."""

    usable: Any
    parameters: Parameters | None


class Content(Protocol):
    """What groups hold, as the model of groups asks for it: rows (rows.py), or words (words/likelihood.py)."""

    bound: ClassVar[type]  # the likelihoods that it takes
    by_tokens: ClassVar[bool]  # whether topics grow and are cut token by token (words/start.py, words/cuts.py)

    @property
    def likelihood(self) -> Any: ...

    def at(self, hyper: ContentHyper) -> Any:
        """The likelihood with these hyper-parameters of its own."""

    def start(self) -> ContentHyper:
        """The likelihood's own hyper-parameters where they start."""

    def update(self, hyper: ContentHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> ContentHyper:
        """Move those that are sampled."""

    def scalars(self, hyper: ContentHyper) -> dict[str, float]:
        """Its hyper-parameters, for the trace."""

    @property
    def repeats_after(self) -> float | Gamma | None:
        """How soon documents repeat themselves, or a prior of it; None: they do not."""

    def kernel(self, form: str) -> str:
        """Which of a device's kernels samples this content in this form."""

    def instantiate(
        self, hyper: ContentHyper, table: DishTable, roles: Roles, masses: Array, seed: RoundSeed, parallel: Parallel
    ) -> Instantiated:
        """A draw of the atoms that a round instantiates; masses: their gamma beta."""

    def parameters(self, usable: Any) -> Parameters:
        """Parameters of usable atoms, as the likelihood has them."""

    def log_finite(self, usable: Any) -> Any:
        """The finite part for kernels that take log likelihoods of every atom (`logits`)."""

    def count(self, shard: GroupShard, n_atoms: int) -> Atoms:
        """Counts and statistics of a shard's atoms, which add up over shards."""

    def table_rows(self, shard: GroupShard, at: Array, n_tables: int) -> Csr:
        """Tables as rows, each the sum of the terms of the rows that sit there; at: the table of every row."""

    def of_tables(self, hyper: ContentHyper) -> Any:
        """The likelihood of such rows: what moves of whole atoms need of it."""

    def sums(self, counts: Array, statistics: Any) -> Array:
        """Counts and statistics of atoms as sums of such terms."""

    def parts(self, sums: Array) -> tuple[Array, Any]:
        """(counts, statistics) from such sums."""

    def jump_interval(self, form: str, n_rows: int) -> int:
        """Rounds from one such move to the next, by default: on average they should take less than half a sweep."""

    def from_dense(self, statistics: Array) -> Any:
        """Dense statistics, as `count` gives them."""

    def cut(self, statistics: Any, n_atoms: int) -> tuple[Any, Any]:
        """Statistics of the first n_atoms atoms, and of the others."""

    def stacked(self, parts: list[Any]) -> Any:
        """Statistics of the atoms of all parts, as a table."""

    def predictives(self, draw: Draw, X: Any) -> Predictives:
        """Of new rows, given a draw: parameters are integrated out."""

    def log_densities(self, draw: Draw, parameters: Parameters, X: Any) -> Array:
        """[n, K + 1]: log densities of rows given parameters of the draw's atoms and, last, under a new atom."""


class GroupKernel(Kernel[GroupShard, GroupPart, Any, Atoms], Protocol):
    """A kernel of groups also says how the finite part travels, and counts the rows of atoms under any labels."""

    def finite(self, drawn: Any) -> Any:
        """The atoms that a round instantiates, as `sweep` takes them."""

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        """Counts and statistics of the atoms 0 .. n_atoms - 1 on a shard, as they travel."""

    def sticks(self, tail: Any) -> Array:
        """Log beta of the slots for private atoms and, last, of the rest of the shard's tail."""


# ---- codes, and what shards report


def with_more_slots(sticks: Array, slots: int) -> Array:
    """Sticks with more slots before the last entry, which is the rest of the tail."""
    return np.concatenate([sticks[:-1], np.full(slots, -np.inf), sticks[-1:]])


def without_empty(n_shared: int, members: Array) -> Array:
    """New codes, in which private atoms that have rows are consecutive; the others get -1."""
    codes = np.arange(n_shared + len(members), dtype=np.int32)
    codes[n_shared:] = np.where(members > 0, n_shared - 1 + np.cumsum(members > 0), -1)
    return codes


def report_direct(content: Content, shard: GroupShard, part: GroupPart, members: Array, sticks: Array) -> Summary:
    """A shard's report. members, sticks: those of its private atoms, whose codes become consecutive."""
    alive = np.flatnonzero(members)
    if len(alive) > 0:
        shard.relabel(without_empty(part.n_shared, members))
    masses = part.law.with_private(sticks[alive])  # mutant: assign masses
    tables = draw_tables(shard, masses, part.seed.key("tables"))
    return summarise(content, shard, part.n_shared, content.count(shard, len(masses)), tables)


def draw_tables(shard: GroupShard, masses: Array, key: np.uint64) -> Array:
    """Numbers of tables of each code, given labels and gamma beta: the j-th row of an atom in a group opens one with
    probability gamma beta / (gamma beta + j)."""
    tables, counts = np.zeros(len(masses), np.int64), np.zeros(len(masses), np.int64)
    _open_tables((shard.labels, shard.offsets), masses, shard.first, key, counts, tables)
    return tables


@jit
def _open_tables(rows, masses, first, key, counts, tables):
    labels, offsets = rows
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            k = np.uint64(labels[np.uint64(i)])
            j = counts[k]
            counts[k] += 1
            # mutant: draw tables tables
            tables[k] += (j == 0) | (uniform(key, first + i) * (masses[k] + j) < masses[k])
        for i in range(offsets[g], offsets[g + 1]):
            counts[np.uint64(labels[np.uint64(i)])] = 0


def summarise(content: Content, shard: GroupShard, n_shared: int, atoms: Atoms, tables: Array) -> Summary:
    """`owner` sums to the shard index when exactly one shard has the atom; `sizes`: how many groups have how many rows,
    where that changes."""
    counts, (common, private) = atoms.counts, content.cut(atoms.statistics, n_shared)
    present = (counts[:n_shared] > 0).astype(np.int64)
    shared = {
        "counts": counts[:n_shared], "tables": tables[:n_shared], "statistics": common, "shards": present,
        "owner": present * shard.index,
    }  # fmt: skip
    if shard.repeats is not None:
        shared["sizes"] = np.bincount(np.diff(shard.offsets), minlength=shard.repeats.longest + 1)
    return Summary(shared, {"counts": counts[n_shared:], "tables": tables[n_shared:], "statistics": private})
