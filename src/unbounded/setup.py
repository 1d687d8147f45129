"""What a sampler is built from, which is the same for the hybrid sampler and all its rivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

from unbounded.contracts import Model, Rule
from unbounded.family import Sampler

MeasureT = TypeVar("MeasureT")
LikelihoodT = TypeVar("LikelihoodT")
ExtentT = TypeVar("ExtentT")


@dataclass(frozen=True)
class Setup(Generic[MeasureT, LikelihoodT, ExtentT]):
    """A measure, a bound likelihood, the extent of the data, and how a chain runs; the seed keys all randomness."""

    measure: MeasureT
    likelihood: LikelihoodT
    extent: ExtentT  # the number of rows, or the sizes of groups
    n_shards: int
    seed: int
    n_rounds: int = 1000
    sweeps: int = 1
    dtype: str = "float64"
    device: str = "cpu"  # which of the model's kernels

    def on_one_shard(self) -> Self:
        return replace(self, n_shards=1)


@dataclass(frozen=True)
class Built(Generic[MeasureT, LikelihoodT, ExtentT]):
    """A model that was built from a setup."""

    setup: Setup[MeasureT, LikelihoodT, ExtentT]

    @cached_property
    def measure(self) -> MeasureT:
        return self.setup.measure

    @cached_property
    def likelihood(self) -> LikelihoodT:
        return self.setup.likelihood

    @cached_property
    def n_shards(self) -> int:
        return self.setup.n_shards

    @cached_property
    def seed(self) -> int:
        return self.setup.seed

    def reseeded(self, seed: int) -> Self:
        return replace(self, setup=replace(self.setup, seed=seed))


def build_sampler(
    samplers: Mapping[str, Sampler],
    name: str,
    setup: Setup[Any, Any, Any],
    rule: Rule,
    **options: Any,
) -> Model[Any]:
    """The sampler of this name, with the rule if it takes one."""
    chosen = samplers[name]
    return chosen.build(setup, **({"rule": rule} if chosen.takes_rule else {}), **options)
