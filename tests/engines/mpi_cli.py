"""The command line with a checkpoint after every few rounds."""

from __future__ import annotations

import os

from unbounded.cli import app

if __name__ == "__main__":
    if os.environ["PMI_RANK"] == "0":  # the others have no need of chains
        from unbounded.chain import run

        run.run.__kwdefaults__["checkpoint_seconds"] = 0.1
    app()
