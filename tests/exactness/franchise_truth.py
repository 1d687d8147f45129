"""Exact posteriors of tiny hierarchical models: all seatings of all groups, all dishes of all tables, summed up.

The truth uses nothing of the sampler: the probability of a seating from customers that sit down one after another, that
of the dishes from tables that arrive one after another, and the reference likelihood. Holes that the sampler imputes,
a sampled eta of words and a learned base are integrated out by quadrature. Chains start from exact draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from typing import Any

import numpy as np
from enumeration import Array, Run, Tally, Verdict, canonical, hole_nodes, judge, log_eppf, partitions, put_holes
from scipy import special

from unbounded.engines import build
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.shard import NO_BASE, ContentHyper, GroupHyper
from unbounded.models.groups.words.likelihood import ETA_RANGE
from unbounded.priors import Gamma
from unbounded.round import rounds

ETA_NODES = 400


def base_nodes(size: int = 8) -> tuple[Array, Array]:
    """(bases of three words, log weights): a rule for integrals over a flat Dirichlet distribution, exact for
    polynomials; the probability of five words is one."""
    x, weight = special.roots_legendre(size)
    a, b = (0.5 * (1.0 + v) for v in np.meshgrid(x, x, indexing="ij"))
    shares = np.stack([a, (1.0 - a) * b, (1.0 - a) * (1.0 - b)], axis=-1).reshape(-1, 3)
    return 3.0 * shares, np.log(np.outer(weight, weight) * (1.0 - a)).ravel()


def concentrations(prior: Any, size: int = 32) -> tuple[Array, Array]:
    """(values, log weights) of a rule for integrals over a concentration."""
    if not isinstance(prior, Gamma):
        return np.array([float(prior)]), np.zeros(1)
    x, weight = special.roots_genlaguerre(size, prior.shape - 1.0)
    return x / prior.rate, np.log(weight / weight.sum())


@dataclass(frozen=True)
class Franchise:
    """Rows in groups, a bound likelihood and a measure: everything the posterior over seatings depends on."""

    name: str
    X: Array
    sizes: tuple[int, ...]
    likelihood: Any
    measure: HierarchicalMeasure

    def __str__(self) -> str:
        return self.name

    @property
    def n(self) -> int:
        return len(self.X)

    @cached_property
    def configurations(self) -> list[tuple[Array, Array]]:
        """(seats, labels) of every way to seat the rows of each group and to serve the tables of all groups."""
        out = []
        for seating in product(*(partitions(size) for size in self.sizes)):
            tables = [seats.max() + 1 for seats in seating]
            first = np.cumsum([0, *tables[:-1]])
            which = np.concatenate([seats + start for seats, start in zip(seating, first, strict=True)])
            out += [(np.concatenate(seating), dishes[which]) for dishes in partitions(sum(tables))]
        return out

    @cached_property
    def labels(self) -> Array:
        return np.array([canonical(labels) for _, labels in self.configurations])

    @cached_property
    def n_tables(self) -> Array:
        return np.array([self._tables(seats).max() + 1 for seats, _ in self.configurations])

    def _tables(self, seats: Array) -> Array:
        """Tables of all groups numbered in the order in which they appear."""
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.array(canonical(group * 100 + seats))

    @cached_property
    def _log_prior(self) -> Array:
        """[B, H]: log probability of every configuration at every node of (alpha, gamma), weights included."""
        a, log_a = concentrations(self.measure.concentration)
        g, log_g = concentrations(self.measure.group_concentration)
        alpha, gamma = np.repeat(a, len(g)), np.tile(g, len(a))
        rows = [self._log_seating(seats, labels, alpha, gamma) for seats, labels in self.configurations]
        rows = [row * np.ones(len(alpha)) for row in rows]
        return np.array(rows) + np.repeat(log_a, len(g)) + np.tile(log_g, len(a))

    def _log_seating(self, seats: Array, labels: Array, alpha: Any, gamma: Any) -> Any:
        """Log probability of seats and dishes, arrays of concentrations allowed."""
        dishes = labels[np.unique(self._tables(seats), return_index=True)[1]]
        value = log_eppf(dishes, alpha, 0.0)
        for begin, end in pairwise(np.cumsum([0, *self.sizes])):
            value = value + log_eppf(seats[begin:end], gamma, 0.0)
        return value

    @property
    def _sampled(self) -> bool:
        return isinstance(self.measure.concentration, Gamma) or isinstance(self.measure.group_concentration, Gamma)

    @cached_property
    def holes(self) -> Array:
        """Positions whose values are part of the chain's state."""
        return np.argwhere(np.isnan(self.X)) if self.likelihood.imputed.size else np.empty((0, 2), int)

    @cached_property
    def nodes(self) -> tuple[Array, Array]:
        """(values [G, ...], log weights [G]) of what the likelihood leaves open: eta and base of words, or values of
        holes."""
        prior = getattr(self.likelihood, "prior", None)
        if self.learns:
            (eta, log_eta), (base, log_base) = concentrations(prior, 24), base_nodes()
            values = np.column_stack([np.repeat(eta, len(base)), np.tile(base, (len(eta), 1))])
            return values, np.repeat(log_eta, len(base)) + np.tile(log_base, len(eta))
        if not isinstance(prior, Gamma):
            return hole_nodes(self.X, len(self.holes))
        log_eta = np.linspace(*np.log(ETA_RANGE), ETA_NODES)
        eta = np.exp(log_eta)
        return eta[:, None], prior.shape * log_eta - prior.rate * eta

    @cached_property
    def samples_eta(self) -> bool:
        return isinstance(getattr(self.likelihood, "prior", None), Gamma)

    @property
    def learns(self) -> bool:
        """Whether words have a base that is sampled."""
        return bool(getattr(self.likelihood, "learned", False))

    @cached_property
    def _log_data(self) -> Array:
        """[B, G]: log likelihood of every configuration at every node, weights included."""
        values, log_weights = self.nodes
        kinds, where = np.unique(self.labels, axis=0, return_inverse=True)
        blocks = [(np.eye(z.max() + 1)[z]).T for z in kinds]
        counts = np.concatenate([block.sum(1) for block in blocks])
        which = np.repeat(np.arange(len(kinds)), [len(block) for block in blocks])
        columns = []
        for value in values:
            likelihood, terms = self.likelihood, self._features(value)
            if self.samples_eta or self.learns:
                likelihood = likelihood.at(ContentHyper(float(value[0]), value[1:]))
            sums = np.concatenate([block @ terms for block in blocks])
            columns.append(np.bincount(which, likelihood.log_marginal(counts, sums)))
        return (np.stack(columns, axis=1) + log_weights)[where.ravel()]

    def _features(self, value: Array) -> Array:
        if not len(self.holes):
            return self.likelihood.terms(self.X)
        filled = self.X.copy()
        filled[tuple(self.holes.T)] = value
        return self.likelihood.terms(filled)

    @cached_property
    def probabilities(self) -> Array:
        log_p = special.logsumexp(self._log_prior, axis=1) + special.logsumexp(self._log_data, axis=1)
        return special.softmax(log_p)

    @cached_property
    def hyper_means(self) -> dict[str, float]:
        a, _ = concentrations(self.measure.concentration)
        g, _ = concentrations(self.measure.group_concentration)
        given = self.probabilities @ special.softmax(self._log_prior, axis=1)
        means = {"alpha": float(given @ np.repeat(a, len(g))), "gamma": float(given @ np.tile(g, len(a)))}
        priors = {"alpha": self.measure.concentration, "gamma": self.measure.group_concentration}
        means = {name: value for name, value in means.items() if isinstance(priors[name], Gamma)}
        if self.samples_eta:
            given = self.probabilities @ special.softmax(self._log_data, axis=1)
            means |= {"eta": float(given @ self.nodes[0][:, 0]), "log eta": float(given @ np.log(self.nodes[0][:, 0]))}
        if self.learns:
            given = self.probabilities @ special.softmax(self._log_data, axis=1)
            means |= {name: float(given @ value) for name, value in base_moments(self.nodes[0][:, 1:]).items()}
        return means

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array, GroupHyper, Array]:
        """An exact posterior draw: seats, labels, hyper-parameters (resampled from prior draws), values of holes."""
        b = rng.choice(len(self.probabilities), p=self.probabilities)
        seats, labels = self.configurations[b]
        value = self.nodes[0][rng.choice(len(self.nodes[0]), p=special.softmax(self._log_data[b]))]
        hypers = np.array([self.measure.draw_prior(rng) for _ in range(500 if self._sampled else 1)])
        log_w = self._log_seating(seats, labels, *hypers.T) * np.ones(len(hypers))
        eta = float(value[0]) if self.samples_eta else getattr(self.likelihood, "eta", 0.0)
        base = value[1:] if self.learns else NO_BASE
        own = self.measure.hyper_type(*hypers[rng.choice(len(hypers), p=special.softmax(log_w))])
        return seats, labels, GroupHyper(own, ContentHyper(eta, base)), value


