"""1,000,000 generated Cambridge images on 256 shards, 860 sweeps, an exchange after every 5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import figures
from experiments.chains import GHOSTS, Plan, features, trace, with_wall
from experiments.common import Experiment, Finding, Request, Rows, save_rows, say
from unbounded.arrays import Array
from unbounded.datasets import CambridgeData, cambridge
from unbounded.models.features import start as feature_start
from unbounded.models.features.predictive import draw_of, log_density

SWEEPS = 5
DAY = 86_400.0
PAPER_SWEEPS = 860


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    n_shards: int
    n_rounds: int
    n_test: int
    every: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    data = cambridge(sizes.n_rows, noise=0.5, seed=request.seed)
    fresh = cambridge(sizes.n_test, noise=0.5, seed=request.seed + 1).X
    plan = Plan(sizes.n_shards, sizes.n_rounds, SWEEPS, request.seed)
    _chain(cambridge(2 * sizes.n_shards, seed=2).X, fresh[:100], Plan(sizes.n_shards, 2, SWEEPS), 1, data)
    rows = _chain(data.X, fresh, plan, sizes.every, data)
    truth = float(data.log_density(fresh).mean())
    save_rows(rows, request)
    _draw(rows, truth, sizes, request)
    say(f"{rows[-1]['wall_s']:.1f} s wall, score {rows[-1]['score']:.4f}, truth {truth:.4f}")
    return _judge(rows, truth, sizes)


def _chain(X: Array, fresh: Array, plan: Plan, every: int, truth: CambridgeData) -> Rows:
    model = features(X, GHOSTS, plan)

    def measure(state, engine):  # type: ignore[no-untyped-def]
        snap = model.snapshot(state, engine)
        draw = draw_of(model.measure, model.likelihood, snap, model.n_rows, plan.seed)
        large = snap["loadings"][snap["members"] > 0.01 * model.n_rows]
        alike = np.corrcoef(np.concatenate([truth.features, large]))[: len(truth.features), len(truth.features) :]
        return {
            "score": float(log_density(draw, fresh).mean()), "features": len(snap["members"]), "used": len(large),
            "correlation": float(alike.max(axis=1, initial=0.0).min()),
        }  # fmt: skip

    rows = trace(model, X, "grown", plan.n_rounds, measure, every, feature_start)
    return with_wall(rows, model, X, "grown", feature_start)


def _draw(rows: Rows, truth: float, sizes: Sizes, request: Request) -> None:
    whole, grid = figures.figure(1, 3)
    sweeps = np.array([row["round"] for row in rows]) * SWEEPS
    for name, label, colour, dash in (
        ("wall_s", "wall time", figures.RED, "--"), ("critical_s", "critical path", figures.BLUE, "-"),
    ):  # fmt: skip
        times = np.diff([row[name] for row in rows]) / np.diff(sweeps)
        grid[0, 0].plot(sweeps[1:], 1e3 * times, color=colour, linestyle=dash, label=label)
    grid[0, 0].set_yscale("log")
    grid[0, 0].set_ylabel("time of a sweep (ms)")
    grid[0, 0].legend(frameon=False)
    for name, label, colour in (("features", "all", figures.SKY), ("used", "used by 1% of the rows", figures.BLUE)):
        grid[0, 1].plot(sweeps, [row[name] for row in rows], color=colour, label=label)
    grid[0, 1].axhline(4, color=figures.GREY, linestyle=":", label="truth")
    grid[0, 1].set_ylabel("number of features")
    grid[0, 1].set_ylim(0, max(row["features"] for row in rows) + 2)
    grid[0, 1].legend(frameon=False)
    grid[0, 2].plot(sweeps, [row["score"] for row in rows], color=figures.BLUE, label="test rows")
    grid[0, 2].axhline(truth, color=figures.GREY, linestyle=":", label="under the truth")
    grid[0, 2].set_ylabel("test log likelihood (nats per image)")
    grid[0, 2].ticklabel_format(useOffset=False)
    grid[0, 2].legend(frameon=False)
    for axes in grid[0]:
        axes.set_xlabel("iteration (sweep)")
    notes = [f"{sizes.n_rows:,} generated images", f"P = {sizes.n_shards}", *figures.beyond_cores(sizes.n_shards)]
    figures.finish(whole, request, notes=notes)


def _judge(rows: Rows, truth: float, sizes: Sizes) -> list[Finding]:
    last = rows[-1]
    sweeps = last["round"] * SWEEPS
    per_sweep = f"{1e3 * last['wall_s'] / sweeps:.1f} ms wall, {1e3 * last['critical_s'] / sweeps:.2f} ms critical path"
    return [
        Finding(
            "the paper's 860 sweeps take no more than its day",
            bool(last["wall_s"] / sweeps * PAPER_SWEEPS < DAY) if sizes.n_rows >= 1_000_000 else None,
            f"{sweeps} sweeps of {sizes.n_rows:,} rows in {last['wall_s']:.1f} s; a sweep: {per_sweep}",
        ),
        Finding(
            "the four features are found", bool(last["used"] == 4 and last["correlation"] > 0.99),
            f"{last['features']} features, {last['used']} of them in 1% of the rows, least correlation "
            f"{last['correlation']:.4f}",
        ),
        Finding(
            "test rows are as likely as under the truth", bool(last["score"] > truth - 0.05),
            f"{last['score']:.4f} nats per image, {truth:.4f} under the truth",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "cambridge-million",
    "One million images on 256 processors, 860 iterations in one day: the hybrid sampler finds the features of data "
    "that no other sampler of the beta-Bernoulli process could take.",
    quick=Sizes(20_000, 256, 10, 500, 2),
    full=Sizes(1_000_000, 256, PAPER_SWEEPS // SWEEPS, 5_000, 4),
    run=run,
)
