"""Who may know whom: an axis imports what is below it, a model imports axes, nobody reaches into a model's folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unbounded

PACKAGE = Path(unbounded.__file__).parent

# From the bottom to the top. A file imports from its own room and from rooms below; rooms of one line are neighbours
# that do not know each other.
LAYERS = (
    ("arrays", "disk", "docstrings", "options", "version", "compiled"),
    ("shares", "rows", "priors", "randomness", "sources", "gpu", "categories"),
    ("columns", "datasets"),
    ("contracts",),
    ("family", "instantiation", "likelihoods", "engines"),
    ("setup", "round", "holdout"),
    ("chain",),
    ("report/phrases", "inputs"),
    ("outputs",),
    ("report/svg", "report/plots", "estimator"),
    ("report/parts", "report/looks"),
    ("models/labelled",),
    ("models/mixtures", "models/features"),
    ("models/groups",),  # its start and its top-level process are those of a mixture
    ("models/families",),
    ("report/view", "report/text"),
    ("report/tables", "report/draws"),
    ("report/page", "report/live"),
    ("cli", "public"),
    ("__init__", "__main__"),
)
HEIGHT = {room: height for height, rooms in enumerate(LAYERS) for room in rooms}
MODELS = ("models/mixtures", "models/features", "models/groups")

ONLY = {"engines": {"contracts", "arrays", "disk", "options"}}
EDGES_BETWEEN_MODELS = {("models/groups", "models/mixtures")}
UPWARD = {("outputs", "report/page")}  # the method `report`, which imports the page when it is called
DOORS = {"models/families", "public", "__init__"}  # who may reach into the folders of models

FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    name = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return name.removesuffix("/__init__") if name != "__init__" else name


def room_of(name: str) -> str:
    """The longest beginning of the name that is a room."""
    parts = name.split("/")
    for size in range(len(parts), 0, -1):
        if "/".join(parts[:size]) in HEIGHT:
            return "/".join(parts[:size])
    return name


def imported(path: Path) -> Iterator[str]:
    """Files of the package that this one imports, wherever in it; also those that only types need."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "unbounded":
                yield file_of(name.split(".")[1:])


def file_of(parts: list[str]) -> str:
    while parts:
        place = PACKAGE.joinpath(*parts)
        if place.with_suffix(".py").exists() or (place / "__init__.py").exists():
            return "/".join(parts)
        parts = parts[:-1]
    return "__init__"


def allowed(room: str, other: str) -> bool:
    if room == other or (room, other) in UPWARD:
        return True
    if other in MODELS and room not in DOORS:
        return (room, other) in EDGES_BETWEEN_MODELS
    return other in ONLY.get(room, {other}) and HEIGHT[other] < HEIGHT[room]


def test_every_file_has_a_room():
    without = [name_of(path) for path in FILES if room_of(name_of(path)) not in HEIGHT]
    assert set(without) <= {"models", "report"}  # folders that only hold rooms
    assert [list(imported(PACKAGE / folder / "__init__.py")) for folder in ("models", "report")] == [[], []]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_down(path):
    room = room_of(name_of(path))
    wrong = sorted({other for other in imported(path) if not allowed(room, room_of(other))})
    assert wrong == []
