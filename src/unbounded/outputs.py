"""What a fit says, whatever the model: scores, tables, draws for ArviZ, the report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unbounded.arrays import Array, Data, is_csr
from unbounded.categories import decoded
from unbounded.chain import export
from unbounded.chain.convergence import Check
from unbounded.chain.inference_data import KeptDraws, inference_data
from unbounded.inputs import Randomness, drawn_seed
from unbounded.randomness import generator
from unbounded.sources import Rows, Source

if TYPE_CHECKING:
    import pandas as pd
    from arviz import InferenceData
    from xarray import Dataset, DataTree


class GivesResults:
    """An estimator, as far as its results need no model."""

    checkpoint: str | os.PathLike[str] | None
    random_state: Randomness
    posterior_: Dataset
    convergence_: Check
    _snapshots: list[Any]  # draws that were kept whole
    _kept: list[Any]  # which draws of each chain these are
    _n_rows: int

    def _check_new(self, X: Data) -> Data:
        """New rows, after a check that the fit takes them."""
        raise NotImplementedError

    def _unit(self) -> str:
        """What rows are called, in the plural."""
        return "rows"

    def _atom_shares(self) -> Array:
        """The share of the rows that has each atom of the point estimate."""
        raise NotImplementedError

    def score(self, X: Rows, y: None = None) -> float:
        """Mean log posterior predictive density of the rows.

        Examples
        --------
        >>> type(model.score(X)).__name__
        'float'
        """
        return float(np.mean(self.score_samples(X)))

    def score_samples(self, X: Rows) -> Array:
        raise NotImplementedError

    def n_above(self, share: float) -> int:
        """How many atoms of the point estimate have more than this share of the rows.

        Examples
        --------
        >>> model.n_above(0.01) >= model.n_above(0.5)
        True
        """
        check_is_fitted(self, "posterior_")
        return int((self._atom_shares() > share).sum())

    def summary(self) -> pd.DataFrame:
        """Posterior means, intervals, effective sample sizes, R-hat and a verdict of every scalar, as a data frame.

        `convergence_.message` says the same in words.

        Examples
        --------
        >>> model.summary().columns[:2].tolist()
        ['mean', 'sd']
        """
        check_is_fitted(self, "posterior_")
        return export.table(self.posterior_, self.convergence_)

    def to_arviz(
        self,
        X: Rows | None = None,
        posterior_predictive: bool = False,
        random_state: Randomness = None,
    ) -> InferenceData | DataTree:
        """The draws for ArviZ: an InferenceData, or a DataTree where ArviZ 1.x is installed.

        X: the rows of the fit, whose log likelihood under each draw that was kept whole is added (for `az.loo`; more
        of them with `n_snapshots`). posterior_predictive: as many new rows from each of those draws (`az.plot_ppc`).
        Given either, the other groups have the same draws only.

        Examples
        --------
        >>> model.to_arviz().posterior.sizes["draw"]
        50
        """
        check_is_fitted(self, "posterior_")
        data: Data = None if X is None else self._check_new(X)
        if data is not None:
            self._check_size(data.shape[0])
        return self._for_arviz(data, posterior_predictive, random_state)

    def _check_size(self, n_rows: int) -> None:
        if n_rows != self._n_rows:
            raise ValueError(f"X has {n_rows} {self._unit()}, but the fit had {self._n_rows}; give those of the fit.")

    def _for_arviz(self, data: Data, posterior_predictive: bool, random_state: Randomness) -> Any:
        """data: the rows of the fit, as it read them, or None."""
        if data is None and not posterior_predictive:
            return inference_data(self.posterior_)
        rng, _ = self._sampling(1, random_state)
        which, likelihood, predictive = range(len(self._snapshots)), None, None
        if data is not None:
            likelihood = np.stack([self._log_likelihood(s, data, rng) for s in which])
        if posterior_predictive:
            predictive = np.stack([self._new_rows(s, self._n_rows, rng) for s in which])
        observed = data[:] if isinstance(data, Source) else data.toarray() if is_csr(data) else data
        return inference_data(
            self.posterior_, KeptDraws(self._kept, likelihood, predictive, observed, self._row_groups())
        )

    def _log_likelihood(self, s: int, X: Data, rng: np.random.Generator) -> Array:
        """Log likelihood of the rows under a whole draw, with their assignments summed out."""
        raise NotImplementedError

    def _new_rows(self, s: int, n: int, rng: np.random.Generator) -> Array:
        """n rows from the predictive distribution of a whole draw."""
        raise NotImplementedError

    def _in_words(self, rows: Array) -> Any:
        """New rows, with words where those of the fit had words."""
        names = getattr(self, "feature_names_in_", None)
        return decoded(rows, getattr(self, "categories_", {}), None if names is None else names.tolist())

    def _row_groups(self) -> Array | None:
        """The group of each row, where rows have groups."""
        return None

    def report(self, path: str | os.PathLike[str] | None = None, X: Rows | None = None) -> Path:
        """Write the run directory of the fit as one HTML page, by default to its report.html (docs/report.md).

        X: the rows of the fit, which the run directory does not have.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model.set_params(checkpoint=folder).fit(X).report(X=X).name
        'report.html'
        """
        return self._report(path, X)

    def _report(self, path: str | os.PathLike[str] | None, X: Rows | None, **at_hand: object) -> Path:
        """at_hand: what else the page can use of the fit, and its run directory does not have."""
        from unbounded.report import page  # which knows all families, and so all estimators

        check_is_fitted(self, "posterior_")
        if self.checkpoint is None:
            raise ValueError("a report is made from a run directory; fit with checkpoint=path.")
        return page.report(self.checkpoint, path, X, at_hand)

    def _sampling(self, n_samples: int, random_state: Randomness) -> tuple[np.random.Generator, Array]:
        """A generator, and which snapshot each of n new rows comes from."""
        check_is_fitted(self, "posterior_")
        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}.")
        chosen = self.random_state if random_state is None else random_state
        rng = generator(drawn_seed(chosen), "sample")
        return rng, rng.integers(len(self._snapshots), size=n_samples)
