"""Which worker adds what: how nodes of the fixed tree (local.py) travel from worker to worker.

A worker adds up what it can of its own block. What it cannot add, it sends to the worker that holds the other half, and
so on up the tree; the driver receives the sum of all shards, and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unbounded.engines.local import Node


class Route(NamedTuple):
    """A worker's part in the sum: its block of shards, the nodes that it sends on, and how many it receives."""

    block: range
    leaving: Mapping[Node, int]  # to which worker
    expected: int

    @property
    def early(self) -> int:
        """How many of the leaving nodes are made of this block alone."""
        return sum(stop <= self.block.stop for _, stop in self.leaving)

    @property
    def late(self) -> int:
        """How many of them wait for a node of another worker: one at most, which leaves when the last one has come."""
        return len(self.leaving) - self.early


def plan_routes(n_shards: int, blocks: Sequence[range]) -> list[Route]:
    """The route of every worker.

    A node belongs to the worker that holds its first shard: the others send theirs to it, and worker 0 has the
    sum. Nodes only go to workers of lower numbers, so that no two workers ever wait for each other.
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
