"""Set up before anything imports numba: a compilation cache that notices every change of the sources, and Ctrl-C.

Numba's own cache looks at the file of the cached function only, not at the modules it calls: after an edit of a
likelihood, a kernel would run with the old one inside.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".numba_cache"
KEEP_DAYS = 7


def digest(folder: Path) -> str:
    """A name for the state of all sources under a folder."""
    state = hashlib.blake2b(digest_size=10)
    for path in sorted(folder.rglob("*.py")):
        state.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def forget_old_caches() -> None:
    old = time.time() - KEEP_DAYS * 86400
    for folder in CACHE.glob("*"):
        if folder.is_dir() and folder.stat().st_mtime < old:
            shutil.rmtree(folder, ignore_errors=True)


here = CACHE / digest(ROOT / "src" / "unbounded")
here.mkdir(parents=True, exist_ok=True)
os.utime(here)
forget_old_caches()
os.environ["NUMBA_CACHE_DIR"] = str(here)
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
