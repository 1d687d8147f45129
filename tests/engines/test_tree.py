"""The tree gives the same bits however the shards are spread over workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unbounded.engines.local import Sum
from unbounded.engines.routes import plan_routes


def plain(parts):
    """Neighbours are added in pairs, level by level; an odd one out goes up as it is."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] for i in range(0, len(parts) - 1, 2)] + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def through_workers(parts, edges, order=None):
    """Each adds what it can, and sends the rest to whoever holds the other half; messages arrive in any order."""
    n, ways = len(parts), plan_routes(len(parts), [range(*edge) for edge in pairwise(edges)])
    sums, came, post = [Sum(n) for _ in ways], [0] * len(ways), []

    def send(w, most):
        ready = [node for node in sums[w].nodes if node in ways[w].leaving]
        assert len(ready) == most
        post.extend((ways[w].leaving[node], node, sums[w].nodes.pop(node)) for node in ready)

    for w, way in enumerate(ways):
        for p in way.block:
            sums[w].add((p, p + 1), parts[p])
        assert len(sums[w].nodes) <= 2 * n.bit_length()
        assert all(to < w for to in way.leaving.values()), "nobody waits in a circle"
        send(w, way.early)
    while post:
        to, node, value = post.pop(order.integers(len(post)) if order else 0)
        came[to] += 1
        sums[to].add(node, value)
        send(to, ways[to].late if came[to] == ways[to].expected else 0)
    assert came == [way.expected for way in ways]
    return sums[0].total


@st.composite
def blocks(draw):
    n = draw(st.integers(1, 70))
    cuts = draw(st.sets(st.integers(1, max(n - 1, 1)), max_size=8))
    return n, sorted({0, *(cut for cut in cuts if cut < n), n})


@settings(deadline=None, max_examples=300)
@given(blocks(), st.integers(0, 2**32))
def test_every_partition_gives_the_bits_of_the_plain_tree(blocks, seed):
    n, edges = blocks
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-12, 12, size=(n, 3))
    added = through_workers([{"a": v} for v in values], edges, rng)
    assert added["a"].tobytes() == plain(list(values)).tobytes()


def test_a_worker_hears_from_few_others():
    """Eight workers with a node each: the first receives three of seven messages, each other one sends one."""
    ways = plan_routes(64, [range(8 * w, 8 * w + 8) for w in range(8)])
    assert [way.expected for way in ways] == [3, 0, 1, 0, 2, 0, 1, 0]
    assert [list(way.leaving.values()) for way in ways] == [[], [0], [0], [2], [0], [4], [4], [6]]


def test_threads_that_add_at_once_give_the_same_bits():
    values = np.random.default_rng(0).normal(size=(64, 1000)) * 10.0 ** np.arange(64)[:, None]
    whole = Sum(64)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda p: whole.add((p, p + 1), {"a": values[p]}), np.random.default_rng(1).permutation(64).tolist()
            )
        )
    assert whole.total["a"].tobytes() == plain(list(values)).tobytes()


@pytest.mark.parametrize("edges", [(0, 7), (0, 2, 3, 7), (0, 5, 7)])
def test_anything_that_adds_up(edges):
    rng = np.random.default_rng(0)
    parts = [
        {"number": float(x), "matrix": sparse.random(4, 5, 0.4, "csr", random_state=i)}
        for i, x in enumerate(rng.normal(size=7))
    ]
    whole = through_workers(parts, edges)
    assert whole["number"] == plain([part["number"] for part in parts])
    expected = plain([part["matrix"] for part in parts])
    assert (whole["matrix"].toarray() == expected.toarray()).all()
