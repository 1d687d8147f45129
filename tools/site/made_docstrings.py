"""Docstrings that are made when a class is (`unbounded/docstrings.py`), for the reference, which reads sources."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class MadeDocstrings(griffe.Extension):
    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring and any(one.callable_path.endswith("joined") for one in cls.decorators):
            kind = getattr(import_module(cls.module.path), cls.name)
            cls.docstring.value = inspect.getdoc(kind) or ""