def base_moments(base: Array) -> dict[str, Array]:
    return {"base 0": base[..., 0], "base 0^2": base[..., 0] ** 2, "base 01": base[..., 0] * base[..., 1]}


@dataclass(frozen=True)
class GroupedRun:
    """A way to run the sampler, and how long."""

    form: str
    rule: Any
    n_shards: int = 1
    sweeps: int = 1
    engine: str = "serial"
    dtype: str = "float64"
    chains: int = 40
    rounds: int = 125
    seed: int = 0
    sampler: str = "hybrid"
    options: tuple[tuple[str, Any], ...] = ()  # of the sampler
    device: str = "cpu"
    alone: bool = False  # jumps of whole atoms, and no sweep

    model = Run.model

    def __str__(self) -> str:
        words = f"{self.form}-{self.sampler}-{self.rule}-P{self.n_shards}-L{self.sweeps}-{self.engine}-{self.dtype}"
        words += "" if self.device == "cpu" else f"-{self.device}"
        return words.replace("ghosts=", "").replace("schedule=", "")


def code_of(problem: Franchise, form: str, seats: Array, labels: Array, n_tables: int) -> tuple[Any, ...]:
    """What of a state is compared: the whole seating or, where the sampler integrates it out, labels and tables."""
    if form == "direct":
        return (*canonical(labels), n_tables)
    edges = np.cumsum([0, *problem.sizes])
    whole = [canonical(seats[b:e]) for b, e in pairwise(edges)]
    return (*canonical(labels), *sum(whole, ()))


