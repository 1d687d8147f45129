"""A run as one self-contained page of HTML: no network, no scripts, all pictures inside (docs/report.md).

It starts with the answer: what was found, in words and pictures, and how sure that is. Then it says whether to trust
it, and shows everything else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unbounded.arrays import Array
from unbounded.chain import export
from unbounded.chain.convergence import Check
from unbounded.chain.several import AUTO
from unbounded.chain.store import write_to
from unbounded.report import draws, parts, tables, view
from unbounded.report.parts import badge, cards, charts, figure, help_, number, paragraph, section, text
from unbounded.report.phrases import plain_name
from unbounded.report.view import View
from unbounded.shares import above
from unbounded.sources import Rows


def report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    X: Rows | None = None,
    at_hand: Mapping[str, object] | None = None,
) -> Path:
    """Write the report of a run directory, finished or not; by default to its report.html. Returns where it is.

    Parameters
    ----------
    run : path
        The run directory.
    out : path or None, default None
        Where to write the page; None: report.html in the run directory.
    X : array, data frame, Source or None, default None
        The rows of the fit, which the run directory does not have.
    at_hand : mapping or None, default None
        What else the page can use, by name; which names there are depends on the model (docs/report.md), and the method
        `report` of its estimator has them as options.

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
    content = render(view.read(run, {"X": X, **(at_hand or {})}))
    write_to(path, lambda file: file.write(content.encode()))
    return path


def render(run: View) -> str:
    body = [
        _header(run), _found(run), _trust(run), _atoms(run), _traces(run), tables.scalars(run), tables.time(run),
        tables.settings(run),
    ]  # fmt: skip
    foot = "Written by unbounded from the run directory, and from the data of the fit where they are at hand."
    return parts.document(f"{run.name}: {draws.title(run.config)}", "\n".join(body) + f"\n<footer>{foot}</footer>")


# ---- the answer


def _header(run: View) -> str:
    found = run.convergence
    converged = (
        badge("CONVERGED", True) if found.passed
        else badge("NOT CONVERGED", False) if found.judged else badge("TOO SHORT TO JUDGE", None)
    )  # fmt: skip
    exact = badge("EXACT", True) if run.exact else badge("APPROXIMATE", False)
    running = "" if run.complete else badge("NOT FINISHED", None)
    return (
        f"<header><h1>{text(draws.title(run.config))}</h1><p>{text(_size(run))}</p>"
        f'<p class="badges">{exact} {converged} {running}</p><p class=quiet>run {text(run.name)}</p></header>'
    )


def _size(run: View) -> str:
    likelihood, units = plain_name(run.config["likelihood"]), draws.units(run)
    sizes = {"rows": _n_rows(run)} | {
        name: run.about[name] for name in ("rows", "columns", "groups") if name in run.about
    }
    listed = [f"{size:,} {units.get(name, name)}" for name, size in sizes.items() if size]
    return ", ".join(listed if units else [tables.kind_of_data(likelihood), *listed])  # units say what the rows are


def _n_rows(run: View) -> int:
    for snap in (snap for chain in run.chains for snap in chain.snapshots.values()):
        return run.family.choices.n_rows(snap)
    return 0


def _found(run: View) -> str:
    """What was found, at a glance."""
    family, counts = run.family, np.concatenate(run.trace(run.family.counted))
    low, high = np.quantile(counts, [0.05, 0.95])
    within = f"{low:.0f}" if low == high else f"between {low:.0f} and {high:.0f}"
    share = ((counts >= np.floor(low)) & (counts <= np.ceil(high))).mean()
    estimate = f"{counts.mean():.0f} {family.atoms} on average"
    if run.atoms:
        estimate = f"{len(run.atoms.shares)} {family.atoms} in the best summary of the draws"
    lead = f"{estimate}; their number is {within} in {share:.0%} of the draws."
    but = "" if run.convergence.passed else f' <span class="but">{text(_reservation(run.convergence))}</span>'
    sentences = [paragraph(one) for one in (run.atoms.sentences if run.atoms else ())]
    side = [figure(draws.count(run), f"How probable each number of {family.atoms} is.")]
    if _shown_first(run) == "holdout":
        caption = f"Mean log predictive density of a held-out {draws.scored(run)}, in every draw. Higher is better."
        side.append(figure(draws.trace(run, "holdout", 200), caption))
    elif not draws.constant(run, family.counted):
        caption = f"The number of {family.atoms} in every draw, a line for each chain."
        side.append(figure(draws.trace(run, family.counted, 200), caption))
    picture = run.atoms.picture if run.atoms else ""
    body = f'<div class="answer"><div>{picture}</div><div>{"".join(side)}</div></div>' if picture else charts(side)
    return section("What was found", f'<p class="lead">{text(lead)}{but}</p>', *sentences, _numbers(run), body)


def _reservation(found: Check) -> str:
    """Why the answer may change, of draws that have not passed the check."""
    if not found.judged:
        return "The run is too short to judge; this may change."
    if not any("r_hat" in found.problems(name) for name in found.scalars):
        return "There are too few independent draws yet; this may change."
    return f"{'The chains do not agree' if found.n_chains > 1 else 'The chain has not settled'} yet; this may change."


