"""What a fit is doing, for those who wait: the phase, rounds, atoms, held-out score, rows per second, time left.

A `Tracker` is notified by the chains and by the compiler. Outlets (outlets.py), such as a bar or plain lines, ask it
several times a second where the fit is; the user's `callback` is called whenever a chain reports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

AtRound = Callable[[int, Mapping[str, float]], bool]  # (rounds done, scalars of the last draw) -> whether to stop
Callback = Callable[["Progress"], object]  # the answer True stops the fit

# After either of them the time left is known: the first rounds of a chain take longer than those to come.
_STEADY_ROUNDS, _STEADY_SECONDS = 20, 300.0
START, ROUNDS, COMPILING, DONE, STOPPED = "start", "rounds", "compiling", "done", "stopped"


@dataclass(frozen=True)
class Size:
    """How much there is to do."""

    n_chains: int
    n_rounds: int  # of each chain
    n_rows: int
    atoms: str  # what they are called; their number is the scalar n_<atoms>
    unit: str = "rows"  # what rows are called


@dataclass(frozen=True)
class Progress:
    """Where a fit is. As text it is one line."""

    phase: str  # "start", "compiling", "rounds", "done" or "stopped"
    done: int  # rounds, of all chains together
    total: int
    seconds: float  # since the fit began, in this session
    scalars: Mapping[str, float] = field(default_factory=dict)  # of the last draw, or of the last round before it
    rows_per_second: float = float("nan")
    seconds_left: float = float("nan")
    detail: str = ""  # of a phase that is not made of rounds
    atoms: str = "atoms"
    unit: str = "rows"

    def __str__(self) -> str:
        if self.phase in (START, COMPILING):
            return ", ".join(part for part in (self.phase, self.detail, f"{duration(self.seconds)} so far") if part)
        words = [f"round {self.done:,}/{self.total:,}", *self.words()]
        if self.phase == ROUNDS:
            words += [f"start of {self.detail}"] if self.detail else []
            known = self.seconds_left == self.seconds_left
            return ", ".join([*words, f"{duration(self.seconds_left)} left"] if known else words)
        return ", ".join([self.phase, *words, f"{duration(self.seconds)} in all"])

    def words(self) -> list[str]:
        """The state of the chains: atoms, held-out score, speed."""
        words = []
        count = self.scalars.get(f"n_{self.atoms}")
        if count is not None:
            large = f" ({self.scalars['above_1%']:.0f} above 1%)" if "above_1%" in self.scalars else ""
            words.append(f"{count:.0f} {self.atoms}{large}")
        if "holdout" in self.scalars:
            words.append(f"held-out {self.scalars['holdout']:.3f}")
        if self.rows_per_second == self.rows_per_second:
            words.append(f"{self.rows_per_second:,.0f} {self.unit}/s")
        return words


def duration(seconds: float) -> str:
    """A time to wait, in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Outlet(Protocol):
    """Where progress is shown. Each outlet decides how often it writes."""

    def show(self, now: Progress) -> None:
        """Called four times a second by one thread, also while a compiler or a long round is busy."""

    def end(self, now: Progress) -> None: ...


class Tracker:
    """Collects the progress of chains, which run side by side or one after another, and of the compiler."""

    def __init__(self, size: Size, callback: Callback | None = None):
        self._size, self._callback = size, callback
        self._lock, self._calling = threading.Lock(), threading.Lock()
        self._began = self._rounds_since = time.monotonic()
        self._first: dict[int, int] = {}  # by chain: rounds that were there before
        self._done: dict[int, int] = {}
        self._starts: dict[int, str] = {}  # by chain: how far its start is
        self._scalars: Mapping[str, float] = {}
        self._compiling: str | None = None
        self._compiling_since = self._began

    def extend(self, n_rounds: int) -> None:
        """Change the number of rounds that each chain is to have."""
        with self._lock:
            self._size = replace(self._size, n_rounds=n_rounds)

    def starting(self, chain: int, done: int = 0, total: int = 0) -> None:
        """A chain is making its first state; done, total: rounds of its pilot."""
        which = f"chain {chain + 1} of {self._size.n_chains}"
        with self._lock:
            self._starts[chain] = f"{which}, {done} of {total} rounds of a pilot" if total else which
        self._call()

    def at_round(self, chain: int, done: int, scalars: Mapping[str, float]) -> bool:
        """A chain has done so many rounds; the first call tells those of earlier sessions. Returns whether to stop."""
        with self._lock:
            self._starts.pop(chain, None)
            if not self._first:
                self._rounds_since = time.monotonic()
            self._first.setdefault(chain, done)
            self._done[chain] = done
            self._scalars = scalars or self._scalars
        return self._call()

    def compiling(self, busy: bool, functions: int) -> None:
        """The compiler starts or stops. Its time tells nothing about the rounds to come, and does not count."""
        with self._lock:
            moment = time.monotonic()
            if busy and self._compiling is None:
                self._compiling_since = moment
            if not busy:
                self._rounds_since += moment - max(self._compiling_since, self._rounds_since)
            self._compiling = f"{functions} functions done" if busy else None

    def now(self, phase: str | None = None) -> Progress:
        with self._lock:
            size, moment = self._size, time.monotonic()
            done, total = sum(self._done.values()), size.n_chains * size.n_rounds
            until = moment if self._compiling is None else max(self._compiling_since, self._rounds_since)
            made, spent = done - sum(self._first.values()), until - self._rounds_since
            speed = made / spent if made and spent > 0 else float("nan")
            steady = made >= _STEADY_ROUNDS or spent >= _STEADY_SECONDS
            left = (total - done) / speed if steady else float("nan")
            current = COMPILING if self._compiling is not None else ROUNDS if self._first else START
            whole = f"{size.n_rows:,} {size.unit}, {size.n_chains} x {size.n_rounds:,} rounds"
            detail = self._compiling or "; ".join(self._starts.values()) or ("" if self._first else whole)
            return Progress(
                phase or current, done, total, moment - self._began, dict(self._scalars), speed * size.n_rows,
                left, detail, size.atoms, size.unit,
            )  # fmt: skip

    def _call(self) -> bool:
        """Whether the callback wants the fit to stop."""
        if self._callback is None:
            return False
        with self._calling:
            return self._callback(self.now()) is True
