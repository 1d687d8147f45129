"""Ours: the paper's table of methods, regenerated from what the library has, with what was measured in this run.

Models and exactness are read from the samplers themselves: a sampler is listed for a model when it is registered for
it, is parallel when it takes more than one shard, and is exact when its model says so. It is distributed when its chain
is the same with shards in separate processes. Data sizes are powers of ten: the largest of which 1,000 rounds take an
hour at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import figures, trials
from experiments.chains import GHOSTS, PUBLISHED, Method, Plan
from experiments.common import Experiment, Finding, Request, Rows, Run, about, save_rows, say
from unbounded.models.features.measures import GammaPoisson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame

SOURCES = {  # sampler -> where it comes from, and which rows of the paper's table are about it
    "asynchronous": ("Smyth et al. 2009, as the paper describes it", ("Smyth",)),
    "collapsed": ("Neal 2000; Doshi-Velez and Ghahramani 2009", ("Doshi-Velez and Ghahramani",)),
    "algorithm8": ("Neal 2000, Algorithm 8", ()),
    "uncollapsed": ("the paper's modified Algorithm 8", ()),
    "auxiliary": ("Williamson et al. 2013; Dubey et al. 2014", ("Williamson", "Dubey")),
    "subcluster": ("Chang and Fisher 2013, as others describe it", ("Chang",)),
    "slice": ("Ge et al. 2015", ("Ge",)),
    "partially_collapsed": ("Yerebakan and Dundar 2017, as the paper describes it", ("Yerebakan",)),
    "published": ("Dubey et al. 2020, as published", ("This paper",)),
    "always_hot": ("Doshi-Velez et al. 2009, as the paper replicates it", ("Doshi-Velez",)),
    "ghosts": ("the hybrid with ghosts (ours)", ()),
}
COLUMNS = ("exact", "parallel", "distributed", "beta-Bernoulli", "other CRMs", "DP", "HDP", "PY")
PAPER = {  # the paper's Table 1: a mark for each of the columns, and millions of rows
    "Smyth": ("nyynnyyn", 1.0),
    "Doshi-Velez and Ghahramani": ("ynnynnnn", 0.01),
    "Doshi-Velez": ("nyyynnnn", 0.1),
    "Williamson": ("yynnnyyn", 1.0),
    "Chang": ("yynnnyyn", 0.3),
    "Dubey": ("yynnnnny", 10.0),
    "Ge": ("yyynnyyn", 0.1),
    "Yerebakan": ("yyynnynn", 0.05),
    "This paper": ("yyyyyyyy", 1.0),
}
MODELS = {
    "beta-Bernoulli": "FEATURES", "other CRMs": "FEATURES", "DP": "DIRICHLET", "HDP": "HIERARCHICAL",
    "PY": "PITMAN_YOR",
}  # fmt: skip
MARKS = {True: "yes", False: "no", None: ""}
HYBRIDS = {"published": PUBLISHED, "ghosts": GHOSTS}


UNITS = {"beta-Bernoulli": "rows", "DP": "rows", "HDP": "tokens", "PY": "rows"}  # of the models that are timed
LOOKS = {
    "beta-Bernoulli": ("s", figures.ORANGE), "DP": ("o", figures.BLUE), "HDP": ("D", figures.GREEN),
    "PY": ("^", figures.PINK),
}  # fmt: skip
HOUR, ROUNDS = 3_600.0, 1_000


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows to be tried, in turn; without any, nothing is measured."""

    rows: tuple[int, ...]
    n_shards: int = 8


def methods() -> dict[str, Method]:
    """Every sampler that is registered for some model; the hybrid with the paper's rule and with ours."""
    names = {name: None for registry in set(MODELS.values()) for name in trials.REGISTRIES[registry]}
    rivals = {name: Method(name, figures.GREY, sampler=name) for name in sorted(names) if name != "hybrid"}
    return rivals | HYBRIDS


def run(sizes: Sizes, request: Request) -> list[Finding]:
    rows: Rows = []
    tried: Rows = []
    with closing(trials.two_processes()) if sizes.rows else nullcontext() as workers:
        for name, method in methods().items():
            tried += _tried(name, method, sizes, request.seed)
            apart = _apart(method, workers) if sizes.rows else None
            rows.append(_line(name, method, apart, [row for row in tried if row["method"] == name]))
            say(" | ".join(_cell(value) for value in rows[-1].values()))
    save_rows(rows, request)
    if tried:
        save_rows(tried, request, "rounds")
    (request.out / "table.md").write_text(markdown(rows, sizes))
    return _judge(rows, tried, sizes)


def _having(method: Method) -> dict[str, bool]:
    having = {model: method.sampler in trials.REGISTRIES[registry] for model, registry in MODELS.items()}
    return having | {"other CRMs": having["other CRMs"] and _takes_counts(method)}


