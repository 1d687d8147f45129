"""What groups hold, rows or words: all that a model of groups asks of a likelihood besides what every model does.

Rows are here, words in words/content.py. They differ in how statistics are kept (dense, or sparse and counted by word),
in how the atoms of a round are drawn, and in a hyper-parameter of the likelihood that only words have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Spread
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.groups.measure import GroupHyper, expected_masses
from unbounded.models.groups.message import ChosenAtoms, DishTable, RoundSeed
from unbounded.models.groups.shard import GroupShard
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.labels import Atoms, draw_parameters, finite_part
from unbounded.models.labelled.predictive import log_predictive, with_new


class Draw(NamedTuple):
    """What prediction needs of a draw: rows, tables and statistics of its atoms, and hyper-parameters."""

    counts: Array
    tables: Array
    statistics: Any
    hyper: GroupHyper

    @property
    def masses(self) -> Array:
        """gamma times the expected top weights, of each atom and (last) of all others."""
        return expected_masses(self.hyper, self.tables)


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
    @property
    def likelihood(self) -> Any: ...

    def at(self, hyper: GroupHyper) -> Any:
        """The likelihood with its own hyper-parameter."""

    def begin(self, hyper: GroupHyper) -> GroupHyper:
        """Put the likelihood's own hyper-parameter where it starts."""

    def update(self, hyper: GroupHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> GroupHyper:
        """Move it."""

    def scalars(self, hyper: GroupHyper) -> dict[str, float]: ...

    def kernel(self, form: str) -> str:
        """Which of a device's kernels samples this content in this form."""

    def instantiate(
        self, hyper: GroupHyper, table: DishTable, chosen: ChosenAtoms, masses: Array, seed: RoundSeed, spread: Spread
    ) -> Instantiated:
        """A draw of the atoms that a round instantiates; masses: their gamma beta."""

    def parameters(self, usable: Any) -> Parameters:
        """Parameters of usable atoms, as the likelihood has them."""

    def log_finite(self, usable: Any) -> Any:
        """The finite part for kernels that take log likelihoods of every atom (`logits`)."""

    def count(self, shard: GroupShard, n_atoms: int) -> Atoms:
        """Counts and statistics of a shard's atoms, which add up over shards."""

    def from_dense(self, statistics: Array) -> Any:
        """Dense statistics, as `count` gives them."""

    def cut(self, statistics: Any, n_atoms: int) -> tuple[Any, Any]:
        """Statistics of the first so many atoms, and of the others."""

    def stacked(self, parts: list[Any]) -> Any:
        """Statistics of the atoms of all parts, as a table."""

    def predictives(self, draw: Draw, X: Any) -> Predictives: ...


@dataclass(frozen=True)
class RowContent:
    """Rows of any likelihood of a mixture."""

    likelihood: Bound
    dtype: str = "float64"

    def at(self, hyper: GroupHyper) -> Bound:
        return self.likelihood

    def begin(self, hyper: GroupHyper) -> GroupHyper:
        return hyper

    def update(self, hyper: GroupHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> GroupHyper:
        return hyper

    def scalars(self, hyper: GroupHyper) -> dict[str, float]:
        return {}

    def kernel(self, form: str) -> str:
        return form

    def instantiate(
        self, hyper: GroupHyper, table: DishTable, chosen: ChosenAtoms, masses: Array, seed: RoundSeed, spread: Spread
    ) -> Instantiated:
        imputes = self.likelihood.imputes
        usable = np.concatenate([chosen.mobile, chosen.frozen]) if chosen.lone else chosen.mobile
        drawn = np.concatenate([chosen.mobile, chosen.frozen, chosen.private]) if imputes else usable
        counts = table.counts[drawn].astype(float)
        parameters = draw_parameters(
            self.likelihood, counts, table.statistics[drawn], chosen.n_extra, len(chosen.mobile), seed.rng("parameters")
        )
        n_usable = len(usable) + chosen.n_extra
        first = {name: value[:n_usable] for name, value in parameters.items()}
        return Instantiated(first, parameters if imputes else None)

    def parameters(self, usable: Parameters) -> Parameters:
        return usable

    def log_finite(self, usable: Parameters) -> Any:
        n_usable = len(next(iter(usable.values())))
        return finite_part(self.likelihood, self.dtype, usable, np.zeros(n_usable))

    def count(self, shard: GroupShard, n_atoms: int) -> Atoms:
        family, n_terms = self.likelihood.family(), self.likelihood.n_terms
        return Atoms(*labelled.statistics(family, shard.data, shard.labels, n_atoms, n_terms))

    def from_dense(self, statistics: Array) -> Array:
        return statistics

    def cut(self, statistics: Array, n_atoms: int) -> tuple[Array, Array]:
        return statistics[:n_atoms], statistics[n_atoms:]

    def stacked(self, parts: list[Array]) -> Array:
        return np.concatenate(parts)

    def predictives(self, draw: Draw, X: Any) -> Predictives:
        likelihood = self.likelihood
        counts, statistics = with_new(draw.counts.astype(float), draw.statistics)
        if not likelihood.sparse and np.isnan(X).any():
            likelihood, statistics = likelihood.with_holes(counts, statistics)
        logs = log_predictive(likelihood, counts, statistics, X)
        top = logs.max(axis=0)
        table = np.ascontiguousarray(np.exp(logs - top).T)
        return Predictives(table, np.arange(X.shape[0]), top + likelihood.log_base(X))
