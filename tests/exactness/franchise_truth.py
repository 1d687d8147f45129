"""Exact posteriors of tiny hierarchical models: all seatings of all groups, all dishes of all tables, summed up.

The truth uses nothing of the sampler: the probability of a seating from customers that sit down one after another, that
of the dishes from tables that arrive one after another, and the reference likelihood. Chains start from exact draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from typing import Any

import numpy as np
from enumeration import Array, Verdict, canonical, judge, log_eppf, partitions
from scipy import special

from unbounded.engines import build
from unbounded.measures import Gamma
from unbounded.measures.hierarchical import HierarchicalDirichletProcess, Hyper
from unbounded.samplers.hierarchical import Hierarchical, shards
from unbounded.samplers.hybrid import rounds


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
    measure: HierarchicalDirichletProcess

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
        edges = np.cumsum([0, *self.sizes])
        rows = []
        for seats, labels in self.configurations:
            which = self._tables(seats)
            dishes = labels[np.unique(which, return_index=True)[1]]
            value = log_eppf(dishes, alpha, 0.0)
            for begin, end in pairwise(edges):
                value = value + log_eppf(seats[begin:end], gamma, 0.0)
            rows.append(value * np.ones(len(alpha)))
        return np.array(rows) + np.repeat(log_a, len(g)) + np.tile(log_g, len(a))

    @cached_property
    def _log_data(self) -> Array:
        features = self.likelihood.features(self.X)
        out = []
        for z in self.labels:
            members = np.eye(z.max() + 1)[z]
            out.append(self.likelihood.log_marginal(members.sum(0), members.T @ features).sum())
        return np.array(out)

    @cached_property
    def probabilities(self) -> Array:
        return special.softmax(special.logsumexp(self._log_prior, axis=1) + self._log_data)

    @cached_property
    def hyper_means(self) -> dict[str, float]:
        a, _ = concentrations(self.measure.concentration)
        g, _ = concentrations(self.measure.group_concentration)
        given = self.probabilities @ special.softmax(self._log_prior, axis=1)
        means = {"alpha": float(given @ np.repeat(a, len(g))), "gamma": float(given @ np.tile(g, len(a)))}
        kept = {"alpha": self.measure.concentration, "gamma": self.measure.group_concentration}
        return {name: value for name, value in means.items() if isinstance(kept[name], Gamma)}

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array, Hyper]:
        """An exact posterior draw: seats, labels, and hyper-parameters resampled from many prior draws."""
        seats, labels = self.configurations[rng.choice(len(self.probabilities), p=self.probabilities)]
        if not self.hyper_means:
            return seats, labels, self.measure.start()
        hypers = np.array([self.measure.draw_prior(rng)[:2] for _ in range(500)])
        which = self._tables(seats)
        log_w = log_eppf(labels[np.unique(which, return_index=True)[1]], hypers[:, 0], 0.0)
        edges = np.cumsum([0, *self.sizes])
        for begin, end in pairwise(edges):
            log_w = log_w + log_eppf(seats[begin:end], hypers[:, 1], 0.0)
        return seats, labels, Hyper(*hypers[rng.choice(500, p=special.softmax(log_w * np.ones(500)))])


@dataclass(frozen=True)
class GroupedRun:
    """A way to run the sampler, and how long."""

    form: str
    rule: Any
    n_shards: int = 1
    sweeps: int = 1
    engine: str = "serial"
    chains: int = 40
    rounds: int = 125
    seed: int = 0

    def __str__(self) -> str:
        words = f"{self.form}-{self.rule}-P{self.n_shards}-L{self.sweeps}-{self.engine}"
        return words.replace("ghosts=", "").replace("schedule=", "")


def code_of(run: GroupedRun, problem: Franchise, seats: Array, labels: Array, n_tables: int) -> tuple[Any, ...]:
    """What of a state is compared: the whole seating or, where the sampler integrates it out, labels and tables."""
    if run.form == "direct":
        return (*canonical(labels), n_tables)
    edges = np.cumsum([0, *problem.sizes])
    whole = [canonical(seats[b:e]) for b, e in pairwise(edges)]
    return (*canonical(labels), *sum(whole, ()))


def simulate(problem: Franchise, run: GroupedRun) -> tuple[list[Any], Array, dict[str, Array]]:
    """(code of every configuration, chains' frequencies of codes, chains' means of hyper-parameters)."""
    truth = zip(problem.configurations, problem.n_tables, strict=True)
    codes = [code_of(run, problem, seats, labels, int(m)) for (seats, labels), m in truth]
    index = {code: b for b, code in enumerate(dict.fromkeys(codes))}
    frequencies = np.zeros((run.chains, len(index)))
    hypers = {name: np.zeros(run.chains) for name in problem.hyper_means}
    sizes = np.array(problem.sizes)
    engine = build(run.engine, shards(problem.X, sizes, problem.likelihood, run.n_shards, run.form))
    rng = np.random.default_rng([run.seed, 77])
    for c in range(run.chains):
        model = Hierarchical(
            problem.measure, problem.likelihood, run.rule, sizes, run.n_shards, 1000 * run.seed + c,
            sweeps=run.sweeps, form=run.form,
        )  # fmt: skip
        seats, labels, hyper = problem.draw(rng)
        hyper = hyper._replace(eta=getattr(problem.likelihood, "eta", 0.0))
        for state in islice(rounds(model, engine, model.begin(engine, labels, hyper, seats)), run.rounds):
            seats = np.concatenate(engine.map(lambda shard: shard.seats.copy()))
            labels = model.assignments(state, engine)
            code = code_of(run, problem, seats, labels, int(state.table.tables.sum()))
            frequencies[c, index[code]] += 1.0 / run.rounds
            for name, means in hypers.items():
                means[c] += getattr(state.hyper, name) / run.rounds
    engine.close()
    return [index[code] for code in codes], frequencies, hypers


def check(problem: Franchise, run: GroupedRun) -> Verdict:
    """Chains against the exact posterior: every cell, numbers of atoms and of tables, every pair of rows."""
    where, frequencies, hypers = simulate(problem, run)
    p = np.bincount(where, problem.probabilities, frequencies.shape[1])
    first = np.unique(where, return_index=True)[1]
    labels, n_tables = problem.labels[first], problem.n_tables[first]
    n_states, enough = run.chains * run.rounds, max(60, 2 * run.chains)
    rare = p * n_states < enough
    columns = dict(zip([f"cell {b}" for b in np.flatnonzero(~rare)], np.eye(len(p))[:, ~rare].T, strict=True))
    columns["rare"] = rare
    columns |= {f"K={k}": labels.max(1) + 1 == k for k in range(1, problem.n + 1)}
    columns |= {f"tables={m}": n_tables == m for m in range(1, problem.n + 1)}
    columns |= {f"{i}~{j}": labels[:, i] == labels[:, j] for i, j in combinations(range(problem.n), 2)}
    matrix = np.stack(list(columns.values()), axis=1).astype(float)
    share = p @ matrix
    asked = np.minimum(share, 1.0 - share) * n_states >= enough
    names = [name for name, ask in zip(columns, asked, strict=True) if ask] + list(hypers)
    share, matrix = share[asked], matrix[:, asked]
    seen = np.column_stack([frequencies @ matrix, *hypers.values()])
    truth = np.append(share, [problem.hyper_means[name] for name in hypers])
    error = seen.std(axis=0, ddof=1)[: len(share)] ** 2
    slowness = float(np.median(error * run.rounds / (share * (1.0 - share))))
    return judge(names, seen, truth, slowness, run.rounds / 8)
