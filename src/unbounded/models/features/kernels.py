"""Kernels of features by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable

from unbounded.models.features.kernel import CompiledFeatures, FeatureSetup

KERNELS: dict[str, Callable[[FeatureSetup], CompiledFeatures]] = {"cpu": CompiledFeatures}
