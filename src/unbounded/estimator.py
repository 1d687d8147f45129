"""What every estimator is: the options of its chains, under the same names, and a fit that runs them.

A model's own estimator says what its rows, likelihoods, first state and point estimates are (the hooks); the rest, from
the seed to the run directory, is here once.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from unbounded import datasets, engines
from unbounded.arrays import Array, Data, checked_csr, is_csr
from unbounded.categories import (
    TIMES,
    Categories,
    check_names,
    columns_of_strings,
    decoded,
    encoded,
    what_it_holds,
)
from unbounded.chain import convergence, export
from unbounded.chain.inference_data import KeptDraws, inference_data
from unbounded.chain.lock import only_writer
from unbounded.chain.outlets import announce_if_slow, follow
from unbounded.chain.progress import Callback, Size
from unbounded.chain.run import Chain, Length, Observer, has_estimate, run
from unbounded.chain.several import AUTO, MAX_DRAWS, agree, least_limit, run_all, stages
from unbounded.chain.store import EXTENSIBLE, ChainStore, RunError, RunStore
from unbounded.chain.versions import versions
from unbounded.columns import describe
from unbounded.contracts import Engine, Likelihood, Measure, Model, Rule
from unbounded.engines.local import available_cores
from unbounded.family import DOUBLE, DTYPES, Choices, Init, Sampler
from unbounded.gpu.device import check as check_device
from unbounded.gpu.device import resolve as resolve_device
from unbounded.instantiation import resolve as resolve_rule
from unbounded.likelihoods import Categorical, columns_for_strings, named_columns, placed
from unbounded.likelihoods import resolve as resolve_likelihood
from unbounded.options import check_options
from unbounded.randomness import generator, key
from unbounded.rows import fingerprint, row_blocks
from unbounded.setup import Setup, build_sampler, check_local_step
from unbounded.sources import Rows, Source, source_of

if TYPE_CHECKING:
    import pandas as pd
    from arviz import InferenceData
    from xarray import DataTree

LARGEST = 1e100
Heldout = Any  # what a model scores and does not fit, of its own type
Randomness = int | np.random.RandomState | np.random.Generator | None  # what `random_state` may be
_LEAST = {
    "n_shards": 1, "sweeps_per_round": 1, "n_warmup": 0, "n_draws": 1, "max_draws": 1, "thin": 1, "n_chains": 1,
    "n_snapshots": 1,
}  # fmt: skip
_SMALL = 2**22  # cells; of data with fewer, every chain may have shards of its own


@dataclass(eq=False, repr=False, kw_only=True)
class ChainEstimator(BaseEstimator):
    """How chains run and where; a dataclass, so that scikit-learn finds every option in the constructor's signature.

    Every estimator has these options, and shows them as its own (docstrings.py).

    Parameters
    ----------
    dtype : {"float64", "float32"}, default "float64"
        Precision of the vectorised part; rounds that would lose accuracy in float32 run in float64.
    device : str, default "cpu"
        Where rows are swept over: "cpu", a GPU ("cuda", or "cuda:1" by number), or "auto", a GPU if there is one and
        the model can use it (docs/gpu.md). "reference" is plain NumPy, slow, to compare with.
    n_shards : int, default 8
        P, the number of shards. Part of the algorithm: it never depends on the machine.
    sweeps_per_round : int, default 1
        L, the sweeps over the rows between two synchronisations.
    n_warmup : int, default 250
        Rounds before the first draw.
    n_draws : int or "auto", default 500
        Draws per chain. "auto": 250, and twice as many again and again, until the check of convergence passes or the
        next doubling would be beyond `max_draws` (docs/convergence.md).
    max_draws : int, default 8000
        The most draws per chain that `n_draws="auto"` makes.
    thin : int, default 1
        Rounds per draw.
    n_chains : int, default 2
        Independent chains: side by side on the cores where the data are small (engine "threads"), with the same bits as
        one after another.
    engine : {"threads", "serial", "processes", "ray", "mpi"}, default "threads"
        Where shards run. It does not change the result (docs/engines.md).
    n_workers : int or None, default None
        On how many workers; None: all cores. It does not change the result.
    engine_options : dict or None, default None
        The engine's own: {"timeout": 60} is for how many seconds a process may show no sign of life; with Ray, for how
        many an actor may wait for a CPU, and {"address": "auto"} is the Ray that runs here.
    sampler : str, default "hybrid"
        "hybrid", or another one that has been published (docs/rivals.md).
    sampler_options : dict or None, default None
        The sampler's own options.
    instantiate : str or rule, default "ghosts"
        "ghosts", "one_open", "published-cold", "published-warm", "published-decreasing", "published-hot", or an object
        such as `Ghosts(spread=16)`.
    n_snapshots : int, default 32
        Whole draws that are kept for prediction and point estimates, at most (over all chains): evenly spaced ones, at
        least half as many.
    keep_assignments : bool, default False
        Keep the labels of every draw in `posterior_["assignments"]`.
    checkpoint : path or None, default None
        A run directory; a run that was interrupted there is resumed (docs/runs.md).
    checkpoint_seconds : float, default 20.0
        Time between checkpoints: what is lost when the process is killed, and made again.
    random_state : int, RandomState, Generator or None, default None
        A number (0 or more) makes the fit repeatable, to the bit.
    progress : bool, default False
        Show what the fit is doing: a bar on a terminal or in a notebook, elsewhere a line every 30 seconds on standard
        error. The logger "unbounded" says the same at level INFO (docs/progress.md).
    callback : function of one argument or None, default None
        Called with a `Progress` about ten times a second, `callback=print` for instance. If it returns True the fit
        stops, as after Ctrl-C.

    Attributes
    ----------
    categories_ : dict
        Where columns held strings or categories of pandas: by column, what the codes 0, 1, 2, ... stand for.
    convergence_ : Check
        Whether the chains have run long enough (docs/convergence.md): `passed`, and `message` in words.
    posterior_ : xarray.Dataset
        Every scalar trace, with dimensions (chain, draw).
    exact_ : bool
        Whether the draws come from an exact sampler.
    interrupted_ : bool
        Whether the fit was stopped before its end.
    """

    likelihood: str | Likelihood | None
    init: str | int | ArrayLike | tuple[str | int | ArrayLike, ...]
    dtype: str = "float64"
    device: str = "cpu"
    n_shards: int = 8
    sweeps_per_round: int = 1
    n_warmup: int = 250
    n_draws: int | str = 500
    max_draws: int = MAX_DRAWS
    thin: int = 1
    n_chains: int = 2
    engine: str = "threads"
    n_workers: int | None = None
    engine_options: Mapping[str, str | float | None] | None = None
    sampler: str = "hybrid"
    sampler_options: Mapping[str, Any] | None = None
    instantiate: str | Rule = "ghosts"
    n_snapshots: int = 32
    keep_assignments: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 20.0
    random_state: Randomness = None
    progress: bool = False
    callback: Callback | None = None

    _choices: ClassVar[Choices]

    # ---- what each of them provides

    def _chosen_likelihood(self) -> str | Likelihood | None:
        """The likelihood, by its name or as an object."""
        return self.likelihood

    def _measure(self) -> Measure[Any, Any]:
        raise NotImplementedError

    def _moves(self) -> dict[str, Any]:
        """Options of the sampler that only this model has."""
        return {}

    def _check_init(self, init: Init, n_rows: int) -> None:
        raise NotImplementedError

    def _extent(self, X: Data) -> Any:
        """The size of the data, as the measure asks for it."""
        return X.shape[0]

    def _score(self, model: Any, engine: Engine, heldout: Heldout, state: Any) -> float:
        """The held-out score of a draw."""
        raise NotImplementedError

    def _heldout_fingerprint(self, heldout: Heldout) -> str:
        raise NotImplementedError

    def _estimate(self, chains: Sequence[Chain]) -> None:
        """Point estimates from the snapshots."""
        raise NotImplementedError

    def _unit(self) -> str:
        """What rows are called, in the plural."""
        return "rows"

    def _row_estimates(self) -> Array:
        """The point estimate for every row."""
        raise NotImplementedError

    def _atom_shares(self) -> Array:
        """The share of the rows that has each atom of the point estimate."""
        raise NotImplementedError

    # ---- fitting

    def _sample(self, X: Data, heldout: Heldout) -> Self:
        """Run all chains on checked rows; heldout: what is scored with every draw, if anything."""
        lengths = [self._length(n_draws) for n_draws in stages(self.n_draws, self.max_draws)]
        model = self._build(X, lengths[-1].n_rounds)
        if model.settled() > self.n_warmup:
            raise ValueError(
                f"n_warmup must cover the schedule's first {model.settled()} rounds, whose draws are discarded, "
                f"got {self.n_warmup}."
            )
        self._n_rows, self._seed = X.shape[0], model.seed
        with self._run_directory(X, heldout, model, several_checks=len(lengths) > 1) as store:
            if self.checkpoint and self.engine in engines.WORKER_LOSS_NOTICE:
                print(engines.WORKER_LOSS_NOTICE[self.engine].format(self.checkpoint), file=sys.stderr, flush=True)
            there = store.n_draws() if store else 0
            self._finish(
                *self._run_until_agreed(model, X, heldout, store, [one for one in lengths if one.n_draws >= there])
            )
            if store and self.checkpoint and source_of(X) is not None and self._has_estimate:
                store.save_shards(self._choices.assignments, self._row_estimates(), model.recipe(X).edges)
        return self

    def _length(self, n_draws: int) -> Length:
        each = max(1, self.n_snapshots // self.n_chains)
        return Length(self.n_warmup, n_draws, self.thin, each, self.keep_assignments)

    def _run_until_agreed(
        self, model: Model[Any], X: Data, heldout: Heldout, store: RunStore | None, lengths: Sequence[Length]
    ) -> tuple[list[Chain], Length]:
        """The chains at the first of the lengths at which they agree, or at the last one."""
        at_once = self._at_once(X)

        def run_one(index: int, length: Length, observer: Observer) -> Chain:
            return self._run_chain(model, X, heldout, index, store.chain(index) if store else None, length, observer)

        size = Size(self.n_chains, lengths[0].n_rounds, self._n_rows, self._choices.atoms, self._unit())
        with follow(size, self.progress, self.callback, Path(self.checkpoint) if self.checkpoint else None) as tracker:
            for length in lengths:
                if tracker is not None:
                    tracker.extend(length.n_rounds)
                chains = run_all(run_one, length, self.n_chains, at_once, tracker)
                if _stopped(chains, self.n_chains, length) or length is lengths[-1] or agree(chains, length.n_draws):
                    break
        return chains, length

    def _at_once(self, X: Data) -> int:
        """Chains that run side by side: as many as there are cores, where all of them can have the rows in memory."""
        if self.engine != "threads" or source_of(X) is not None or (X.nnz if is_csr(X) else X.size) > _SMALL:
            return 1
        return min(self.n_chains, self._n_cores())

    # ---- what was asked for, as it is run

    @property
    def _chosen_sampler(self) -> Sampler:
        return self._choices.samplers[self.sampler]

    @property
    def _takes_jumps(self) -> bool:
        """Whether the sampler moves whole atoms: not under a rule that is not exact."""
        return self._chosen_sampler.takes_jumps and resolve_rule(self.instantiate).exact

    @property
    def _kernels(self) -> Mapping[str, Any]:
        """By device, those of the sampler or of the model."""
        return self._choices.kernels if self._chosen_sampler.kernels is None else self._chosen_sampler.kernels

    @property
    def _device(self) -> str:
        """The device that was asked for; for "auto", the best one of this machine."""
        return resolve_device(self.device, self._kernels)

    @property
    def _shards(self) -> int:
        """The number of shards that the chains have."""
        return self._chosen_sampler.shards(self.n_shards)

    @property
    def _dtype(self) -> str:
        """The precision of the chains: runs of older versions may have asked for another, which had no effect."""
        return self.dtype if self.dtype in self._chosen_sampler.dtypes else DOUBLE[0]

    def _n_cores(self) -> int:
        return self.n_workers or available_cores()

    def _build(self, X: Data, n_rounds: int) -> Model[Any]:
        self._prior: Any = self._measure()
        setup = Setup(
            self._prior, self._likelihood, self._extent(X), self._shards, self.seed(), n_rounds,
            self.sweeps_per_round, self._dtype, self._device,
        )  # fmt: skip
        rule, options = resolve_rule(self.instantiate), self._moves() | dict(self.sampler_options or {})
        return build_sampler(self._choices.samplers, self.sampler, setup, rule, **options)

    def _run_chain(
        self,
        model: Model[Any],
        X: Data,
        heldout: Heldout,
        index: int,
        store: ChainStore | None,
        length: Length,
        observer: Observer,
    ) -> Chain:
        model = model.reseeded(int(key(model.seed, "chain", index) >> np.uint64(2)))  # mutant: chain seed
        at_once = self._at_once(X)
        workers = self.n_workers if at_once == 1 else max(1, self._n_cores() // at_once)
        engine = engines.build(self.engine, model.recipe(X), workers, **self.engine_options or {})
        extra: Callable[[Any], dict[str, float]] | None = None
        if heldout is not None:
            extra = lambda state: {"holdout": self._score(model, engine, heldout, state)}  # noqa: E731
        init = self._starts()[index]
        observer.starting(0, 0)
        try:
            begin = partial(self._choices.start.begin, model, engine, X, init, observer.starting)
            seconds = self.checkpoint_seconds
            return run(
                model, engine, begin, length, store=store, extra=extra, observer=observer, checkpoint_seconds=seconds
            )
        finally:
            engine.close()

    def _starts(self) -> list[Init]:
        """Where each chain begins: a tuple has the starts of chains in turn."""
        given = self.init if isinstance(self.init, tuple) else (self.init,)
        return [given[index % len(given)] for index in range(self.n_chains)]

    def _finish(self, chains: list[Chain], length: Length) -> None:
        self.interrupted_ = _stopped(chains, self.n_chains, length)
        chains = [chain for chain in chains if chain.draws] or chains
        if not chains[0].draws:
            raise KeyboardInterrupt(f"stopped before the first draw{self._goes_on()}")
        if not any(chain.snapshots for chain in chains):
            raise KeyboardInterrupt(f"stopped before the first draw that is kept whole{self._goes_on()}")
        self.exact_ = all(chain.exact for chain in chains)
        self._kept = [sorted(chain.snapshots) for chain in chains]
        with announce_if_slow("estimating from the draws", self.progress):
            self._estimate(chains)
        self.posterior_ = export.to_dataset(chains, self._choices.dimensions)
        self.convergence_ = convergence.check(self.posterior_)
        convergence.warn(self.convergence_, stacklevel=4)  # to whoever called fit

    def _goes_on(self) -> str:
        return "." if self.checkpoint is None else f"; the same call goes on from {self.checkpoint}."

    @property
    def _has_estimate(self) -> bool:
        return has_estimate(len(self._snapshots), not self.interrupted_)

    # ---- results that need no model

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
        """Of the rows under a whole draw, their assignments summed out."""
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

    # ---- checks

    def _sparse_ok(self) -> bool:
        return False

    def _given(self, X: Data) -> Data:
        """Rows of a file, of a data set by its name, or of an object of another library; all else as it is. Of a file,
        only the columns that the likelihood names."""
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
        """A source by its header; its values are looked at when its columns are described."""
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
        """New rows, fit for the likelihood of the fit."""
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

    def _check_settings(self, n_rows: int) -> None:
        for name, low in _LEAST.items():
            value = getattr(self, name)
            if name == "n_draws" and value == AUTO:
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                or_auto = f" or {AUTO!r}" if name == "n_draws" else ""
                raise ValueError(f"{name} must be an integer of at least {low}{or_auto}, got {value!r}.")
        self._check_sampler()
        self._check_shards(n_rows)
        self._check_device()
        resolve_rule(self.instantiate).plan(0, 1, n_rows, self._shards, np.random.default_rng(0))
        if not (isinstance(self.checkpoint_seconds, int | float | np.number) and self.checkpoint_seconds >= 0):
            raise ValueError(f"checkpoint_seconds must be a number of at least 0, got {self.checkpoint_seconds!r}.")
        if not isinstance(self.keep_assignments, bool | np.bool_):
            raise ValueError(f"keep_assignments must be True or False, got {self.keep_assignments!r}.")
        if isinstance(self.init, tuple) and not self.init:
            raise ValueError("init has no start; give one for all chains, or a tuple with at least one.")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function of one argument or None, got {self.callback!r}.")
        for init in self.init if isinstance(self.init, tuple) else (self.init,):
            self._check_init(init, n_rows)
        engines.check(self.engine, self.n_workers, self.engine_options)

    def _check_sampler(self) -> None:
        samplers = self._choices.samplers
        if not isinstance(self.sampler, str) or self.sampler not in samplers:
            raise ValueError(f"sampler must be one of {sorted(samplers)}, got {self.sampler!r}.")
        if not samplers[self.sampler].takes_rule and self.instantiate != "ghosts":
            raise ValueError(f"instantiate belongs to sampler='hybrid', not to {self.sampler!r}.")
        check_options(f"sampler {self.sampler!r}", samplers[self.sampler].options, self.sampler_options)
        default = ChainEstimator.n_shards
        if self.n_shards not in (self._shards, default) and self._saved().get("n_shards") != self.n_shards:
            raise ValueError(
                f"sampler {self.sampler!r} has one shard: its rows cannot be distributed; leave n_shards out, got "
                f"{self.n_shards}."
            )

    def _check_shards(self, n_rows: int) -> None:
        if self._shards > n_rows:
            raise ValueError(f"n_shards={self._shards} is more than the {n_rows} rows; use at most one shard per row.")

    def _check_device(self) -> None:
        """The device and the precision, which not all samplers and kernels have."""
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be {' or '.join(map(repr, DTYPES))}, got {self.dtype!r}.")
        check_device(self._device, self._choices.kernels)
        check_local_step(self.sampler, self._chosen_sampler, self._device)
        able = self._choices.takes(self._chosen_sampler, self._device)
        if self.dtype not in able and self._saved().get("dtype") != self.dtype:
            what = f"sampler {self.sampler!r}" if able == self._chosen_sampler.dtypes else f"device={self._device!r}"
            raise ValueError(f"{what} computes in {' or '.join(able)}; leave dtype out, got {self.dtype!r}.")

    # ---- seed and run directory

    def seed(self) -> int:
        """The seed that the whole fit is a function of; without a number, a run directory goes on with its own.

        Examples
        --------
        >>> model.seed()
        0
        """
        if isinstance(self.random_state, int | np.integer | np.bool_):
            return checked_seed(self.random_state)
        saved = self._saved()
        return int(saved["seed"]) if "seed" in saved else drawn_seed(self.random_state)

    def _saved(self) -> dict[str, Any]:
        """The configuration of a run that was begun in the run directory, if there is one."""
        store = None if self.checkpoint is None else RunStore(self.checkpoint)
        return store.config() if store and store.exists() else {}

    @contextmanager
    def _run_directory(
        self, X: Data, heldout: Heldout, model: Model[Any], several_checks: bool
    ) -> Iterator[RunStore | None]:
        """The locked run directory, if there is one; a temporary one where chains are stored between two checks of
        convergence. A fit that fails before it has a first state leaves none behind."""
        with ExitStack() as stack:
            path = self.checkpoint
            if path is not None:
                stack.enter_context(only_writer(Path(path)))
            elif several_checks:
                path = stack.enter_context(tempfile.TemporaryDirectory(prefix="unbounded-"))
            else:
                yield None
                return
            store = RunStore(path)
            is_new = not store.exists()
            try:
                self._open_store(store, X, heldout, model)
                yield store
            except Exception:
                if is_new:
                    store.withdraw()
                raise

    def _open_store(self, store: RunStore, X: Data, heldout: Heldout, model: Model[Any]) -> None:
        with announce_if_slow("looking at the rows", self.progress):
            config = self._config(X, heldout, model.seed)
        if store.exists():
            saved, asked = ({"device": "cpu"} | one for one in (self._as_run(store.config()), config))
            _check_pieces(X, saved, asked, store.path)
            free = EXTENSIBLE if model.exact else ()  # published schedules depend on the length of the run
            differs = [name for name in asked if saved.get(name) != asked[name] and name not in free]
            if differs:
                raise RunError(
                    f"{store.path} holds a run with other {', '.join(differs)}; use the same or another directory."
                )
            store.own_chains()
            self._check_length(store)
            store.grow(config)
        else:
            store.prepare(config)
        store.note(self._about(X, model))

    def _check_length(self, store: RunStore) -> None:
        """A run is not made shorter."""
        there, most = store.n_draws(), stages(self.n_draws, self.max_draws)[-1]
        if there <= most:
            return
        asked, more = f"n_draws={self.n_draws}", "ask for as many"
        if self.n_draws == AUTO:
            asked = f"the {most} that n_draws={AUTO!r} makes at most with max_draws={self.max_draws}"
            more = f"ask for max_draws={least_limit(there)} or n_draws={there}"
        raise RunError(f"{store.path} holds {there} draws, more than {asked}; {more}, or use another directory.")

    def _as_run(self, saved: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a run directory. Older versions wrote down what was asked for where it had no effect."""
        if self._chosen_sampler.one_shard and "n_shards" in saved:
            saved["n_shards"] = 1
        if self._chosen_sampler.dtypes == DOUBLE and "dtype" in saved:
            saved["dtype"] = DOUBLE[0]
        return saved

    def _about(self, X: Data, model: Model[Any]) -> dict[str, Any]:
        """What no chain depends on, for readers of the run directory."""
        return {
            "exact": bool(model.exact), "rows": int(X.shape[0]), "columns": int(self.n_features_in_),
            "engine": self.engine, "n_workers": self.n_workers, "versions": versions(),
        }  # fmt: skip

    def _config(self, X: Data, heldout: Heldout, seed: int) -> dict[str, Any]:
        """Everything the chain is a function of, in plain words; engine and workers are not among it."""
        source = source_of(X)
        return {
            "model": type(self).__name__,
            "likelihood": _describe(resolve_likelihood(self._chosen_likelihood(), self._choices.likelihoods)),
            "measure": _describe(self._measure()),
            "instantiate": _describe(resolve_rule(self.instantiate)),
            "sampler": {"name": self.sampler, **(self.sampler_options or {})},
            "init": self._described_starts(),
            "dtype": self._dtype,
            **({} if self._device == "cpu" else {"device": self._device}),  # older runs do not have it
            "seed": seed,
            **{name: _plain(value) for name, value in self._moves().items() if value is not None},
            **{name: int(getattr(self, name)) for name in (*_LEAST, "keep_assignments") if name not in EXTENSIBLE},
            "n_shards": self._shards,
            **({"n_draws": AUTO, "max_draws": self.max_draws} if self.n_draws == AUTO else {"n_draws": self.n_draws}),
            "data": fingerprint(X),
            **({"pieces": source.checksums()} if self.checkpoint and source else {}),
            "holdout": None if heldout is None else self._heldout_fingerprint(heldout),
        }

    def _described_starts(self) -> Any:
        """The start of all chains, or a list where they differ; older runs have one for all."""
        each = [init if isinstance(init, str | int) else fingerprint(np.asarray(init)) for init in self._starts()]
        return each[0] if all(one == each[0] for one in each) else each

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not self._sparse_ok()
        tags.input_tags.sparse = self._sparse_ok()
        return tags


