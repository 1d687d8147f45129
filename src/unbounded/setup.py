"""What a sampler is built from, which is the same for the hybrid sampler and all its rivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

from unbounded.contracts import Model, Rule
from unbounded.family import Sampler
from unbounded.gpu.device import kind_of

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


def check_local_step(name: str, sampler: Sampler, device: str) -> None:
    """Refuse a device for which a sampler with a local step of its own has no kernel."""
    if sampler.kernels is not None and kind_of(device) not in sampler.kernels:
        able = ", ".join(map(repr, sampler.kernels))
        raise ValueError(f"sampler {name!r} has a local step of its own, which runs on device={able} only.")


def build_sampler(
    samplers: Mapping[str, Sampler],
    name: str,
    setup: Setup[Any, Any, Any],
    rule: Rule,
    **options: object,
) -> Model[Any]:
    """The sampler of this name, with the rule if it takes one; a setup that it cannot follow is refused."""
    chosen = samplers[name]
    if setup.n_shards != chosen.shards(setup.n_shards):
        raise ValueError(
            f"sampler {name!r} has one shard: its rows cannot be distributed; got {setup.n_shards} shards."
        )
    if setup.dtype not in chosen.dtypes:
        raise ValueError(f"sampler {name!r} computes in {' or '.join(chosen.dtypes)}, got dtype={setup.dtype!r}.")
    check_local_step(name, chosen, setup.device)
    return chosen.build(setup, **({"rule": rule} if chosen.takes_rule else {}), **options)
