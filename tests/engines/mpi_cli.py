"""The command line with a checkpoint after every few rounds."""

from __future__ import annotations

from unbounded.chain import run
from unbounded.cli import app

if __name__ == "__main__":
    run.run.__kwdefaults__["checkpoint_seconds"] = 0.1
    app()
