"""Samplers of groups by name. A new one is one file and one line here (docs/rivals.md)."""

from __future__ import annotations

from unbounded.models.groups.hybrid import HybridGroups
from unbounded.models.groups.rivals.asynchronous import AsynchronousGroups
from unbounded.models.groups.rivals.collapsed import collapsed

HIERARCHICAL = {
    "hybrid": HybridGroups,
    "collapsed": collapsed,
    "asynchronous": AsynchronousGroups,
}
