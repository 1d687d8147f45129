"""The progress bar says how many atoms there are, of every model, and when it waits for the compiler."""

from __future__ import annotations

import numba as nb
import pytest

from unbounded.chain.progress import describe, show_progress
from unbounded.compiled.watch import watch_compilation
from unbounded.models.families import FAMILIES


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.atoms)
def test_the_number_of_atoms(family):
    said = describe({family.counted: 7.0, "alpha": 1.0}, family.atoms, 1234.0)
    assert said == f"7 {family.atoms}, 1,234 rows/s"
    assert "held-out -1.500" in describe({family.counted: 7.0, "holdout": -1.5}, family.atoms, 1.0)


def test_compiling_is_told():
    told: list[bool] = []

    @nb.njit
    def inner(x):
        return x + 1

    @nb.njit
    def outer(x):
        return inner(x) * 2

    with watch_compilation(told.append):
        assert outer(3) == 8
        assert told == [True, False]  # once, although two functions were compiled
        assert outer(4) == 10
        assert told == [True, False]
    outer(1.5)
    assert told == [True, False]


def test_the_bar_waits_for_the_compiler(capsys):
    @nb.njit
    def fresh(x):
        return x - 1

    with show_progress(True, 10, 100, "clusters") as report:
        assert report is not None
        fresh(1)
        report(3, {"n_clusters": 4.0})
    assert "4 clusters" in capsys.readouterr().out


def test_no_bar():
    with show_progress(False, 10, 100, "clusters") as report:
        assert report is None
