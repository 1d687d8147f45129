"""The command line: `commands.py` has the commands, `runs.py` carries them out in a run directory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from unbounded.disk import parsed
from unbounded.engines.recovery import EngineError

COMMAND = "command.json"  # in a run directory: the command, as it was given


def app() -> None:
    """Run a command. Under MPI every rank is given it: rank 0 carries it out, the others serve until it is done, and
    import no more than that takes."""
    if engine_of(sys.argv[1:]) == "mpi":
        from unbounded.engines import mpi

        try:
            serves = not mpi.join()
        except EngineError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        if serves:
            return
    from unbounded.cli.commands import app

    app()


def engine_of(words: Sequence[str]) -> str | None:
    """The engine of the command, or of the run that it resumes."""
    given = [after for word, after in pairwise(words) if word == "--engine"]
    given += [word.removeprefix("--engine=") for word in words if word.startswith("--engine=")]
    if not given and words[:1] == ["resume"]:
        for word in words[1:]:
            with suppress(OSError, ValueError, TypeError, KeyError):
                given.append(parsed((Path(word) / COMMAND).read_bytes())["settings"]["engine"])
    return given[-1] if given else None
