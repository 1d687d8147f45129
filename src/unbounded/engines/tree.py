"""The fixed binary tree over shard index along which summaries are added, so that rounding never depends on who worked
when, nor on how many workers there are.

A node is named by the shards (start, stop) under it. Its children are the first half, whose size is a power of two, and
the rest. Whoever holds some nodes can add those that are siblings and pass on what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unbounded.contracts import Arrays

Nodes = dict[tuple[int, int], Arrays]


def leaves(first: int, parts: Sequence[Arrays]) -> Nodes:
    """The summaries of shards first, first + 1, ..."""
    return {(first + i, first + i + 1): part for i, part in enumerate(parts)}


def merged(nodes: Mapping[tuple[int, int], Arrays], n_shards: int) -> Nodes:
    """The same with all siblings added: one node for each largest subtree whose shards are all there."""
    out = dict(nodes)
    size = 1
    while size < n_shards:
        for start in range(0, n_shards - size, 2 * size):
            left, right = (start, start + size), (start + size, min(start + 2 * size, n_shards))
            if left in out and right in out:
                out[start, right[1]] = _add(out.pop(left), out.pop(right))
        size *= 2
    return out


def total(nodes: Mapping[tuple[int, int], Arrays], n_shards: int) -> Arrays:
    """The sum of all shards from nodes that cover them."""
    (whole,) = merged(nodes, n_shards).values()
    return whole


def _add(a: Arrays, b: Arrays) -> Arrays:
    return {name: value + b[name] for name, value in a.items()}
