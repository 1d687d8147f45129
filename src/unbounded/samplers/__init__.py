"""Samplers by name. A new one is one file and one line for each model that has it (docs/rivals.md).

A sampler makes a `Model` of (measure, likelihood, rule, extent of the data, n_shards, seed, n_rounds, sweeps, dtype)
and options of its own, which come by keyword.
"""

from __future__ import annotations

from unbounded.samplers import collapsed
from unbounded.samplers.features import Features
from unbounded.samplers.hierarchical import Hierarchical
from unbounded.samplers.mixture import Mixture

COMMON = (  # parameters that are not options of a sampler
    "measure", "likelihood", "rule", "n_rows", "sizes", "n_shards", "seed", "n_rounds", "sweeps", "dtype", "lanes",
)  # fmt: skip

PITMAN_YOR = {
    "hybrid": Mixture,
    "collapsed": collapsed.mixture,
}
DIRICHLET = PITMAN_YOR | {}
FEATURES = {
    "hybrid": Features,
    "collapsed": collapsed.features,
}
HIERARCHICAL = {
    "hybrid": Hierarchical,
    "collapsed": collapsed.hierarchical,
}
