"""Ours: what the choice of instantiated atoms costs. Error of E[K] and autocorrelation time of K against P.

Two problems whose posterior is known: 60 rows without data, where it is the prior; and 200 points around four centres,
where a long collapsed chain tells. And the counter-example of docs/sampler.md, two rows on two shards, by arithmetic
and by the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

from experiments import figures
from experiments.chains import COLLAPSED, GHOSTS, HOT, ONE_OPEN, PUBLISHED, Method, Plan, mixture, trace, with_wall
from experiments.common import Experiment, Finding, Request, Rows, Run, about, save_rows, say, spread, standard_error
from unbounded.arrays import Array
from unbounded.engines import build
from unbounded.likelihoods import Bernoulli, Gaussian
from unbounded.models.mixtures import start
from unbounded.round import rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

METHODS = (PUBLISHED, HOT, ONE_OPEN, GHOSTS)
N_ROWS, N_EMPTY, ALPHA = 200, 60, 1.0
BIASED = 4.0  # standard errors
UNTIMED, TIMED = 10, 50  # rounds of the chain whose rounds are timed


@dataclass(frozen=True)
class Problem:
    name: str
    X: Array
    likelihood: Any


@dataclass(frozen=True)
class Sizes:
    shards: tuple[int, ...]
    chains: int
    n_rounds: int
    warmup: int
    truth_chains: int
    truth_rounds: int
    pairs: int  # chains of the counter-example


def problems() -> tuple[Problem, Problem]:
    rng = np.random.default_rng(7)
    centres = 3.0 * np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    X = centres[rng.integers(0, 4, N_ROWS)] + rng.standard_normal((N_ROWS, 2))
    nearly_known = Gaussian(mean=0.0, kappa=0.5, dof=30.0, scale=28.0)
    return Problem("rows without data", empty(N_EMPTY), Bernoulli(1.0, 1.0)), Problem("four clusters", X, nearly_known)


def empty(n_rows: int) -> Array:
    return np.full((n_rows, 1), np.nan)


def run(sizes: Sizes, request: Request) -> list[Finding]:
    plotted: Rows = []
    for number, (problem, truth) in enumerate(zip(problems(), (prior_truth(), None), strict=True)):
        truth = truth or _collapsed_truth(problem, sizes, request.seed)
        say(f"{problem.name}: E[K] = {truth[0]:.3f} ± {truth[1]:.2g}")
        tasks = [(number, truth, method, p, sizes, request.seed) for method in METHODS for p in sizes.shards]
        found = spread(_measure, tasks, request.jobs)
        times = [time_of_a_round(problem, task[2], task[3], request.seed) for task in tasks]
        plotted += [row | time for row, time in zip(found, times, strict=True)]
    save_rows(plotted, request)
    together = counter_example(sizes.pairs, request.seed)
    save_rows(together, request, "counter-example")
    return [*_judge(plotted, sizes), *judge_counter_example(together)]


# ---- E[K] and its autocorrelation


def prior_truth() -> tuple[float, float]:
    return float(ALPHA * (digamma(ALPHA + N_EMPTY) - digamma(ALPHA))), 0.0


def numbers_of_clusters(
    problem: Problem, method: Method, n_shards: int, chains: int, n_rounds: int, seed: int
) -> Array:
    """[chains, n_rounds]: traces of K, from draws of the prior."""
    out = np.empty((chains, n_rounds))
    for chain in range(chains):
        plan = Plan(n_shards, n_rounds, seed=1000 * seed + chain)
        model = mixture(problem.X, method, plan, problem.likelihood, concentration=ALPHA)
        engine = build("serial", model.recipe(problem.X))
        begun = start.begin(model, engine, problem.X, "prior")
        out[chain] = [len(state.occupied) for state in islice(rounds(model, engine, begun), n_rounds)]
        engine.close()
    return out


def _collapsed_truth(problem: Problem, sizes: Sizes, seed: int) -> tuple[float, float]:
    traces = numbers_of_clusters(problem, COLLAPSED, 1, sizes.truth_chains, sizes.truth_rounds, seed + 1)
    means = traces[:, sizes.warmup :].mean(axis=1)
    return float(means.mean()), standard_error(means)


def _measure(
    number: int, truth: tuple[float, float], method: Method, n_shards: int, sizes: Sizes, seed: int
) -> dict[str, Any]:
    problem = problems()[number]
    traces = numbers_of_clusters(problem, method, n_shards, sizes.chains, sizes.n_rounds, seed)[:, sizes.warmup :]
    means = traces.mean(axis=1)
    return {
        "problem": problem.name, "method": method.label, "shards": n_shards, "truth": truth[0],
        "mean": float(means.mean()), "error": float(means.mean()) - truth[0],
        "standard_error": float(np.hypot(standard_error(means), truth[1])),
        "autocorrelation_time": autocorrelation_time(traces),
    }  # fmt: skip


def time_of_a_round(problem: Problem, method: Method, n_shards: int, seed: int) -> dict[str, float]:
    """Seconds on the critical path and on this machine, means over rounds of one more chain."""
    plan = Plan(n_shards, UNTIMED + TIMED, seed=1000 * seed)
    model = mixture(problem.X, method, plan, problem.likelihood, concentration=ALPHA)
    rows = trace(model, problem.X, "prior", plan.n_rounds, lambda state, engine: {})
    rows = with_wall(rows, model, problem.X, "prior")
    return {clock: (rows[-1][clock] - rows[UNTIMED][clock]) / TIMED for clock in figures.CLOCKS}


def autocorrelation_time(traces: Array) -> float:
    """Integrated autocorrelation time of [chains, rounds], summed up to five times itself."""
    x = traces - traces.mean()
    n = x.shape[1]
    rho = np.array([(x[:, : n - lag] * x[:, lag:]).mean() for lag in range(n // 2)]) / (x**2).mean()
    times = 2.0 * np.cumsum(rho) - 1.0
    inside = np.flatnonzero(np.arange(len(times)) >= 5.0 * times)
    return float(times[inside[0]]) if len(inside) else float("nan")


# ---- two rows on two shards


def published_chain() -> float:
    """Stationary probability that the two rows are together, from the transition probabilities of the paper's rule."""
    stay, meet = 2.0 / 3.0, 4.0 / 9.0
    return meet / (1.0 - stay + meet)


