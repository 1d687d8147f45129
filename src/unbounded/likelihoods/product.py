"""Mixed tables: groups of columns, each with its own likelihood, independent given the atom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.contracts import Likelihood, Parallel, in_this_thread
from unbounded.likelihoods.base import Bound, Parameters


@dataclass(frozen=True)
class Product:
    """A likelihood for each group of columns: Product((Gaussian(), [0, 1]), ("categorical", ["colour"]), ...).

    Parameters
    ----------
    parts : pairs of a likelihood (or its name) and a list of columns
        Columns are positions, or names of a DataFrame's columns; each column belongs to one pair.

    Examples
    --------
    >>> import unbounded as ub
    >>> mixed = ub.Product((ub.Gaussian(), [0, 1]), (ub.Bernoulli(), [2]), ("categorical", [3]))
    >>> model = ub.DirichletProcessMixture(mixed)
    """

    parts: tuple[tuple[str | Likelihood, tuple[int | str, ...]], ...]

    name: ClassVar[str] = "product"

    def __init__(self, *parts: tuple[str | Likelihood, Iterable[int | str]]):
        object.__setattr__(self, "parts", tuple((lik, tuple(map(_column, cols))) for lik, cols in parts))

    @classmethod
    def parse(cls, text: str) -> Product:
        """The likelihood that a text describes: parts separated by semicolons, with columns by name or position.

        Examples
        --------
        >>> ub.Product.parse("gaussian: height, weight; categorical: colour").parts
        (('gaussian', ('height', 'weight')), ('categorical', ('colour',)))
        """
        parts = []
        for part in text.split(";"):
            name, _, columns = (word.strip() for word in part.partition(":"))
            group = [column.strip() for column in columns.split(",")]
            if not name or not all(group):
                raise ValueError(f"a likelihood of columns looks like 'gaussian: a, b; categorical: c', got {text!r}.")
            parts.append((name, [int(column) if column.isdecimal() else column for column in group]))
        return cls(*parts)

    def with_names(self, names: Sequence[str] | None) -> Product:
        """The same with columns by their positions, given the names of all columns, if they have any.

        Examples
        --------
        >>> ub.Product(("gaussian", ["b"]), ("poisson", ["a"])).with_names(["a", "b"]).parts
        (('gaussian', (1,)), ('poisson', (0,)))
        """
        by_name = [c for _, group in self.parts for c in group if isinstance(c, str)]
        if not by_name:
            return self
        if names is None:
            raise ValueError(
                f"Product: column {by_name[0]!r} is given by name, but the rows have none; use a DataFrame."
            )
        places = {name: d for d, name in enumerate(names)}
        unknown = [c for c in by_name if c not in places]
        if unknown:
            raise ValueError(
                f"Product: there is no column {unknown[0]!r}; the rows have {', '.join(map(repr, names))}."
            )
        parts = [(lik, [places[c] if isinstance(c, str) else c for c in group]) for lik, group in self.parts]
        return Product(*parts)

    def bind(self, columns: Columns) -> BoundProduct:
        """All parts with their priors, bound to their own columns, which they check.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Product(("diagonal_gaussian", [0, 1]), ("bernoulli", [2])).bind(describe(np.eye(3))).n_terms
        5
        """
        from unbounded.likelihoods import resolve

        if columns.sparse:
            raise ValueError("Product: sparse input has only one likelihood, the multinomial.")
        placed = self.with_names(None)
        used = sorted(int(c) for _, group in placed.parts for c in group)
        if used != list(range(columns.size)):
            raise ValueError(
                f"Product: every one of the {columns.size} columns must belong to exactly one part, got {used}."
            )
        return BoundProduct(
            columns, tuple(resolve(lik).bind(columns.take(np.array(group))) for lik, group in placed.parts)
        )


def _column(place: int | str) -> int | str:
    return str(place) if isinstance(place, str) else int(place)


@dataclass(frozen=True)
class BoundProduct(Bound):
    columns: Columns
    parts: tuple[Bound, ...]

    @property
    def n_terms(self) -> int:
        return sum(part.n_terms for part in self.parts)

    @property
    def imputed(self) -> Array:
        return np.sort(np.concatenate([part.imputed for part in self.parts]))

    @property
    def cuts_by_products(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].cuts_by_products

    def _slices(self) -> list[slice]:
        ends = np.cumsum([part.n_terms for part in self.parts])
        return [slice(int(end) - part.n_terms, int(end)) for part, end in zip(self.parts, ends, strict=True)]

    def check(self, X: Any) -> None:
        for part in self.parts:
            part.check(X)

    def terms(self, X: Array) -> Array:
        return np.concatenate([part.terms(X) for part in self.parts], axis=1)

    def log_base(self, X: Array) -> Array:
        return np.sum([part.log_base(X) for part in self.parts], axis=0)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        terms = [
            part.log_marginal(counts, statistics[:, s]) for part, s in zip(self.parts, self._slices(), strict=True)
        ]
        return np.sum(terms, axis=0)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        return self.draw_in_parallel(counts, statistics, rng, in_this_thread)

    def draw_in_parallel(
        self, counts: Array, statistics: Array, rng: np.random.Generator, parallel: Parallel
    ) -> Parameters:
        out: dict[str, Array] = {}
        for i, (part, s) in enumerate(zip(self.parts, self._slices(), strict=True)):
            drawn = part.draw_in_parallel(counts, statistics[:, s], rng, parallel)
            out |= {f"{i}/{name}": value for name, value in drawn.items()}
        return out

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        out: dict[str, Array] = {}
        for i, (part, s) in enumerate(zip(self.parts, self._slices(), strict=True)):
            out |= {f"{i}/{name}": value for name, value in part.centre(counts, statistics[:, s]).items()}
        return out

    def coarse(self) -> tuple[Bound, Array]:
        pairs = [part.coarse() for part in self.parts]
        which = [s.start + terms for s, (_, terms) in zip(self._slices(), pairs, strict=True)]
        return BoundProduct(self.columns, tuple(part for part, _ in pairs)), np.concatenate(which)

    def _of(self, parameters: Parameters, i: int) -> Parameters:
        return {name.split("/", 1)[1]: v for name, v in parameters.items() if name.startswith(f"{i}/")}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        pairs = [part.natural(self._of(parameters, i)) for i, part in enumerate(self.parts)]
        return np.sum([bias for bias, _ in pairs], axis=0), np.concatenate([eta for _, eta in pairs], axis=1)

    def log_given(self, parameters: Parameters, X: Array) -> Array:
        return np.sum([part.log_given(self._of(parameters, i), X) for i, part in enumerate(self.parts)], axis=0)

    def float32_error(self, parameters: Parameters) -> float:
        return sum(part.float32_error(self._of(parameters, i)) for i, part in enumerate(self.parts))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        out = np.empty((len(labels), self.columns.size))
        for i, part in enumerate(self.parts):
            out[:, part.columns.index] = part.simulate(self._of(parameters, i), labels, rng)
        return out

    def with_holes(self, counts: Array, statistics: Array) -> tuple[Bound, Array]:
        pairs = [part.with_holes(counts, statistics[:, s]) for part, s in zip(self.parts, self._slices(), strict=True)]
        columns = replace(self.columns, holes=np.ones_like(self.columns.holes))
        return BoundProduct(columns, tuple(part for part, _ in pairs)), np.concatenate([s for _, s in pairs], axis=1)

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        pairs = zip(self.parts, self._slices(), strict=True)
        return tuple(spec for part, s in pairs for spec in part.spec(first + s.start))

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return tuple(tail for part in self.parts for tail in part.tail(slots, lanes))

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        pairs = zip(self.parts, self._slices(), strict=True)
        return tuple(tail for part, s in pairs for tail in part.pack(counts, statistics[:, s], lanes))

    def impute(
        self, data: Array, holes: Array, labels: Array, parameters: Parameters, key: np.uint64, first: int
    ) -> None:
        for i, part in enumerate(self.parts):
            if part.imputed.size:
                part.impute(data, holes, labels, self._of(parameters, i), key ^ np.uint64(i), first)

    def log_predictive_missing(self, counts: Array, statistics: Array, X: Array) -> Array:
        terms = []
        for part, s in zip(self.parts, self._slices(), strict=True):
            terms.append(
                part.log_predictive_missing(counts, statistics[:, s], X)
                if part.imputed.size
                else part.log_predictive(counts, statistics[:, s], X)
            )
        return np.sum(terms, axis=0)
