"""The scikit-learn face of feature models: rows, features, and what they say of new rows and missing entries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from unbounded.arrays import ENTRIES, Array, Data, n_rows_of_entries
from unbounded.chain.run import Chain
from unbounded.contracts import Engine, Likelihood
from unbounded.docstrings import joined
from unbounded.estimator import ChainEstimator
from unbounded.family import Choices, Init
from unbounded.inputs import Randomness
from unbounded.models.features import predictive as feature_predictive
from unbounded.models.features import start as feature_start
from unbounded.models.features.beta_bernoulli import BetaBernoulli
from unbounded.models.features.beta_negative_binomial import BetaNegativeBinomial
from unbounded.models.features.gamma_poisson import GammaPoisson
from unbounded.models.features.jump import Jumps
from unbounded.models.features.kernels import KERNELS
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.likelihoods import LIKELIHOODS
from unbounded.models.features.measure import FeatureMeasure
from unbounded.models.features.model import Features
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.models.features.predictive import Cells, Draw
from unbounded.models.features.samplers import FEATURES
from unbounded.models.features.state import FeatureState
from unbounded.priors import Gamma
from unbounded.randomness import key
from unbounded.rows import fingerprint, row_blocks
from unbounded.sources import Rows, Source

_BLOCK = 16384

CHOICES = Choices(
    atoms="features",
    assignments="Z",
    dimensions=("row", "feature"),
    n_rows=n_rows_of_entries,
    likelihoods=LIKELIHOODS,
    bound=FeatureBound,
    samplers=FEATURES,
    kernels=KERNELS,
    double_only=("reference",),
    start=feature_start,
)


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ChainEstimator):
    """What the three feature models share; subclasses differ in their measure only.

    Parameters
    ----------
    likelihood : str or likelihood, default "linear_gaussian"
        "linear_gaussian" for real numbers, "linear_gaussian_at_zero" if a row without features is zero (no intercept),
        "poisson_factors" for counts, or an object such as `LinearGaussian(noise=0.5)`.
    mass : float, Gamma or None, default None
        How much features are used: the more, the larger. A number fixes it; a `Gamma` prior is sampled; None is
        Gamma(1, 1).
    concentration : float, Gamma or None, default None
        How reluctantly rows share features. A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).
    init : str or array, default "grown"
        "grown", "one", "prior", or a matrix Z with a row for each row and a column for each feature.
    jumps : bool or None, default None
        Moves of whole features (docs/features.md). None: where there are any (the hybrid sampler and the collapsed one,
        with an exact rule and a linear Gaussian); a run that was begun without any goes on without.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the vectorised part; rounds that would lose accuracy in float32 run in float64, and all rounds of
        counts do.
    keep_assignments : bool, default False
        Keep the Z of every draw in `posterior_["assignments"]`, padded with zeros to the largest number of features.

    Attributes
    ----------
    components_ : array of shape (n_atoms_, n_columns)
        Loadings of the features that at least half of the snapshots have, the most used first: means over snapshots
        whose features were matched with those of one of them.
    n_atoms_ : int
        Number of components; the posterior of the number of features is `posterior_["n_features"]`.
    assignments_ : array of shape (n_rows, n_atoms_)
        Posterior mean of Z, in terms of `components_`.
    intercept_ : array of shape (n_columns,)
        Expectation of a row that has no feature. With an intercept a feature says the same when it is flipped, with the
        opposite loadings and in the other rows; draws are flipped as the most probable one is.
    """

    likelihood: str | Likelihood = "linear_gaussian"
    mass: float | Gamma | None = None
    concentration: float | Gamma | None = None
    init: str | ArrayLike = "grown"
    jumps: bool | None = None

    _choices: ClassVar[Choices] = CHOICES

    def _usual_jumps(self) -> Jumps | None:
        if not isinstance(self.jumps, bool | np.bool_ | None):
            raise ValueError(f"jumps must be True, False or None, got {self.jumps!r}.")
        return Jumps() if self._likelihood.gram else None

    def _hyper_priors(self) -> tuple[float | Gamma, float | Gamma]:
        mass, concentration = (Gamma() if v is None else v for v in (self.mass, self.concentration))
        return mass, concentration

    # ---- fitting

    def fit(self, X: Rows, y: None = None, *, holdout: ArrayLike | None = None) -> Self:
        """Sample the posterior of the features of X, an array or a source (docs/data.md); NaN is a missing value.

        holdout: a boolean mask of cells that are hidden from the fit; their mean log density given Z, and loadings that
        are drawn for the purpose, is recorded with every draw.
        With `checkpoint`, a run that was interrupted there is resumed and ends as if it never stopped.

        Examples
        --------
        >>> hidden = np.zeros(X.shape, bool)
        >>> hidden[::7, 2] = True
        >>> model.fit(X, holdout=hidden).posterior_["holdout"].shape
        (1, 50)
        >>> model = model.fit(X)
        """
        data = self._check_array(X, reset=True)
        data, heldout = (data, None) if holdout is None else _hide(data, holdout)
        self._likelihood = self._bind(data, training=True)
        if heldout is not None:
            self._likelihood.check(heldout.values)
        self._check_settings(data.shape[0])
        return self._sample(data, heldout)

    def _measure(self) -> FeatureMeasure:
        raise NotImplementedError

    def _check_init(self, init: Init, n_rows: int) -> None:
        feature_start.check(init, n_rows, self._measure().binary)

    def _score(self, model: Features, engine: Engine, heldout: Cells, state: FeatureState) -> float:
        return feature_predictive.held_out(model, state, engine, heldout)

    def _heldout_fingerprint(self, heldout: Cells) -> str:
        return fingerprint(np.column_stack(heldout))

    def _estimate(self, chains: Sequence[Chain]) -> None:
        """Match the features of all snapshots, then forget their Z, which nothing else needs."""
        pairs = [(snap, chain.draws[d]) for chain in chains for d, snap in sorted(chain.snapshots.items())]
        estimate = point_estimate([FeatureDraw.of(snap, scalars["log_joint"]) for snap, scalars in pairs])
        self._snapshots = [
            {name: value for name, value in snap.items() if name not in ENTRIES} | {"matches": matches, "tops": tops}
            for (snap, _), matches, tops in zip(pairs, estimate.matches, estimate.tops, strict=True)
        ]
        self.components_, self.assignments_ = estimate.components, estimate.assignments
        self.n_atoms_ = len(self.components_)
        self.intercept_ = np.mean([self._base(s) for s in range(len(pairs))], axis=0)

    def _row_estimates(self) -> Array:
        return self.assignments_

    def _atom_shares(self) -> Array:
        return self.assignments_.mean(0, dtype=float)

    # ---- results

    def transform(self, X: Rows) -> Array:
        """Posterior mean of the entries of rows, in terms of `components_`, averaged over draws.

        Examples
        --------
        >>> model.transform(X[:5]).shape == (5, model.n_atoms_)
        True
        """
        data = self._check_new(X)
        out = np.zeros((data.shape[0], self.n_atoms_))
        for rows, s, draw in self._blocks(data):
            self._add_entries(out[rows], feature_predictive.explain(draw, data[rows], rows.start).Z, s)
        return out

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """Expectation of rows with these entries of `components_`.

        Examples
        --------
        >>> model.inverse_transform(model.transform(X)).shape == X.shape
        True
        """
        check_is_fitted(self, "posterior_")
        entries = check_array(Z, dtype=np.float64, ensure_min_features=0)
        if entries.shape[1] != self.n_atoms_:
            raise ValueError(f"Z has {entries.shape[1]} columns, but there are {self.n_atoms_} components.")
        value: Array = entries @ self.components_ + self.intercept_
        return value

    def impute(self, X: Rows) -> Array:
        """The rows, with each missing value replaced by the posterior mean of its expectation.

        Examples
        --------
        >>> torn = X[:5].copy()
        >>> torn[:, 0] = np.nan
        >>> np.isnan(model.impute(torn)).sum()
        np.int64(0)
        """
        data = self._check_new(X)
        if isinstance(data, Source):
            raise ValueError("impute gives all rows in memory; give it those you need, source[start:stop].")
        out = data.copy()
        holes = np.isnan(data)
        out[holes] = 0.0
        for rows, _, draw in self._blocks(data):
            entries = feature_predictive.explain(draw, data[rows], rows.start)
            out[rows][holes[rows]] += entries.holes / len(self._snapshots)
        return out

    def score_samples(self, X: Rows) -> Array:
        """Log posterior predictive density of each row, averaged (as a density) over draws.

        Exact given a draw when entries are 0 or 1 and its features are 10 at most; otherwise an unbiased estimate of
        the density by annealed importance sampling.

        Examples
        --------
        >>> model.score_samples(X[:5]).shape
        (5,)
        """
        data = self._check_new(X)
        total = np.full(data.shape[0], -np.inf)
        for rows, _, draw in self._blocks(data):
            total[rows] = np.logaddexp(total[rows], feature_predictive.log_density(draw, data[rows], rows.start))
        value: Array = total - np.log(len(self._snapshots))
        return value

    def sample(self, n_samples: int = 1, random_state: Randomness = None) -> Array:
        """New rows from the posterior predictive distribution.

        Examples
        --------
        >>> model.sample(4).shape
        (4, 6)
        """
        rng, which = self._sampling(n_samples, random_state)
        rows = np.empty((n_samples, self.n_features_in_))
        for s in np.unique(which):
            where = np.flatnonzero(which == s)
            rows[where] = self._new_rows(int(s), len(where), rng)
        return rows

    def _new_rows(self, s: int, n: int, rng: np.random.Generator) -> Array:
        return feature_predictive.simulate(self._draw(s), n, rng)

    def _log_likelihood(self, s: int, X: Data, rng: np.random.Generator) -> Array:
        draw = self._draw(s)
        return np.concatenate(
            [feature_predictive.log_density(draw, X[rows], rows.start) for rows in row_blocks(X, _BLOCK)]
        )

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Rows | None = None,
        shape: tuple[int, int] | None = None,
    ) -> Path:
        """Write the run directory of the fit as one HTML page, by default to its report.html (docs/report.md).

        X: the rows of the fit, a data frame, for the names of its columns. shape: features are images of this size.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model.set_params(checkpoint=folder).fit(X).report(shape=(2, 3)).name
        'report.html'
        """
        return self._report(path, X, shape=shape)

    # ---- helpers

    def _draw(self, s: int) -> Draw:
        seed = int(key(self._seed, "predict", s) >> np.uint64(2))
        return feature_predictive.draw_of(self._prior, self._likelihood, self._snapshots[s], self._n_rows, seed)

    def _base(self, s: int) -> Array:
        """Expectation of a row without features, flipped as those of `components_` are.

        An intercept takes what rows have on average of features that are none of these.
        """
        draw, snapshot = self._draw(s), self._snapshots[s]
        if not self._likelihood.fixed:
            return draw.base
        mean = snapshot["members"][: draw.size] / self._n_rows
        added: Array = np.where(snapshot["matches"] >= 0, snapshot["tops"], mean) @ draw.loadings[: draw.size]
        return draw.base + added

    def _blocks(self, X: Data) -> Iterator[tuple[slice, int, Draw]]:
        """Every block of rows with every draw."""
        for s in range(len(self._snapshots)):
            draw = self._draw(s)
            for rows in row_blocks(X, _BLOCK):
                yield rows, s, draw

    def _add_entries(self, out: Array, Z: Array, s: int) -> None:
        """Add a draw's entries to those of the components that they belong to."""
        matches, tops = self._snapshots[s]["matches"], self._snapshots[s]["tops"]
        entries = np.where(tops > 0, tops - Z, Z)
        out[:, matches[matches >= 0]] += entries[:, matches >= 0] / len(self._snapshots)

    @property
    def _n_features_out(self) -> int:
        return self.n_atoms_