def _stopped(chains: Sequence[Chain], n_chains: int, length: Length) -> bool:
    return len(chains) < n_chains or any(len(chain.draws) < length.n_draws for chain in chains)


def _check_pieces(X: Data, saved: dict[str, Any], asked: dict[str, Any], path: Path) -> None:
    """Name a piece that has changed since the run began; runs of older versions recorded no pieces."""
    source, now = source_of(X), asked.get("pieces", [])
    before = saved.setdefault("pieces", now) if now else []
    if len(before) != len(now):  # other data altogether
        return
    for piece, one, other in zip(source.pieces if source and now else (), before, now, strict=True):
        # mutant: piece of a run
        if one != other:
            raise RunError(
                f"{piece.path} is not what it was when the run in {path} began; restore it or use another directory."
            )


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


def _plain(value: Any) -> Any:
    return _describe(value) if is_dataclass(value) else value


def _describe(thing: object) -> dict[str, Any]:
    """A JSON-able description of a (nested) dataclass, by the name that it has on disk.

    Options that came later are left out while they have their default: runs from before them resume.
    """
    name = getattr(thing, "described_as", type(thing).__name__)
    known = asdict(thing) if is_dataclass(thing) and not isinstance(thing, type) else {}
    late = {f.name for f in fields(thing) if "late" in f.metadata and known[f.name] == f.default} if known else set()  # type: ignore[arg-type]
    return {"name": name} | {
        k: np.asarray(v).tolist() if isinstance(v, np.ndarray) else repr(v) for k, v in known.items() if k not in late
    }
