"""Exact, parallel MCMC for Bayesian nonparametric models."""

from unbounded.chain.store import RunError
from unbounded.engines.recovery import EngineError
from unbounded.estimators import (
    BetaBernoulliFeatures,
    BetaNegativeBinomialFeatures,
    DirichletProcessMixture,
    GammaPoissonFeatures,
    HierarchicalDirichletProcess,
    PitmanYorMixture,
)
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Gaussian,
    LinearGaussian,
    Multinomial,
    Poisson,
    PoissonFactors,
    Product,
    Tokens,
)
from unbounded.measures import (
    Beta,
    BetaBernoulli,
    BetaNegativeBinomial,
    DirichletProcess,
    Gamma,
    GammaPoisson,
    InverseGamma,
    PitmanYor,
)
from unbounded.sources import Source, SourceError
from unbounded.sources import open as open_source
from unbounded.summary.page import report

__version__ = "0.1.0"

__all__ = [
    "AsPublished",
    "Bernoulli",
    "Beta",
    "BetaBernoulli",
    "BetaBernoulliFeatures",
    "BetaNegativeBinomial",
    "BetaNegativeBinomialFeatures",
    "Categorical",
    "DiagonalGaussian",
    "DirichletProcess",
    "DirichletProcessMixture",
    "EngineError",
    "Gamma",
    "GammaPoisson",
    "GammaPoissonFeatures",
    "Gaussian",
    "Ghosts",
    "HierarchicalDirichletProcess",
    "InverseGamma",
    "LinearGaussian",
    "Multinomial",
    "OneOpen",
    "PitmanYor",
    "PitmanYorMixture",
    "Poisson",
    "PoissonFactors",
    "Product",
    "RunError",
    "Source",
    "SourceError",
    "Tokens",
    "open_source",
    "report",
]
