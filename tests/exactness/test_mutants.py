"""The planted mistakes of mutants.py: they still fit the sources, and (long) the checks kill all of them."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, battery, edited, hunt, show


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_sources(mutant):
    compile(edited(mutant), mutant.file, "exec")
    assert set(mutant.checks.split()) <= set(battery())


@pytest.mark.long
def test_every_mutant_is_killed():
    (_, unmodified), *outcomes = hunt(MUTANTS, show)
    assert unmodified.verdict == "survived", unmodified
    assert not [name for name, outcome in outcomes if outcome.verdict != "killed"]
