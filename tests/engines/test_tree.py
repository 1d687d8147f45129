"""The tree gives the same bits however the shards are spread over workers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from unbounded.engines.local import Sum


def plain(parts):
    """Neighbours are added in pairs, level by level; an odd one out goes up as it is."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] for i in range(0, len(parts) - 1, 2)] + parts[len(parts) - len(parts) % 2 :]
    return parts[0]


def through_workers(parts, blocks):
    """Each adds what it can, and passes on few nodes; they may come in any order."""
    n = len(parts)
    driver = Sum(n)
    for start, stop in blocks:
        worker = Sum(n)
        for p in range(start, stop):
            worker.add((p, p + 1), parts[p])
        assert len(worker.nodes) <= 2 * n.bit_length()
        for node, value in worker.nodes.items():
            driver.add(node, value)
    return driver.total


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
    added = through_workers([{"a": v} for v in values], rng.permutation(list(pairwise(edges))).tolist())
    assert added["a"].tobytes() == plain(list(values)).tobytes()


@pytest.mark.parametrize("edges", [(0, 7), (0, 2, 3, 7), (0, 5, 7)])
def test_anything_that_adds_up(edges):
    rng = np.random.default_rng(0)
    parts = [
        {"number": float(x), "matrix": sparse.random(4, 5, 0.4, "csr", random_state=i)}
        for i, x in enumerate(rng.normal(size=7))
    ]
    whole = through_workers(parts, pairwise(edges))
    assert whole["number"] == plain([part["number"] for part in parts])
    expected = plain([part["matrix"] for part in parts])
    assert (whole["matrix"].toarray() == expected.toarray()).all()