def _shown_first(run: View) -> str:
    """The scalar whose trace is shown with the answer, and not again under traces."""
    return "holdout" if "holdout" in run.names else run.family.counted


def _trust(run: View) -> str:
    """What a reader must know before believing any number."""
    sampler, rule = (plain_name(run.config.get(name, "unknown")) for name in ("sampler", "instantiate"))
    how = f"{tables.in_words(sampler)} sampler with {tables.in_words(rule)}"
    exact = (
        f"Exact: the sampler aims at the posterior itself, not at an approximation of it ({how})."
        if run.exact
        else f"{export.FLAG} No diagnostic shows how far off they are ({how})."
    )
    statements = [(run.exact, text(exact)), _convergence(run.convergence)]
    if not run.complete:
        so_far = f"{_draws(run)} draws so far of {_asked_for(run)}."
        statements.append((None, f"Interrupted or still running: {text(so_far)}"))
    statements += [(None, text(note)) for note in run.notes]
    kinds = {True: "good", False: "bad", None: "unknown"}
    listed = "".join(
        f'<li class="{kinds[good]}">{parts.tick() if good else ""}{words}</li>' for good, words in statements
    )
    return section("Can it be trusted?", f'<ul class="trust">{listed}</ul>', _TRUST)


def _convergence(found: Check) -> tuple[bool | None, str]:
    """Whether the chains have converged: one plain sentence, what to do, and the numbers for whoever opens them."""
    if not found.judged:
        return None, text(f"Convergence: {found.headline}")
    if found.passed:
        return True, text(f"Convergence: {found.message}")
    failing, all_ = len(found.failing), len(found.scalars)
    which = f"{failing} of the {all_} numbers that were recorded of each draw" if failing < all_ else "all numbers"
    apart = [name for name in found.failing if "r_hat" in found.problems(name)]
    what = (
        f"there are too few independent draws yet to be sure of {which}" if not apart
        else f"the chains do not agree on {which}, or have too few draws of them" if found.n_chains > 1
        else f"the chain has not settled on {which}"
    )  # fmt: skip
    said = f"Not converged: {what}. Means and intervals may change. {found.advice()}"
    numbers = "".join(f"<li>{text(line)}</li>" for line in (found.headline, *found.stuck))
    return False, f"{text(said)}<details><summary>Which numbers, and by how much</summary><ul>{numbers}</ul></details>"


_TRUST = help_(
    "What exact and converged mean",
    "Exact: the sampler's draws tend to the posterior of the model and to nothing else, however the work is spread. "
    "Converged: chains that began in different places now say the same, and each has made enough nearly independent "
    "draws for its means and intervals to stay where they are. A run can be exact and still be too short.",
)


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
    within = f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
    rows = draws.units(run).get("rows", "rows")
    large = f"; {_middle(run.trace('above_1%'))} with more than 1% of the {rows}" if "above_1%" in run.names else ""
    listed = [(f"number of {family.atoms}", within, f"90% interval; median {_middle([counts])}{large}")]
    if run.atoms is not None:
        large = f"{above(run.atoms.shares)['above_1%']:.0f} with more than 1% of the {rows}"
        listed.append(("best summary", f"{len(run.atoms.shares)} {family.atoms}", large))
    if "holdout" in run.names:
        score = np.concatenate(run.trace("holdout"))
        what = f"mean log density of a {draws.scored(run)}, in nats (natural logarithms); higher is better"
        listed.append(("held-out score", number(np.nanmean(score), 5), what))
    apart = f", {run.config['thin']} rounds apart" if run.config["thin"] > 1 else ""
    listed.append(("draws", _draws(run), f"after {run.config['n_warmup']:,} rounds of warm-up{apart}"))
    total = sum(sum(clock.seconds.values()) for clock in run.clocks)
    if total:
        rate = sum(clock.rounds for clock in run.clocks) / total
        listed.append(("time", parts.seconds(total), f"{number(rate, 3)} rounds per second"))
    return cards(listed)


def _middle(counts: Sequence[Array]) -> str:
    """The median of whole numbers, which is one of them."""
    return f"{np.quantile(np.concatenate(counts), 0.5, method='lower'):.0f}"


# ---- details


def _atoms(run: View) -> str:
    return section(run.family.atoms.capitalize(), run.atoms.content) if run.atoms else ""


def _traces(run: View) -> str:
    """Scalars that never moved are stated, not drawn."""
    still = [name for name in run.names if draws.constant(run, name)]
    moving = [figure(draws.trace(run, name)) for name in run.names if name not in (*still, _shown_first(run))]
    values = [f"{name} = {number(run.trace(name)[0][0])}" for name in still]
    same = paragraph(f"The same in every draw: {', '.join(values)}.", quiet=True) if values else ""
    return section("Traces", draws.legend(run), charts(moving), same, _TRACES, help_(draws.NAMES, draws.meanings(run)))


_TRACES = help_(
    "How to read traces",
    "Each line is one chain, each point one draw. Chains that have converged look alike: they cross each other all the "
    "time and have no trend. Of long chains the least and the greatest value of every bin are drawn, so that no "
    "excursion is lost.",
)
