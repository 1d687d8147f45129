"""Docstrings that are joined: what an option means is written once, in the class that has the option.

Estimators have some twenty options in common. `help()` shows all of them, and so does the reference.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T", bound=type)

PARAMETERS, ATTRIBUTES = "Parameters", "Attributes"
_SECTION = re.compile(r"^(\w+)\n-{3,}\n(.*?)(?=^\w+\n-{3,}\n|\Z)", re.M | re.S)
_ENTRY = re.compile(r"^(?=\w+ : )", re.M)


def joined(kind: T) -> T:
    """A decorator of classes: all parameters of the signature, each with the entry of the nearest class that has one;
    those that can be given without a name first, those of base classes last. And all attributes in this order."""
    if kind.__doc__ is None:  # Python was told to leave docstrings out
        return kind
    text = inspect.cleandoc(kind.__doc__)
    families = [inspect.cleandoc(vars(base).get("__doc__") or "") for base in kind.__mro__]
    parameters, attributes = _nearest(families, PARAMETERS), _nearest(families, ATTRIBUTES)
    taken = inspect.signature(kind).parameters
    first = [name for name, one in taken.items() if one.kind is not one.KEYWORD_ONLY and name in parameters]
    order = dict.fromkeys([*first, *(name for name in parameters if name in taken)])
    listed = {PARAMETERS: [parameters[name] for name in order], ATTRIBUTES: list(attributes.values())}
    rest = "".join(found[0] for found in _SECTION.finditer(text) if found[1] not in listed)
    lists = [f"{title}\n{'-' * len(title)}\n" + "\n".join(lines) for title, lines in listed.items() if lines]
    kind.__doc__ = "\n\n".join([_SECTION.sub("", text).strip(), *lists, rest.strip()])
    return kind


def _nearest(texts: Sequence[str], section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        found = found | {name: entry for name, entry in entries(text, section).items() if name not in found}
    return found


def entries(text: str, section: str) -> dict[str, str]:
    """The entries of a section of a docstring, by name."""
    found = next((one[2] for one in _SECTION.finditer(text) if one[1] == section), "")
    listed = [entry.rstrip() for entry in _ENTRY.split(found) if entry.strip()]
    return {entry.partition(" : ")[0]: entry for entry in listed}
