"""Exact, parallel MCMC for Bayesian nonparametric models."""

from unbounded.chain.store import RunError
from unbounded.estimators import DirichletProcessMixture, PitmanYorMixture
from unbounded.instantiation import AsPublished, Ghosts, OneOpen
from unbounded.likelihoods import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
)
from unbounded.measures import Beta, DirichletProcess, Gamma, PitmanYor

__version__ = "0.1.0"

__all__ = [
    "AsPublished",
    "Bernoulli",
    "Beta",
    "Categorical",
    "DiagonalGaussian",
    "DirichletProcess",
    "DirichletProcessMixture",
    "Gamma",
    "Gaussian",
    "Ghosts",
    "Multinomial",
    "OneOpen",
    "PitmanYor",
    "PitmanYorMixture",
    "Poisson",
    "Product",
    "RunError",
]
