"""Set up before anything imports numba: where compiled code is kept, and Ctrl-C. And how tests are spread."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba_cache")
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels of GPUs run on the CPU; `make gpu-test` sets it to 0
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start a hundred processes: the first compiles sources for all
if "numba" in sys.modules:
    sys.modules["numba"].config.reload_config()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What to begin with, where tests are spread over workers: long groups, in such an order that workers compile different
# kernels first, and find those of the others in the cache when they need them. Then what takes half a minute, so that
# groups of a few seconds are left for the end, when workers should be done at the same time.
FIRST = (
    "engines",
    "features",
    "test_enumeration",
    "test_likelihoods",
    "test_mixtures",
    "test_franchise",
    "test_groups",
    "test_rivals",
    "test_approximate",
    "test_scaling",
    "test_site",
    "test_fits",
    "report",
    "test_cli",
    "test_geweke",
    "test_out_of_core",
    "test_kernels",
    "test_experiments",
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
