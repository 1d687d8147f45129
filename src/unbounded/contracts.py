"""The whole contract, on one page: read this first.

A chain advances in rounds. The *model* takes a global step from what was gathered, the *engine* runs the model's local
step on every shard, and what the shards report is summed along a fixed tree:

    state --jump--> state --global_step--> Message --engine.run(local_step)--> Gathered --gather--> state

- A **measure** draws ghosts, weights and hyper-parameters from counts. It never sees data.
- A **likelihood** is bound to columns and then turns rows into statistics that add up, and statistics into parameters.
- A **rule** says which atoms are instantiated in a round, and which shards may create some. It never sees Z.
- A **kernel** is the compiled part of the local step on one device: it prepares a tail, sweeps, counts statistics and
  computes predictive densities. How it lays out memory is its own business; its random numbers come from given keys.
- A **model** is a measure, a likelihood and a kernel put together. The hybrid sampler has a rule as well; its rivals
  are models with other steps.
- A **recipe** makes shard p anywhere; an **engine** holds shards and runs a step on each of them. It knows no model,
  and may lose a worker between any two calls: what it is given travels, so it must pickle.
- A **family** is a model's folder, as everything outside of it sees it: what can be chosen by name, what its atoms are
  called, how results are estimated, described and drawn.

`chain/` records draws of any model on any engine. Nothing on this page assumes that Z is a vector of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.columns import Columns

# ---- shards and engines


class Shard(Protocol):
    """A slice of the data with its part of Z. Its arrays are what a checkpoint must keep."""

    def arrays(self) -> dict[str, Array]: ...

    def restore(self, arrays: Arrays) -> None: ...


def state_of(shard: Shard) -> Arrays:
    """What must be kept of a shard; with the recipe it is all there is, between any two calls of the engine."""
    return shard.arrays()


def restore(shard: Shard, arrays: Arrays) -> None:
    shard.restore(arrays)


class Recipe(Protocol):
    """How to make each of P shards. It pickles, and only the worker that holds a shard makes it: data stay put."""

    @property
    def n_shards(self) -> int: ...

    @property
    def edges(self) -> Array:
        """[P + 1]: shard p holds rows edges[p] .. edges[p + 1]."""

    def __call__(self, p: int) -> Shard: ...


@dataclass(frozen=True)
class Summary:
    """What a shard reports: statistics of shared atoms, which add up, and its private atoms, which do not."""

    shared: Arrays
    private: Arrays


@dataclass(frozen=True)
class Gathered:
    """All shards' reports: the sum over the fixed tree, and the private parts in shard order."""

    shared: Arrays
    private: Sequence[Arrays]


@dataclass(frozen=True)
class Message:
    """What the global step sends: one part for everybody, one for each shard."""

    shared: Any
    own: Sequence[Any]


Step = Callable[[Any, Any, Any], Summary]
Part = Callable[[int, int], Any]  # (i, n): do the i-th of n parts of something
Spread = Callable[[Part], None]


def alone(function: Part) -> None:
    """The plainest Spread."""
    function(0, 1)


class Engine(Protocol):
    """Holds P shards on W workers. Neither the engine nor W may change a bit of the result.

    Steps and functions are bound methods of models or shards, module-level functions, or partials of them.
    """

    options: ClassVar[tuple[str, ...]]  # those that its user may give, beside the recipe and the number of workers

    @property
    def spread(self) -> Spread:
        """All parts of something at once, by as many threads of the driver as there are workers."""

    def run(self, step: Step, message: Message) -> Gathered:
        """step(shard, message.shared, message.own[p]) -> Summary on every shard, then the tree sum."""

    def map(self, function: Callable[..., Any], own: Sequence[Any] | None = None) -> list[Any]:
        """function(shard), or function(shard, own[p]), for every shard, in shard order."""

    def save(self) -> list[Arrays]:
        """What must be kept of every shard: for a checkpoint, and for an engine whose workers may die."""

    def load(self, parts: Sequence[Arrays]) -> None:
        """Go back to what `save` said, on this engine or another one."""

    def close(self) -> None: ...


# ---- what a model is put together from


class Plan(NamedTuple):
    """What a rule decides for a round."""

    ghosts: int
    open: Array  # [P] which shards may create atoms
    published: bool = False
    j: int | str | None = None  # as published: how many atoms are instantiated, the largest; "several": see the rule
    lone: int = -1  # the only open shard, whose rows may also use atoms that are held elsewhere; -1: none such


