"""Mixtures with a likelihood of the user's own, conjugate or not: Neal (2000), Algorithm 8, in NumPy (docs/own.md).

Parameters of occupied atoms are part of the state, weights are integrated out, and nothing has to be integrated over
parameters. A row chooses among the atoms of the other rows, with weights m_k - sigma, and `auxiliary` ones of no row,
with (alpha + K sigma) / auxiliary each: fresh from the prior, but a row that was alone brings its own atom as one of
them. Then every atom's parameters move given its rows, by a kernel of the likelihood, and alpha and sigma given the
partition. Exact, and sequential: there is one shard.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unbounded import datasets
from unbounded.arrays import Array
from unbounded.inputs import checked_seed, drawn_seed
from unbounded.models.labelled.partition import point_estimate
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.priors import Beta, Gamma
from unbounded.randomness import generator
from unbounded.sources import Rows, Source

WIDTH, STEPS = 1.0, 50  # of the slice sampler of parameters: its first width, and how often it is widened at most


class OwnLikelihood(ABC):
    """What a mixture needs to know of its atoms. Parameters of K atoms are an array [K, Q] of real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> class Laplace(ub.OwnLikelihood):  # of one column, around a centre that is normal
    ...     def draw(self, n, rng):
    ...         return rng.normal(0.0, 5.0, (n, 1))
    ...     def log_prior(self, parameters):
    ...         return -0.5 * (parameters[:, 0] / 5.0) ** 2
    ...     def log_density(self, X, parameters):
    ...         return -np.abs(X - parameters[:, 0]) - np.log(2.0)
    >>> Laplace().draw(3, np.random.default_rng(0)).shape
    (3, 1)
    """

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """[n, Q]: parameters of n atoms from the prior.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> centres = Laplace().draw(3, rng)
        >>> centres.shape
        (3, 1)
        """

    @abstractmethod
    def log_prior(self, parameters: Array) -> Array:
        """[K]: the log density of `draw`, up to a constant.

        Examples
        --------
        >>> Laplace().log_prior(np.array([[0.0], [5.0]])).tolist()
        [-0.0, -0.5]
        """

    @abstractmethod
    def log_density(self, X: Array, parameters: Array) -> Array:
        """[n, K]: log densities of rows under atoms.

        Examples
        --------
        >>> Laplace().log_density(np.zeros((4, 1)), centres).shape
        (4, 3)
        """

    def move(self, X: Array, parameters: Array, rng: np.random.Generator) -> Array:
        """[Q]: parameters of one atom after a step that keeps their law given its rows X.

        Here: slice sampling of one number after another (Neal 2003). A step that knows the likelihood may be better.

        Examples
        --------
        >>> Laplace().move(np.full((50, 1), 2.0), centres[0], rng).shape
        (1,)
        """
        theta = np.array(parameters, float)

        def log_posterior(place: int, value: float) -> float:
            changed = theta.copy()
            changed[place] = value
            return float(self.log_prior(changed[None])[0] + self.log_density(X, changed[None]).sum())

        for place in rng.permutation(len(theta)):
            theta[place] = _slice(lambda v, place=place: log_posterior(place, v), theta[place], rng)
        return theta


def _slice(log_density: Any, x: float, rng: np.random.Generator) -> float:
    """Another value with this density: an interval is stepped out around x, and shrinks to a point inside the slice."""
    level = log_density(x) + math.log(1.0 - rng.random())  # mutant: own slice level
    low = x - WIDTH * rng.random()
    high = low + WIDTH
    left = int(STEPS * rng.random())
    right = STEPS - 1 - left
    while left > 0 and log_density(low) > level:
        low, left = low - WIDTH, left - 1
    while right > 0 and log_density(high) > level:
        high, right = high + WIDTH, right - 1
    while True:
        value = low + (high - low) * rng.random()
        if log_density(value) > level:
            return float(value)
        low, high = (value, high) if value < x else (low, value)


class OwnState(NamedTuple):
    """Labels 0 .. K-1 of all rows and the atoms' parameters [K, Q]; every atom has rows."""

    labels: Array
    parameters: Array
    hyper: PartitionHyper


def begin(X: Array, labels: Array, likelihood: OwnLikelihood, measure: PitmanYor, rng: np.random.Generator) -> OwnState:
    """The state with these labels (any integers), and parameters that have moved a few times from the prior."""
    codes, labels = np.unique(labels, return_inverse=True)
    parameters = np.array(likelihood.draw(len(codes), rng), float)
    for k in range(len(codes)):
        for _ in range(10):
            parameters[k] = likelihood.move(X[labels == k], parameters[k], rng)
    return OwnState(labels.ravel(), parameters, measure.start())


