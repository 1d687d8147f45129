"""A model's folder, as everything outside of it sees it.

The estimator, the command line, the report and the progress bar ask the family, never the model: what can be chosen by
name, where chains begin, what atoms are called, how results are described and drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from numpy.typing import ArrayLike

from unbounded.arrays import Array, Arrays, Data
from unbounded.contracts import Engine, Likelihood, Measure, Model, State

Init = str | int | ArrayLike  # where a chain begins: a start by its name, a number of atoms, or Z itself
ModelT = TypeVar("ModelT", contravariant=True)
StateT = TypeVar("StateT", bound=State, covariant=True)

# ---- what can be chosen

DTYPES = ("float64", "float32")
DOUBLE = DTYPES[:1]


@dataclass(frozen=True)
class Sampler:
    """A sampler that can be chosen by name, and what it takes: whatever else is asked for is refused."""

    build: Callable[..., Model[Any]]  # (setup, its options)
    options: tuple[str, ...] = ()  # what its user may set
    takes_rule: bool = False  # of instantiation, as an option `rule`
    takes_jumps: bool = False  # moves of whole atoms, as an option `jumps`
    one_shard: bool = False  # its rows cannot be distributed
    dtypes: tuple[str, ...] = DTYPES  # of its finite part; one that has none computes in double precision
    kernels: Mapping[str, Any] | None = None  # by device: of a local step of its own; None: those of the model

    def shards(self, asked: int) -> int:
        """How many shards a chain has when so many are asked for."""
        return 1 if self.one_shard else asked


Notify = Callable[[int, int], None]  # (done, total): how far the rounds before the first state are


def ignore_progress(done: int, total: int) -> None:
    """For a caller who does not follow the start."""


class Start(Protocol[ModelT, StateT]):
    """Makes the first state of a chain; a module with this function is one."""

    def begin(self, model: ModelT, engine: Engine, X: Data, init: Init, notify: Notify = ignore_progress) -> StateT: ...


@dataclass(frozen=True)
class Choices:
    """What the chains of an estimator are put together from."""

    atoms: str  # what they are called, in the plural; their number is the scalar n_<atoms> of the trace
    assignments: str  # what Z is called on disk
    dimensions: tuple[str, ...]  # of Z, as `posterior_` names them: rows alone, or rows and columns
    n_rows: Callable[[Arrays], int]  # of a snapshot
    likelihoods: tuple[type[Likelihood], ...]  # those that have a name
    bound: type  # what a likelihood must be once it is bound to columns
    samplers: Mapping[str, Sampler]  # by name
    kernels: Mapping[str, Any]  # by device
    double_only: tuple[str, ...]  # devices whose kernels compute in double precision, whatever they are asked for
    start: Start[Any, State]
    former_starts: tuple[str, ...] = ()  # of older versions, by name

    def takes(self, sampler: Sampler, device: str) -> tuple[str, ...]:
        """The precisions that a sampler has on a device."""
        return DOUBLE if device in self.double_only else sampler.dtypes


# ---- the command line and the report


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
    extra: Mapping[str, str | None]  # options of the command alone

    @property
    def seed(self) -> int:
        return int(self.settings["random_state"])


class Training(NamedTuple):
    """What a command gives to `fit`."""

    rows: Data
    arguments: tuple[Any, ...] = ()  # after the rows
    holdout: Data | tuple[Data, Any] = None


class Results(NamedTuple):
    """What a family adds to the results that `unbounded fit` writes."""

    files: Mapping[str, Any]  # by name: arrays, figures of Matplotlib, or text
    summary: str = ""  # appended to the summary that every fit has


@dataclass(frozen=True)
class WholeDraws:
    """The draws of a run directory that were kept whole."""

    config: Mapping[str, Any]
    about: Mapping[str, Any]
    draws: Sequence[tuple[Arrays, Mapping[str, float]]]  # snapshots with their scalars


@dataclass(frozen=True)
class Shown:
    """The atoms of a run, as its report shows them."""

    shares: Array  # of all rows, of each atom of the point estimate
    content: str  # HTML: the details
    notes: tuple[str, ...] = ()  # what the reader should know
    sentences: tuple[str, ...] = ()  # what was found, and how sure that is
    picture: str = ""  # HTML: what was found, at a glance


@dataclass(frozen=True)
class Family:
    """A model's folder, as the estimator, the command line, the report and the progress bar see it."""

    choices: Choices
    measures: tuple[type[Measure[Any, Any]], ...]
    estimators: Mapping[str, type]  # by the names of the command line
    scored: str  # what a held-out score is the mean over: a row, a cell
    captions: Mapping[str, str]  # scalars of the trace, with their units
    meanings: Mapping[str, str]  # what they are, for somebody who sees their names for the first time
    units: Callable[[str], Mapping[str, str]]  # by likelihood: other words for rows, columns and groups
    summary: Callable[[Any], list[str]]  # a fitted estimator in words
    show: Callable[[WholeDraws, Mapping[str, Any]], Shown]  # for the report; with data, if they are at hand
    predictions: Callable[[Any, Data], Any]  # what `predict` writes of new rows: a data frame
    results: Callable[[Any, Training, Command], Results]  # files and pictures of a fit
    training: Callable[[Command], Training]
    at_hand: Callable[[Command], dict[str, Any]]  # what `show` can use of a command and its data
    useful: tuple[str, ...]  # names of what `show` can use besides the rows of the fit, X
    settings: Mapping[str, Option]  # of the command line: options of some of the estimators
    options: Mapping[str, Option] = field(default_factory=dict)  # the same, of the command alone
    phrases: Mapping[str, str] = field(default_factory=dict)  # entries of run.json, and their options, in words
    in_words: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict  # run.json, with the names that people know

    @property
    def atoms(self) -> str:
        return self.choices.atoms

    @property
    def counted(self) -> str:
        """The scalar that counts atoms."""
        return f"n_{self.atoms}"
