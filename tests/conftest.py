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


# What to begin with, where tests are spread over workers: the longest groups, on two workers in such an order that each
# compiles kernels of its own, and finds those of the other one in the cache when it needs them.
FIRST = (
    "features",
    "test_enumeration",
    "test_likelihoods",
    "test_mixtures",
    "test_franchise",
    "test_groups",
    "engines",
)


def group_of(path: Path) -> str:
    """Tests of a file stay together, on one worker. So do all that watch processes come and go, and all of features,
    which share kernels with no other tests."""
    folders = path.relative_to(ROOT / "tests").parts[:-1]
    if "engines" in folders:
        return "engines"
    return "features" if "features" in folders or path.stem.startswith("test_feature") else path.stem


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    groups = [group_of(item.path) for item in items]
    for item, group in zip(items, groups, strict=True):
        item.add_marker(pytest.mark.xdist_group(group))
    ranks = [FIRST.index(group) if group in FIRST else len(FIRST) for group in groups]
    items[:] = [items[i] for i in sorted(range(len(items)), key=lambda i: ranks[i])]
