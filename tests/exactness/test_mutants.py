"""The planted mistakes of mutants.py: they still fit the sources, and (long) the checks kill all of them."""

from __future__ import annotations

import ast

import pytest
from mutants import MARK, MUTANTS, SOURCE, battery, edited, hunt, show


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_sources(mutant):
    path, text = edited(mutant)
    compile(text, path, "exec")
    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(path.read_text())), "the mutant is what it replaces"
    assert set(mutant.checks.split()) <= set(battery())


def test_every_marker_has_a_mutant():
    marked = [
        line.split(MARK)[1].strip() for path in SOURCE.rglob("*.py") for line in path.read_text().splitlines()
        if MARK in line
    ]  # fmt: skip
    assert sorted(marked) == sorted({mutant.place for mutant in MUTANTS})


@pytest.mark.long
def test_every_mutant_is_killed():
    (_, unmodified), *outcomes = hunt(MUTANTS, show)
    assert unmodified.verdict == "survived", unmodified
    assert not [name for name, outcome in outcomes if outcome.verdict != "killed"]
