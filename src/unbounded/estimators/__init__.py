"""The scikit-learn face of the models."""

from typing import Any

from unbounded.estimators.features import BetaBernoulliFeatures, BetaNegativeBinomialFeatures, GammaPoissonFeatures
from unbounded.estimators.grouped import HierarchicalDirichletProcess
from unbounded.estimators.mixtures import DirichletProcessMixture, PitmanYorMixture

MEMBERS: dict[str, Any] = {
    "dp": DirichletProcessMixture,
    "py": PitmanYorMixture,
    "hdp": HierarchicalDirichletProcess,
    "beta-bernoulli": BetaBernoulliFeatures,
    "gamma-poisson": GammaPoissonFeatures,
    "beta-negative-binomial": BetaNegativeBinomialFeatures,
}

__all__ = [
    "MEMBERS",
    "BetaBernoulliFeatures",
    "BetaNegativeBinomialFeatures",
    "DirichletProcessMixture",
    "GammaPoissonFeatures",
    "HierarchicalDirichletProcess",
    "PitmanYorMixture",
]
