"""Samplers of features by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.family import Sampler
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.rivals.always_hot import always_hot
from unbounded.models.features.rivals.collapsed import collapsed
from unbounded.models.features.rivals.uncollapsed import FiniteFeatures

FEATURES: dict[str, Sampler] = {
    "hybrid": Sampler(HybridFeatures, takes_rule=True, takes_jumps=True),
    "collapsed": Sampler(collapsed, takes_jumps=True, one_shard=True),
    "always_hot": Sampler(always_hot),
    "uncollapsed": Sampler(FiniteFeatures, ("size",)),
}
