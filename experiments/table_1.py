"""Ours: the paper's table of methods, regenerated from what the library has, with speeds measured in this run.

Models and exactness are read from the samplers themselves: a sampler is listed for a model when it is registered for
it, is parallel when it takes more than one shard, and is exact when its model says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import figures
from experiments.chains import GHOSTS, PUBLISHED, Method, Plan, features, mixture, trace
from experiments.common import Experiment, Finding, Request, Rows, save_rows, say
from unbounded import samplers
from unbounded.data import describe
from unbounded.datasets import cambridge, gaussian_mixture
from unbounded.instantiation import resolve
from unbounded.likelihoods import LinearGaussian
from unbounded.measures import GammaPoisson
from unbounded.samplers import feature_start, start

SOURCES = {  # sampler -> (paper, does the paper's table call it exact)
    "asynchronous": ("Smyth et al. 2009", False),
    "collapsed": ("Neal 2000; Doshi-Velez and Ghahramani 2009", True),
    "algorithm8": ("Neal 2000, Algorithm 8", None),
    "uncollapsed": ("the paper's modified Algorithm 8", None),
    "auxiliary": ("Williamson et al. 2013; Dubey et al. 2014", True),
    "subcluster": ("Chang and Fisher 2013", True),
    "slice": ("Ge et al. 2015", True),
    "partially_collapsed": ("Yerebakan and Dundar 2017", True),
    "published": ("Dubey et al. 2020, as published", True),
    "always_hot": ("Doshi-Velez et al. 2009, parallel", False),
    "ghosts": ("the hybrid with ghosts (ours)", None),
}
MODELS = {
    "beta-Bernoulli": "FEATURES", "other CRMs": "FEATURES", "DP": "DIRICHLET", "HDP": "HIERARCHICAL",
    "PY": "PITMAN_YOR",
}  # fmt: skip
MARKS = {True: "yes", False: "no", None: ""}
HYBRIDS = {"published": PUBLISHED, "ghosts": GHOSTS}


@dataclass(frozen=True)
class Sizes:
    """n_rows = 0: nothing is timed."""

    n_rows: int
    n_shards: int = 8
    n_rounds: int = 5


def methods() -> dict[str, Method]:
    """Every sampler that is registered for some model; the hybrid with the paper's rule and with ours."""
    names = {name: None for registry in set(MODELS.values()) for name in getattr(samplers, registry)}
    rivals = {name: Method(name, figures.GREY, sampler=name) for name in sorted(names) if name != "hybrid"}
    return rivals | HYBRIDS


def run(sizes: Sizes, request: Request) -> list[Finding]:
    rows = []
    for name, method in methods().items():
        rows.append(_line(name, method, sizes, request.seed))
        say(" | ".join(str(value) for value in rows[-1].values()))
    save_rows(rows, request)
    (request.out / "table.md").write_text(markdown(rows))
    _draw(rows, sizes, request)
    return _judge(rows)


def _line(name: str, method: Method, sizes: Sizes, seed: int) -> dict[str, Any]:
    source, said = SOURCES.get(name, (name, None))
    having = {model: method.sampler in getattr(samplers, registry) for model, registry in MODELS.items()}
    having["other CRMs"] = having["other CRMs"] and _takes_counts(method)
    models = {kind: _tiny(kind, method) for kind in ("DP", "beta-Bernoulli") if having[kind]}
    exact = all(model.exact for model in models.values()) if models else None
    parallel = any(model.n_shards > 1 for model in models.values()) if models else None
    speeds = {f"rows per second, {kind}": _speed(kind, method, sizes, seed) for kind in models} if sizes.n_rows else {}
    return {
        "method": name, "source": source, "exact": exact, "exact in the paper's table": said, "parallel": parallel,
        **having, **speeds,
    }  # fmt: skip


def _tiny(kind: str, method: Method) -> Any:
    """The sampler's model of a few rows: what it says of itself."""
    return _model(kind, _rows(kind, 40), method, Plan(4, 4))


def _takes_counts(method: Method) -> bool:
    """Whether a sampler of features takes other measures than the beta-Bernoulli process."""
    X = cambridge(40, seed=0).X
    common = (LinearGaussian().bind(describe(X)), resolve(method.instantiate), len(X), 4, 0, 4, 1, "float64")
    try:
        samplers.FEATURES[method.sampler](GammaPoisson(1.0, 1.0), *common)
    except ValueError:
        return False
    return True


def _rows(kind: str, n: int) -> Any:
    return gaussian_mixture(n, 8, 10, seed=0).X if kind == "DP" else cambridge(n, seed=0).X