def _takes_counts(method: Method) -> bool:
    """Whether a sampler of features takes other measures than the beta-Bernoulli process."""
    try:
        trials.tiny("beta-Bernoulli", method, GammaPoisson(1.0, 1.0))
    except ValueError:
        return False
    return True


def _timed(method: Method) -> list[str]:
    return [model for model, has in _having(method).items() if has and model in UNITS]


def _tried(name: str, method: Method, sizes: Sizes, seed: int) -> Rows:
    plan = Plan(sizes.n_shards, ROUNDS, seed=seed)
    return [
        {"method": name, **row}
        for kind in _timed(method) if sizes.rows
        for row in trials.attempts(kind, method, plan, sizes.rows, HOUR / ROUNDS)
    ]  # fmt: skip


def _apart(method: Method, workers: Any) -> bool:
    return all(trials.distributed(kind, method, workers) for kind in _timed(method))


def _line(name: str, method: Method, apart: bool | None, tried: Rows) -> dict[str, Any]:
    source, _ = SOURCES.get(name, (name, ()))
    models = [trials.tiny(kind, method) for kind in _timed(method)]
    return {
        "method": name, "source": source, "exact": all(model.exact for model in models),
        "parallel": any(model.n_shards > 1 for model in models), "distributed": apart, **_having(method),
        **in_the_paper(name), **_measured(tried),
    }  # fmt: skip


def in_the_paper(name: str) -> dict[str, Any]:
    """Its rows of the paper's table, a mark where one of them has it; nothing where there is no such row."""
    rows = [PAPER[row] for row in SOURCES.get(name, ("", ()))[1]]
    marks = {f"paper: {c}": any(row[0][i] == "y" for row in rows) if rows else None for i, c in enumerate(COLUMNS)}
    return marks | {"paper: millions of rows": max(row[1] for row in rows) if rows else None}


def _measured(tried: Rows) -> dict[str, Any]:
    """By model: the largest size whose rounds fit into the hour (0: not even the smallest), and its speed."""
    out: dict[str, Any] = {}
    for kind in dict.fromkeys(row["model"] for row in tried):
        best = max((row for row in tried if row["model"] == kind and row["fits"]), key=_rows, default=None)
        out[f"data size, {kind}"] = best["rows"] if best else 0
        out[f"{UNITS[kind]} per second, {kind}"] = best["rows"] / best["critical_s"] if best else None
    return out


def _rows(row: dict[str, Any]) -> int:
    return int(row["rows"])


def size_words(size: int, tried: Sequence[int]) -> str:
    """The largest size that was tried is all that a run can tell."""
    if not size:
        return f"< {tried[0]:,}"
    return f">= {size:,}" if size == tried[-1] else f"{size:,}"


def markdown(rows: Rows, sizes: Sizes) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    for row in rows:
        cells = [
            size_words(row[name], sizes.rows) if name.startswith("data size") and name in row else _cell(row.get(name))
            for name in names
        ]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return MARKS[value]
    return f"{value:,.12g}" if isinstance(value, int | float) else str(value)


def draw(run: Run) -> dict[str, Figure]:
    """The table as marks, data sizes, and speeds beside it."""
    sizes, rows = run.sizes, run.table().to_dict("records")
    height = 0.35 * len(rows) + 1.0
    whole, grid = figures.figure(1, 3, width=4.4, height=height, sharey=True, width_ratios=[1.0, 0.85, 1.0])
    marks, table, speeds = grid[0]
    names = COLUMNS
    for y, row in enumerate(rows):
        for x, name in enumerate(names):
            marker, colour, size = _look(row[name], name in MODELS)
            marks.scatter([x - 0.15], [y], s=size, marker=marker, color=colour)
            said = row[f"paper: {name}"]
            if not _blank(said):
                marks.text(x + 0.25, y, "\u2713" if said else "\u2715", ha="center", va="center", fontsize="x-small")
    marks.set_xticks(range(len(names)), names, rotation=40, ha="right")
    marks.set_yticks(range(len(rows)), [f"{row['method']}: {row['source']}" for row in rows], fontsize="small")
    marks.set_xlim(-0.7, len(names) - 0.3)
    marks.invert_yaxis()
    marks.set_title("here (o: yes, x: no, grey: not here)\nand, small, in the paper's table", fontsize="medium")
    _draw_sizes(table, rows, sizes)
    _draw_speeds(speeds, [row["method"] for row in rows], run.table("rounds") if sizes.rows else None)
    notes = [
        f"data size: the largest power of ten of which {ROUNDS:,} rounds take an hour at most of critical path, P = "
        f"{sizes.n_shards}, from the true structure",
        "rows of 8 columns (DP, PY; 10 clusters), images of 36 pixels (4 features), documents of 100 tokens, 30 topics",
    ]
    return {"figure": figures.noted(whole, run, [*notes, *figures.beyond_cores(sizes.n_shards, run)])}


def _blank(cell: Any) -> bool:
    """Nothing was written into the cell."""
    return bool(cell != cell)


