"""Samplers of groups by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.family import DOUBLE, Sampler
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.rivals.asynchronous import AsynchronousGroups
from unbounded.models.groups.rivals.collapsed import collapsed

HIERARCHICAL: dict[str, Sampler] = {
    "hybrid": Sampler(HybridGroups, takes_rule=True, takes_jumps=True),
    "collapsed": Sampler(collapsed, one_shard=True, dtypes=DOUBLE),
    "asynchronous": Sampler(AsynchronousGroups, dtypes=DOUBLE),
}
