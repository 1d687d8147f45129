"""The tables of docs/map.md have every file of the package, by its path, and no file that is not there."""

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