def _look(value: Any, is_model: bool) -> tuple[str, str, int]:
    if _blank(value) or (is_model and not value):
        return "_", figures.GREY, 30
    return ("o", figures.BLUE, 55) if value else ("x", figures.RED, 35)


def _draw_sizes(axes: Any, rows: Rows, sizes: Sizes) -> None:
    for y, row in enumerate(rows):
        for x, kind in enumerate(UNITS):
            size = row.get(f"data size, {kind}", np.nan)
            if not _blank(size):
                words = _power(int(size), sizes.rows)
                axes.text(x, y, words, ha="center", va="center", fontsize="small")
    names = [f"{kind}\n({unit})".replace("-", "-\n") for kind, unit in UNITS.items()]
    axes.set_xticks(range(len(UNITS)), names, fontsize="small")
    axes.set_xlim(-0.6, len(UNITS) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.set_title("data size:\n1,000 rounds in an hour", fontsize="medium")


def _power(size: int, tried: Sequence[int]) -> str:
    """The size as a figure has it, where there is little room."""
    bound, _, _ = size_words(size, tried).rpartition(" ")
    sign = {"": "", "<": "$<$ ", ">=": "$\\geq$ "}[bound]
    return f"{sign}$10^{round(np.log10(size or tried[0]))}$"


def _draw_speeds(axes: Axes, names: Sequence[str], tried: DataFrame | None) -> None:
    """Full marks: on the critical path; hollow ones: on this machine's cores."""
    axes.set_xlabel("swept per second")
    axes.set_title("full: critical path\nhollow: wall time", fontsize="medium")
    axes.grid(True, axis="x", alpha=0.3)
    if tried is None:
        return
    best = tried[tried["fits"]].groupby(["method", "model"], as_index=False).last()  # of each, the largest
    for number, (kind, (marker, colour)) in enumerate(LOOKS.items()):
        mine = best[best["model"] == kind]
        y = [names.index(method) + 0.17 * (number - 1.5) for method in mine["method"]]
        for clock, (_, _, filled) in figures.CLOCKS.items():
            look = {"color": colour, "markerfacecolor": filled or colour, "markersize": 5}
            axes.plot(mine["rows"] / mine[clock], y, marker, label="" if filled else f"{kind} ({UNITS[kind]})", **look)
    axes.set_xscale("log")
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _judge(rows: Rows, tried: Rows, sizes: Sizes) -> list[Finding]:
    table = {row["method"]: row for row in rows}
    differing = [row["method"] for row in rows if row["paper: exact"] not in (None, row["exact"])]
    others = [row["method"] for row in rows if row["method"] not in HYBRIDS and _everything(row)]
    words = "with ghosts it is exact, parallel, distributed, and has all five models"
    marked = [name for name in SPECIAL if PAPER[name][0][COLUMNS.index("distributed")] == "y"]
    apart = "from the registry, and on two processes" if sizes.rows else "from the registry; processes were not tried"
    return [
        about("wide class", Finding(
            "the hybrid sampler as published is exact", bool(table["published"]["exact"]), "what the library says of it"
        )),
        about("special cases", Finding(
            "neither of the two methods is distributed in the paper's own table", not marked,
            f"marked there: {', '.join(marked)}",
        )),
        Finding(words, _everything(table["ghosts"]), apart),
        Finding("no other method has all of that here", not others, ", ".join(others) or "none"),
        Finding(
            "the paper's marks of exactness agree with the samplers here", not differing,
            f"they differ for: {', '.join(differing)}; of samplers that are here as others describe them "
            "this need not be said of the originals",
        ),
        *([_large([row for row in tried if row["method"] == "ghosts"], sizes)] if sizes.rows else []),
    ]  # fmt: skip


SPECIAL = ("Doshi-Velez and Ghahramani", "Yerebakan")  # what the paper calls special cases of its framework


def _everything(row: dict[str, Any]) -> bool:
    """What was not tried is not held against a method."""
    return row["exact"] and row["parallel"] and row["distributed"] is not False and all(row[m] for m in MODELS)


def _large(tried: Rows, sizes: Sizes) -> Finding:
    last = [row for row in tried if row["rows"] == sizes.rows[-1]]
    evidence = ", ".join(
        f"{row['model']}: {1e3 * row['critical_s']:.3g} ms critical path, {1e3 * row['wall_s']:.3g} ms wall"
        for row in last
    )
    statement = (
        f"with ghosts, {ROUNDS:,} rounds of {sizes.rows[-1]:,} rows or tokens take an hour at most in all models"
    )
    return Finding(statement, len(last) == len(UNITS) and all(row["fits"] for row in last), f"a round: {evidence}")


EXPERIMENT = Experiment(
    "table-1",
    "The paper's table of methods, from what the library has and what was measured, with the paper's own marks beside.",
    quick=Sizes((1_000,)),
    small=Sizes((1_000, 10_000, 100_000)),
    full=Sizes((1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
    run=run,
    draw=draw,
)
