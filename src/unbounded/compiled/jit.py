"""How everything is compiled: options, and code chosen by the type of an argument."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.registry import CPUDispatcher
from numba.extending import overload

from unbounded.compiled.cache import Cache
from unbounded.compiled.pipeline import InlinedPart, Part, Whole

# Everything that lets loops vectorise, but infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}

_OPTIONS: dict[str, Any] = {
    "nopython": True, "nogil": True, "fastmath": FAST, "error_model": "numpy",
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
OVERLOAD: dict[str, Any] = {"jit_options": {**_OPTIONS, "pipeline_class": Part}, "strict": False}
INLINE: dict[str, Any] = {"jit_options": {**_OPTIONS, "pipeline_class": InlinedPart}, "strict": False}


class Compiled(CPUDispatcher):
    """A function that is compiled when it is first called, and kept on disk (`cache`).

    Calls from other compiled code go to a dispatcher of their own: their code is part of the caller's and of its file.
    """

    def __init__(self, py_func: Callable[..., Any], part: type = Part) -> None:
        super().__init__(py_func, targetoptions=dict(_OPTIONS), pipeline_class=Whole)
        self.part = part  # how it becomes part of its callers
        self._cache = Cache(self)
        self._part = CPUDispatcher(py_func, targetoptions=dict(_OPTIONS), pipeline_class=part)

    def compile(self, sig: Any) -> Any:
        """Compile with the garbage collector off, which would scan all that Numba makes again and again."""
        collects = gc.isenabled()
        with self._cache.turn():
            gc.disable()
            try:
                return super().compile(sig)
            finally:
                if collects:
                    gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        # A counter starts as the literal 0 and turns out to be any integer later: compile for integers at once.
        return self._part.get_call_template(tuple(types.unliteral(kind) for kind in args), kws)

    def get_overload(self, sig: Any) -> Any:
        return self._part.get_overload(sig)

    def _reduce_states(self) -> dict[str, Any]:
        return {"py_func": self.py_func, "part": self.part}

    @classmethod
    def _rebuild(cls, py_func: Callable[..., Any], part: type) -> Any:
        return cls(py_func, part)


def jit(function: Callable[..., Any]) -> Any:
    """Compile; a call from other compiled code stays a call, unless LLVM thinks better."""
    return Compiled(function)


def inline(function: Callable[..., Any]) -> Any:
    """Compile, and copy the function's code to wherever it is called: for what a loop over rows must not call."""
    return Compiled(function, InlinedPart)


def implements(operation: Callable[..., Any], spec_class: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register compiled code for `operation` when its first argument is a `spec_class` (a NamedTuple).

    Numba picks the implementation while compiling, from the type alone, so that a kernel over any mix of specs is
    straight-line code and can be cached on disk.
    """

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def choose(spec: Any, *args: Any) -> Callable[..., Any] | None:
            return implementation if getattr(spec, "instance_class", None) is spec_class else None

        choose.spec_class = spec_class  # type: ignore[attr-defined]  # so that `contents` knows what it is for
        overload(operation, **OVERLOAD)(choose)
        return implementation

    return register


def over_parts(operation: Callable[..., Any], one: Callable[..., Any], more: Callable[..., Any]) -> None:
    """Register `operation` for a plain tuple of specs: `one` for a single spec, `more` for several of them."""

    def choose(spec: Any, *args: Any) -> Callable[..., Any] | None:
        if not isinstance(spec, types.BaseTuple) or isinstance(spec, types.BaseNamedTuple):
            return None
        return one if len(spec) == 1 else more

    overload(operation, **OVERLOAD)(choose)
