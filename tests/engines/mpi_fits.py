"""Run on ranks: every model's fit, with what it says written to a file."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from fits import FITS, everything

if __name__ == "__main__":
    fitted = {name: everything(fit(engine="mpi")) for name, fit in FITS.items()}
    Path(sys.argv[1]).write_bytes(pickle.dumps(fitted))
