"""Geweke's joint test for grouped rows with both concentrations, and of words eta and their base, sampled.

Two ways to draw (hyper-parameters, seats, dishes, X) from the joint law: straight from the prior, a textbook Chinese
restaurant franchise that shares nothing with the package; and by turns, a round of the sampler given X and new rows X
given the labels, with parameters drawn afresh. Both must agree in every moment. Direct assignment has no seats: its
state is labels, numbers of tables and hyper-parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from enumeration import Array, Verdict, judge
from geweke import bind as bind_rows
from geweke import rows_bernoulli, rows_gaussian
from scipy import sparse
from scipy.special import gammaincinv

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.groups.measure import HierarchicalHyper, HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.shard import ContentHyper, GroupHyper, GroupRecipe
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.priors import Gamma
from unbounded.setup import Setup

SIZES = np.array([3, 1, 2])
N_ROWS, N_WORDS = int(SIZES.sum()), 4
WORDS = {"words": "uniform", "learned": "learned"}  # kinds of rows, with their bases
CONCENTRATION, GROUP_CONCENTRATION, ETA = Gamma(2.0, 1.5), Gamma(2.5, 1.5), Gamma(3.0, 4.0)


# ---- the prior, from the textbook


def franchise(sizes: Array, alpha: float, gamma: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """(seats within each group, dishes of the rows): customers choose tables, every new table chooses a dish."""
    seats, labels = [], []
    tables_with: list[int] = []  # how many tables of all restaurants serve each dish
    for size in sizes:
        heads: list[int] = []
        dishes: list[int] = []
        for _ in range(size):
            table = pick([*heads, gamma], rng)
            if table == len(heads):
                heads.append(0)
                dishes.append(pick([*tables_with, alpha], rng))
                if dishes[-1] == len(tables_with):
                    tables_with.append(0)
                tables_with[dishes[-1]] += 1
            heads[table] += 1
            seats.append(table)
            labels.append(dishes[table])
    return np.array(seats), np.array(labels)


def pick(weights: list[float], rng: np.random.Generator) -> int:
    return int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights)))


def count_tables(sizes: Array, seats: Array) -> int:
    return len(np.unique(np.repeat(np.arange(len(sizes)), sizes) * 100 + seats))


def draw_hypers(kind: str, size: int, rng: np.random.Generator) -> list[GroupHyper]:
    """Each of the priors cut into strata of equal probability, one draw from each, in random order."""
    priors = [CONCENTRATION, GROUP_CONCENTRATION] + [ETA] * (kind in WORDS)
    shares = [(rng.permutation(size) + rng.random(size)) / size for _ in priors]
    columns = [gammaincinv(prior.shape, u) / prior.rate for prior, u in zip(priors, shares, strict=True)]
    hypers = [
        GroupHyper(HierarchicalHyper(float(alpha), float(gamma)), ContentHyper(*map(float, eta)))
        for alpha, gamma, *eta in zip(*columns, strict=True)
    ]
    if kind != "learned":
        return hypers
    bases = [N_WORDS * rng.dirichlet(np.ones(N_WORDS)) for _ in hypers]
    return [GroupHyper(own, words._replace(base=base)) for (own, words), base in zip(hypers, bases, strict=True)]


def rows(kind: str, labels: Array, hyper: GroupHyper, rng: np.random.Generator) -> Array:
    """New rows given labels: parameters from their prior, then data."""
    if kind not in WORDS:
        return (rows_bernoulli if kind == "bernoulli" else rows_gaussian)(labels, rng)
    phi = rng.dirichlet(hyper.content.pseudo * np.ones(N_WORDS), labels.max() + 1)
    return np.array([rng.choice(N_WORDS, p=phi[z]) for z in labels], np.int32)


def bind(kind: str) -> Any:
    if kind not in WORDS:
        return bind_rows(kind)
    return Tokens(ETA, WORDS[kind]).bind(describe(sparse.csr_matrix(np.ones((len(SIZES), N_WORDS)))))


# ---- what is compared


class Draw(NamedTuple):
    labels: Array
    n_tables: int
    hyper: GroupHyper
    X: Array


def moments(draw: Draw) -> dict[str, float]:
    """Bounded functions of the data, and all that hyper-parameters act on."""
    z, m, ((alpha, gamma), (eta, base, _)), X = draw
    k = z.max() + 1
    counts = np.bincount(z)
    values = {
        "K": k, "K^2": k**2, "tables": m, "tables^2": m**2, "K tables": k * m, "largest": counts.max(),
        "singletons": np.count_nonzero(counts == 1), "together": z[0] == z[1], "apart": z[0] == z[-1],
        "alone": np.count_nonzero(z == z[3]) == 1, "alpha": alpha, "log alpha": np.log(alpha), "gamma": gamma,
        "log gamma": np.log(gamma), "alpha gamma": alpha * gamma, "alpha K": alpha * k, "alpha tables": alpha * m,
        "gamma K": gamma * k, "gamma tables": gamma * m, "gamma^2": gamma**2,
    }  # fmt: skip
    if X.ndim == 1:
        same, far = X[0] == X[1], X[0] == X[-1]
        log_eta, kinds = np.log(eta), len(np.unique(X))
        values |= {
            "eta": eta, "log eta": log_eta, "log eta^2": log_eta**2, "eta K": eta * k, "same": same, "far": far,
            "kinds": kinds, "kinds K": kinds * k, "log eta same": log_eta * same, "log eta kinds": log_eta * kinds,
            "word": (X == 0).mean(), "together same": same * (z[0] == z[1]),
        }  # fmt: skip
        if len(base) > 0:
            values |= {
                "base": base[0], "base^2": base[0] ** 2, "base of two": base[0] * base[1], "base word": base[X[0]],
                "eta base": log_eta * base[X[0]], "base K": base[X[0]] * k,
            }  # fmt: skip
    else:
        x = np.tanh(X)
        values |= {
            "x": x[:, 0].mean(), "x^2": (x[:, 0] ** 2).mean(), "x y": (x[:, 0] * x[:, 1]).mean(),
            "near": x[0] @ x[1], "far": x[0] @ x[-1], "K x^2": k * (x**2).mean(), "near tables": m * (x[0] @ x[1]),
        }  # fmt: skip
    return {name: float(value) for name, value in values.items()}


def prior_draw(kind: str, hyper: GroupHyper, rng: np.random.Generator) -> tuple[Draw, Array]:
    seats, labels = franchise(SIZES, *hyper.measure, rng)
    return Draw(labels, count_tables(SIZES, seats), hyper, rows(kind, labels, hyper, rng)), seats


def prior_moments(kind: str, n_draws: int, seed: int = 1) -> tuple[list[str], Array, Array]:
    """(names, means, standard errors as of independent draws) by simulation of the prior."""
    rng = np.random.default_rng(seed)
    table = [moments(prior_draw(kind, hyper, rng)[0]) for hyper in draw_hypers(kind, n_draws, rng)]
    seen = np.array([list(values.values()) for values in table])
    return list(table[0]), seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(n_draws)


# ---- the successive-conditional simulator


@dataclass(frozen=True)
class Joint:
    """A model, and how it is run by turns with fresh data."""

    form: str
    kind: str
    rule: Any
    n_shards: int = 2
    sweeps: int = 1
    replicates: int = 40
    rounds: int = 80
    seed: int = 0
    jumps: Any = None

    def __str__(self) -> str:
        return f"{self.form}-{self.kind}-{self.rule}-P{self.n_shards}-L{self.sweeps}".replace("ghosts=", "")


def put(shard: Any, X: Array, labels: Array) -> None:
    """New data and labels."""
    own = slice(shard.first, shard.first + len(shard.labels))
    shard.replace(X[own])
    shard.labels[:] = labels[own]


def seats_of(shard: Any) -> Array:
    return shard.seats.copy()


def replicate(joint: Joint, likelihood: Any, seed: int) -> Array:
    """Mean moments over the rounds of one simulator that starts from a prior draw."""
    rng = np.random.default_rng([joint.seed, seed])
    draw, seats = prior_draw(joint.kind, draw_hypers(joint.kind, 1, rng)[0], rng)
    engine = build("serial", GroupRecipe(draw.X.copy(), SIZES, likelihood, joint.n_shards, joint.form))
    model = HybridGroups(
        Setup(
            HierarchicalMeasure(CONCENTRATION, GROUP_CONCENTRATION),
            likelihood,
            SIZES,
            joint.n_shards,
            1000 * joint.seed + seed,
            sweeps=joint.sweeps,
        ),
        rule=joint.rule,
        form=joint.form,
        jumps=joint.jumps,
    )
    state = model.begin(engine, draw.labels, draw.hyper, seats)
    total: Any = 0.0
    for _ in range(joint.rounds):
        message = model.global_step(state := model.jump(state, engine))
        state = model.gather(state, message, engine.run(model.local_step, message))
        labels, tables = model.assignments(state, engine), state.table.tables[state.occupied]
        draw = Draw(labels, int(tables.sum()), state.hyper, rows(joint.kind, labels, state.hyper, rng))
        engine.map(partial(put, X=draw.X, labels=draw.labels))
        if joint.form == "direct":
            state = model.count(engine, tables, state.hyper, state.round)
        else:
            seats = np.concatenate(engine.map(seats_of))
            state = model.begin(engine, labels, state.hyper, seats, state.round)
        total = total + np.array(list(moments(draw).values()))
    engine.close()
    return total / joint.rounds


def check(joint: Joint, n_draws: int = 10000) -> Verdict:
    names, truth, truth_error = prior_moments(joint.kind, n_draws)
    likelihood = bind(joint.kind)
    seen = np.array([replicate(joint, likelihood, seed) for seed in range(joint.replicates)])
    slowness = seen.var(axis=0, ddof=1) * joint.rounds / (truth_error**2 * n_draws)
    return judge(names, seen, truth, float(np.median(slowness)), joint.rounds / 8, truth_error)
