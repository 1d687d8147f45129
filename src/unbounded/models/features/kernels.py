"""Kernels of features by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

from unbounded.arrays import Array
from unbounded.contracts import Kernel, Summaries, Summary
from unbounded.gpu.device import check, kind_of
from unbounded.models.features.kernel import CompiledFeatures, FeatureSetup
from unbounded.models.features.reference import ReferenceFeatures
from unbounded.models.features.state import FeatureShard, FeatureTask


class FeatureKernel(Kernel[FeatureShard, FeatureTask, Any, FeatureTask], Protocol):
    """`predictive` gives entries of the new rows of a shard, since densities need a sum over them."""

    shard: ClassVar[Any]  # the type of its shards
    whole: ClassVar[bool]  # whether it takes all shards of a worker at once

    def steps(self, tasks: Iterator[tuple[FeatureShard, FeatureTask]]) -> Iterator[Summary | Summaries]:
        """The whole local step of shards, one after another or together: what each of them reports, in their order."""

    def of_candidate(self, shard: FeatureShard, Z: Array) -> Summary:
        """What the shard would report of another Z, all columns shared, where loadings are integrated out."""


def on_gpu(setup: FeatureSetup) -> FeatureKernel:
    """Imported when it is asked for: torch takes seconds, and not everybody has it."""
    from unbounded.models.features.device import DeviceFeatures

    return DeviceFeatures(setup)


KERNELS: dict[str, Callable[[FeatureSetup], FeatureKernel]] = {
    "cpu": CompiledFeatures,
    "reference": ReferenceFeatures,
    "cuda": on_gpu,
}


def build_kernel(setup: FeatureSetup) -> FeatureKernel:
    check(setup.device, KERNELS)
    return KERNELS[kind_of(setup.device)](setup)


def kernel_for_few(device: str) -> str:
    """Where some thousand rows are best off: launches on a GPU take longer than they do."""
    return "cpu" if kind_of(device) == "cuda" else device