def sweep(
    X: Array,
    state: OwnState,
    likelihood: OwnLikelihood,
    measure: PitmanYor,
    auxiliary: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """(labels, parameters) after every row has chosen an atom."""
    labels, atoms = state.labels.copy(), state.parameters.copy()
    counts = np.bincount(labels, minlength=len(atoms))
    logs = likelihood.log_density(X, atoms)
    fresh = likelihood.draw(len(X) * auxiliary, rng).reshape(len(X), auxiliary, -1)
    for i in range(len(X)):
        old = labels[i]
        counts[old] -= 1  # mutant: own counts
        if counts[old] == 0:
            fresh[i, 0] = atoms[old]  # mutant: own lone
        there = np.flatnonzero(counts)
        urn = measure.urn(state.hyper, counts[there])
        share = math.log(urn[-1] / auxiliary)  # mutant: own share
        offered = share + likelihood.log_density(X[i : i + 1], fresh[i])[0]
        weights = np.concatenate([np.log(urn[:-1]) + logs[i, there], offered])
        chosen = int(rng.choice(len(weights), p=np.exp(weights - logsumexp(weights))))
        if chosen < len(there):
            labels[i] = there[chosen]
        else:
            labels[i], atoms, logs, counts = _placed(X, likelihood, fresh[i, chosen - len(there)], atoms, logs, counts)
        counts[labels[i]] += 1
    there = np.flatnonzero(counts)
    return np.searchsorted(there, labels), atoms[there]


def _placed(
    X: Array, likelihood: OwnLikelihood, atom: Array, atoms: Array, logs: Array, counts: Array
) -> tuple[int, Array, Array, Array]:
    """A place for a new atom: an empty one, or one more."""
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        atoms, logs = np.vstack([atoms, atom]), np.hstack([logs, np.zeros((len(X), 1))])
        counts, empty = np.append(counts, 0), np.array([len(counts)])
    place = int(empty[0])
    atoms[place] = atom
    logs[:, place] = likelihood.log_density(X, atom[None])[:, 0]
    return place, atoms, logs, counts


def chain(
    X: Array, state: OwnState, likelihood: OwnLikelihood, measure: PitmanYor, auxiliary: int, seed: int
) -> Iterator[OwnState]:
    """The states after each round: hyper-parameters, labels, parameters."""
    round_ = 0
    while True:
        rng = generator(seed, "own", round_)
        hyper = measure.update(state.hyper, np.bincount(state.labels).astype(float), len(X), rng)
        labels, atoms = sweep(X, state._replace(hyper=hyper), likelihood, measure, auxiliary, rng)
        for k in range(len(atoms)):
            atoms[k] = likelihood.move(X[labels == k], atoms[k], rng)
        state, round_ = OwnState(labels, atoms, hyper), round_ + 1
        yield state


class OwnMixture(ClusterMixin, BaseEstimator):
    """A Pitman-Yor mixture (a Dirichlet process mixture, unless there is a discount) of atoms of the user's own.

    Parameters
    ----------
    likelihood : OwnLikelihood
        What an atom is.
    concentration : float, Gamma or None, default None
        A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).
    discount : float in [0, 1) or Beta, default 0.0
        A number fixes it; a `Beta` prior is sampled.
    auxiliary : int, default 3
        How many fresh atoms a row is offered.
    n_warmup : int, default 200
        Rounds before the first draw.
    n_draws : int, default 200
        Draws, one a round.
    init : str or array of labels, default "one"
        "one" (all rows in one cluster), "prior", or labels.
    random_state : int, RandomState, Generator or None, default 0
        A number (0 or more) makes the fit repeatable, to the bit.

    Attributes
    ----------
    labels_ : array of shape (n_rows,)
        The partition of least expected loss.
    n_clusters_ : int
        Its clusters.
    posterior_ : xarray.Dataset
        n_clusters, the hyper-parameters and the log likelihood of every draw.
    draws_ : list
        The states themselves: labels, parameters and hyper-parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> class Laplace(ub.OwnLikelihood):  # of one column, around a centre that is normal
    ...     def draw(self, n, rng):
    ...         return rng.normal(0.0, 5.0, (n, 1))
    ...     def log_prior(self, parameters):
    ...         return -0.5 * (parameters[:, 0] / 5.0) ** 2
    ...     def log_density(self, X, parameters):
    ...         return -np.abs(X - parameters[:, 0]) - np.log(2.0)
    >>> X = np.concatenate([np.linspace(-9.0, -7.0, 10), np.linspace(7.0, 9.0, 10)])[:, None]
    >>> model = ub.OwnMixture(Laplace(), n_warmup=50, n_draws=50, random_state=0)
    """

    def __init__(
        self,
        likelihood: OwnLikelihood,
        concentration: float | Gamma | None = None,
        discount: float | Beta = 0.0,
        *,
        auxiliary: int = 3,
        n_warmup: int = 200,
        n_draws: int = 200,
        init: str | ArrayLike = "one",
        random_state: int | np.random.RandomState | np.random.Generator | None = 0,
    ):
        self.likelihood, self.concentration, self.discount = likelihood, concentration, discount
        self.auxiliary, self.n_warmup, self.n_draws = auxiliary, n_warmup, n_draws
        self.init, self.random_state = init, random_state

    def fit(self, X: Rows, y: None = None) -> Self:
        """Run the chain on these rows.

        Examples
        --------
        >>> len(set(model.fit(X).labels_[:10].tolist()) & set(model.labels_[10:].tolist()))
        0
        """
        X = self._checked(X, reset=True)
        if not isinstance(self.likelihood, OwnLikelihood):
            raise ValueError(f"likelihood must be an OwnLikelihood, got {self.likelihood!r}.")
        for name, least in (("auxiliary", 1), ("n_warmup", 0), ("n_draws", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
        measure = self._prior = PitmanYor(Gamma() if self.concentration is None else self.concentration, self.discount)
        given = self.random_state
        self._seed = checked_seed(given) if isinstance(given, int | np.integer | np.bool_) else drawn_seed(given)
        rng = generator(self._seed, "own start")
        state = begin(X, self._start(X, measure, rng), self.likelihood, measure, rng)
        states = chain(X, state, self.likelihood, measure, self.auxiliary, self._seed)
        for _ in range(self.n_warmup):
            next(states)
        self.draws_ = [next(states) for _ in range(self.n_draws)]
        self.posterior_ = self._posterior(X, measure)
        self.labels_ = point_estimate([draw.labels.astype(np.int32) for draw in self.draws_])
        self.n_clusters_ = int(self.labels_.max()) + 1
        return self

    def score_samples(self, X: Rows) -> Array:
        """[n]: log posterior predictive densities of rows, of new atoms by a hundred draws from the prior.

        Examples
        --------
        >>> far, near = model.score_samples([[0.0], [8.0]])
        >>> bool(near > far)
        True
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        fresh = self.likelihood.draw(100, generator(self._seed, "own predictive"))
        new = logsumexp(self.likelihood.log_density(X, fresh), axis=1) - math.log(len(fresh))
        logs = []
        for labels, parameters, hyper in self.draws_:
            weights = self._prior.log_predictive(hyper, np.bincount(labels))
            old = logsumexp(self.likelihood.log_density(X, parameters) + weights[:-1], axis=1)
            logs.append(np.logaddexp(old, weights[-1] + new))
        return np.asarray(logsumexp(logs, axis=0) - math.log(len(logs)))

    def score(self, X: Rows, y: None = None) -> float:
        """The mean of `score_samples`.

        Examples
        --------
        >>> bool(np.isclose(model.score(X), model.score_samples(X).mean()))
        True
        """
        return float(self.score_samples(X).mean())

    def _checked(self, X: Rows, reset: bool) -> Array:
        given = datasets.load(X)
        given = given[:] if isinstance(given, Source) else given
        rows: Array = validate_data(self, given, reset=reset, dtype=np.float64)
        return rows

    def _start(self, X: Array, measure: PitmanYor, rng: np.random.Generator) -> Array:
        if isinstance(self.init, str):
            if self.init not in ("one", "prior"):
                raise ValueError(f"init must be 'one', 'prior' or labels, got {self.init!r}.")
            return np.zeros(len(X), int) if self.init == "one" else measure.simulate(measure.start(), len(X), rng)
        labels = np.asarray(self.init)
        if labels.shape != (len(X),):
            raise ValueError(f"init has labels of shape {labels.shape}, and X has {len(X)} rows.")
        return labels

    def _posterior(self, X: Array, measure: PitmanYor) -> Any:
        import xarray as xr

        scalars: dict[str, list[float]] = {"n_clusters": [], "log_likelihood": []}
        for labels, parameters, hyper in self.draws_:
            logs = self.likelihood.log_density(X, parameters)[np.arange(len(X)), labels]
            for name, value in {"n_clusters": len(parameters), "log_likelihood": logs.sum()}.items():
                scalars[name].append(float(value))
            for name, value in measure.scalars(hyper).items():
                scalars.setdefault(name, []).append(value)
        return xr.Dataset({name: (("chain", "draw"), np.array([values])) for name, values in scalars.items()})
