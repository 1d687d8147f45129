"""Samplers of mixtures by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.family import Sampler
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.rivals.algorithm8 import algorithm8
from unbounded.models.mixtures.rivals.asynchronous import AsynchronousMixture
from unbounded.models.mixtures.rivals.auxiliary import Auxiliary
from unbounded.models.mixtures.rivals.collapsed import collapsed
from unbounded.models.mixtures.rivals.partially_collapsed import partially_collapsed
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.rivals.subcluster import Subcluster
from unbounded.models.mixtures.rivals.uncollapsed import Uncollapsed

PITMAN_YOR: dict[str, Sampler] = {
    "hybrid": Sampler(HybridMixture, takes_rule=True),
    "collapsed": Sampler(collapsed),
    "algorithm8": Sampler(algorithm8, ("auxiliary",)),
    "asynchronous": Sampler(AsynchronousMixture),
    "auxiliary": Sampler(Auxiliary),
    "slice": Sampler(Slice),
}
DIRICHLET: dict[str, Sampler] = PITMAN_YOR | {
    "partially_collapsed": Sampler(partially_collapsed, ("repaired",)),
    "subcluster": Sampler(Subcluster, ("wait", "random")),
    "uncollapsed": Sampler(Uncollapsed, ("empty",)),
}
