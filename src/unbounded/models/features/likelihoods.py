"""Likelihoods of features by name. A new one is one file and one line here."""

from __future__ import annotations

from unbounded.models.features.linear_gaussian import LinearGaussian, LinearGaussianAtZero
from unbounded.models.features.poisson_factors import PoissonFactors

LIKELIHOODS = (LinearGaussian, LinearGaussianAtZero, PoissonFactors)
