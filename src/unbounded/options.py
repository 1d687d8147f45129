"""Options that come by name for something that was itself chosen by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from inspect import signature
from typing import Any


def check_options(
    what: str, maker: Callable[..., Any], given: Mapping[str, Any] | None, others: Collection[str]
) -> None:
    """Refuse options that `maker` does not have; others: its parameters that are not options."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"options of {what} come as a dictionary, got {given!r}.")
    known = [name for name in signature(maker).parameters if name not in others]
    for name in given or {}:
        if name not in known:
            raise ValueError(
                f"{what} has no option {name!r}; " + (f"it has {', '.join(known)}." if known else "it has none.")
            )
