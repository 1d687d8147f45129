"""What an atom says about data. A new likelihood is one file and one line in MEMBERS."""

from __future__ import annotations

from typing import Any

from unbounded.likelihoods.base import Bound
from unbounded.likelihoods.bernoulli import Bernoulli
from unbounded.likelihoods.categorical import Categorical
from unbounded.likelihoods.diagonal_gaussian import DiagonalGaussian
from unbounded.likelihoods.gaussian import Gaussian
from unbounded.likelihoods.multinomial import Multinomial
from unbounded.likelihoods.poisson import Poisson
from unbounded.likelihoods.product import Product

MEMBERS = (Gaussian, DiagonalGaussian, Bernoulli, Categorical, Multinomial, Poisson)


def resolve(likelihood: Any, members: tuple[Any, ...] = MEMBERS) -> Any:
    """A likelihood from its name, or the object itself."""
    if isinstance(likelihood, str):
        names = {member.name: member for member in members}
        if likelihood not in names:
            raise ValueError(f"likelihood must be one of {sorted(names)} or a likelihood object, got {likelihood!r}.")
        return names[likelihood]()
    if isinstance(likelihood, type) or not hasattr(likelihood, "bind"):
        raise ValueError(f"likelihood must be a name or an object such as Gaussian(), got {likelihood!r}.")
    return likelihood


__all__ = [
    "MEMBERS",
    "Bernoulli",
    "Bound",
    "Categorical",
    "DiagonalGaussian",
    "Gaussian",
    "Multinomial",
    "Poisson",
    "Product",
    "resolve",
]
