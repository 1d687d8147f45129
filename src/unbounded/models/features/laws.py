"""The law that a measure gives to an entry of Z, in compiled code: its operations.

A law is a NamedTuple in the file of its measure, with at least `rate` (of new atoms for a row) and `first` (the
probability that the entry of a new atom is 1). The implementation is chosen while compiling, by the type of the law.
"""

from __future__ import annotations

import math
from typing import Any

from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import jit

LARGEST = 32767  # an entry of Z never gets larger; the mass beyond is far below rounding


def is_binary(law: Any) -> Any:
    """Whether entries are 0 or 1."""


def entry_ratio(law: Any, others: float, weight: float, z: int) -> Any:
    """p(z + 1) / p(z) of an entry; others: the column's count in other rows; negative for a mobile column."""


def entry_ceiling(law: Any, others: float, weight: float, z: int) -> Any:
    """An upper bound of `entry_ratio` at z and beyond."""


def tail_weight(law: Any, others: float, z: int, key: Any) -> Any:
    """A weight for an entry of a private column, where it cannot be integrated out in closed form."""


def new_ratio(law: Any, z: int) -> Any:
    """P(z + 1) / P(z) for the entry of a new atom; P(1) is law.first."""


def draw_column(law: Any, column: Any, pull: Any, weight: float, curve: float, key: Any, row: int, work: Any) -> None:
    """Draw the entries `column[r]` of a mobile column from their weight and log likelihood pull z - curve z^2 / 2."""


@jit
def new_count(law, u):
    """The entry of a new atom."""
    p = law.first
    aim = u - p
    value = 1
    while aim >= 0.0 and value < LARGEST:
        p *= new_ratio(law, value)
        if p <= 0.0:
            break
        value += 1
        aim -= p
    return value


@jit
def _births(law, u):
    """How many new atoms a row proposes: a draw of Poisson(rate) by inversion."""
    p = math.exp(-law.rate)
    count = 0
    aim = u - p
    while aim >= 0.0 and count < 64:
        count += 1
        p *= law.rate / count
        aim -= p
    return count


@jit
def draw_births(law, sweeps, size, key, row, born):
    """Draw the births of every sweep over a block in advance; returns their number."""
    total = 0
    if law.rate <= 0.0:
        born[: sweeps * size] = 0
        return total
    none_at_all = math.exp(-law.rate)
    for sweep in range(sweeps):
        own = stream(key, sweep)
        proposing = 0
        for r in range(size):
            proposing += uniform(own, row + r) >= none_at_all
        for r in range(size):
            born[sweep * size + r] = 0
        for r in range(size if proposing else 0):
            count = _births(law, uniform(own, row + r))
            born[sweep * size + r] = count
            total += count
    return total
