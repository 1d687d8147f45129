"""The contents of groups by likelihood. Likelihoods that are not listed here are those of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unbounded.likelihoods.base import Bound
from unbounded.models.groups.rows import RowContent
from unbounded.models.groups.shard import Content
from unbounded.models.groups.words.likelihood import BoundTokens, WordContent

CONTENTS: Mapping[type[Bound], Callable[[Any, str], Content]] = {BoundTokens: WordContent}


def content_of(likelihood: Bound, dtype: str = "float64") -> Content:
    return CONTENTS.get(type(likelihood), RowContent)(likelihood, dtype)
