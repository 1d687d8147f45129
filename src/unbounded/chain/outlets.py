"""Where progress is shown: a bar on a terminal, plain lines elsewhere, a notebook, the log, a file."""

from __future__ import annotations

import html
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from unbounded.chain.progress import DONE, STOPPED, Callback, Outlet, Progress, Size, Tracker, duration
from unbounded.chain.store import RunError, write_json
from unbounded.compiled.watch import watch_compilation

LOGGER = logging.getLogger("unbounded")
LOGGER.addHandler(logging.NullHandler())  # nothing is shown unless somebody asks for it

EVERY = 30.0  # seconds between two lines
SOON = 5.0  # seconds after which work before or after the rounds is announced
FILE, _FILE_EVERY = "progress.json", 2.0
_OFTEN = 0.5  # seconds between two changes of a notebook's output
_LOOK = 0.25  # seconds between two updates of all outlets


@contextmanager
def follow(size: Size, wanted: bool, callback: Callback | None, folder: Path | None) -> Iterator[Tracker | None]:
    """A tracker with its outlets, or None where nobody follows the fit. folder: the run directory, for its readers."""
    outlets = _outlets(wanted, folder)
    if not outlets and callback is None:
        yield None
        return
    tracker, over = Tracker(size, callback), threading.Event()
    clock = threading.Thread(target=_watch, args=(tracker, outlets, over), daemon=True, name="unbounded-progress")
    try:
        with watch_compilation(tracker.compiling):
            clock.start()
            yield tracker
    finally:
        over.set()
        clock.join()
        now = tracker.now()
        now = tracker.now(DONE if now.done == now.total else STOPPED)
        for outlet in outlets:
            outlet.end(now)


@contextmanager
def announce_if_slow(what: str, wanted: bool) -> Iterator[None]:
    """Say what is being done before or after the rounds if it takes long; say nothing if it is soon over."""
    say = _say_in_log if _is_logged() else _say_to_stderr if wanted else None
    if say is None:
        yield
        return
    over, began = threading.Event(), time.monotonic()

    def watch() -> None:
        pause = SOON
        while not over.wait(pause):
            say(f"{what}, {duration(time.monotonic() - began)} so far")
            pause = EVERY

    clock = threading.Thread(target=watch, daemon=True, name="unbounded-waiting")
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()


def _watch(tracker: Tracker, outlets: Sequence[Outlet], over: threading.Event) -> None:
    while True:
        now = tracker.now()
        for outlet in outlets:
            outlet.show(now)
        if over.wait(_LOOK):
            return


def _outlets(wanted: bool, folder: Path | None) -> list[Outlet]:
    logged = _is_logged()
    outlets: list[Outlet] = [Paced(_say_in_log, EVERY)] if logged else []
    if wanted:
        lines = None if logged else Paced(_say_to_stderr, EVERY)  # else every line would be there twice
        shown = _notebook() or _bar() or lines
        outlets += [] if shown is None else [shown]
    return outlets + ([] if folder is None else [Paced(partial(_to_file, path=folder / FILE), _FILE_EVERY)])


def _is_logged() -> bool:
    return LOGGER.isEnabledFor(logging.INFO) and _has_listeners()


def _has_listeners() -> bool:
    logger: logging.Logger | None = LOGGER
    while logger:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


class Paced:
    """Calls `say` at once, then at most every so many seconds, and at the end."""

    def __init__(self, say: Callable[[Progress], None], every: float):
        self._say, self._every, self._last = say, every, -math.inf

    def show(self, now: Progress) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._say(now)

    def end(self, now: Progress) -> None:
        self._say(now)


def _say_in_log(now: object) -> None:
    LOGGER.info("%s", now)


def _say_to_stderr(now: object) -> None:
    with suppress(OSError, ValueError):  # a closed standard error is no reason to stop a fit
        print(f"unbounded: {now}", file=sys.stderr, flush=True)


def _to_file(now: Progress, path: Path) -> None:
    """For whoever watches the run (report/live.py); no chain reads it."""
    plain = {name: _json(value) for name, value in asdict(now).items() if name != "scalars"}
    scalars = {name: _json(value) for name, value in now.scalars.items()}
    with suppress(RunError):  # the store will raise the same error where it matters
        write_json(path, plain | {"scalars": scalars, "text": str(now), "at": time.time()})


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _bar() -> Outlet | None:
    from rich.console import Console

    console = Console(stderr=True)
    return Bar(console) if console.is_terminal and not console.is_jupyter else None


class Bar:
    """Rich's bar, on standard error."""

    def __init__(self, console: Any):
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        head, words = (TextColumn(what, markup=False) for what in ("{task.description}", "{task.fields[words]}"))
        self._bars, self._task = Bars(head, BarColumn(), words, console=console), cast(Any, None)

    def show(self, now: Progress) -> None:
        if self._task is None:
            self._bars.start()
            self._task = self._bars.add_task("", total=now.total, words="")
        head, _, words = str(now).partition(", ")
        self._bars.update(self._task, completed=now.done, description=head, words=words, refresh=True)

    def end(self, now: Progress) -> None:
        self.show(now)
        self._bars.stop()


def _notebook() -> Outlet | None:
    """Only where IPython has a kernel that shows HTML; a bar for terminals would need widgets there, which few have."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Paced(Notebook().draw, _OFTEN) if shell is not None and hasattr(shell, "kernel") else None


class Notebook:
    """One output that changes, with its text for readers that show no HTML."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)  # in the cell that called fit

    def draw(self, now: Progress) -> None:
        bar = f'<progress value="{now.done}" max="{max(now.total, 1)}"></progress> {html.escape(str(now))}'
        self._handle.update({"text/plain": str(now), "text/html": bar}, raw=True)
