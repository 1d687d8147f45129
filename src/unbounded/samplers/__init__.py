"""Samplers by name. A new one is one file and one line for each model that has it (docs/rivals.md).

A sampler makes a `Model` of (measure, likelihood, rule, extent of the data, n_shards, seed, n_rounds, sweeps, dtype)
and options of its own, which come by keyword.
"""

from __future__ import annotations

from unbounded.samplers import collapsed
from unbounded.samplers.always_hot import features as hot_features
from unbounded.samplers.asynchronous import AsynchronousGroups, AsynchronousMixture
from unbounded.samplers.features import Features
from unbounded.samplers.finite import features as finite_features
from unbounded.samplers.hierarchical import Hierarchical
from unbounded.samplers.mixture import Mixture
from unbounded.samplers.subcluster import Subcluster

N_COMMON = 9  # parameters that all samplers have

PITMAN_YOR = {
    "hybrid": Mixture,
    "collapsed": collapsed.mixture,
    "asynchronous": AsynchronousMixture,
}
DIRICHLET = PITMAN_YOR | {
    "subcluster": Subcluster,
}
FEATURES = {
    "hybrid": Features,
    "collapsed": collapsed.features,
    "always_hot": hot_features,
    "uncollapsed": finite_features,
}
HIERARCHICAL = {
    "hybrid": Hierarchical,
    "collapsed": collapsed.hierarchical,
    "asynchronous": AsynchronousGroups,
}
