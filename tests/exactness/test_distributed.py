"""The chains of distributed engines have the posterior as their law (long)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import CASES

HERE = Path(__file__).parent

pytestmark = pytest.mark.long


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_enumeration_on_workers(engine, case):
    verdict = case(engine)
    assert not verdict.failures, verdict


def test_enumeration_on_ranks():
    launcher = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
    command = [launcher, "-n", "2", sys.executable, "-m", "unbounded.engines.mpi", str(HERE / "distributed.py"), "mpi"]
    subprocess.run(command, check=True, timeout=1800, cwd=HERE)
