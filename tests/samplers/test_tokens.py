"""Draws of topics: phi is Dirichlet, for common words and for those that a topic never had."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from unbounded.data import describe
from unbounded.likelihoods import Tokens
from unbounded.randomness import key

WORDS, TOPICS = 60, 4_000


@pytest.mark.parametrize("eta", [0.02, 0.3, 0.9, 1.0, 2.5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_phi_is_a_dirichlet_draw(eta, dtype):
    """Every word's share of a topic is a beta variable; rare and frequent words are compared with its distribution."""
    counts = np.zeros(WORDS)
    counts[:3] = 1, 7, 200
    statistics = sparse.csr_matrix(np.repeat(counts[None].astype(np.int32), TOPICS, axis=0))
    bound = Tokens(eta).bind(describe(sparse.csr_matrix(np.ones((2, WORDS)))))
    phi = bound.phi(statistics, key(5, "phi"), np.dtype(dtype))
    assert phi.shape == (WORDS, TOPICS)
    assert np.allclose(phi.sum(0), 1.0, atol=1e-5)
    total = counts.sum() + WORDS * eta
    for w in (0, 1, 2, 3, 30, 59):
        shape = eta + counts[w]
        law = stats.beta(shape, total - shape)
        floor = 1e-30  # below it single precision ends
        seen, cut = phi[w][phi[w] > floor], law.cdf(floor)
        assert abs((phi[w] <= floor).mean() - cut) < 5 * np.sqrt(max(cut, 1e-3) / TOPICS)
        assert stats.kstest((law.cdf(seen) - cut) / (1.0 - cut), "uniform").pvalue > 1e-4
    pairs = stats.spearmanr(phi[3], phi[4]).statistic
    assert abs(pairs) < 5 / np.sqrt(TOPICS) + 0.02
