"""What every estimator is: the options of its chains, under the same names, and a fit that runs them.

A model's own estimator says what its rows, likelihoods, first state and point estimates are (the hooks); the rest, from
the seed to the run directory, is here once.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from unbounded import engines
from unbounded.arrays import Array, Data, is_csr
from unbounded.chain import convergence, export
from unbounded.chain.description import as_written_now, check_pieces, check_same, described, plain
from unbounded.chain.lock import only_writer
from unbounded.chain.outlets import announce_if_slow, follow
from unbounded.chain.progress import Callback, Size
from unbounded.chain.run import Chain, Length, Observer, has_estimate, run
from unbounded.chain.several import AUTO, MAX_DRAWS, Turns, agree, least_limit, run_all, stages
from unbounded.chain.store import EXTENSIBLE, ChainStore, RunError, RunStore
from unbounded.chain.versions import versions
from unbounded.contracts import Engine, Likelihood, Measure, Model, Rule
from unbounded.engines.local import available_cores
from unbounded.family import DOUBLE, DTYPES, Choices, Init, Sampler
from unbounded.gpu.device import check as check_device
from unbounded.gpu.device import resolve as resolve_device
from unbounded.inputs import Randomness, TakesRows, checked_seed, drawn_seed
from unbounded.instantiation import resolve as resolve_rule
from unbounded.likelihoods import resolve as resolve_likelihood
from unbounded.options import check_options
from unbounded.outputs import GivesResults
from unbounded.randomness import key
from unbounded.rows import fingerprint
from unbounded.setup import Setup, build_sampler, check_local_step
from unbounded.sources import source_of

if TYPE_CHECKING:
    pass

Heldout = Any  # what a model scores and does not fit, of its own type
_LEAST = {
    "n_shards": 1, "sweeps_per_round": 1, "n_warmup": 0, "n_draws": 1, "max_draws": 1, "thin": 1, "n_chains": 1,
    "n_snapshots": 1,
}  # fmt: skip
_SMALL = 2**22  # cells; of data with fewer, every chain may have shards of its own
_TINY = 2**15  # cells; of data with fewer, handing work to another thread takes longer than doing it


@dataclass(eq=False, repr=False, kw_only=True)
class ChainEstimator(TakesRows, GivesResults, BaseEstimator):
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
        Options that only this sampler has.
    instantiate : str or rule, default "ghosts"
        "ghosts", "one_open", "published-cold", "published-warm", "published-decreasing", "published-hot", or an object
        such as `Ghosts(spread=16)`.
    jumps : bool, object or None, default None
        Moves of whole atoms. None: those that the sampler has; a run that was begun without any goes on without. True
        is refused where there are none.
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
    jumps: object = None
    n_snapshots: int = 32
    keep_assignments: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 20.0
    random_state: Randomness = None
    progress: bool = False
    callback: Callback | None = None

    _choices: ClassVar[Choices]

    # ---- what each of them provides

    def _measure(self) -> Measure[Any, Any]:
        raise NotImplementedError

    def _moves(self) -> dict[str, Any]:
        """Options of the sampler that not all models have."""
        return self._chosen_jumps()

    def _usual_jumps(self) -> Any:
        """Moves of whole atoms, as they are tried by default; None: there are none with this likelihood."""
        raise NotImplementedError

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

    def _row_estimates(self) -> Array:
        """The point estimate for every row."""
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
                turns = Turns() if at_once > 1 and _cells(X) < _TINY else None
                chains = run_all(run_one, length, self.n_chains, at_once, tracker, turns)
                if _stopped(chains, self.n_chains, length) or length is lengths[-1] or agree(chains, length.n_draws):
                    break
        return chains, length

    def _at_once(self, X: Data) -> int:
        """Chains that run side by side: as many as there are cores, where all of them can have the rows in memory."""
        if self.engine != "threads" or source_of(X) is not None or _cells(X) > _SMALL:
            return 1
        return min(self.n_chains, self._n_cores())

    def _workers(self, X: Data) -> int | None:
        """Workers of each chain; None: as many as the engine finds."""
        at_once = self._at_once(X)
        if at_once > 1:
            return max(1, self._n_cores() // at_once)
        few = self.engine == "threads" and source_of(X) is None and _cells(X) < _TINY
        return self.n_workers or (1 if few else None)

    # ---- what was asked for, as it is run

    @property
    def _chosen_sampler(self) -> Sampler:
        return self._choices.samplers[self.sampler]

    def _chosen_jumps(self) -> dict[str, Any]:
        """The option `jumps` of a sampler that has it."""
        usual, asked = self._usual_jumps(), self.jumps
        able = self._chosen_sampler.takes_jumps and resolve_rule(self.instantiate).exact and usual is not None
        if asked is None:
            saved = self._saved()  # a run directory goes on with its own: without any, if it was begun without
            asked = able and not (saved and not saved.get("jumps"))
        chosen = (usual if asked else None) if isinstance(asked, bool | np.bool_) else asked
        if asked and not able:
            raise ValueError(
                f"jumps={asked!r}, but sampler {self.sampler!r} has none with this rule and likelihood: they belong to "
                "sampler='hybrid' with an exact rule; leave jumps out."
            )
        return {"jumps": chosen} if self._chosen_sampler.takes_jumps else {}

    @property
    def _kernels(self) -> Mapping[str, Any]:
        """Kernels by device: the sampler's own, if it has any, or the model's."""
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
        engine = engines.build(self.engine, model.recipe(X), self._workers(X), **self.engine_options or {})
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

    # ---- checks of settings

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
        """Refuse a device or a precision that the sampler or its kernel does not have."""
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
            has_jumps = self._usual_jumps() is not None
            choices, sampler = self._choices, self._chosen_sampler
            saved = as_written_now(store, self._parts(), choices, sampler, has_jumps, config["init"])
            check_pieces(X, saved, config, store.path)
            # published schedules depend on the length of the run
            check_same(store.path, saved, {"device": "cpu"} | config, EXTENSIBLE if model.exact else ())
            for chain in store.own_chains():
                chain.check()  # mutant: refused as it was
            self._check_length(store)
            store.grow(config)
        else:
            store.prepare(config)
        store.note(self._about(X, model))

    def _check_length(self, store: RunStore) -> None:
        """Refuse to make a run shorter."""
        there, most = store.n_draws(), stages(self.n_draws, self.max_draws)[-1]
        if there <= most:
            return
        asked, more = f"n_draws={self.n_draws}", "ask for as many"
        if self.n_draws == AUTO:
            asked = f"the {most} that n_draws={AUTO!r} makes at most with max_draws={self.max_draws}"
            more = f"ask for max_draws={least_limit(there)} or n_draws={there}"
        raise RunError(f"{store.path} holds {there} draws, more than {asked}; {more}, or use another directory.")

    def _about(self, X: Data, model: Model[Any]) -> dict[str, Any]:
        """What readers of the run directory may want to know, and no chain depends on."""
        return {
            "exact": bool(model.exact), "rows": int(X.shape[0]), "columns": int(self.n_features_in_),
            "engine": self.engine, "n_workers": self.n_workers, "versions": versions(),
        }  # fmt: skip

    def _config(self, X: Data, heldout: Heldout, seed: int) -> dict[str, Any]:
        """Everything the chain is a function of, in plain words; engine and workers are not among it."""
        source = source_of(X)
        return {
            "model": type(self).__name__,
            **{name: described(part) for name, part in self._parts().items()},
            "sampler": {"name": self.sampler, **(self.sampler_options or {})},
            "init": self._described_starts(),
            "dtype": self._dtype,
            **({} if self._device == "cpu" else {"device": self._device}),  # older runs do not have it
            "seed": seed,
            **{name: plain(value) for name, value in self._moves().items() if value is not None},
            **{name: int(getattr(self, name)) for name in (*_LEAST, "keep_assignments") if name not in EXTENSIBLE},
            "n_shards": self._shards,
            **({"n_draws": AUTO, "max_draws": self.max_draws} if self.n_draws == AUTO else {"n_draws": self.n_draws}),
            "data": fingerprint(X),
            **({"pieces": source.checksums()} if self.checkpoint and source else {}),
            "holdout": None if heldout is None else self._heldout_fingerprint(heldout),
        }

    def _parts(self) -> dict[str, object]:
        """What a model is put together from, by its names in run.json."""
        return {
            "likelihood": resolve_likelihood(self._chosen_likelihood(), self._choices.likelihoods),
            "measure": self._measure(),
            "instantiate": resolve_rule(self.instantiate),
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


def _cells(X: Data) -> int:
    return int(X.nnz if is_csr(X) else X.size)


def _stopped(chains: Sequence[Chain], n_chains: int, length: Length) -> bool:
    return len(chains) < n_chains or any(len(chain.draws) < length.n_draws for chain in chains)
