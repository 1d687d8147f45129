"""A run as one page of HTML that needs nothing else: no network, no script, all pictures inside (docs/report.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from unbounded.arrays import Array
from unbounded.chain import export
from unbounded.chain.several import AUTO
from unbounded.chain.store import RunError
from unbounded.report import parts, svg, tables, view
from unbounded.report.parts import charts, figure, number, paragraph, section, text
from unbounded.report.svg import Frame, Range
from unbounded.report.view import View
from unbounded.shares import above
from unbounded.sources import Rows

_CAPTIONS = {"holdout": "held-out score (nats)", "log_joint": "log_joint (nats)"}


def report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    X: Rows | None = None,
    vocabulary: Sequence[str] | None = None,
    shape: tuple[int, int] | None = None,
    loss: str | None = None,
    merge_cost: float | None = None,
) -> Path:
    """Write the report of a run directory, finished or not; by default to its report.html. Returns where it is.

    X: the rows of the fit, for a picture of the clusters. vocabulary: the words of topics. shape: of features as
    images. loss, merge_cost: what the point estimate of a partition minimises, if not the usual.

    Examples
    --------
    >>> import tempfile
    >>> import unbounded as ub
    >>> folder = tempfile.mkdtemp()
    >>> settings = {"n_warmup": 5, "n_draws": 5, "n_chains": 1, "random_state": 0}
    >>> model = ub.DirichletProcessMixture(**settings, checkpoint=folder).fit([[0.1 * i] for i in range(20)])
    >>> ub.report(folder).name
    'report.html'
    """
    path = Path(run) / "report.html" if out is None else Path(out)
    at_hand = {"X": X, "vocabulary": vocabulary, "shape": shape, "loss": loss, "merge_cost": merge_cost}
    content = render(view.read(run, at_hand))
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise RunError(f"could not write {path}: {error.strerror or error}.") from error
    return path


def render(run: View) -> str:
    body = [
        _header(run), _concerns(run), _numbers(run), _count(run), _traces(run), _score(run),
        tables.scalars(run), _atoms(run), tables.time(run), tables.settings(run),
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(run.name)}: {text(_title(run))}</title><style>{_sheet()}</style></head>\n<body>"
        + "\n".join(part for part in body if part)
        + "\n<footer>Written by unbounded. How to read this page: docs/report.md.</footer></body></html>\n"
    )


def _sheet() -> str:
    return resources.files("unbounded.report").joinpath("report.css").read_text()


# ---- head


def _title(run: View) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(run.config["model"]))


def _header(run: View) -> str:
    sampler, rule = (tables.named(run.config.get(name, "unknown")) for name in ("sampler", "instantiate"))
    rule = f"sampler {sampler}, instantiation {rule}"
    badge = '<span class="badge good">EXACT</span>' if run.exact else '<span class="badge bad">APPROXIMATE</span>'
    said = (
        "The chain leaves the posterior invariant" if run.exact else "The chain does not leave the posterior invariant"
    )
    return (
        f"<header><h1>{text(_title(run))}</h1><p>{text(_size(run))}</p>"
        f"<p>{badge} {text(said)}: {text(rule)}.</p><p class=quiet>run {text(run.name)}</p></header>"
    )


def _size(run: View) -> str:
    likelihood = tables.named(run.config["likelihood"]).partition("(")[0]
    units = run.family.units(likelihood)
    sizes = {"rows": _n_rows(run)} | {
        name: run.about[name] for name in ("rows", "columns", "groups") if name in run.about
    }
    listed = [f"{size:,} {units.get(name, name)}" for name, size in sizes.items() if size]
    return ", ".join([f"{likelihood} likelihood", *listed])


def _n_rows(run: View) -> int:
    for snap in (snap for chain in run.chains for snap in chain.snapshots.values()):
        return len(snap[run.family.choices.assignments])
    return 0


def _concerns(run: View) -> str:
    """What a reader must know before believing a number."""
    said = [] if run.exact else [export.FLAG]
    if not run.complete:
        said.append(f"Interrupted or still running: {_draws(run)} draws so far of {_asked_for(run)}.")
    if not run.convergence.passed or run.convergence.n_chains == 1:
        said.append(f"Convergence: {run.convergence.message}")
    listed = "".join(f"<li>{text(words)}</li>" for words in [*said, *run.notes])
    return f'<div class="warn" role="note"><ul>{listed}</ul></div>' if listed else ""


def _draws(run: View) -> str:
    lengths = [len(chain.draws) for chain in run.chains]
    same = len(set(lengths)) == 1
    return f"{len(lengths)} x {lengths[0]:,}" if same else " + ".join(f"{n:,}" for n in lengths)


def _asked_for(run: View) -> str:
    n_chains, n_draws = run.config["n_chains"], run.config["n_draws"]
    return f"{n_chains} x {n_draws:,}" if n_draws != AUTO else f"{n_chains} x {run.config['max_draws']:,} at most"


def _numbers(run: View) -> str:
    family = run.family
    counts = np.concatenate(run.trace(family.counted))
    low, high = np.quantile(counts, [0.05, 0.95])
    large = f"; {np.concatenate(run.trace('above_1%')).mean():.2f} above 1%" if "above_1%" in run.names else ""
    listed = [(f"number of {family.atoms}", f"{counts.mean():.2f}", f"90% interval {low:.0f} to {high:.0f}{large}")]
    if run.atoms is not None:
        large = ", ".join(f"{value:.0f} {name.replace('_', ' ')}" for name, value in above(run.atoms.shares).items())
        listed.append(("point estimate", str(len(run.atoms.shares)), f"{family.atoms}, {large} of the rows"))
    if "holdout" in run.names:
        score = np.concatenate(run.trace("holdout"))
        listed.append(("held-out score", number(np.nanmean(score), 5), "nats, mean over draws"))
    listed.append(
        ("draws", _draws(run), f"after {run.config['n_warmup']:,} rounds of warm-up, thin {run.config['thin']}")
    )
    total = sum(sum(clock.seconds.values()) for clock in run.clocks)
    if total:
        rate = sum(clock.rounds for clock in run.clocks) / total
        listed.append(("time", parts.seconds(total), f"{number(rate, 3)} rounds per second"))
    cards = [f"<div><dt>{text(a)}</dt><dd>{text(b)}<small>{text(c)}</small></dd></div>" for a, b, c in listed]
    return f'<dl class="numbers">{"".join(cards)}</dl>'


# ---- draws


def _count(run: View) -> str:
    counts = np.concatenate(run.trace(run.family.counted))
    edges = svg.steps(counts)
    shares = np.histogram(counts, edges)[0] / len(counts)
    name = f"number of {run.family.atoms}"
    low, high = edges[0] - max(0.0, (6 - len(edges)) / 2), edges[-1] + max(0.0, (6 - len(edges)) / 2)
    frame = Frame(
        Range(low, high, name, svg.ticks(max(low, 0.0), high, 7, whole=True)),
        Range.around(shares, "posterior probability", zero=True),
        220,
    )
    alt = f"Posterior of the {name}: most probable {edges[shares.argmax()] + 0.5:.0f}, share {shares.max():.2f}."
    return section(f"Posterior of the {name}", charts([figure(frame.chart([svg.bars(frame, edges, shares)], alt))]))


def _traces(run: View) -> str:
    names = [name for name in run.names if name != "holdout"]
    key = parts.legend([f"chain {c}" for c in range(len(run.chains))], "line") if len(run.chains) > 1 else ""
    return section("Traces", key, charts([figure(_trace(run, name)) for name in names]))


def _trace(run: View, name: str, height: int = 190) -> str:
    series = run.trace(name)
    values = np.concatenate(series)
    finite = values[np.isfinite(values)]
    whole = bool(len(finite)) and bool((finite == np.rint(finite)).all())
    frame = Frame(
        Range.around(np.arange(1, max(map(len, series)) + 1), "draw", whole=True),
        Range.around(values, _caption(run, name), whole),
        height,
    )
    marks = [svg.line(frame, np.arange(1, len(one) + 1), one, c) for c, one in enumerate(series)]
    return frame.chart(marks, f"Trace of {name}: {len(series)} chains, mean {number(_mean(finite))}.")


def _caption(run: View, name: str) -> str:
    if name == run.family.counted:
        return f"number of {run.family.atoms}"
    return (_CAPTIONS | dict(run.family.captions)).get(name, name)


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _score(run: View) -> str:
    if "holdout" not in run.names:
        return ""
    said = f"Mean log predictive density of a held-out {run.family.scored}, in nats, with every draw. Higher is better."
    return section("Held-out score", paragraph(said, quiet=True), charts([figure(_trace(run, "holdout", 220))]))


# ---- atoms


def _atoms(run: View) -> str:
    return section(run.family.atoms.capitalize(), run.atoms.content) if run.atoms else ""