def counter_example(chains: int, seed: int, n_rounds: int = 400) -> Rows:
    """How often two rows without data are together."""
    X, rows = empty(2), []
    for method, expected in ((PUBLISHED, published_chain()), (ONE_OPEN, 0.5), (GHOSTS, 0.5)):
        problem = Problem("two rows", X, Bernoulli(1.0, 1.0))
        traces = numbers_of_clusters(problem, method, 2, chains, n_rounds, seed)[:, 20:]
        means = (traces == 1).mean(axis=1)
        rows.append({
            "method": method.label, "expected": expected, "together": float(means.mean()),
            "standard_error": standard_error(means),
        })  # fmt: skip
    return rows


def judge_counter_example(rows: Rows) -> list[Finding]:
    findings = []
    for row, number in zip(rows, ("4/7", "1/2", "1/2"), strict=True):
        gap = abs(row["together"] - row["expected"])
        findings.append(Finding(
            f"two rows on two shards, {row['method']}: together with probability {number} (the posterior: 1/2)",
            bool(gap < BIASED * row["standard_error"]),
            f"{row['together']:.4f} ± {row['standard_error']:.4f}, expected {row['expected']:.4f}",
        ))  # fmt: skip
    return findings


# ---- figure and verdict


def draw(run: Run) -> dict[str, Figure]:
    sizes, plotted = run.sizes, run.table().set_index(["problem", "method"]).sort_index()
    whole, grid = figures.figure(2, 3, width=3.2, height=2.5)
    for column, problem in enumerate(problems()):
        for method in METHODS:
            mine = plotted.loc[problem.name, method.label]
            look = method.look | {"marker": "o", "markersize": 4}
            values = mine["error"], mine["standard_error"]
            grid[0, column].errorbar(mine["shards"], *values, capsize=2, label=method.label, **look)
            grid[1, column].plot(mine["shards"], mine["autocorrelation_time"], **look)
            if column == 1:
                times = {clock: mine[clock].to_numpy() for clock in figures.CLOCKS}
                figures.clocks(grid[1, 2], mine["shards"], times, look, "round")
        grid[0, column].axhline(0.0, color=figures.GREY, linewidth=0.8)
        grid[0, column].set_title(f"{problem.name}: E[K] = {mine['truth'].iloc[0]:.2f}", fontsize="medium")
        grid[1, column].margins(y=0.2)
        grid[1, column].set_ylim(bottom=0)
    for axes in (*grid[:, 0], *grid[:, 1], grid[1, 2]):
        axes.set_xscale("log", base=2)
        axes.set_xlim(0.8 * sizes.shards[0], 1.25 * sizes.shards[-1])
        axes.set_xticks(sizes.shards, [str(p) for p in sizes.shards])
        axes.set_xlabel("number of shards P")
    grid[0, 0].set_ylabel("error of E[K] (clusters)")
    grid[1, 0].set_ylabel("autocorrelation time\nof K (rounds)")
    _draw_together(grid[0, 2], run.table("counter-example"))
    grid[1, 2].set_title(f"four clusters, mean of {TIMED} rounds", fontsize="medium")
    figures.clock_legend(grid[1, 2])
    figures.legend(whole, grid[0, 0])
    notes = [f"{N_EMPTY} and {N_ROWS} rows, {sizes.chains} chains of {sizes.n_rounds} rounds; bars: standard errors"]
    return {"figure": figures.noted(whole, run, [*notes, *figures.beyond_cores(sizes.shards[-1], run)])}


