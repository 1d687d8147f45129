"""1,000,000 generated Cambridge images on 256 shards, 860 sweeps, an exchange after every 5.

From one feature, as the paper's other chains begin (it does not say how this one did), and from the default start,
whose pilot on a few rows may have found everything before the first sweep: two stories, told apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments import figures
from experiments.chains import FEATURE_JUMPING, GHOSTS, WARM, Method, Plan, features, trace, with_wall
from experiments.common import Experiment, Finding, Request, Rows, Run, about, save_rows, say, spread
from unbounded.arrays import Array
from unbounded.datasets import CambridgeData, cambridge
from unbounded.models.features import start as feature_start
from unbounded.models.features.predictive import draw_of, log_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEPS = 5
DAY = 86_400.0
PAPER_SWEEPS = 860
SETTLED = 0.1  # nats per image


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    n_shards: int
    n_rounds: int
    n_test: int
    every: int


class Start(NamedTuple):
    method: Method
    init: str

    @property
    def label(self) -> str:
        return f"{self.method.label}, from {'one feature' if self.init == 'one' else 'the default start'}"


DEFAULT = Start(replace(FEATURE_JUMPING, colour=figures.GREY), "grown")
RUNS = (Start(WARM, "one"), Start(GHOSTS, "one"), Start(FEATURE_JUMPING, "one"), DEFAULT)


def run(sizes: Sizes, request: Request) -> list[Finding]:
    data, fresh = _images(sizes, request.seed)
    truth = float(data.log_density(fresh).mean())
    found = spread(chain, [(sizes, request.seed, number) for number in range(len(RUNS))], request.jobs)
    curves: dict[str, Rows] = {}
    for each, rows in zip(RUNS, found, strict=True):
        model = features(data.X, each.method, _plan(sizes, request.seed))
        rows = curves[each.label] = with_wall(rows, model, data.X, each.init, feature_start)
        say(f"{each.label}: {rows[-1]['wall_s']:.1f} s wall, score {rows[-1]['score']:.4f}, truth {truth:.4f}")
    save_rows([{"run": label, **row} for label, rows in curves.items() for row in rows], request)
    save_rows([{"truth": truth}], request, "truth")
    return [finding for each in RUNS for finding in _judge(each, curves[each.label], truth, sizes)]


def _images(sizes: Sizes, seed: int) -> tuple[CambridgeData, Array]:
    """The rows, and fresh ones to be scored."""
    return cambridge(sizes.n_rows, noise=0.5, seed=seed), cambridge(sizes.n_test, noise=0.5, seed=seed + 1).X


def _plan(sizes: Sizes, seed: int) -> Plan:
    return Plan(sizes.n_shards, sizes.n_rounds, SWEEPS, seed)


def chain(sizes: Sizes, seed: int, number: int) -> Rows:
    """What was measured of one of the runs, after a tiny one that compiles."""
    data, fresh = _images(sizes, seed)
    _chain(cambridge(2 * sizes.n_shards, seed=2).X, fresh[:100], Plan(sizes.n_shards, 2, SWEEPS), 1, data, RUNS[number])
    return _chain(data.X, fresh, _plan(sizes, seed), sizes.every, data, RUNS[number])


def _chain(X: Array, fresh: Array, plan: Plan, every: int, truth: CambridgeData, what: Start) -> Rows:
    model = features(X, what.method, plan)

    def measure(state, engine):  # type: ignore[no-untyped-def]
        snap = model.snapshot(state, engine)
        draw = draw_of(model.measure, model.likelihood, snap, model.n_rows, plan.seed)
        large = snap["loadings"][snap["members"] > 0.01 * model.n_rows]
        alike = np.corrcoef(np.concatenate([truth.features, large]))[: len(truth.features), len(truth.features) :]
        alike = np.abs(alike)  # beside an intercept, a feature may stand for the rows that do not have it
        return {
            "score": float(log_density(draw, fresh).mean()), "features": len(snap["members"]), "used": len(large),
            "correlation": float(alike.max(axis=1, initial=0.0).min()),
        }  # fmt: skip

    return trace(model, X, what.init, plan.n_rounds, measure, every, feature_start)


def draw(run: Run) -> dict[str, Figure]:
    sizes, curves, truth = run.sizes, run.table().set_index("run"), run.table("truth")["truth"][0]
    whole, grid = figures.figure(1, 3, height=3.6)
    panels = (
        ("critical_s", "critical path\nof a sweep (ms)"),
        ("used", "features that\n1% of the rows use"),
        ("score", "test log likelihood\n(nats per image)"),
    )
    for each in RUNS:
        rows = curves.loc[each.label]
        sweeps = rows["round"].to_numpy() * SWEEPS
        for axes, (name, label) in zip(grid[0], panels, strict=True):
            values = rows[name].to_numpy()
            x, y = (sweeps[1:], 1e3 * np.diff(values) / np.diff(sweeps)) if name == "critical_s" else (sweeps, values)
            axes.plot(x, y, label=each.label, **each.method.look)
            axes.set_ylabel(label)
            axes.set_xlabel("iteration (sweep)")
    figures.log_milliseconds(grid[0, 0])
    grid[0, 1].locator_params(axis="y", integer=True)
    grid[0, 1].axhline(4, color=figures.GREY, linestyle=":")
    grid[0, 2].axhline(truth, color=figures.GREY, linestyle=":")
    grid[0, 2].ticklabel_format(useOffset=False)
    figures.legend(whole, grid[0, 2])
    notes = [f"{sizes.n_rows:,} generated images", f"P = {sizes.n_shards}", "dotted: the truth"]
    return {"figure": figures.noted(whole, run, [*notes, *figures.beyond_cores(sizes.n_shards, run)])}


def _judge(what: Start, rows: Rows, truth: float, sizes: Sizes) -> list[Finding]:
    last = rows[-1]
    sweeps = last["round"] * SWEEPS
    per_sweep = f"{1e3 * last['wall_s'] / sweeps:.1f} ms wall, {1e3 * last['critical_s'] / sweeps:.2f} ms critical path"
    quarter = rows[len(rows) // 4]
    settled = abs(last["score"] - quarter["score"]) < SETTLED
    findings = [
        about("one day", Finding(
            f"{what.label}: the paper's 860 sweeps take no more than its day",
            bool(last["wall_s"] / sweeps * PAPER_SWEEPS < DAY) if sizes.n_rows >= 1_000_000 else None,
            f"{sweeps} sweeps of {sizes.n_rows:,} rows in {last['wall_s']:.1f} s; a sweep: {per_sweep}",
        )),
        about("local mode", Finding(
            f"{what.label}: the score is where it stays after a quarter of the sweeps, within {SETTLED:g} nats",
            bool(settled),
            f"{quarter['score']:.4f} after {quarter['round'] * SWEEPS} sweeps, {last['score']:.4f} after {sweeps}",
        )),
        Finding(
            f"{what.label}: the four features are found", bool(last["used"] == 4 and last["correlation"] > 0.99),
            f"{last['features']} features, {last['used']} of them in 1% of the rows ({rows[0]['used']} at the start), "
            f"least correlation {last['correlation']:.4f}",
        ),
        Finding(
            f"{what.label}: test rows are as likely as under the truth", bool(last["score"] > truth - 0.05),
            f"{last['score']:.4f} nats per image, {truth:.4f} under the truth, {rows[0]['score']:.4f} at the start",
        ),
    ]  # fmt: skip
    return findings if what.method is WARM else [replace(finding, claim=None) for finding in findings]


EXPERIMENT = Experiment(
    "cambridge-million",
    "One million generated images on 256 shards, 860 sweeps, an exchange after every 5.",
    quick=Sizes(4_000, 64, 8, 500, 2),
    small=Sizes(50_000, 256, 60, 1_000, 4),
    full=Sizes(1_000_000, 256, PAPER_SWEEPS // SWEEPS, 5_000, 4),
    run=run,
    draw=draw,
)
