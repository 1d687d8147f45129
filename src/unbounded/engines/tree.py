"""The fixed binary tree over shard index along which summaries are added, so that rounding never depends on who worked
when, nor on how many workers there are.

A node is named by the shards (start, stop) under it. Its children are the first half, whose size is a power of two, and
the rest. Whoever holds some nodes adds those that are siblings, as soon as both are there, and passes on what is left.
"""

from __future__ import annotations

from unbounded.arrays import Arrays

Node = tuple[int, int]


class Sum:
    """Nodes of the tree of P shards, siblings added: never more than a few at a time where shards come in order."""

    def __init__(self, n_shards: int):
        self.n_shards = n_shards
        self.nodes: dict[Node, Arrays] = {}

    def add(self, node: Node, value: Arrays) -> None:
        """A shard p is the node (p, p + 1)."""
        start, stop = node
        size = 1 << (stop - start - 1).bit_length()
        while size < self.n_shards:
            left = start - start % (2 * size)
            middle = left + size
            if middle < self.n_shards:  # else the parent has no other child
                sibling = (left, middle) if start == middle else (middle, min(middle + size, self.n_shards))
                if sibling not in self.nodes:
                    break
                other = self.nodes.pop(sibling)
                value = _plus(other, value) if start == middle else _plus(value, other)
            start, size = left, 2 * size
        self.nodes[start, min(start + size, self.n_shards)] = value

    @property
    def total(self) -> Arrays:
        """Of all shards, which must be there."""
        (whole,) = self.nodes.values()
        return whole


def _plus(a: Arrays, b: Arrays) -> Arrays:
    return {name: value + b[name] for name, value in a.items()}