def _draw_together(axes: Axes, together: DataFrame) -> None:
    methods = {method.label: method for method in METHODS}
    for number, row in together.iterrows():
        look = {"color": methods[row["method"]].colour, "marker": "o", "capsize": 3}
        axes.errorbar([number], [row["together"]], [2.0 * row["standard_error"]], **look)
    for value, name in ((0.5, "1/2: the posterior"), (published_chain(), "4/7")):
        axes.axhline(value, color=figures.GREY, linewidth=0.8, linestyle=":")
        axes.annotate(name, (-0.45, value), ha="left", va="bottom", fontsize="small", color=figures.GREY)
    names = [method.replace("hybrid, ", "").replace(" (", "\n(") for method in together["method"]]
    axes.set_xticks(range(len(together)), names, fontsize="small")
    axes.set_xlim(-0.5, 2.5)
    axes.margins(y=0.2)
    axes.set_title("two rows without data, P = 2", fontsize="medium")
    axes.set_ylabel("probability\nof being together")


def _judge(plotted: Rows, sizes: Sizes) -> list[Finding]:
    findings = []
    for method in METHODS:
        many = [row for row in plotted if row["method"] == method.label and row["shards"] > 1]
        worst = max(many, key=lambda row: abs(row["error"]) / row["standard_error"])
        z = worst["error"] / worst["standard_error"]
        exact, seen = method in (GHOSTS, ONE_OPEN), abs(z) > BIASED
        evidence = (
            f"largest error {worst['error']:+.2f} clusters, {z:+.1f} standard errors, {worst['problem']}, "
            f"P = {worst['shards']}"
        )
        if exact:
            findings.append(Finding(f"{method.label} is exact", not seen, evidence))
        elif method is PUBLISHED:
            words = f"{method.label}, one open shard, has the posterior for its stationary distribution"
            findings += [
                about(key, Finding(words, False if seen else None, evidence)) for key in ("guarantees", "provably")
            ]
        else:
            words = f"{method.label}, several open shards, has another stationary distribution"
            findings.append(about("several open", Finding(words, True if seen else None, evidence)))
    return [*findings, _mixing(plotted, sizes)]


def _mixing(plotted: Rows, sizes: Sizes) -> Finding:
    times = {
        (row["problem"], row["shards"]): row["autocorrelation_time"] for row in plotted if row["method"] == GHOSTS.label
    }
    ratios = [times[problem.name, sizes.shards[-1]] / times[problem.name, sizes.shards[0]] for problem in problems()]
    evidence = ", ".join(f"{r:.2f}x ({problem.name})" for r, problem in zip(ratios, problems(), strict=True))
    statement = f"with ghosts K mixes no more than 2.5 times slower with P = {sizes.shards[-1]} than with P = 1"
    held = None if np.isnan(ratios).any() else bool(max(ratios) < 2.5)
    return Finding(statement, held, f"autocorrelation time {evidence}")


EXPERIMENT = Experiment(
    "exactness",
    "60 rows without data, where the posterior is the prior; 200 points around four centres, where a long collapsed "
    "chain tells; and the two rows of the counter-example.",
    quick=Sizes((1, 4), 6, 400, 50, 8, 400, 16),
    small=Sizes((1, 2, 4, 8, 16), 8, 400, 50, 8, 1_000, 40),
    full=Sizes((1, 2, 4, 8, 16, 32), 10, 600, 50, 12, 2_000, 60),
    run=run,
    draw=draw,
)
