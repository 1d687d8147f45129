"""The contents of groups by likelihood. Likelihoods that are not listed here are those of rows."""

from __future__ import annotations

from typing import Any

from unbounded.models.groups.rows import RowContent
from unbounded.models.groups.shard import Content
from unbounded.models.groups.words.likelihood import BoundTokens, WordContent

CONTENTS: dict[type, Any] = {BoundTokens: WordContent}


def content_of(likelihood: Any, dtype: str = "float64") -> Content:
    content: Content = CONTENTS.get(type(likelihood), RowContent)(likelihood, dtype)
    return content
