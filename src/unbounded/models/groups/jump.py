"""Moves of whole atoms of groups: tables are the rows of a mixture, and its moves are theirs (docs/jumps.md, "Groups").

The moves act on what tables serve, given who sits with whom. In the franchise that is part of the state; in direct
assignment a seating is drawn, given labels and top weights, which are drawn given the numbers of tables: each of these
is a draw from a conditional of the joint posterior, and forgetting something keeps it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Gathered, Message, Step, Summary
from unbounded.instantiation import by_code
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.shard import Content, DishTable, GroupShard
from unbounded.models.groups.tables import SeatingLaw, TableShard, draw_table_counts, seat, serve, table_shard
from unbounded.models.groups.words.cuts import cut_tokens, tokens_due
from unbounded.models.labelled.halves import Cuts, Halves, Sides, halve
from unbounded.models.labelled.labels import LabelRows, numbered
from unbounded.models.mixtures.cuts import cut_some
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measures import PartitionMeasure
from unbounded.models.mixtures.merges import merge_some
from unbounded.models.mixtures.model import AtomTable, MixtureState
from unbounded.randomness import RoundSeed

DEFAULT_JUMPS = Jumps(share=1.0, pool=512)  # given tables, cuts of all atoms cost little more than one
FIRST = 32  # times as many merges in the first round: random topics are alike there, and soon no longer
CELLS = 2**18  # of all cuts together, in a vocabulary of any size


def jump(model: Groups, state: GroupsState, engine: Engine, jumps: Jumps, turn: int) -> GroupsState:
    """The state after some cuts and some merges of atoms: of tables and, of words in turn, token by token."""
    state, beta = _with_top_weights(model, state, engine)
    if tokens_due(model, turn):
        state, beta = cut_tokens(model, state, engine, beta, jumps)
        return _with_tables(model, state, engine, beta)
    n_tables = _seat_all(model, state, engine, beta)
    likelihood = model.content.of_tables(state.hyper.content)
    edges = np.append(0, np.cumsum([found.sum() for found in n_tables]))
    top: Any = TopProcess(model.measure.top, likelihood, edges, model.seed)
    tables: Any = AtTables(engine, model.content, edges)
    anchors = min(jumps.anchors, max(4, CELLS // likelihood.n_terms))
    few = replace(jumps, anchors=anchors, merges=jumps.merges * (FIRST if state.round == 0 else 1))
    before = _as_mixture(model, state, np.sum(n_tables, axis=0))
    moved = merge_some(top, cut_some(top, before, tables, few), tables, few)
    engine.map(serve)
    return _as_groups(model, state, moved)


def _with_top_weights(model: Groups, state: GroupsState, engine: Engine) -> tuple[GroupsState, Array]:
    """The state with atoms coded 0, 1, ... on all shards, and top weights given their numbers of tables."""
    live, number, rng = state.occupied, numbered(state), RoundSeed(model.seed, state.round).rng("seating")
    engine.map(GroupShard.relabel, [by_code(state, number, p) for p in range(model.n_shards)])
    counts, tables, statistics, owner = state.table
    table = DishTable(counts[live], tables[live], statistics[live], owner[live])
    state = replace(state, table=table, n_shared=len(live), n_private=np.zeros_like(state.n_private))
    logs, _ = model.measure.sticks(state.hyper.measure, table.tables.astype(float), rng)  # mutant: sit weights
    return state, np.exp(logs[:-1])


def _seat_all(model: Groups, state: GroupsState, engine: Engine, beta: Array) -> list[Array]:
    """Seat all rows; returns the numbers of tables of atoms on every shard."""
    masses = model.measure.masses(state.hyper.measure, beta)  # mutant: sit masses
    return engine.map(partial(seat, SeatingLaw(masses, RoundSeed(model.seed, state.round).key("seats"))))


def _with_tables(model: Groups, state: GroupsState, engine: Engine, beta: Array) -> GroupsState:
    """The state with numbers of tables given beta."""
    seating = SeatingLaw(
        model.measure.masses(state.hyper.measure, beta), RoundSeed(model.seed, state.round).key("seats")
    )
    tables = np.sum(engine.map(partial(draw_table_counts, seating)), axis=0)
    return replace(state, table=state.table._replace(tables=tables))


def _as_mixture(model: Groups, state: GroupsState, n_tables: Array) -> MixtureState:
    """The state of a mixture whose rows are the tables."""
    table = state.table
    sums = model.content.sums(table.counts, table.statistics)
    hyper, private = model.measure.top_hyper(state.hyper.measure), np.zeros_like(state.n_private)  # mutant: jump alpha
    return MixtureState(state.round, hyper, AtomTable(n_tables, sums, table.owner), len(sums), private)


def _as_groups(model: Groups, state: GroupsState, moved: MixtureState) -> GroupsState:
    """The state of groups whose tables these rows are."""
    counts, statistics = model.content.parts(moved.table.statistics)
    table = DishTable(counts, moved.table.counts, statistics, moved.table.owner)
    return replace(state, table=table, n_shared=moved.n_shared, n_private=moved.n_private)


@dataclass(frozen=True)
class TopProcess:
    """A mixture of tables, as moves of mixtures ask for it."""

    measure: PartitionMeasure
    likelihood: Any
    edges: Array  # shard p holds the tables edges[p] .. edges[p + 1]
    seed: int

    @property
    def n_rows(self) -> int:
        return int(self.edges[-1])

    @property
    def n_shards(self) -> int:
        return len(self.edges) - 1

    @property
    def coarse(self) -> tuple[Any, Array]:
        first: tuple[Any, Array] = self.likelihood.coarse()
        return first

    @property
    def kernel(self) -> TopProcess:
        return self

    def halve(self, shard: TableShard, cuts: Cuts, sides: Sides) -> Halves:
        return halve((), LabelRows(shard.data, shard.labels, shard.first), cuts, sides)


@dataclass(frozen=True)
class AtTables:
    """An engine whose shards hold tables."""

    engine: Engine
    content: Content
    edges: Array

    def map(self, function: Callable[..., Any], own: Sequence[Any]) -> list[Any]:
        return self.engine.map(partial(_map, self.content, self.edges, function), own)

    def run(self, step: Step, message: Message) -> Gathered:
        return self.engine.run(partial(_run, self.content, self.edges, step), message)


def _map(content: Content, edges: Array, function: Callable[..., Any], shard: GroupShard, own: Any) -> Any:
    return function(table_shard(content, shard, int(edges[shard.index])), own)


def _run(content: Content, edges: Array, step: Step, shard: GroupShard, shared: Any, own: Any) -> Summary:
    return step(table_shard(content, shard, int(edges[shard.index])), shared, own)
