"""What an atom says about data. A new likelihood is one file and one line in MEMBERS."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A likelihood from its name, from "gaussian: a, b; poisson: c" (columns of several kinds), or itself."""
    if isinstance(likelihood, str) and ":" in likelihood and Gaussian in members:
        return Product.parse(likelihood)
    if isinstance(likelihood, str):
        names = {member.name: member for member in members}
        if likelihood not in names:
            raise ValueError(f"likelihood must be one of {sorted(names)} or a likelihood object, got {likelihood!r}.")
        return names[likelihood]()
    if isinstance(likelihood, type) or not hasattr(likelihood, "bind"):
        raise ValueError(f"likelihood must be a name or an object such as Gaussian(), got {likelihood!r}.")
    return likelihood


def placed(likelihood: Any, names: Sequence[str] | None) -> Any:
    """The likelihood with its columns by position, given the names of all columns, if they have any."""
    return likelihood.with_names(names) if isinstance(likelihood, Product) else likelihood


def columns_for_strings(likelihood: Any, names: Sequence[str] | None) -> set[int] | None:
    """The columns that may hold strings, which are those of Categorical; None: all of them."""
    if isinstance(likelihood, Categorical):
        return None
    parts = placed(likelihood, names).parts if isinstance(likelihood, Product) else ()
    return {int(c) for part, group in parts if isinstance(resolve(part), Categorical) for c in group}


def named_columns(likelihood: Any) -> list[str] | None:
    """The columns of a product, such as "gaussian: a, b; poisson: c", if all of them are names."""
    product = Product.parse(likelihood) if isinstance(likelihood, str) and ":" in likelihood else likelihood
    if not isinstance(product, Product):
        return None
    columns = [column for _, group in product.parts for column in group]
    return [str(column) for column in columns] if all(isinstance(column, str) for column in columns) else None


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
    "columns_for_strings",
    "named_columns",
    "placed",
    "resolve",
]