def _model(kind: str, X: Any, method: Method, plan: Plan) -> Any:
    return mixture(X, method, plan) if kind == "DP" else features(X, method, plan)


def _speed(kind: str, method: Method, sizes: Sizes, seed: int) -> float:
    """Rows swept per second of critical path, from the best of a few rounds; the first state has the true structure."""
    for n in (10 * sizes.n_shards, sizes.n_rows):  # the first time, kernels are compiled
        X, plan = _rows(kind, n), Plan(sizes.n_shards, sizes.n_rounds, seed=seed)
        model = _model(kind, X, method, plan)
        truth: Any = gaussian_mixture(n, 8, 10, seed=0).labels if kind == "DP" else cambridge(n, seed=0).Z.astype(int)
        begin = start if kind == "DP" else feature_start
        rows = trace(model, X, truth, sizes.n_rounds, lambda state, engine: {}, start_of=begin)
    return n / float(np.diff([row["critical_s"] for row in rows]).min())


def markdown(rows: Rows) -> str:
    names = list(rows[-1])
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    lines += [" | ".join(_cell(row.get(name)) for name in names) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return MARKS[value]
    return f"{value:,.0f}" if isinstance(value, float) else str(value)


def _draw(rows: Rows, sizes: Sizes, request: Request) -> None:
    """The table as marks, and the speeds beside it."""
    whole, grid = figures.figure(1, 2, width=4.4, height=0.35 * len(rows) + 1.0, sharey=True)
    marks, speeds = grid[0]
    names = ["exact", "parallel", *MODELS]
    looks = {True: ("o", figures.BLUE, 55), False: ("x", figures.RED, 35), None: ("_", figures.GREY, 20)}
    for y, row in enumerate(rows):
        for x, name in enumerate(names):
            marker, colour, size = looks[row[name]]
            marks.scatter([x], [y], s=size, marker=marker, color=colour)
    marks.set_xticks(range(len(names)), names, rotation=40, ha="right")
    marks.set_yticks(range(len(rows)), [f"{row['method']}: {row['source']}" for row in rows], fontsize="small")
    marks.invert_yaxis()
    marks.set_title("o: yes, x: no, or not for this process", fontsize="medium")
    for kind, marker, colour in (("DP", "o", figures.BLUE), ("beta-Bernoulli", "s", figures.ORANGE)):
        chosen = [
            (row[f"rows per second, {kind}"], y) for y, row in enumerate(rows) if f"rows per second, {kind}" in row
        ]
        if chosen:
            speeds.plot(*zip(*chosen, strict=True), marker, color=colour, label=kind)
            speeds.set_xscale("log")
    speeds.set_xlabel("rows swept per second of critical path")
    speeds.grid(True, axis="x", alpha=0.3)
    if sizes.n_rows:
        speeds.legend(frameon=False)
    notes = [f"{sizes.n_rows:,} rows x 8 (DP, 10 clusters) or x 36 (4 features)", f"P = {sizes.n_shards}"]
    figures.finish(whole, request, notes=[*notes, *figures.beyond_cores(sizes.n_shards)])


def _judge(rows: Rows) -> list[Finding]:
    table = {row["method"]: row for row in rows}
    ghosts, published = table["ghosts"], table["published"]
    everything = ghosts["exact"] and ghosts["parallel"] and all(ghosts[model] for model in MODELS)
    differing = [
        row["method"] for row in rows
        if row["exact in the paper's table"] is not None and row["exact"] is not None
        and row["exact"] != row["exact in the paper's table"]
    ]  # fmt: skip
    others = [row["method"] for row in rows if row["method"] not in HYBRIDS and row["exact"] and row["parallel"]
              and all(row[model] for model in MODELS)]  # fmt: skip
    return [
        Finding("the hybrid sampler as published is exact", bool(published["exact"]), "what the library says of it"),
        Finding("with ghosts it is exact, parallel, and has all five models", bool(everything), "from the registry"),
        Finding("no other method has all of that", not others, ", ".join(others) or "none"),
        Finding("the paper's column of exactness is right", not differing, f"differs for: {', '.join(differing)}"),
    ]


EXPERIMENT = Experiment(
    "table-1",
    "Only the hybrid sampler is exact, parallel and distributed for the beta-Bernoulli process, other completely "
    "random measures, Dirichlet, hierarchical Dirichlet and Pitman-Yor processes.",
    quick=Sizes(4_000),
    full=Sizes(100_000),
    run=run,
)
