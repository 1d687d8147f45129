"""Pieces of a fit in words, and names that came with the data, wherever they are shown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded.shares import ABOVE

if TYPE_CHECKING:
    import xarray

_SHOWN = 20
# Control characters, which terminals obey; line ends; changes of the direction of writing; code points without meaning.
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(name: Any) -> str:
    """A name of the user's data, fit to be printed: control characters are written as Python escapes them."""
    return _ODD.sub(lambda odd: odd[0].encode("unicode_escape").decode(), str(name))  # mutant: plain


def escaped(name: Any) -> str:
    """The same for HTML and SVG."""
    return html.escape(plain(name), quote=True)


def without_math(name: Any) -> str:
    """The same for Matplotlib, to which text between dollars would be mathematics."""
    return plain(name).replace("$", r"\$")


def plain_name(thing: Any) -> str:
    """The name of a configured thing."""
    return str(thing.get("name", "")) if isinstance(thing, dict) else str(thing).partition("(")[0]


def interval(draws: xarray.DataArray) -> str:
    """The posterior of a number, in words."""
    values = draws.values.ravel()
    low, high = np.quantile(values, [0.05, 0.95])
    return f"mean {values.mean():.2f}, 90% interval {low:.0f} to {high:.0f}"


def counted(number: int, n_above: Callable[[float], int]) -> str:
    """A number of atoms, and how many of them are more than a few rows."""
    large = [f"{n_above(least)} {name.replace('_', ' ')}" for name, least in ABOVE.items()]
    return f"{number}, of which {' and '.join(large)} of the rows"


def listed(words: Sequence[str]) -> str:
    """The first of many; past twenty, dots."""
    return ", ".join(words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
