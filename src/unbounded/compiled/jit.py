"""How everything is compiled: options, dispatch on families, and what a cached kernel depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba as nb
from numba.core import types
from numba.extending import overload

# Everything that lets loops vectorise, but infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}


def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _sources_digest()


def _compiled(inlining: str, **others: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile, and cache on disk until any source of the package changes.

    Numba looks at the file of the cached function alone, but a kernel contains code of the likelihoods: its stamp must
    cover them, or a changed likelihood would silently run old code. An index of older sources may even name classes
    that are no more: it is stale, too.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options: Any = {"nogil": True, "cache": True, "fastmath": FAST, "error_model": "numpy", "inline": inlining}
        options |= others
        dispatcher = nb.njit(**options)(function)
        file = dispatcher._cache._cache_file
        file._source_stamp = _SOURCES
        read = file._load_index

        def load_index() -> Any:
            try:
                return read()
            except (AttributeError, ImportError):
                return {}

        file._load_index = load_index
        return dispatcher

    return decorate


jit = _compiled("never")
inline = _compiled("always")
# For what a loop over rows calls: it counts no references, so it must neither make nor return an array, only borrow.
borrow = _compiled("never", _nrt=False)


def implements(operation: Callable[..., Any], family_class: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register compiled code for `operation` when its first argument is a `family_class` (a NamedTuple).

    Numba picks the implementation while compiling, from the type alone, so that a kernel over any mix of families is
    straight-line code and can be cached on disk.
    """

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        def choose(family: Any, *args: Any) -> Callable[..., Any] | None:
            return implementation if getattr(family, "instance_class", None) is family_class else None

        overload(operation, jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False)(choose)
        return implementation

    return register


def over_parts(operation: Callable[..., Any], recurse: Callable[..., Any], stop: Callable[..., Any]) -> None:
    """Register `operation` for a plain tuple of families: `recurse` on a non-empty one, `stop` on the empty one."""

    def choose(family: Any, *args: Any) -> Callable[..., Any] | None:
        if not isinstance(family, types.BaseTuple) or isinstance(family, types.BaseNamedTuple):
            return None
        return recurse if len(family) else stop

    overload(operation, jit_options={"nogil": True, "fastmath": FAST, "error_model": "numpy"}, strict=False)(choose)
