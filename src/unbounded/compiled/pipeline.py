"""How Numba compiles what is called from Python, and what is only called from other compiled code.

Numba makes machine code of every function, and code that takes its arguments from Python. A function that only becomes
part of others needs neither: together they take about as long as everything else.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import AnnotateTypes, NativeLowering


class _PartLibrary(JITCodeLibrary):
    """Code that is optimised and then linked into that of its callers: no machine code is made of it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _InlinedLibrary(_PartLibrary):
    """The same, not optimised by itself: it rounds as if it had been written where it is called."""

    def _optimize_functions(self, ll_module: Any) -> None:
        pass

    def _optimize_final_module(self) -> None:
        pass


class _Pass(LoweringPass):
    def __init__(self) -> None:  # abstract in Numba
        pass


@register_pass(mutates_CFG=False, analysis_only=False)
class _BeginPart(_Pass):
    _name = "begin_part"

    def run_pass(self, state: Any) -> bool:
        library = _InlinedLibrary if state.flags.forceinline else _PartLibrary
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _EndPart(_Pass):
    """Make the part known to its callers, as Numba does, but by a handle that Python cannot call."""

    _name = "end_part"

    def run_pass(self, state: Any) -> bool:
        lowered, library = state["cr"], state.library
        library._ensure_finalized()
        name = lowered.fndesc.qualname
        handle = _dynfunc.make_function(lowered.fndesc.lookup_module(), name, name, 0, lowered.env, (library,))
        state.targetctx.insert_user_function(handle, lowered.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=handle, env=lowered.env)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _Inline(_Pass):
    """Ask LLVM to copy the code. Numba's own way (inline="always") infers types anew at every place: seconds."""

    _name = "inline"

    def run_pass(self, state: Any) -> bool:
        state.flags.forceinline = True
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _WayIn(_Pass):
    """Ask for code that takes its arguments from Python.

    Only now: until here the options are those of a part, so that what both call is compiled once.
    """

    _name = "way_in"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_cpython_wrapper = False
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _SetEnvironments(_Pass):
    """What a part keeps for its errors must be known to the code that it has become part of."""

    _name = "set_environments"

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                codegen.set_env(variable.name, environment)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _BorrowArrays(_Pass):
    """Count no references where no array is made or returned: the caller holds all of them for as long as this runs.

    Counting is a good part of the code that Numba writes for a structure of arrays, and of the time of short calls.
    """

    _name = "borrow_arrays"

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks.values()
        expressions = [e for block in blocks for e in block.find_exprs() if state.calltypes.get(e)]
        made = [state.calltypes[e].return_type for e in expressions if not _views(e, state)]
        stores = [store for block in blocks for store in block.find_insts((ir.SetItem, ir.StaticSetItem))]
        stored = [state.typemap[store.value.name] for store in stores]  # an array that overlaps is copied on the way
        if not any(map(_counted, [state.return_type, *made, *stored])):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return True


def _views(expression: Any, state: Any) -> bool:
    """Whether an expression, if its value is an array, only looks at one that there is already."""
    if expression.op == "call":  # of the class of a structure
        return isinstance(state.typemap[expression.func.name], types.NamedTupleClass)
    if expression.op in ("getitem", "static_getitem", "typed_getitem"):
        index = state.calltypes[expression].args[1]
        parts = getattr(index, "types", (index,))
        return not any(isinstance(part, types.Array) for part in parts)
    return expression.op in ("getattr", "build_tuple", "cast", "exhaust_iter")


def _counted(kind: Any) -> bool:
    """Whether values of a type hold references: arrays, tuples of them, whatever is neither number nor empty."""
    if isinstance(kind, types.BaseTuple):
        return any(map(_counted, getattr(kind, "types", ())))
    if isinstance(kind, types.Pair):
        return _counted(kind.first_type) or _counted(kind.second_type)
    return not isinstance(
        kind, types.Number | types.Boolean | types.NoneType | types.RangeType | types.RangeIteratorType
    )


def _passes(state: Any, before: tuple[type, ...], after: type) -> list[Any]:
    """Numba's own passes, with these before code is written, the last one first, and that after it."""
    passes = DefaultPassBuilder.define_nopython_pipeline(state)
    for each in (_BorrowArrays, *before):
        passes.add_pass_after(each, AnnotateTypes)
    passes.add_pass_after(after, NativeLowering)
    passes.finalize()
    return [passes]


class Part(CompilerBase):
    """For functions that are called from compiled code."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, (_BeginPart,), _EndPart)


class InlinedPart(CompilerBase):
    """For functions whose code must be copied to wherever they are called."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, (_BeginPart, _Inline), _EndPart)


class Whole(CompilerBase):
    """For functions that are called from Python."""

    def define_pipelines(self) -> list[Any]:
        return _passes(self.state, (_WayIn,), _SetEnvironments)
