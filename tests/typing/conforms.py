"""The proof, by assignment, that every member of every list satisfies its protocol; mypy checks it.

test_conforms.py sees to it that these are all of them.
"""

from __future__ import annotations

from typing import Any

from unbounded import likelihoods
from unbounded.contracts import Bound, Engine, Family, Likelihood, Model, Recipe, Rule, Sampler, Shard, State
from unbounded.engines.local import Serial, Threads
from unbounded.engines.mpi import Mpi
from unbounded.engines.processes import Processes
from unbounded.engines.ray import Ray
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import Product
from unbounded.models.families import FAMILIES
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.likelihoods import LIKELIHOODS as FEATURE_LIKELIHOODS
from unbounded.models.features.model import Features, FeatureState
from unbounded.models.features.rivals.uncollapsed import FiniteFeatures
from unbounded.models.features.samplers import FEATURES
from unbounded.models.groups.hybrid import HybridGroups
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.rivals.asynchronous import AsynchronousGroups
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.rivals.algorithm8 import Algorithm8
from unbounded.models.mixtures.rivals.asynchronous import AsynchronousMixture
from unbounded.models.mixtures.rivals.auxiliary import Auxiliary
from unbounded.models.mixtures.rivals.slice import Slice
from unbounded.models.mixtures.rivals.subcluster import Subcluster
from unbounded.models.mixtures.rivals.uncollapsed import Uncollapsed
from unbounded.models.mixtures.samplers import DIRICHLET, PITMAN_YOR

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
SAMPLERS: tuple[dict[str, Sampler], ...] = (PITMAN_YOR, DIRICHLET, HIERARCHICAL, FEATURES)
ALL: tuple[Family, ...] = FAMILIES


def recipes(mixture: Mixture, groups: Groups, features: Features, X: Any) -> tuple[Recipe, ...]:
    return mixture.recipe(X), groups.recipe(X), features.recipe(X)


def shards(mixture: Mixture, groups: Groups, features: Features, X: Any) -> tuple[Shard, ...]:
    return mixture.recipe(X)(0), groups.recipe(X)(0), features.recipe(X)(0)


def states(mixture: MixtureState, groups: GroupsState, features: FeatureState) -> tuple[State, ...]:
    return mixture, groups, features
