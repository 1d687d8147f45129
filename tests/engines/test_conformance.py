"""Every engine that is listed keeps the contract. A new one needs a line here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from contract import conforms

from unbounded import engines

HERE = {"serial": None, "threads": 2, "processes": 2}  # the number of workers
ELSEWHERE = {"ray": "test_ray.py", "mpi": "test_mpi.py"}  # which have a cluster, and ranks, for a test of this name


@pytest.mark.parametrize("name", engines.MEMBERS)
def test_conformance(name):
    if name in ELSEWHERE:
        assert "def test_conformance" in (Path(__file__).parent / ELSEWHERE[name]).read_text()
        return
    assert name in HERE, f"the engine {name!r} has no example in tests/engines/test_conformance.py"
    conforms(partial(engines.build, name, n_workers=HERE[name]))


def test_discovery_covers_every_member():
    assert HERE.keys() | ELSEWHERE.keys() == engines.MEMBERS.keys()
