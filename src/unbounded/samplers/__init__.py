"""Samplers by name. A new one is one file and one line for each model that has it (docs/rivals.md).

A sampler makes a `Model` of (measure, likelihood, rule, extent of the data, n_shards, seed, n_rounds, sweeps, dtype)
and options of its own, which come by keyword.
"""

from __future__ import annotations

from unbounded.samplers import algorithm8, always_hot, collapsed, finite, partially_collapsed
from unbounded.samplers.asynchronous import AsynchronousGroups, AsynchronousMixture
from unbounded.samplers.auxiliary import Auxiliary
from unbounded.samplers.features import Features
from unbounded.samplers.hierarchical import Hierarchical
from unbounded.samplers.mixture import Mixture
from unbounded.samplers.slice import Slice
from unbounded.samplers.subcluster import Subcluster
from unbounded.samplers.uncollapsed import Uncollapsed

COMMON = (  # parameters that are not options of a sampler
    "measure", "likelihood", "rule", "n_rows", "sizes", "n_shards", "seed", "n_rounds", "sweeps", "dtype", "lanes",
)  # fmt: skip

PITMAN_YOR = {
    "hybrid": Mixture,
    "collapsed": collapsed.mixture,
    "algorithm8": algorithm8.mixture,
    "asynchronous": AsynchronousMixture,
    "auxiliary": Auxiliary,
    "slice": Slice,
}
DIRICHLET = PITMAN_YOR | {
    "partially_collapsed": partially_collapsed.mixture,
    "subcluster": Subcluster,
    "uncollapsed": Uncollapsed,
}
FEATURES = {
    "hybrid": Features,
    "collapsed": collapsed.features,
    "always_hot": always_hot.features,
    "uncollapsed": finite.features,
}
HIERARCHICAL = {
    "hybrid": Hierarchical,
    "collapsed": collapsed.hierarchical,
    "asynchronous": AsynchronousGroups,
}
