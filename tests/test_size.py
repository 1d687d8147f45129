"""Functions stay short, and take few arguments: also compiled ones, whose arguments come in structures."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unbounded

PACKAGE = Path(unbounded.__file__).parent
LINES, PARAMETERS = 60, 8
COMMANDS = {("cli/commands.py", "fit")}  # its parameters are the options of the command line


def parameters(function: ast.FunctionDef) -> int:
    """Without self and cls."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return sum(one.arg not in ("self", "cls") for one in every)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_short_and_take_little(path):
    name = path.relative_to(PACKAGE).as_posix()
    tree = ast.walk(ast.parse(path.read_text()))
    functions = [node for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [f"{f.name} has {f.end_lineno - f.lineno + 1} lines" for f in functions if f.end_lineno - f.lineno >= LINES]
    wide = [f for f in functions if parameters(f) > PARAMETERS and (name, f.name) not in COMMANDS]
    assert long + [f"{f.name} has {parameters(f)} parameters" for f in wide] == []
