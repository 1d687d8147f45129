"""What tests of engines share: the serial chains that all others are compared with, and a copy of the compiled code."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # toys and fits, for scripts and workers, too


@pytest.fixture(scope="session")
def serial():
    """What the serial engine says of every model: computed once, compared with processes, Ray and MPI."""
    from fits import FITS, everything

    return {name: everything(fit(engine="serial")) for name, fit in FITS.items()}


@pytest.fixture(scope="session")
def _cache(serial, tmp_path_factory):
    """A copy of the compiled code that these chains have left, which other tests do not write to."""
    source, copy = Path(os.environ["NUMBA_CACHE_DIR"]), tmp_path_factory.mktemp("compiled")
    for path in source.rglob("*.nbc"):  # and no file that another worker is about to write
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return copy


@pytest.fixture
def nothing_compiled(_cache):
    """Workers that start meanwhile find all they need in the copy."""

    @contextmanager
    def check():
        kernels = {path.name for path in _cache.rglob("*.nbc")}
        assert kernels, "there is no compiled code to be found"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NUMBA_CACHE_DIR", str(_cache))
            yield
        assert {path.name for path in _cache.rglob("*.nbc")} == kernels

    return check


@pytest.fixture
def interrupted():
    """Ctrl-C after a draw."""
    from unbounded.chain import run

    @contextmanager
    def until(draw):
        record = run._record

        def stop(chain, model, engine, state, number, *rest):
            record(chain, model, engine, state, number, *rest)
            if number == draw:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "_record", stop)
            yield

    return until