class Rule(Protocol):
    """Which atoms are instantiated. It sees sizes, the round's number and randomness of its own; never Z."""

    exact: ClassVar[bool]

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan: ...

    def settled(self, n_rounds: int) -> int:
        """The first round whose draws may be kept."""


Hyper = TypeVar("Hyper", bound=tuple[Any, ...])
Extent = TypeVar("Extent", contravariant=True)  # the number of rows, or the sizes of groups


class Measure(Protocol[Hyper, Extent]):
    """Ghosts, prior and hyper-parameters; `counts` says how much of each atom there is, extent the size of the data."""

    def start(self) -> Hyper:
        """Prior means, as a place to start from."""

    def draw_prior(self, rng: np.random.Generator) -> Hyper: ...

    def log_prior(self, hyper: Hyper) -> float: ...

    def log_prob(self, hyper: Hyper, counts: Array, extent: Extent) -> float:
        """Log probability of counts, hyper-parameters given."""

    def update(self, hyper: Hyper, counts: Array, extent: Extent, rng: np.random.Generator) -> Hyper:
        """Move the sampled hyper-parameters, ghosts integrated out."""

    def ghosts(
        self, hyper: Hyper, counts: Array, extent: Extent, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given the counts."""

    def simulate(self, hyper: Hyper, extent: Extent, rng: np.random.Generator) -> Array:
        """Z from the prior."""

    def scalars(self, hyper: Hyper) -> dict[str, float]:
        """The sampled hyper-parameters, for the trace."""


class Bound(Protocol):
    """A likelihood with its prior, bound to columns."""

    @property
    def columns(self) -> Columns: ...

    def check(self, X: Any) -> None:
        """Refuse rows that the likelihood cannot have produced."""


class Likelihood(Protocol):
    """What the user writes: a prior, with whatever is left out scaled to the columns."""

    name: ClassVar[str]

    def bind(self, columns: Columns) -> Bound: ...


ShardT = TypeVar("ShardT", contravariant=True)
PartT = TypeVar("PartT", contravariant=True)
TailT = TypeVar("TailT")
AtomsT = TypeVar("AtomsT", contravariant=True)


class Kernel(Protocol[ShardT, PartT, TailT, AtomsT]):
    """The local step on one device. A part is what a shard needs of a round: finite part, law, codes, keys."""

    def prepare(self, shard: ShardT, part: PartT) -> TailT:
        """The collapsed state of the shard's private atoms, with room for new ones."""

    def sweep(self, shard: ShardT, part: PartT, tail: TailT) -> TailT:
        """All L sweeps over the shard's rows; Z changes in place, and the tail grows where atoms are born."""

    def statistics(self, shard: ShardT, part: PartT, tail: TailT) -> Summary:
        """What the shard reports of its Z."""

    def predictive(self, atoms: AtomsT, X: Any) -> Array:
        """What atoms say of new rows: log densities, or their Z where that can only be sampled."""


# ---- models


class State(Protocol):
    """The global part of the chain's state after a round; with the shards' arrays it is all there is."""

    @property
    def round(self) -> int: ...

    def arrays(self) -> dict[str, Array]: ...


StateT = TypeVar("StateT", bound=State)


class Model(Protocol[StateT]):
    @property
    def exact(self) -> bool:
        """Whether its rounds leave the posterior invariant."""

    @property
    def seed(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def n_shards(self) -> int: ...

    def settled(self) -> int:
        """The first round whose draws may be kept."""

    def reseeded(self, seed: int) -> Self:
        """The same model with other random numbers."""

    def recipe(self, X: Any) -> Recipe:
        """The shards of these rows."""

    def begin(self, engine: Engine, assignments: Array) -> StateT:
        """The state with this Z."""

    def jump(self, state: StateT, engine: Engine) -> StateT:
        """Moves of whole atoms before the round, which take exchanges of their own with the shards; or none."""

    def global_step(self, state: StateT, spread: Spread = alone) -> Message:
        """spread: for what can be drawn in pieces, each with randomness of its own, so that it does not matter how."""

    def local_step(self, shard: Any, shared: Any, own: Any) -> Summary: ...

    def gather(self, state: StateT, message: Message, gathered: Gathered) -> StateT: ...

    def scalars(self, state: StateT) -> dict[str, float]:
        """Label-invariant numbers of a draw, for the trace."""

    def assignments(self, state: StateT, engine: Engine) -> Array:
        """Of all rows: a vector of labels, or a matrix Z whose width may change from draw to draw."""

    def snapshot(self, state: StateT, engine: Engine) -> dict[str, Array]:
        """A whole draw: the assignments of all rows and what prediction needs."""

    def restore(self, arrays: Arrays) -> StateT:
        """The state whose `arrays()` these are."""


# ---- families


@dataclass(frozen=True)
class Sampler:
    """A sampler that can be chosen by name."""

    build: Callable[..., Model[Any]]  # (setup, its options)
    options: tuple[str, ...] = ()  # those that its user may give
    takes_rule: bool = False  # of instantiation, as an option `rule`


Tell = Callable[[int, int], None]  # (done, total): of the rounds before the first state


def silent(done: int, total: int) -> None:
    """The plainest Tell."""


class Start(Protocol):
    """Where chains begin; a module with this function will do."""

    def begin(self, model: Any, engine: Engine, X: Any, init: Any, tell: Tell = silent) -> State: ...


@dataclass(frozen=True)
class Choices:
    """What the chains of an estimator are put together from."""

    atoms: str  # what they are called, in the plural; their number is the scalar n_<atoms> of the trace
    assignments: str  # what Z is called on disk
    likelihoods: tuple[type[Likelihood], ...]  # those that have a name
    bound: type  # what a likelihood must be once it is bound to columns
    samplers: Mapping[str, Sampler]  # by name
    kernels: Mapping[str, Any]  # by device
    start: Start


class Option(NamedTuple):
    """An option of `unbounded fit` that not all models have."""

    kind: type
    help: str


@dataclass(frozen=True)
class Command:
    """What `unbounded fit` was asked, as its run directory keeps it."""

    model: str  # by its name of the command line
    data: str
    holdout: float  # the share of the data that is held out
    settings: Mapping[str, Any]  # of the estimator
    own: Mapping[str, str | None]  # options of families that are not settings

    @property
    def seed(self) -> int:
        return int(self.settings["random_state"])


class Training(NamedTuple):
    """What a command gives to `fit`."""

    rows: Any
    arguments: tuple[Any, ...] = ()  # after the rows
    holdout: Any = None


@dataclass(frozen=True)
class WholeDraws:
    """What a run directory has of the draws that were kept whole."""

    config: Mapping[str, Any]
    about: Mapping[str, Any]
    draws: Sequence[tuple[Arrays, Mapping[str, float]]]  # snapshots with their scalars


@dataclass(frozen=True)
class Shown:
    """The atoms of a run, as its report shows them."""

    shares: Array  # of all rows, of each atom of the point estimate
    content: str  # HTML: the details
    notes: tuple[str, ...] = ()  # what the reader should know
    words: tuple[str, ...] = ()  # what was found, and how sure that is: sentences
    picture: str = ""  # HTML: what was found, at a glance


@dataclass(frozen=True)
class Family:
    """A model's folder, as the estimator, the command line, the report and the progress bar see it."""

    choices: Choices
    measures: tuple[type[Measure[Any, Any]], ...]
    estimators: Mapping[str, type]  # by the names of the command line
    scored: str  # what a held-out score is the mean over: a row, a cell
    captions: Mapping[str, str]  # scalars of the trace, with their units
    units: Callable[[str], Mapping[str, str]]  # of a likelihood: what rows, columns and groups are called
    summary: Callable[[Any], list[str]]  # a fitted estimator in words
    show: Callable[[WholeDraws, Mapping[str, Any]], Shown]  # for the report, with what is at hand beside the run
    table: Callable[[Any, Any], Any]  # what `predict` writes of new rows: a data frame
    write: Callable[[Path, Any, Training, Command], None]  # files and pictures of a fit
    training: Callable[[Command], Training]
    at_hand: Callable[[Command], dict[str, Any]]  # what `show` can use, as far as it is still there
    settings: Mapping[str, Option]  # of the command line: options of some of the estimators
    options: Mapping[str, Option] = field(default_factory=dict)  # the same, of the command alone

    @property
    def atoms(self) -> str:
        return self.choices.atoms

    @property
    def counted(self) -> str:
        """The scalar that counts atoms."""
        return f"n_{self.atoms}"
