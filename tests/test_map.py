"""docs/map.md has every file of the package, tests/README.md every test, by its path, and neither has any other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unbounded

PACKAGE = Path(unbounded.__file__).parent
MAP = Path(__file__).parents[1] / "docs" / "map.md"
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def on_the_map() -> set[str]:
    return set(re.findall(r"^\| `([\w/]+\.py)` \|", MAP.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", [name for name, path in FILES.items() if path.read_text().strip()])
def test_every_file_is_on_the_map(name):
    assert name in on_the_map(), f"{name} is not in docs/map.md: say what is in it and what it may know."


def test_the_map_shows_no_other_file():
    assert sorted(on_the_map() - FILES.keys()) == []


TESTS = Path(__file__).parent
LISTED = set(re.findall(r"`((?:\w+/)*test_\w+\.py)`", (TESTS / "README.md").read_text()))
THERE = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}


@pytest.mark.parametrize("name", sorted(THERE))
def test_every_test_is_in_the_readme(name):
    known = {name, Path(name).name} if Path(name).parent.name in ("exactness", "conformance") else {name}
    assert known & LISTED, f"{name} is not in tests/README.md: say what it proves."


def test_the_readme_names_no_other_test():
    names = {Path(name).name for name in THERE}
    assert sorted(name for name in LISTED if name not in THERE | names) == []
