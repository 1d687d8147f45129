"""Measures of features. A new one is one file and one line here."""

from __future__ import annotations

from unbounded.models.features.beta_bernoulli import BetaBernoulli
from unbounded.models.features.beta_negative_binomial import BetaNegativeBinomial
from unbounded.models.features.gamma_poisson import GammaPoisson
from unbounded.models.features.measure import FeatureMeasure

MEASURES: tuple[type[FeatureMeasure], ...] = (BetaBernoulli, GammaPoisson, BetaNegativeBinomial)
