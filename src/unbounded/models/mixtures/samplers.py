"""Samplers of mixtures by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.family import DOUBLE, Sampler
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.rivals.algorithm8 import Algorithm8
from unbounded.models.mixtures.rivals.asynchronous import AsynchronousMixture
from unbounded.models.mixtures.rivals.auxiliary import Auxiliary
from unbounded.models.mixtures.rivals.collapsed import collapsed
from unbounded.models.mixtures.rivals.kernel import ALGORITHM8_KERNELS, SLICE_KERNELS
from unbounded.models.mixtures.rivals.partially_collapsed import partially_collapsed
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.rivals.subcluster import Subcluster
from unbounded.models.mixtures.rivals.uncollapsed import Uncollapsed

PITMAN_YOR: dict[str, Sampler] = {
    "hybrid": Sampler(HybridMixture, takes_rule=True, takes_jumps=True),
    "collapsed": Sampler(collapsed, one_shard=True, dtypes=DOUBLE),
    "algorithm8": Sampler(Algorithm8, ("auxiliary",), one_shard=True, dtypes=DOUBLE, kernels=ALGORITHM8_KERNELS),
    "asynchronous": Sampler(AsynchronousMixture, dtypes=DOUBLE),
    "auxiliary": Sampler(Auxiliary, dtypes=DOUBLE),
    "slice": Sampler(Slice, kernels=SLICE_KERNELS),
}
DIRICHLET: dict[str, Sampler] = PITMAN_YOR | {
    "partially_collapsed": Sampler(partially_collapsed, ("repaired",), one_shard=True),
    "subcluster": Sampler(Subcluster, ("wait", "random")),
    "uncollapsed": Sampler(Uncollapsed, ("empty",)),
}
