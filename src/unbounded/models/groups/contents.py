"""What groups may hold. A new content is one file and one line here; the first that takes a likelihood has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbounded.models.groups.rows import RowContent
from unbounded.models.groups.shard import Content
from unbounded.models.groups.words.likelihood import WordContent

CONTENTS: tuple[type[Content], ...] = (WordContent, RowContent)


def content_of(likelihood: Any, dtype: str = "float64") -> Content:
    """A content with this likelihood."""
    build: Callable[..., Content] = next(kind for kind in CONTENTS if isinstance(likelihood, kind.bound))
    return build(likelihood, dtype)