def _hide(X: Data, holdout: ArrayLike) -> tuple[Array, Cells]:
    """A copy of the rows in which the masked cells are missing, and those of them that were observed."""
    if isinstance(X, Source):
        raise ValueError("cells of a source cannot be held out; store them as missing, or hold out of an array.")
    mask = np.asarray(holdout)
    if mask.shape != X.shape or mask.dtype != bool:
        raise ValueError(f"holdout must be a boolean mask of shape {X.shape}, got {mask.dtype} of shape {mask.shape}.")
    rows, columns = np.nonzero(mask & ~np.isnan(X))
    if not len(rows):
        raise ValueError("holdout hides no observed cell; leave it out or mark some.")
    return np.where(mask, np.nan, X), Cells(rows, columns, X[rows, columns])


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class BetaBernoulliFeatures(FeatureEstimator):
    """Beta-Bernoulli process (Indian buffet process): a row has a feature or not; the data decide how many there are.

    Parameters
    ----------
    mass : float, Gamma or None, default None
        Expected number of features of a row. A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).
    concentration : float, Gamma or None, default None
        How reluctantly rows share features; 1 is the one-parameter Indian buffet process. None is Gamma(1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> rng = np.random.default_rng(0)
    >>> loadings = 5.0 * np.repeat(np.eye(3), 2, axis=1)  # three features, two columns each
    >>> X = rng.integers(0, 2, (60, 3)) @ loadings + 0.3 * rng.normal(size=(60, 6))
    >>> model = ub.BetaBernoulliFeatures(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.n_atoms_, model.components_.shape
    (3, (3, 6))
    """

    likelihood: str | Likelihood = field(default="linear_gaussian", kw_only=False)

    def _measure(self) -> FeatureMeasure:
        return BetaBernoulli(*self._hyper_priors())


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class GammaPoissonFeatures(FeatureEstimator):
    """Gamma-Poisson process: a row has a feature 0, 1, 2, ... times.

    The expected sum of a row's counts is `mass` / `concentration`.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> rng = np.random.default_rng(0)
    >>> loadings = 5.0 * np.repeat(np.eye(3), 2, axis=1)  # three features, two columns each
    >>> X = rng.poisson(1.0, (60, 3)) @ loadings + 0.3 * rng.normal(size=(60, 6))
    >>> model = ub.GammaPoissonFeatures(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.components_.shape == (model.n_atoms_, 6)
    True
    """

    likelihood: str | Likelihood = field(default="linear_gaussian", kw_only=False)

    def _measure(self) -> FeatureMeasure:
        return GammaPoisson(*self._hyper_priors())


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class BetaNegativeBinomialFeatures(FeatureEstimator):
    """Beta-negative-binomial process: counts of features that vary more than Poisson ones.

    Parameters
    ----------
    failures : float, default 1.0
        r of the negative binomial: the smaller, the more the counts vary.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> rng = np.random.default_rng(0)
    >>> loadings = 5.0 * np.repeat(np.eye(3), 2, axis=1)  # three features, two columns each
    >>> X = rng.poisson(1.0, (60, 3)) @ loadings + 0.3 * rng.normal(size=(60, 6))
    >>> model = ub.BetaNegativeBinomialFeatures(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.components_.shape == (model.n_atoms_, 6)
    True
    """

    likelihood: str | Likelihood = field(default="linear_gaussian", kw_only=False)
    failures: float = 1.0

    def _measure(self) -> FeatureMeasure:
        return BetaNegativeBinomial(*self._hyper_priors(), self.failures)
