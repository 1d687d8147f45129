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


# What to begin with, where tests are spread over workers: long groups, in such an order that two workers compile
# different kernels first, and find those of the other one in the cache when they need them.
FIRST = (
    "features",
    "test_enumeration",
    "test_likelihoods",
    "test_mixtures",
    "test_franchise",
    "test_groups",
    "engines",
)
TOGETHER = ("engines", "report", "features")  # folders


def group_of(nodeid: str) -> str:
    """What stays on one worker. Tests of a file share fixtures; those of engines watch processes come and go; those of
    the report read the same runs; those of features share kernels with no others."""
    path = Path(nodeid.partition("::")[0])
    for folder in TOGETHER:
        if folder in path.parts[:-1]:
            return folder
    return "features" if path.stem.startswith("test_feature") else path.stem


def pytest_collection_modifyitems(items):
    """Long groups first."""
    groups = [group_of(item.nodeid) for item in items]
    ranks = [FIRST.index(group) if group in FIRST else len(FIRST) for group in groups]
    items[:] = [items[i] for i in sorted(range(len(items)), key=lambda i: ranks[i])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Groups by path: a mark xdist_group does not reach the scheduler in every version of pytest."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    config.option.loadscopereorder = False  # the order is ours
    return Groups(config, log)
