"""Set up before anything imports numba: a folder for compiled code, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba_cache")
os.environ["OPENBLAS_NUM_THREADS"] = "1"
if "numba" in sys.modules:
    sys.modules["numba"].config.reload_config()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of a file stay together on one of several workers, and so do all that watch processes come and go."""
    for item in items:
        alone = item.path.parent.name == "engines"
        item.add_marker(pytest.mark.xdist_group("engines" if alone else item.path.stem))
