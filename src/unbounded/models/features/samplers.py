"""Samplers of features by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.models.features.model import Features
from unbounded.models.features.rivals import always_hot, collapsed, uncollapsed

FEATURES = {
    "hybrid": Features,
    "collapsed": collapsed.features,
    "always_hot": always_hot.features,
    "uncollapsed": uncollapsed.features,
}
