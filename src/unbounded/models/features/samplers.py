"""Samplers of features by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.rivals.always_hot import always_hot
from unbounded.models.features.rivals.collapsed import collapsed
from unbounded.models.features.rivals.uncollapsed import FiniteFeatures

FEATURES = {
    "hybrid": HybridFeatures,
    "collapsed": collapsed,
    "always_hot": always_hot,
    "uncollapsed": FiniteFeatures,
}
