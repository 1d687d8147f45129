"""A model's folder, as everything outside of it sees it.

The estimator, the command line, the report and the progress bar ask the family, never the model: what can be chosen by
name, where chains begin, what atoms are called, how results are described and drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Likelihood, Measure, Model, State

# ---- what can be chosen


@dataclass(frozen=True)
class Sampler:
    """A sampler that can be chosen by name."""

    build: Callable[..., Model[Any]]  # (setup, its options)
    options: tuple[str, ...] = ()  # what its user may set
    takes_rule: bool = False  # of instantiation, as an option `rule`


Notify = Callable[[int, int], None]  # (done, total): how far the rounds before the first state are


def notify_nobody(done: int, total: int) -> None:
    """For a caller who does not follow the start."""


class Start(Protocol):
    """Makes the first state of a chain; a module with this function is one."""

    def begin(self, model: Any, engine: Engine, X: Any, init: Any, notify: Notify = notify_nobody) -> State: ...


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
    own: Mapping[str, str | None]  # options of the command alone

    @property
    def seed(self) -> int:
        return int(self.settings["random_state"])


class Training(NamedTuple):
    """What a command gives to `fit`."""

    rows: Any
    arguments: tuple[Any, ...] = ()  # after the rows
    holdout: Any = None


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
    words: tuple[str, ...] = ()  # sentences: what was found, and how sure that is
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
    table: Callable[[Any, Any], Any]  # what `predict` writes of new rows: a data frame
    results: Callable[[Any, Training, Command], Results]  # files and pictures of a fit
    training: Callable[[Command], Training]
    at_hand: Callable[[Command], dict[str, Any]]  # what of the data `show` can still use
    settings: Mapping[str, Option]  # of the command line: options of some of the estimators
    options: Mapping[str, Option] = field(default_factory=dict)  # the same, of the command alone
    phrases: Mapping[str, str] = field(default_factory=dict)  # entries of run.json that only it has, in words

    @property
    def atoms(self) -> str:
        return self.choices.atoms

    @property
    def counted(self) -> str:
        """The scalar that counts atoms."""
        return f"n_{self.atoms}"
