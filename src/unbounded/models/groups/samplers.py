"""Samplers of groups by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.models.groups.model import Hierarchical
from unbounded.models.groups.rivals import collapsed
from unbounded.models.groups.rivals.asynchronous import AsynchronousGroups

HIERARCHICAL = {
    "hybrid": Hierarchical,
    "collapsed": collapsed.hierarchical,
    "asynchronous": AsynchronousGroups,
}