def cells(problem: Franchise, form: str) -> tuple[dict[tuple[Any, ...], int], Array]:
    """(number of every cell, cell of every configuration)."""
    truth = zip(problem.configurations, problem.n_tables, strict=True)
    codes = [code_of(problem, form, seats, labels, int(m)) for (seats, labels), m in truth]
    index = {code: b for b, code in enumerate(dict.fromkeys(codes))}
    return index, np.array([index[code] for code in codes])


def seats_of(shard: Any) -> Array:
    return shard.seats.copy()


def jumps_alone(model: Any, engine: Any, state: Any) -> Iterator[Any]:
    while True:
        state = replace(model.jump(state, engine), round=state.round + 1)
        yield state


def simulate(problem: Franchise, run: GroupedRun) -> Tally:
    """C independent chains of M rounds, each from an exact posterior draw: how often each cell, mean hypers."""
    index, _ = cells(problem, run.form)
    frequencies = np.zeros((run.chains, len(index)))
    hypers = {name: np.zeros(run.chains) for name in problem.hyper_means}
    sizes = np.array(problem.sizes)
    model = run.model(HIERARCHICAL, problem.measure, problem.likelihood, sizes, 0, form=run.form)
    engine = build(run.engine, model.recipe(problem.X))
    rng = np.random.default_rng([run.seed, 77])
    for c in range(run.chains):
        model = model.reseeded(1000 * run.seed + c)
        seats, labels, hyper, value = problem.draw(rng)
        put_holes(engine, problem.holes, value)
        chain = (jumps_alone if run.alone else rounds)(model, engine, model.begin(engine, labels, hyper, seats))
        for state in islice(chain, run.rounds):
            seats = np.concatenate(engine.map(seats_of))
            labels = model.assignments(state, engine)
            code = code_of(problem, run.form, seats, labels, int(state.table.tables.sum()))
            frequencies[c, index[code]] += 1.0 / run.rounds
            own, content = state.hyper
            now = own._asdict() | content._asdict() | {"log eta": np.log(content.eta or 1.0)}
            now |= base_moments(content.base) if problem.learns else {}
            for name, means in hypers.items():
                means[c] += now[name] / run.rounds
    engine.close()
    return Tally(frequencies, hypers)


def compare(problem: Franchise, form: str, tally: Tally, n_rounds: int) -> Verdict:
    """Chains against the exact posterior: every cell, numbers of atoms and of tables, every pair of rows."""
    frequencies, chains = tally.frequencies, len(tally.frequencies)
    _, where = cells(problem, form)
    p = np.bincount(where, problem.probabilities, frequencies.shape[1])
    first = np.unique(where, return_index=True)[1]
    labels, n_tables = problem.labels[first], problem.n_tables[first]
    n_states, enough = chains * n_rounds, max(60, 2 * chains)
    rare = p * n_states < enough
    columns = dict(zip([f"cell {b}" for b in np.flatnonzero(~rare)], np.eye(len(p))[:, ~rare].T, strict=True))
    columns["rare"] = rare
    columns |= {f"K={k}": labels.max(1) + 1 == k for k in range(1, problem.n + 1)}
    columns |= {f"tables={m}": n_tables == m for m in range(1, problem.n + 1)}
    columns |= {f"{i}~{j}": labels[:, i] == labels[:, j] for i, j in combinations(range(problem.n), 2)}
    matrix = np.stack(list(columns.values()), axis=1).astype(float)
    share = p @ matrix
    asked = np.minimum(share, 1.0 - share) * n_states >= enough
    names = [name for name, ask in zip(columns, asked, strict=True) if ask] + list(tally.hypers)
    share, matrix = share[asked], matrix[:, asked]
    seen = np.column_stack([frequencies @ matrix, *tally.hypers.values()])
    truth = np.append(share, [problem.hyper_means[name] for name in tally.hypers])
    error = seen.std(axis=0, ddof=1)[: len(share)] ** 2
    slowness = float(np.median(error * n_rounds / (share * (1.0 - share))))
    return judge(names, seen, truth, slowness, n_rounds / 8)


def check(problem: Franchise, run: GroupedRun) -> Verdict:
    return compare(problem, run.form, simulate(problem, run), run.rounds)
