"""The command line: `commands.py` has what can be asked, `runs.py` does it in a run directory."""

from unbounded.cli.commands import app

__all__ = ["app"]
