"""What compiled code contains: a digest of a function and of everything that Numba compiles into it.

Bytecode, constants and the globals that it names, followed through every function it calls; no comments, docstrings or
line numbers, and nothing that is merely in the same file. Code that is chosen by the type of an argument (`implements`)
counts where such an argument can occur: in the signature, or because the code makes one.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import marshal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.extending import _Intrinsic

_FOREIGN = {
    "numba",
    "numpy",
    "llvmlite",
    "scipy",
    *sys.stdlib_module_names,
}  # named only: they have versions


def contents(function: Callable[..., Any], signature: tuple[Any, ...]) -> str:
    """The digest of what is compiled when the function is called with arguments of these types, and of the options."""
    found = _Contents()
    found.add(function)
    for kind in signature:
        found.add_classes(kind)
    return _digest("\n".join(sorted(found.texts)))


class _Choice(NamedTuple):
    """Code that is chosen by types of arguments, and the options that it is compiled with."""

    choose: Callable[..., Any]
    options: str

    @property
    def spec_class(self) -> type | None:
        """The class that its first argument must have (`implements`); None: the code decides by itself."""
        return getattr(self.choose, "spec_class", None)


class _Contents:
    """Everything that a function reaches, each as a text that names what it refers to."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._classes: set[type] = set()
        self._waiting: list[_Choice] = []  # for arguments of a class that was not found yet

    def add(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self.texts.add(_name(value))
        if isinstance(value, _Intrinsic):
            self.add(value._defn)
        elif isinstance(value, Dispatcher):
            self.add(value.py_func)
        elif isinstance(value, FunctionType) and not _foreign(value):
            self._add_function(value)
        elif isinstance(value, type) and not _foreign(value):
            self._add_class(value)

    def add_classes(self, kind: Any) -> None:
        """The NamedTuples anywhere in the type of an argument."""
        if isinstance(kind, types.BaseNamedTuple):
            self.add(getattr(kind, "instance_class", None))
        if isinstance(kind, types.BaseTuple):
            for part in getattr(kind, "types", ()):
                self.add_classes(part)

    def _add_function(self, function: FunctionType) -> None:
        referred = dict(_referred(function))
        names = {name: _name(value) for name, value in sorted(referred.items())}
        self.texts.add(f"{_name(function)} {names}")
        for value in referred.values():
            self.add(value)
        for choice in _choices(function):
            if choice.spec_class is None or choice.spec_class in self._classes:
                self._add_choice(choice)
            else:
                self._waiting.append(choice)

    def _add_class(self, found: type) -> None:
        self._classes.add(found)
        ready = [choice for choice in self._waiting if choice.spec_class is found]
        self._waiting = [choice for choice in self._waiting if choice.spec_class is not found]
        for choice in ready:
            self._add_choice(choice)

    def _add_choice(self, choice: _Choice) -> None:
        self.texts.add(f"{_name(choice.choose)} {choice.options}")
        self.add(choice.choose)


def _referred(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals and cells that a function names (and a few that merely share the name of an attribute)."""
    names = set(_names(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType) and not _foreign(value):
            for attribute in names & vars(value).keys():
                yield f"{name}.{attribute}", vars(value)[attribute]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    yield from ((name, cell.cell_contents) for name, cell in cells)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _choices(function: FunctionType) -> list[_Choice]:
    """All of them for a function that has no compiled code of its own (Numba's overloads)."""
    context = cpu_target.typing_context
    context.refresh()
    known = context._lookup_global(function)
    templates = known.templates if isinstance(known, types.Function) else ()
    ours = [template for template in templates if hasattr(template, "_overload_func")]
    return [_Choice(template._overload_func, _constant(template._jit_options)) for template in ours]


def _foreign(value: Any) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    return (module or "builtins").partition(".")[0] in _FOREIGN


def _name(value: Any) -> str:
    """What a value is, as far as a text can say without following what it refers to."""
    if isinstance(value, Dispatcher):
        part = getattr(value, "part", object).__name__
        return f"compiled {_constant(value.targetoptions)} {part} {_name(value.py_func)}"
    if isinstance(value, _Intrinsic):
        return f"intrinsic {_name(value._defn)}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, FunctionType | BuiltinFunctionType | np.ufunc | type):
        place = f"{getattr(value, '__module__', 'numpy')}.{getattr(value, '__qualname__', value.__name__)}"
        if isinstance(value, FunctionType) and not _foreign(value):
            return f"{place} {_digest(_code(value))} {_constant(value.__defaults__)}"
        if isinstance(value, type) and not _foreign(value):
            settings = {name: held for name, held in vars(value).items() if isinstance(held, bool | int | float)}
            return (
                f"{place} {getattr(value, '_fields', ())} {_constant(getattr(value, '_field_defaults', {}))} {settings}"
            )
        return place
    return _constant(value)


def _constant(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_name, value))})"
    if isinstance(value, frozenset | set):
        return f"set({', '.join(sorted(map(_name, value)))})"
    if isinstance(value, slice):  # a constant since Python 3.14
        return f"slice({', '.join(map(_name, (value.start, value.stop, value.step)))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_name(key)}: {_name(value[key])}' for key in value)})"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype.str} {value.shape} {_digest(repr(value.tobytes()))}"
    if (
        value is None
        or value is ...
        or isinstance(value, bool | int | float | complex | str | bytes | np.generic | np.dtype)
    ):
        return f"{type(value).__name__} {value!r}"
    raise TypeError(f"compiled code refers to {value!r}, and no digest can tell whether that changed")


@cache
def _code(function: FunctionType) -> str:
    return _code_text(function.__code__, function.__doc__)


def _code_text(code: CodeType, docstring: str | None = None) -> str:
    constants = list(code.co_consts)
    if docstring is not None and constants and constants[0] == docstring:
        constants[0] = None
    texts = [_code_text(c) if isinstance(c, CodeType) else _constant(c) for c in constants]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return f"{code.co_code!r} {names} {shape} {texts} {getattr(code, 'co_exceptiontable', b'')!r}"


@cache
def code_of(module: ModuleType) -> str:
    """A digest of the code of a module, without comments and docstrings."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except OSError:  # an application that was packed without sources
        return _digest(repr(marshal.dumps(module.__loader__.get_code(module.__name__))))  # type: ignore[union-attr]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            del node.body[0]
    return _digest(ast.dump(tree))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
