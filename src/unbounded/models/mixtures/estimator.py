"""The scikit-learn face of mixtures: rows, clusters and predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted

from unbounded import likelihoods
from unbounded.arrays import Array, Data
from unbounded.chain.run import Chain
from unbounded.contracts import Engine, Likelihood
from unbounded.docstrings import joined
from unbounded.estimator import ChainEstimator, Heldout
from unbounded.family import Choices, Init
from unbounded.inputs import Randomness
from unbounded.likelihoods import Bound
from unbounded.models.labelled import partition
from unbounded.models.labelled.labels import n_labelled
from unbounded.models.labelled.losses import DEFAULT, Loss, check_loss, similarity, uncertainty
from unbounded.models.labelled.predictive import log_densities, log_predictive, with_new
from unbounded.models.mixtures import start
from unbounded.models.mixtures.jump import Jumps, check_jumps
from unbounded.models.mixtures.kernels import KERNELS
from unbounded.models.mixtures.measure import DirichletProcess, PitmanYor
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.samplers import DIRICHLET, PITMAN_YOR
from unbounded.priors import Beta, Gamma
from unbounded.rows import fingerprint, row_blocks
from unbounded.sources import Rows

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 16384
_MOST_PAIRED = 10_000  # rows of which all pairs are compared

CHOICES = Choices(
    atoms="clusters",
    assignments="labels",
    dimensions=("row",),
    n_rows=n_labelled,
    likelihoods=likelihoods.MEMBERS,
    bound=Bound,
    samplers=DIRICHLET,
    kernels=KERNELS,
    double_only=("reference",),
    start=start,
    former_starts=start.FORMER_NAMES,
)


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureEstimator(ClusterMixin, DensityMixin, ChainEstimator):
    """What both mixtures share; subclasses differ in their measure only.

    Parameters
    ----------
    likelihood : str or likelihood, default "gaussian"
        "gaussian", "diagonal_gaussian", "bernoulli", "categorical", "multinomial", "poisson", or an object with
        explicit priors such as `Gaussian(kappa=0.1)` or `Product(...)` for mixed tables.
    init : str, array of labels or tuple, default ("grown", "one")
        "grown", "one", "prior", or labels, for all chains; a tuple has the starts of chains in turn. Chains that
        begin far apart and agree are a better sign than chains that begin alike.
    loss : {"binder", "vi"}, default "binder"
        Which expected loss `labels_` minimises: Binder's, or the variation of information (docs/estimates.md).
    merge_cost : float between 0 and 2, default 1.0
        Rows together that belong apart cost `merge_cost`, rows apart that belong together 2 - merge_cost: above 1 there
        are more clusters, below it fewer.
    jumps : bool, Jumps or None, default None
        Moves of whole clusters: how much of them is tried in a round (docs/jumps.md). None: as much as is usual, where
        the sampler has any (the hybrid one, with an exact rule); a run that was begun without any goes on without.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        Point estimate of the partition (not the last draw).
    n_clusters_ : int
        Number of clusters of `labels_`, single rows that are like no others included; `n_above(0.01)` is the number of
        those with more than 1% of the rows. Its posterior is `posterior_["n_clusters"]`.
    cluster_sizes_ : array of shape (n_clusters_,)
        Rows of each cluster, largest first.
    uncertainty_ : array of shape (n_rows,)
        How much the company of each row changes: of all rows that are with it in `labels_` or in a draw, the share
        that is not with it in both, averaged over draws; 0 is never, 1 is always.
    coclustering_ : array of shape (n_rows, n_rows)
        The probability that two rows share a cluster, of up to 10,000 rows; of some of more rows, `similarity`.
    """

    likelihood: str | Likelihood = "gaussian"
    init: str | ArrayLike | tuple[str | ArrayLike, ...] = ("grown", "one")
    loss: str = DEFAULT.kind
    merge_cost: float = DEFAULT.merge_cost
    jumps: bool | Jumps | None = None

    _choices: ClassVar[Choices] = replace(CHOICES, samplers=PITMAN_YOR)

    score = ChainEstimator.score  # which the empty one of scikit-learn's mixin would hide

    def _usual_jumps(self) -> Jumps:
        check_jumps(self.jumps)
        return Jumps()

    # ---- fitting

    def fit(self, X: Rows, y: None = None, *, holdout: Rows | None = None) -> Self:
        """Sample the posterior of the clustering of X: an array, CSR or a source (docs/data.md).

        holdout: rows kept out, whose mean log predictive density is recorded with every draw.
        With `checkpoint`, a run that was interrupted there is resumed and ends as if it never stopped.

        Examples
        --------
        >>> model.fit(X[:50], holdout=X[50:]).posterior_["holdout"].shape
        (1, 50)
        >>> model = model.fit(X)
        """
        data = self._check_array(X, reset=True)
        self._likelihood = self._bind(data, training=True)
        self._check_settings(data.shape[0])
        return self._sample(data, None if holdout is None else self._checked(holdout))

    def _score(self, model: Mixture, engine: Engine, heldout: Heldout, state: MixtureState) -> float:
        counts = state.table.counts[state.occupied]
        statistics = state.table.statistics[state.occupied]
        return float(self._log_density(heldout, counts, statistics, state.hyper).mean())

    def _heldout_fingerprint(self, heldout: Heldout) -> str:
        return fingerprint(heldout)

    def _estimate(self, chains: Sequence[Chain]) -> None:
        self._snapshots = [snap for chain in chains for _, snap in sorted(chain.snapshots.items())]
        self.labels_ = partition.point_estimate(self._drawn(), Loss(self.loss, self.merge_cost))
        self.cluster_sizes_ = np.bincount(self.labels_)
        self.n_clusters_ = len(self.cluster_sizes_)

    def _drawn(self) -> list[Array]:
        return [snap["labels"] for snap in self._snapshots]

    def _row_estimates(self) -> Array:
        return self.labels_

    def _atom_shares(self) -> Array:
        return self.cluster_sizes_ / len(self.labels_)

    # ---- results

    def predict(self, X: Rows) -> Array:
        """The most probable cluster of `labels_` for each row.

        Examples
        --------
        >>> (model.predict(X[:5]) == model.labels_[:5]).all()
        np.True_
        """
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: Rows) -> Array:
        """Probability that a row belongs to each cluster of `labels_`, averaged over draws.

        In a draw, a row joins an atom with its posterior probability; the atom counts for a cluster by the share of
        its rows that the cluster has. The chance of belonging to none of the atoms is left out.

        Examples
        --------
        >>> model.predict_proba(X[:5]).shape
        (5, 3)
        >>> model.predict_proba(X[:5]).sum(1).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
        """
        data = self._check_new(X)
        total = np.zeros((data.shape[0], self.n_clusters_))
        for snap in self._snapshots:
            share = np.zeros((len(snap["counts"]), self.n_clusters_))
            np.add.at(share, (snap["labels"], self.labels_), 1.0)
            share /= snap["counts"][:, None]
            for rows, _, log_p in self._log_joint(
                data, snap["counts"], snap["statistics"], self._prior.restore(snap["hyper"])
            ):
                weights = np.exp(log_p[:-1] - logsumexp(log_p[:-1], axis=0))
                total[rows] += weights.T @ share
        return total / total.sum(1, keepdims=True)

    def score_samples(self, X: Rows) -> Array:
        """Log posterior predictive density of each row, averaged (as a density) over draws.

        Examples
        --------
        >>> near, far = model.score_samples([[0.0, 0.0], [50.0, 50.0]])
        >>> bool(near > far)
        True
        """
        data = self._check_new(X)
        logs = [
            self._log_density(data, snap["counts"], snap["statistics"], self._prior.restore(snap["hyper"]))
            for snap in self._snapshots
        ]
        return logsumexp(logs, axis=0) - np.log(len(logs))  # mutant: density of draws

    def sample(self, n_samples: int = 1, random_state: Randomness = None) -> Array | pd.DataFrame:
        """New rows from the posterior predictive distribution: an array, or where columns of the fit held words, such
        words, in a data frame if the fit had one.

        Examples
        --------
        >>> model.sample(4).shape
        (4, 2)
        """
        rng, which = self._sampling(n_samples, random_state)
        rows = np.empty((n_samples, self.n_features_in_))
        for s in np.unique(which):
            where = np.flatnonzero(which == s)
            rows[where] = self._new_rows(int(s), len(where), rng)
        return self._in_words(rows)

    def _new_rows(self, s: int, n: int, rng: np.random.Generator) -> Array:
        snap = self._snapshots[s]
        counts, statistics = with_new(snap["counts"].astype(float), snap["statistics"])
        weights = np.exp(self._prior.log_predictive(self._prior.restore(snap["hyper"]), counts[:-1]))
        atoms = rng.choice(len(counts), size=n, p=weights / weights.sum())
        return self._likelihood.simulate(self._likelihood.draw(counts, statistics, rng), atoms, rng)

    def _log_likelihood(self, s: int, X: Data, rng: np.random.Generator) -> Array:
        """Given weights and parameters of a draw's atoms, which are drawn for the purpose; what lies outside of them
        has the density of a new atom, whose parameters are integrated out. Holes are summed out, as labels are."""
        snap = self._snapshots[s]
        counts = snap["counts"].astype(float)
        log_weights = self._prior.log_shares(self._prior.restore(snap["hyper"]), counts, rng)
        drawn = self._likelihood.draw(counts, snap["statistics"], rng)
        return np.concatenate([
            logsumexp(log_densities(self._likelihood, drawn, X[rows]) + log_weights, axis=1)
            for rows in row_blocks(X, _BLOCK)
        ])  # fmt: skip

    def similarity(self, rows: ArrayLike | None = None) -> Array:
        """Posterior probability that two rows share a cluster, for the chosen rows (default the first 1,000).

        Examples
        --------
        >>> model.similarity([0, 1, 59]).round() + 0.0
        array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 1.]])
        """
        check_is_fitted(self, "posterior_")
        rows = np.arange(min(1000, self._n_rows)) if rows is None else np.asarray(rows)
        return similarity(self._drawn(), rows)

    @property
    def coclustering_(self) -> Array:
        """[n_rows, n_rows]: the posterior probability that two rows share a cluster. Of many rows: `similarity`.

        Examples
        --------
        >>> model.coclustering_.shape
        (60, 60)
        """
        check_is_fitted(self, "posterior_")
        if self._n_rows > _MOST_PAIRED:
            raise ValueError(
                f"coclustering_ of {self._n_rows:,} rows would be too large; similarity(rows) gives that of some."
            )
        return self.similarity(np.arange(self._n_rows))

    @property
    def uncertainty_(self) -> Array:
        """How much the company of each row changes: of all rows that are with it in `labels_` or in a draw, the share
        that is not with it in both, averaged over draws; 0 is never, 1 is always.

        Examples
        --------
        >>> bool(model.uncertainty_.max() < 0.5)
        True
        """
        check_is_fitted(self, "posterior_")
        return uncertainty(self.labels_, self._drawn())

    def report(self, path: str | os.PathLike[str] | None = None, X: Rows | None = None) -> Path:
        """Write the run directory of the fit as one HTML page, by default to its report.html (docs/report.md).

        X: the rows of the fit, for a picture of the clusters and what distinguishes them.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model.set_params(checkpoint=folder).fit(X).report(X=X).name
        'report.html'
        """
        return self._report(path, X, loss=self.loss, merge_cost=self.merge_cost)

    # ---- helpers

    def _log_joint(self, X: Data, counts: Array, statistics: Array, hyper: Any) -> Iterator[tuple[slice, Any, Array]]:
        """Blocks of rows with [K + 1, rows]: log weight times predictive under each atom of a draw, a new atom last."""
        atoms, sums = with_new(counts.astype(float), statistics)
        weights = self._prior.log_predictive(hyper, counts.astype(float))
        for rows in row_blocks(X, _BLOCK):
            part = X[rows]
            likelihood, statistics = self._likelihood, sums
            if not likelihood.columns.sparse and np.isnan(part).any():
                likelihood, statistics = likelihood.with_holes(atoms, sums)
            # mutant: predictive weights
            yield rows, part, log_predictive(likelihood, atoms, statistics, part) + weights[:, None]

    def _log_density(self, X: Data, counts: Array, statistics: Array, hyper: Any) -> Array:
        return np.concatenate([
            logsumexp(logs, axis=0) + self._likelihood.log_base(part)
            for _, part, logs in self._log_joint(X, counts, statistics, hyper)
        ])  # fmt: skip

    def _sparse_ok(self) -> bool:
        return likelihoods.resolve(self.likelihood).name == "multinomial"

    def _check_init(self, init: Init, n_rows: int) -> None:
        start.check(init, n_rows)

    def _check_settings(self, n_rows: int) -> None:
        super()._check_settings(n_rows)
        check_loss(Loss(self.loss, self.merge_cost))


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class DirichletProcessMixture(MixtureEstimator):
    """Dirichlet process mixture: clusters whose number the data decide, sampled exactly and in parallel.

    Parameters
    ----------
    concentration : float, Gamma or None, default None
        A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0)
    >>> X += np.random.default_rng(0).normal(size=X.shape)
    >>> model = ub.DirichletProcessMixture(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.n_clusters_, model.cluster_sizes_.tolist()
    (3, [20, 20, 20])
    """

    likelihood: str | Likelihood = field(default="gaussian", kw_only=False)
    concentration: float | Gamma | None = None

    _choices: ClassVar[Choices] = CHOICES

    def _measure(self) -> PitmanYor:
        return DirichletProcess(self.concentration)


@joined
@dataclass(eq=False, repr=False, kw_only=True)
class PitmanYorMixture(MixtureEstimator):
    """Pitman-Yor mixture: like the Dirichlet process mixture, but cluster sizes follow a power law.

    Parameters
    ----------
    concentration : float, Gamma or None, default None
        Above minus the discount. A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).
    discount : float in [0, 1), Beta or None, default None
        A number fixes it; a `Beta` prior is sampled; None is Beta(1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0)
    >>> X += np.random.default_rng(0).normal(size=X.shape)
    >>> model = ub.PitmanYorMixture(n_warmup=50, n_draws=50, n_chains=1, random_state=0).fit(X)
    >>> model.n_clusters_, model.cluster_sizes_.tolist()
    (3, [20, 20, 20])
    """

    likelihood: str | Likelihood = field(default="gaussian", kw_only=False)
    concentration: float | Gamma | None = None
    discount: float | Beta | None = None

    def _measure(self) -> PitmanYor:
        concentration = Gamma() if self.concentration is None else self.concentration
        return PitmanYor(concentration, Beta() if self.discount is None else self.discount)
