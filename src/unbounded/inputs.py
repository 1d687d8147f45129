"""What users give to estimators: rows in any of their forms, new ones or those of a fit, and random states."""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unbounded import datasets
from unbounded.arrays import Data, checked_csr, is_csr
from unbounded.categories import TIMES, Categories, check_names, columns_of_strings, encoded, what_it_holds
from unbounded.chain.outlets import announce_if_slow
from unbounded.columns import describe
from unbounded.contracts import Likelihood
from unbounded.family import Choices
from unbounded.likelihoods import Categorical, columns_for_strings, named_columns, placed
from unbounded.likelihoods import resolve as resolve_likelihood
from unbounded.rows import row_blocks
from unbounded.sources import Source

LARGEST = 1e100
Randomness = int | np.random.RandomState | np.random.Generator | None  # what `random_state` may be


class TakesRows:
    """An estimator, as far as it reads rows: they are checked, and strings among them become codes."""

    likelihood: str | Likelihood | None
    progress: bool
    _choices: ClassVar[Choices]
    _likelihood: Any  # bound to the columns of the fit

    def _chosen_likelihood(self) -> str | Likelihood | None:
        """The likelihood, by its name or as an object."""
        return self.likelihood

    def _sparse_ok(self) -> bool:
        return False

    def _given(self, X: Data) -> Data:
        """Rows from a file, from a data set by its name, or from an object of another library; anything else as it is.
        From a file, only the columns that the likelihood names."""
        named = named_columns(self._chosen_likelihood()) if isinstance(X, str | os.PathLike) else None
        given = datasets.load(X, named, words=True)
        check_names(given)
        return given

    def _check_array(self, X: Data, reset: bool) -> Data:
        X = self._given(X)
        if isinstance(X, Source):
            return self._check_source(X, reset, least=2 if reset else 1)
        if issparse(X) and not self._sparse_ok():
            raise TypeError(f"X is sparse, which {self._chosen_likelihood()!r} does not take; give X.toarray().")
        X = self._encoded(X, reset)
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr" if self._sparse_ok() else False, dtype=[np.float64, np.float32],
            order="C", ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1,
        )  # fmt: skip
        if is_csr(X):
            X = checked_csr(X)
            X = X.copy() if not X.has_canonical_format else X
            X.sum_duplicates()
        return X

    def _encoded(self, X: Data, reset: bool) -> Data:
        """Strings become codes in columns of the categorical likelihood; elsewhere they are refused."""
        if reset and hasattr(self, "categories_"):  # of an earlier fit
            del self.categories_
        strings = columns_of_strings(X)
        if not strings:
            return X
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        able = columns_for_strings(resolve_likelihood(self._chosen_likelihood(), self._choices.likelihoods), names)
        wrong = [j for j in strings if able is not None and j not in able]
        if wrong:
            name = str(wrong[0]) if names is None else repr(names[wrong[0]])
            held = what_it_holds(X[:, wrong[0]] if names is None else X.iloc[:, wrong[0]])
            can = "give it to Categorical, encode it," if Categorical in self._choices.likelihoods else "encode it"
            can = "make numbers of them, such as days since the first," if held == TIMES else can
            raise ValueError(f"column {name} holds {held}; {can} or drop it.")
        X, found = encoded(X, strings, None if reset else getattr(self, "categories_", {}))
        if reset:
            self.categories_: Categories = found
        return X

    def _check_source(self, X: Source, reset: bool, least: int) -> Source:
        """Check a source by its header; its values are checked when its columns are described."""
        if X.sparse and not self._sparse_ok():
            raise ValueError(
                f"the rows of the source are sparse, which {self._chosen_likelihood()!r} does not take; "
                "store dense ones."
            )
        if X.n_rows < least:
            raise ValueError(f"the source has n_rows={X.n_rows}, a minimum of {least} is required.")
        if reset:
            self.n_features_in_ = X.shape[1]
            if hasattr(self, "feature_names_in_"):  # of an earlier fit
                del self.feature_names_in_
        elif X.shape[1] != self.n_features_in_:
            name = type(self).__name__
            raise ValueError(f"X has {X.shape[1]} features, but {name} is expecting {self.n_features_in_} features.")
        return X

    def _bind(self, X: Data, training: bool) -> Any:
        """The likelihood bound to the rows' columns, which checks their values."""
        with announce_if_slow("looking at the columns", self.progress):
            columns = describe(X)
        empty = columns.holes == X.shape[0]
        if training and empty.any():
            raise ValueError(f"column {int(np.flatnonzero(empty)[0])} has no observed value; drop it.")
        reach = max(-columns.low.min(), columns.high.max())
        if reach == np.inf:
            raise ValueError("the rows have infinite values; NaN stands for a missing one.")
        if reach > LARGEST:
            raise ValueError(f"values beyond {LARGEST:g} in size overflow; rescale the columns.")
        likelihood = resolve_likelihood(self._chosen_likelihood(), self._choices.likelihoods)
        names = getattr(self, "feature_names_in_", None)
        bound = placed(likelihood, None if names is None else names.tolist()).bind(columns)
        if not isinstance(bound, self._choices.bound):
            known = ", ".join(member.name for member in self._choices.likelihoods)
            raise ValueError(f"{type(self).__name__} takes a likelihood such as {known}, got {self.likelihood!r}.")
        return bound

    def _checked(self, X: Data) -> Data:
        """New rows, after a check that the fitted likelihood takes them."""
        X = self._check_array(X, reset=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # they are about priors, and new rows have none
            self._bind(X, training=False)
        for rows in row_blocks(X):
            self._likelihood.check(X[rows])
        return X

    def _check_new(self, X: Data) -> Data:
        check_is_fitted(self, "posterior_")
        return self._checked(X)


def checked_seed(seed: Any) -> int:
    if isinstance(seed, bool | np.bool_) or not 0 <= seed < 2**63:
        raise ValueError(f"random_state must be a whole number from 0 to 2^63 - 1, a generator or None, got {seed!r}.")
    return int(seed)


def drawn_seed(state: Randomness) -> int:
    """A seed from any `random_state` that scikit-learn takes, or from a NumPy generator."""
    if isinstance(state, np.random.Generator):
        return int(state.integers(2**31 - 1))
    if isinstance(state, int | np.integer | np.bool_) and checked_seed(state) >= 2**32:  # which NumPy's would refuse
        return int(state)
    return int(check_random_state(state).randint(2**31 - 1))
