"""The proof, by assignment, that every member of every list satisfies its protocol; mypy checks it.

test_conforms.py sees to it that these are all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate

from unbounded import likelihoods
from unbounded.contracts import Bound, Engine, Kernel, Likelihood, Measure, Model, Recipe, Rule, Shard, State
from unbounded.engines.local import Serial, Threads
from unbounded.engines.mpi import Mpi
from unbounded.engines.processes import Processes
from unbounded.engines.ray import Ray
from unbounded.family import Family, Sampler, Start
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import Product
from unbounded.models.families import FAMILIES
from unbounded.models.features import start as features_start
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.kernel import CompiledFeatures
from unbounded.models.features.kernels import KERNELS as FEATURE_KERNELS
from unbounded.models.features.kernels import FeatureKernel
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.likelihoods import LIKELIHOODS as FEATURE_LIKELIHOODS
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.measures import MEASURES as FEATURE_MEASURES
from unbounded.models.features.model import Features
from unbounded.models.features.reference import ReferenceFeatures
from unbounded.models.features.rivals.always_hot import always_hot
from unbounded.models.features.rivals.collapsed import collapsed as features_collapsed
from unbounded.models.features.rivals.uncollapsed import FiniteFeatures
from unbounded.models.features.samplers import FEATURES
from unbounded.models.features.state import FeatureSetup, FeatureState
from unbounded.models.groups import start as groups_start
from unbounded.models.groups.contents import CONTENTS as GROUP_CONTENTS
from unbounded.models.groups.kernels import KERNELS as GROUP_KERNELS
from unbounded.models.groups.measures import MEASURES as GROUP_MEASURES
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.model import Groups, GroupsState, HybridGroups
from unbounded.models.groups.rivals.asynchronous import AsynchronousGroups
from unbounded.models.groups.rivals.collapsed import collapsed as groups_collapsed
from unbounded.models.groups.rows import RowContent
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.shard import Content, GroupPart, GroupShard
from unbounded.models.groups.words.likelihood import BoundTokens, Tokens, WordContent
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures import start as mixtures_start
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.kernels import KERNELS as MIXTURE_KERNELS
from unbounded.models.mixtures.measure import PartitionHyper
from unbounded.models.mixtures.measures import MEASURES as PARTITION_MEASURES
from unbounded.models.mixtures.message import MixturePart
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.rivals.algorithm8 import Algorithm8
from unbounded.models.mixtures.rivals.asynchronous import AsynchronousMixture
from unbounded.models.mixtures.rivals.auxiliary import Auxiliary
from unbounded.models.mixtures.rivals.collapsed import collapsed as mixtures_collapsed
from unbounded.models.mixtures.rivals.kernel import (
    ALGORITHM8_KERNELS,
    SLICE_KERNELS,
    Algorithm8Kernel,
    SliceKernel,
)
from unbounded.models.mixtures.rivals.partially_collapsed import partially_collapsed
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.rivals.subcluster import Subcluster
from unbounded.models.mixtures.rivals.uncollapsed import Uncollapsed
from unbounded.models.mixtures.samplers import DIRICHLET, PITMAN_YOR
from unbounded.setup import Setup
from unbounded.sources.formats import FORMATS, Reader

ENGINES: dict[str, type[Engine]] = {
    "serial": Serial,
    "threads": Threads,
    "processes": Processes,
    "ray": Ray,
    "mpi": Mpi,
}
RULES: tuple[type[Rule], ...] = (Ghosts, OneOpen, AsPublished)
LIKELIHOODS: tuple[type[Likelihood], ...] = (*likelihoods.MEMBERS, Product, Tokens, *FEATURE_LIKELIHOODS)
BOUNDS: tuple[type[Bound], ...] = (likelihoods.Bound, FeatureBound)
MIXTURES: tuple[type[Model[MixtureState]], ...] = (
    HybridMixture, Algorithm8, AsynchronousMixture, Auxiliary, Subcluster, Uncollapsed,
)  # fmt: skip
SLICES: type[Model[Any]] = Slice  # whose jump extends the state
GROUPS: tuple[type[Model[GroupsState]], ...] = (HybridGroups, AsynchronousGroups)
FEATURE_MODELS: tuple[type[Model[FeatureState]], ...] = (HybridFeatures, FiniteFeatures)
PARTITIONS: tuple[type[Measure[PartitionHyper, int]], ...] = PARTITION_MEASURES
HIERARCHIES: tuple[type[GroupMeasure], ...] = GROUP_MEASURES
HELD: tuple[type[Content], ...] = GROUP_CONTENTS
MEASURES: tuple[type[Measure[FeatureHyper, int]], ...] = FEATURE_MEASURES
LABEL_KERNELS: Mapping[str, Callable[..., Kernel[LabelShard, MixturePart, Any, Atoms]]] = MIXTURE_KERNELS
TABLE_KERNELS: Mapping[str, Mapping[str, Callable[..., Kernel[GroupShard, GroupPart, Any, Atoms]]]] = GROUP_KERNELS
ENTRY_KERNELS: Mapping[str, Callable[[FeatureSetup], FeatureKernel]] = FEATURE_KERNELS
SLICES_OF_MIXTURES: Mapping[str, Callable[[likelihoods.Bound, str], SliceKernel]] = SLICE_KERNELS
STEPS_OF_ALGORITHM_8: Mapping[str, Callable[[likelihoods.Bound], Algorithm8Kernel]] = ALGORITHM8_KERNELS
WORDS: Callable[[BoundTokens, str], Content] = WordContent
ROWS: Callable[[likelihoods.Bound, str], Content] = RowContent
READERS: dict[str, type[Reader]] = FORMATS
SAMPLERS: tuple[dict[str, Sampler], ...] = (PITMAN_YOR, DIRICHLET, HIERARCHICAL, FEATURES)
BUILDERS: tuple[Callable[Concatenate[Setup[Any, Any, Any], ...], Model[Any]], ...] = (
    HybridMixture, mixtures_collapsed, Algorithm8, AsynchronousMixture, Auxiliary, Slice, partially_collapsed,
    Subcluster, Uncollapsed, HybridGroups, groups_collapsed, AsynchronousGroups, HybridFeatures, features_collapsed,
    always_hot, FiniteFeatures,
)  # fmt: skip
CLUSTERS: Start[Mixture[Any], MixtureState] = mixtures_start
TOPICS: Start[Groups, GroupsState] = groups_start
COLUMNS: Start[Features, FeatureState] = features_start
ALL: tuple[Family, ...] = FAMILIES


def feature_kernels(setup: FeatureSetup) -> tuple[FeatureKernel, ...]:
    """Kernels by their classes: those of GPUs are imported when they are asked for."""
    from unbounded.models.features.device import DeviceFeatures

    return CompiledFeatures(setup), ReferenceFeatures(setup), DeviceFeatures(setup)


def recipes(mixture: Mixture, groups: Groups, features: Features, X: Any) -> tuple[Recipe, ...]:
    return mixture.recipe(X), groups.recipe(X), features.recipe(X)


def shards(mixture: Mixture, groups: Groups, features: Features, X: Any) -> tuple[Shard, ...]:
    return mixture.recipe(X)(0), groups.recipe(X)(0), features.recipe(X)(0)


def states(mixture: MixtureState, groups: GroupsState, features: FeatureState) -> tuple[State, ...]:
    return mixture, groups, features
