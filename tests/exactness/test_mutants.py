"""The planted mistakes of mutants.py: they still fit the sources, and (long) the checks kill all of them."""

from __future__ import annotations

import ast
import builtins
import symtable
from functools import cache

import pytest
from mutant_generator import TESTED_BY, generated
from mutants import MUTANTS, ROOT, SOURCE, TESTS, WHOLE, as_it_should, battery, edited, hunt, marked, planted, show


def undefined(text):
    """Names that functions take from the module, and that it does not have."""
    top = symtable.symtable(text, "", "exec")
    tables, known = top.get_children(), {*dir(builtins), *top.get_identifiers()}
    for table in tables:
        tables.extend(table.get_children())
    return {one.get_name() for table in tables for one in table.get_symbols() if one.is_global()} - known


@cache
def meaning(path):
    return ast.dump(ast.parse(path.read_text()))


known_checks = cache(battery)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_sources(mutant):
    path, text = edited(mutant)
    compile(text, path, "exec")
    assert undefined(text) <= undefined(path.read_text()), "it speaks of names that the code does not have any more"
    assert ast.dump(ast.parse(text)) != meaning(path), "the mutant is what it replaces"
    for check in mutant.checks.split():
        if check.startswith(TESTS):
            file, *names = check.split("::")
            assert (ROOT / file).exists()
            assert all(f" {name}" in (ROOT / file).read_text() for name in names), check
        else:
            assert check in known_checks()


def test_every_marker_has_a_mutant():
    assert marked(SOURCE).keys() == {mutant.place for mutant in MUTANTS}
    assert all(len(places) == 1 for places in marked(SOURCE).values())


@pytest.mark.long
def test_every_mutant_is_killed():
    outcomes = hunt([WHOLE, *map(planted, MUTANTS)], show, 2)
    assert not [name for name, outcome in outcomes if not as_it_should(name, outcome)]


def test_generated_mutants_are_small_changes_that_compile():
    """One place each, the same ones for the same seed, with tests that are there, of files that are there."""
    names = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")]
    assert [prefix for prefix in TESTED_BY if not any(name.startswith(prefix) for name in names)] == []
    edits = list(generated(40, 1))
    assert edits == list(generated(40, 1))
    assert len({name for name, *_ in edits}) == 40
    for _, path, text, checks in edits:
        compile(text, path, "exec")
        before, after = path.read_text().splitlines(), text.splitlines()
        assert len(before) == len(after)
        assert sum(one != two for one, two in zip(before, after, strict=True)) == 1
        assert all((ROOT / check).exists() for check in checks.split())
