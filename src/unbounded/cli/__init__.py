"""The command line: `commands.py` has the commands, `runs.py` carries them out in a run directory."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

COMMAND = "command.json"  # in a run directory: the command, as it was given
_STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def app() -> None:
    """Run a command. Under MPI every rank is given it: rank 0 carries it out, the others serve until it is done, and
    import no more than that takes.

    What asks a process to end interrupts the command, wherever it is: SIGTERM and SIGHUP as Ctrl-C.
    """
    if engine_of(sys.argv[1:]) == "mpi" and _serves():
        return
    heard = [each for each in _STOPS if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler)]
    _answer(heard, _leave)
    from unbounded.cli.commands import app

    _answer(heard, signal.default_int_handler)
    try:
        app()
    finally:  # everything is written and said
        _answer(heard, signal.SIG_IGN)


def _answer(signals: Sequence[int], handler: Callable[..., Any] | signal.Handlers) -> None:
    for each in signals:
        signal.signal(each, handler)


def _leave(*_: object) -> None:
    """While modules are imported, which take an exception for a fault of their own."""
    os.write(2, b"interrupted: nothing was done yet\n")
    os._exit(130)


def _serves() -> bool:
    from unbounded.engines import mpi
    from unbounded.engines.recovery import EngineError

    try:
        return not mpi.join()
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def engine_of(words: Sequence[str]) -> str | None:
    """The engine of the command, or of the run that it resumes."""
    given = [after for word, after in pairwise(words) if word == "--engine"]
    given += [word.removeprefix("--engine=") for word in words if word.startswith("--engine=")]
    if not given and words[:1] == ["resume"]:
        from unbounded.disk import parsed

        for word in words[1:]:
            with suppress(OSError, ValueError, TypeError, KeyError):
                given.append(parsed((Path(word) / COMMAND).read_bytes())["settings"]["engine"])
    return given[-1] if given else None
