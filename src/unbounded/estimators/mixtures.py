"""The scikit-learn face of mixtures: checks input, builds model, engine and chain, exposes results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClusterMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unbounded import engines
from unbounded.arrays import is_csr
from unbounded.chain import export
from unbounded.chain.run import Chain, Length, run
from unbounded.chain.store import RunError, RunStore
from unbounded.data import describe, fingerprint
from unbounded.estimators.options import ChainOptions
from unbounded.instantiation import resolve as resolve_rule
from unbounded.likelihoods import Bound
from unbounded.likelihoods import resolve as resolve_likelihood
from unbounded.measures import Beta, DirichletProcess, Gamma, Hyper, PitmanYor
from unbounded.progress import show_progress
from unbounded.randomness import generator, key
from unbounded.samplers import start
from unbounded.samplers.mixture import Mixture, MixtureState, shards
from unbounded.samplers.predictive import log_predictive, with_new
from unbounded.summary import partition

LARGEST = 1e100
_LOSSES = ("vi", "binder")
_BLOCK = 16384


@dataclass(eq=False, repr=False, kw_only=True)
class _MixtureEstimator(ClusterMixin, DensityMixin, ChainOptions):
    """What both mixtures share; subclasses differ in their measure only."""

    likelihood: Any = "gaussian"
    init: Any = "kmeans++"
    dtype: str = "float64"
    loss: str = "vi"

    def _measure(self) -> PitmanYor:
        raise TypeError("use DirichletProcessMixture or PitmanYorMixture")

    # ---- fitting

    def fit(self, X: Any, y: Any = None, *, holdout: Any = None) -> Any:
        """Sample the posterior of the clustering of X.

        holdout: rows kept out, whose mean log predictive density is recorded with every draw.
        With `checkpoint`, a run that was interrupted there is resumed and ends as if it never stopped.
        """
        X, likelihood = self._check_rows(X, reset=True)
        self._check_settings(X.shape[0])
        length = Length(self.n_warmup, self.n_draws, self.thin, max(1, self.n_snapshots // self.n_chains))
        model = Mixture(
            self._measure(), likelihood, resolve_rule(self.instantiate), X.shape[0], self.n_shards, self.seed(),
            length.n_rounds, self.sweeps_per_round, self.dtype,
        )  # fmt: skip
        if model.settled() > self.n_warmup:
            raise ValueError(
                f"n_warmup must cover the schedule's first {model.settled()} rounds, whose draws are discarded, "
                f"got {self.n_warmup}."
            )
        self._likelihood, self._prior, self._n_rows = likelihood, model.measure, X.shape[0]
        if holdout is not None:
            holdout = self._check_new(holdout)
        store = self._open_store(X, holdout, model)
        chains = []
        with show_progress(self.progress, self.n_chains * length.n_rounds, X.shape[0]) as report:
            for index in range(self.n_chains):
                try:
                    chains.append(self._run_chain(model, X, index, length, store, holdout, report))
                except KeyboardInterrupt:  # while a chain starts; earlier ones are what there is
                    if not chains:
                        raise
                    break
                if chains[-1].interrupted:
                    break
        return self._finish(chains)

    def _run_chain(
        self, model: Mixture, X: Any, index: int, length: Length, store: RunStore | None, holdout: Any, report: Any
    ) -> Chain:
        model = model.reseeded(int(key(model.seed, "chain", index) >> np.uint64(2)))
        engine = engines.build(self.engine, shards(X, model.likelihood, self.n_shards), self.n_workers)

        def score(state: MixtureState) -> dict[str, float]:
            counts = state.table.counts[state.occupied]
            statistics = state.table.statistics[state.occupied]
            return {"holdout": float(self._log_density(holdout, counts, statistics, state.hyper).mean())}

        try:
            return run(
                model, engine, lambda: start.begin(model, engine, X, self.init), length,
                store=store.chain(index) if store else None,
                keep_assignments=self.keep_assignments,
                extra=score if holdout is not None else None,
                report=(lambda done, scalars: report(index * length.n_rounds + done, scalars)) if report else None,
            )  # fmt: skip
        finally:
            engine.close()

    def _finish(self, chains: list[Chain]) -> Any:
        self.interrupted_ = len(chains) < self.n_chains or len(chains[-1].draws) < self.n_draws
        chains = [chain for chain in chains if chain.draws] or chains
        if not chains[0].draws:
            raise KeyboardInterrupt("interrupted before the first draw; resume from the run directory if there is one.")
        self.exact_ = all(chain.exact for chain in chains)
        self.posterior_ = export.to_dataset(chains)
        self._snapshots = [snap for chain in chains for _, snap in sorted(chain.snapshots.items())]
        if not self._snapshots:
            raise KeyboardInterrupt("interrupted before the first snapshot; resume from the run directory.")
        self.labels_ = partition.point_estimate([snap["labels"] for snap in self._snapshots], self.loss)
        self.n_clusters_ = int(self.labels_.max()) + 1
        return self

    # ---- results

    def predict(self, X: Any) -> Any:
        """The most probable cluster of `labels_` for each row."""
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: Any) -> Any:
        """Probability that a row belongs to each cluster of `labels_`, averaged over draws.

        In a draw, a row joins an atom with its posterior probability; the atom counts for a cluster by the share of
        its rows that the cluster has. The chance of belonging to none of the atoms is left out.
        """
        X = self._check_new(X)
        total = np.zeros((X.shape[0], self.n_clusters_))
        for snap in self._snapshots:
            share = np.zeros((len(snap["counts"]), self.n_clusters_))
            np.add.at(share, (snap["labels"], self.labels_), 1.0)
            share /= snap["counts"][:, None]
            for rows, log_p in self._log_joint(X, snap["counts"], snap["statistics"], Hyper(*snap["hyper"])):
                weights = np.exp(log_p[:-1] - logsumexp(log_p[:-1], axis=0))
                total[rows] += weights.T @ share
        return total / total.sum(1, keepdims=True)

    def score_samples(self, X: Any) -> Any:
        """Log posterior predictive density of each row, averaged (as a density) over draws."""
        X = self._check_new(X)
        logs = [
            self._log_density(X, snap["counts"], snap["statistics"], Hyper(*snap["hyper"])) for snap in self._snapshots
        ]
        return logsumexp(logs, axis=0) - np.log(len(logs))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior predictive density of the rows."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """New rows from the posterior predictive distribution."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
        chosen = self.random_state if random_state is None else random_state
        rng = generator(int(check_random_state(chosen).randint(2**31 - 1)), "sample")
        which = rng.integers(len(self._snapshots), size=n_samples)
        rows = np.empty((n_samples, self.n_features_in_))
        for s in np.unique(which):
            snap = self._snapshots[s]
            counts, statistics = with_new(snap["counts"].astype(float), snap["statistics"])
            weights = np.exp(self._prior.log_predictive(Hyper(*snap["hyper"]), counts[:-1]))
            where = np.flatnonzero(which == s)
            atoms = rng.choice(len(counts), size=len(where), p=weights / weights.sum())
            rows[where] = self._likelihood.simulate(self._likelihood.draw(counts, statistics, rng), atoms, rng)
        return rows

    def similarity(self, rows: Any = None) -> Any:
        """Posterior probability that two rows share a cluster, for the chosen rows (default the first 1,000)."""
        check_is_fitted(self)
        rows = np.arange(min(1000, self._n_rows)) if rows is None else np.asarray(rows)
        return partition.similarity([snap["labels"] for snap in self._snapshots], rows)

    def summary(self) -> Any:
        """Posterior means, intervals, effective sample sizes and R-hat of every scalar trace, as a data frame."""
        check_is_fitted(self)
        return export.table(self.posterior_)

    def to_arviz(self) -> Any:
        """The draws as an ArviZ InferenceData."""
        check_is_fitted(self)
        return export.to_arviz(self.posterior_)

    # ---- helpers

    def _log_joint(self, X: Any, counts: Any, statistics: Any, hyper: Hyper) -> Iterator[tuple[slice, Any]]:
        """[K + 1, rows] by blocks of rows: log weight times predictive under each atom of a draw, a new atom last."""
        likelihood = self._likelihood
        atoms, sums = with_new(counts.astype(float), statistics)
        if not likelihood.sparse and np.isnan(X).any():
            likelihood, sums = likelihood.with_holes(atoms, sums)
        weights = self._prior.log_predictive(hyper, counts.astype(float))
        for first in range(0, X.shape[0], _BLOCK):
            rows = slice(first, min(first + _BLOCK, X.shape[0]))
            yield rows, log_predictive(likelihood, atoms, sums, X[rows]) + weights[:, None]

    def _log_density(self, X: Any, counts: Any, statistics: Any, hyper: Hyper) -> Any:
        parts = [logsumexp(logs, axis=0) for _, logs in self._log_joint(X, counts, statistics, hyper)]
        return np.concatenate(parts) + self._likelihood.log_base(X)

    def _sparse_ok(self) -> bool:
        return resolve_likelihood(self.likelihood).name == "multinomial"

    def _check_rows(self, X: Any, reset: bool) -> tuple[Any, Bound]:
        """The rows, checked, and the likelihood bound to them (which checks their values)."""
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr" if self._sparse_ok() else False, dtype=[np.float64, np.float32],
            order="C", ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1,
        )  # fmt: skip
        if is_csr(X):
            X = X.copy() if not X.has_canonical_format else X
            X.sum_duplicates()
        columns = describe(X)
        empty = columns.holes == X.shape[0]
        if reset and empty.any():
            raise ValueError(f"column {int(np.flatnonzero(empty)[0])} has no observed value; drop it.")
        if max(-columns.low.min(), columns.high.max()) > LARGEST:
            raise ValueError(f"values beyond {LARGEST:g} in size overflow; rescale the columns.")
        return X, resolve_likelihood(self.likelihood).bind(columns)

    def _check_new(self, X: Any) -> Any:
        check_is_fitted(self, "_likelihood")
        X, _ = self._check_rows(X, reset=False)
        self._likelihood.check(X)
        return X

    def _check_settings(self, n_rows: int) -> None:
        self.check_options(n_rows)
        resolve_rule(self.instantiate).plan(0, 1, n_rows, self.n_shards, np.random.default_rng(0))
        if self.dtype not in ("float64", "float32"):
            raise ValueError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}.")
        if self.loss not in _LOSSES:
            raise ValueError(f"loss must be one of {_LOSSES}, got {self.loss!r}.")
        start.check(self.init, n_rows)
        engines.check(self.engine, self.n_workers)

    def _open_store(self, X: Any, holdout: Any, model: Mixture) -> RunStore | None:
        if self.checkpoint is None:
            return None
        store = RunStore(self.checkpoint)
        config = self._config(X, holdout, model.seed)
        if store.exists():
            saved = store.config()
            free = ("n_draws",) if model.exact else ()  # published schedules depend on the length of the run
            differs = [name for name in config if saved.get(name) != config[name] and name not in free]
            if differs:
                raise RunError(
                    f"{store.path} holds a run with other {', '.join(differs)}; use the same or another directory."
                )
        else:
            store.prepare(config)
        return store

    def _config(self, X: Any, holdout: Any, seed: int) -> dict[str, Any]:
        """Everything the chain is a function of, in plain words."""
        return {
            "model": type(self).__name__,
            "likelihood": _describe(resolve_likelihood(self.likelihood)),
            "measure": _describe(self._measure()),
            "instantiate": _describe(resolve_rule(self.instantiate)),
            "init": self.init if isinstance(self.init, str) else fingerprint(np.asarray(self.init)),
            "dtype": self.dtype,
            "seed": seed,
            **self.chain_settings(),
            "data": fingerprint(X),
            "holdout": None if holdout is None else fingerprint(holdout),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._sparse_ok() is False
        tags.input_tags.sparse = self._sparse_ok()
        return tags


def _describe(thing: Any) -> Any:
    """A JSON-able description of a (nested) dataclass."""
    name = type(thing).__name__
    fields = asdict(thing) if is_dataclass(thing) and not isinstance(thing, type) else {}
    return {"name": name} | {
        k: np.asarray(v).tolist() if isinstance(v, np.ndarray) else repr(v) for k, v in fields.items()
    }


@dataclass(eq=False, repr=False, kw_only=True)
class DirichletProcessMixture(_MixtureEstimator):
    """Dirichlet process mixture: clusters whose number the data decide, sampled exactly and in parallel.

    Parameters
    ----------
    likelihood : str or likelihood, default "gaussian"
        "gaussian", "diagonal_gaussian", "bernoulli", "categorical", "multinomial", "poisson", or an object with
        explicit priors such as `Gaussian(kappa=0.1)` or `Product(...)` for mixed tables.
    concentration : float or Gamma, default None
        A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).
    n_shards : int, default 8
        P, the number of shards. Part of the algorithm: it never depends on the machine.
    sweeps_per_round : int, default 1
        L, the sweeps over the rows between two synchronisations.
    n_warmup, n_draws, thin, n_chains : int
        Rounds before the first draw, draws per chain, rounds per draw, and independent chains.
    engine : {"threads", "serial"}, n_workers : int or None
        Where shards run, and on how many workers (None: all cores). Neither changes the result.
    sampler : {"hybrid"}
    instantiate : str or rule, default "ghosts"
        "ghosts", "one_open", "published-cold", "published-warm", "published-decreasing", "published-hot", or an object.
    init : str or array of labels, default "kmeans++"
        "kmeans++", "one", "prior", or labels.
    dtype : {"float64", "float32"}
        Precision of the vectorised part; rounds that would lose accuracy in float32 run in float64.
    loss : {"vi", "binder"}
        Which expected loss `labels_` minimises.
    n_snapshots : int, default 32
        Whole draws that are kept for prediction and the point estimate (over all chains).
    keep_assignments : bool, default False
        Keep the labels of every draw in `posterior_["assignments"]`.
    checkpoint : path, default None
        A run directory; a run that was interrupted there is resumed.
    random_state : int, RandomState or None
    progress : bool, default False

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        Point estimate of the partition (not the last draw).
    n_clusters_ : int
        Number of clusters of `labels_`; its posterior is `posterior_["n_clusters"]`.
    posterior_ : xarray.Dataset
        Every scalar trace, with dimensions (chain, draw).
    exact_ : bool
        Whether the draws come from an exact sampler.
    interrupted_ : bool
    """

    likelihood: Any = field(default="gaussian", kw_only=False)
    concentration: float | Gamma | None = None

    def _measure(self) -> PitmanYor:
        return DirichletProcess(self.concentration)


@dataclass(eq=False, repr=False, kw_only=True)
class PitmanYorMixture(_MixtureEstimator):
    """Pitman-Yor mixture: like the Dirichlet process mixture, with a power law of cluster sizes.

    discount : float in [0, 1) or Beta, default None
        A number fixes it; a `Beta` prior is sampled; None is Beta(1, 1).
    concentration : float or Gamma, default None
        Above minus the discount.

    All other parameters and attributes are those of `DirichletProcessMixture`.
    """

    likelihood: Any = field(default="gaussian", kw_only=False)
    concentration: float | Gamma | None = None
    discount: float | Beta | None = None

    def _measure(self) -> PitmanYor:
        concentration = Gamma() if self.concentration is None else self.concentration
        return PitmanYor(concentration, Beta() if self.discount is None else self.discount)
