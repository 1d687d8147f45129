"""Kernels of features by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from unbounded.arrays import Array
from unbounded.contracts import Kernel, Summary
from unbounded.models.features.kernel import CompiledFeatures, FeatureSetup
from unbounded.models.features.reference import ReferenceFeatures
from unbounded.models.features.state import FeatureShard, FeatureTask


class FeatureKernel(Kernel[FeatureShard, FeatureTask, Any, FeatureTask], Protocol):
    """`predictive` gives entries of the new rows of a shard, since densities need a sum over them."""

    def of_candidate(self, shard: FeatureShard, Z: Array) -> Summary:
        """What the shard would report of another Z, all columns shared, where loadings are integrated out."""


KERNELS: dict[str, Callable[[FeatureSetup], FeatureKernel]] = {"cpu": CompiledFeatures, "reference": ReferenceFeatures}
