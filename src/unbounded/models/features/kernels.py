"""Kernels of features by device. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

from unbounded.contracts import Kernel, Pairs, Summaries, Summary
from unbounded.gpu.device import check, kind_of
from unbounded.models.features.column_moves import Flip, Launches, Proposal
from unbounded.models.features.kernel import CompiledFeatures
from unbounded.models.features.reference import ReferenceFeatures
from unbounded.models.features.state import FeaturePart, FeatureSetup, FeatureShard


class FeatureKernel(Kernel[FeatureShard, FeaturePart, Any, FeaturePart], Protocol):
    """A kernel of features also carries out jumps (column_moves.py), on shards with the columns of Z that the sampler
    speaks of: [occupied atoms], -1 where the shard has none.

    `predictive` gives entries of the new rows of a shard, since densities need a sum over them.
    """

    shard: ClassVar[type[FeatureShard]]  # the type of its shards
    whole: ClassVar[bool]  # whether it takes all shards of a worker at once

    def steps(self, pairs: Iterator[tuple[FeatureShard, FeaturePart]]) -> Iterator[Summary | Summaries]:
        """The whole local step of shards, one after another or together: what each of them reports, in their order."""

    def find(self, pairs: Pairs, launches: Launches) -> Iterator[Summary | Summaries]:
        """Draw new columns; their statistics, and log probabilities of the removed and the new entries. Z stays."""

    def apply(self, pairs: Pairs, launches: Launches) -> Iterator[Summary | Summaries]:
        """Draw the same columns again and keep them; what shards report of the new Z, all columns shared."""

    def fold(self, pairs: Pairs, proposal: Proposal, keep: bool = False) -> Iterator[Summary | Summaries]:
        """What shards report of Z after a fold, and the counts of its coins; keep: that is their Z from here on."""

    def flip(self, pairs: Pairs, flip: Flip) -> Iterator[Summary | Summaries]:
        """Flip columns; what shards report of the new Z."""


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
