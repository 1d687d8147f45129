"""The fixed binary tree over shard index along which summaries are added, and which worker adds what.

Rounding must not depend on who worked when, nor on how many workers there are: so shards are added along one tree,
whoever holds them. A worker adds up what it can of its own block. What it cannot add, it sends to the worker that
holds the other half, and so on up the tree; the driver receives the sum of all shards, and nothing else of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unbounded.arrays import Arrays

Node = tuple[int, int]  # by the shards (start, stop) under it


class Sum:
    """Nodes of the tree of P shards, siblings added: never more than a few at a time where shards come in order.

    The children of a node are its first half, whose size is a power of two, and the rest. Whoever holds some nodes adds
    those that are siblings, as soon as both are there. Several threads may add at once, each what it has completed.
    """

    def __init__(self, n_shards: int):
        self.n_shards = n_shards
        self.nodes: dict[Node, Arrays] = {}
        self._lock = threading.Lock()

    def add(self, node: Node, value: Arrays) -> None:
        """A shard p is the node (p, p + 1)."""
        while (other := self._sibling(node, value)) is not None:
            sibling, there = other
            value = _plus(there, value) if sibling < node else _plus(value, there)
            node = min(sibling, node)[0], max(sibling, node)[1]

    def _sibling(self, node: Node, value: Arrays) -> tuple[Node, Arrays] | None:
        """The sibling and what it holds, taken away; where it is not there, this node waits for it instead."""
        sibling = sibling_of(node, self.n_shards)
        with self._lock:
            if sibling in self.nodes:
                return sibling, self.nodes.pop(sibling)
            self.nodes[node] = value
            return None

    @property
    def total(self) -> Arrays:
        """Of all shards, which must be there."""
        return self.nodes[0, self.n_shards]


def sibling_of(node: Node, n_shards: int) -> Node:
    """The other child of the node's parent; of the whole tree, a node that never is."""
    start, stop = node
    size = 1 << (stop - start - 1).bit_length()
    while size < n_shards:
        left = start - start % (2 * size)  # mutant: tree left
        middle = left + size
        if middle < n_shards:  # else the parent has no other child, and the node is its own parent
            return (left, middle) if start == middle else (middle, min(middle + size, n_shards))
        start, size = left, 2 * size
    return (n_shards, n_shards)


class Route(NamedTuple):
    """A worker's part in the sum: its block of shards, where nodes of its go, and how many come from others."""

    block: range
    leaving: Mapping[Node, int]  # to which worker
    expected: int

    @property
    def early(self) -> int:
        """How many of the leaving nodes are made of this block alone."""
        return sum(stop <= self.block.stop for _, stop in self.leaving)

    @property
    def late(self) -> int:
        """How many leave with the last node that comes: one or none, since such nodes are within each other."""
        return len(self.leaving) - self.early


def routes(n_shards: int, blocks: Sequence[range]) -> list[Route]:
    """A node belongs to the worker that holds its first shard: the others send theirs to it, and worker 0 has it all.

    Nodes only go to workers of lower numbers, so that nobody ever waits for somebody who waits for it.
    """
    holder = [w for w, block in enumerate(blocks) for _ in block]
    leaving: list[dict[Node, int]] = [{} for _ in blocks]
    expected = [0] * len(blocks)
    ways = [(right, holder[left[0]]) for left, right in _pairs(0, n_shards)] + [((0, n_shards), 0)]
    for node, to in ways:
        if holder[node[0]] != to:
            leaving[holder[node[0]]][node] = to
            expected[to] += 1
    return [Route(*parts) for parts in zip(blocks, leaving, expected, strict=True)]


def _pairs(start: int, stop: int) -> Iterator[tuple[Node, Node]]:
    """All siblings under a node."""
    if stop - start > 1:
        middle = start + (1 << (stop - start - 1).bit_length()) // 2
        yield (start, middle), (middle, stop)
        yield from _pairs(start, middle)
        yield from _pairs(middle, stop)


def _plus(a: Arrays, b: Arrays) -> Arrays:
    return {name: value + b[name] for name, value in a.items()}
