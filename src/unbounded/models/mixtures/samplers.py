"""Samplers of mixtures by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.models.mixtures.model import Mixture
from unbounded.models.mixtures.rivals import algorithm8, collapsed, partially_collapsed
from unbounded.models.mixtures.rivals.asynchronous import AsynchronousMixture
from unbounded.models.mixtures.rivals.auxiliary import Auxiliary
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.rivals.subcluster import Subcluster
from unbounded.models.mixtures.rivals.uncollapsed import Uncollapsed

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
