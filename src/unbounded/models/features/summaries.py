"""What a shard reports of its Z: statistics of the columns that all shards share, and of its private ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.models.features.operations import Sums
from unbounded.models.features.passes import FEW_CELLS, few_statistics, statistics
from unbounded.models.features.state import FeatureSetup, FeatureShard, upper_triangle


def summary(setup: FeatureSetup, shard: FeatureShard, Z: Array, n_shared: int, sums: Sums) -> Summary:
    """What a shard reports of a Z with these statistics."""
    measure, gram, products = setup.measure, setup.likelihood.gram, sums.products
    members = np.diagonal(products).astype(np.int64) if gram and measure.binary else Z.sum(axis=1, dtype=np.int64)
    centred = sums.sums - members[:, None] * shard.centre
    present = (members[:n_shared] > 0).astype(np.int64)
    s, own = slice(0, n_shared), slice(n_shared, len(Z))
    entries = 0.0 if measure.binary else measure.log_entries(Z)
    shared = {
        "members": members[s], "products": products[upper_triangle(n_shared)] if gram else products[s],
        "sums": centred[s],
        "rest": sums.rest, "square": np.array(shard.square), "entries": np.array(entries),
        "shards": present, "owner": present * shard.index,
    }  # fmt: skip
    private = {
        "members": members[own], "cross": products[s, own] if gram else products[s],
        "products": products[own, own] if gram else products[own], "sums": centred[own],
    }  # fmt: skip
    return Summary(shared, private)


def select_columns(sums: Sums, kept: Any) -> Sums:
    """The statistics of some columns."""
    products = sums.products[kept]
    products = products[:, kept] if products.shape[1] else products
    return Sums(products, sums.sums[kept], sums.rest)


def candidate_summary(setup: FeatureSetup, shard: FeatureShard, Z: Array) -> Summary:
    """What a shard would report of this Z, all columns shared, where loadings are integrated out."""
    products, sums = (few_statistics if shard.data.size <= FEW_CELLS else statistics)(Z, shard.data)
    return summary(setup, shard, Z, len(Z), Sums(products, sums, np.zeros(shard.data.shape[1])))
