"""What importing costs: a worker must not import what it does not need."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import unbounded

HEAVY = ("sklearn", "pandas", "xarray", "matplotlib", "arviz", "scipy.stats", "rich", "typer")
LIGHT = [
    "unbounded",
    "unbounded.engines.processes",
    "unbounded.engines.mpi",
    "unbounded.sources",
    "unbounded.models.mixtures.hybrid",
    "unbounded.models.groups.model",
    "unbounded.models.features.hybrid",
]


@pytest.fixture(scope="module")
def imported():
    """What is there after each import, in a process of its own."""
    script = f"""
import importlib, sys
for name in {LIGHT!r}:
    importlib.import_module(name)
    print(name, *(heavy for heavy in {HEAVY!r} if heavy in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("module", LIGHT)
def test_what_workers_import_is_light(imported, module):
    """Shards, samplers and engines do without estimators and all that these need."""
    assert imported[module] == []


def test_every_public_name_is_there():
    """Those that __init__ lists are those that public.py imports; the function `report` is not hidden by the folder."""
    public = ast.parse((Path(unbounded.__file__).parent / "public.py").read_text())
    names = [
        alias.asname or alias.name for node in public.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert sorted(names) == sorted(unbounded.__all__)
    for name in unbounded.__all__:
        assert getattr(unbounded, name) is not None
    assert set(unbounded.__all__) < set(dir(unbounded))
    assert callable(unbounded.report)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = unbounded.Nothing
