"""Every function of the package is annotated, but for those that Numba types."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unbounded
from unbounded import contracts, datasets, family, setup

PACKAGE = Path(unbounded.__file__).parent
COMPILED = {"jit", "inline", "implements", "intrinsic", "overload", "njit", "over_parts"}


def name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def handed_over(tree: ast.AST) -> set[str]:
    """Names of functions that are registered by a call, not by a decorator."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name_of(node) in COMPILED]
    return {argument.id for call in calls for argument in call.args if isinstance(argument, ast.Name)}


def functions(tree: ast.AST, compiled: bool = False):
    """Functions with whether they are compiled; what is inside of a compiled function is compiled with it."""
    for node in ast.iter_child_nodes(tree):
        own = compiled
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own = compiled or any(name_of(decorator) in COMPILED for decorator in node.decorator_list)
            yield node, own
        yield from functions(node, own)


def missing(function: ast.FunctionDef) -> bool:
    """The first parameter of a method needs no annotation, and a constructor with parameters no return type."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [extra for extra in (function.args.vararg, function.args.kwarg) if extra]
    bare = [arg for arg in every if arg.annotation is None and arg.arg not in ("self", "cls")]
    return bool(bare) or (function.returns is None and not (function.name == "__init__" and every[1:]))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_annotated(path):
    tree = ast.parse(path.read_text())
    own = [f for f, compiled in functions(tree) if not compiled and f.name not in handed_over(tree)]
    bare = [f"{f.name} (line {f.lineno})" for f in own if missing(f)]
    assert bare == []


def public_callables() -> dict[str, object]:
    """Exported functions and classes, and public methods of the latter that are our own."""
    found: dict[str, object] = {}
    for name in unbounded.__all__:
        thing = getattr(unbounded, name)
        if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
            continue
        found[name] = thing
        for method, value in inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else ():
            if not method.startswith("_") and value.__module__.startswith("unbounded"):
                found[f"{name}.{method}"] = value
    return found


CONTRACTS = (contracts, family, setup, datasets.examples, datasets.generators, datasets.reading)


def contracted_callables() -> Iterator[tuple[str, object]]:
    """Functions, classes and methods of the files that say what others may rely on."""
    for module in CONTRACTS:
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", "") != module.__name__ or not callable(thing):
                continue
            yield f"{module.__name__}.{name}", thing
            for method, value in vars(thing).items() if inspect.isclass(thing) else ():
                if inspect.isfunction(value) and (method == "__call__" or not method.startswith("_")):
                    yield f"{module.__name__}.{name}.{method}", value


@pytest.mark.parametrize(("name", "thing"), list(contracted_callables()))
def test_contracts_say_what_they_take(name, thing):
    """A type that must stay open has a name that says of what."""
    signature = inspect.signature(thing)
    annotations = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    annotations["return"] = signature.return_annotation
    assert [one for one, annotation in annotations.items() if annotation in ("Any", Any)] == [], name


@pytest.mark.parametrize("name", public_callables())
def test_public_signatures_say_what_they_take(name):
    signature = inspect.signature(public_callables()[name])
    annotations = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    annotations["return"] = signature.return_annotation
    bare = [one for one, annotation in annotations.items() if annotation in ("Any", Any) and one != "fit_params"]
    assert bare == []
