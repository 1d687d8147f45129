"""Options: of something that was itself chosen by name (an engine or a sampler), and those that came later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

BEFORE = "before"  # in the metadata of an option that came later: what runs had before there was one


def check_options(what: str, known: Sequence[str], given: Mapping[str, Any] | None) -> None:
    """Refuse options that are not among the known ones."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"options of {what} come as a dictionary, got {given!r}.")
    for name in given or {}:
        if name not in known:
            raise ValueError(
                f"{what} has no option {name!r}; " + (f"it has {', '.join(known)}." if known else "it has none.")
            )
