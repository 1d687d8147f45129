"""docs/paper.md, written from what runs found: every number on it is in a digest of a run.

    python -m experiments.report             # the page again, from the digests in the repository
    python -m experiments.report paper-run   # take over the digests of a folder's runs first

A digest is the `verdict.json` of a run and what is needed of its tables, in docs/paper/runs. Its figures are drawn from
that when the site is built. The page's own words are in paper.md.template beside this file; `{{NAME}}` there stands for
what an experiment found.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import NAMES, load
from experiments.claims import CLAIMS, Claim
from experiments.common import Finding, Run, overall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEMPLATE = Path(__file__).with_name("paper.md.template")
SHOWN = ("full", "small")  # sizes that the page tells of, in this order; quick runs only show that everything runs
POINTS, LINES = 12, 2_000  # of a curve in a digest, and of all of it at most

Record = dict[str, Any]


# ---- taking over runs


def take_over(runs: Path, docs: Path = DOCS) -> None:
    """Digests of all runs in a folder."""
    for name in NAMES:
        for size in SHOWN:
            folder = runs / name / size
            if (folder / "verdict.json").exists():
                _digest(folder, _kept(name, size, docs))


def _kept(name: str, size: str, docs: Path) -> Path:
    return docs / "paper" / "runs" / name / size


def _digest(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    record = json.loads((folder / "verdict.json").read_text())
    (target / "verdict.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    for path in sorted(folder.glob("*.csv")):
        _table(path, target / path.name)


def _table(path: Path, target: Path) -> None:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in thinned(rows))


def thinned(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Of every curve some points, its first and last among them; a curve ends where the round falls."""
    if "round" not in rows[0]:
        return rows[:LINES]
    curves: list[list[dict[str, str]]] = []
    for row in rows:
        if not curves or float(row["round"]) <= float(curves[-1][-1]["round"]):
            curves.append([])
        curves[-1].append(row)
    points = max(2, min(POINTS, LINES // len(curves)))
    return [curve[i] for curve in curves for i in _places(len(curve), points)]


def _places(length: int, points: int) -> list[int]:
    """From 0 to the last, with steps that grow; fewer where two would be the same."""
    return sorted({round((length - 1) * (k / (points - 1)) ** 2) for k in range(points)})


def _short(value: str) -> str:
    try:
        return value if value.lstrip("-").isdecimal() else f"{float(value):.5g}"
    except ValueError:
        return value


def drawn(name: str, size: str, docs: Path = DOCS) -> list[Figure]:
    """The figures of a run, from its digest."""
    folder, experiment = _kept(name, size, docs), load(name)
    record = json.loads((folder / "verdict.json").read_text())
    sizes = eval(record["sizes"], {"Sizes": type(experiment.full)})  # as `perform` has written it
    figures = experiment.draw(Run(folder, size, sizes, record["cores"]))
    for which, whole in figures.items():
        whole.set_label(f"{name}, {size} run: {which}")  # for those who cannot see it
    return list(figures.values())


# ---- the page


def page(docs: Path = DOCS, template: Path = TEMPLATE) -> str:
    """The page, from digests and the words around them."""
    text = template.read_text()
    asked = set(re.findall(r"\{\{([^}]+)\}\}", text))
    known = {name: section(name, records(name, docs)) for name in NAMES}
    known["claims"] = summary({name: records(name, docs) for name in NAMES})
    known["todo"] = todo({name: records(name, docs) for name in NAMES})
    if asked != set(known):
        raise ValueError(f"the template must have all of {sorted(known)} once, got {sorted(asked)}.")
    return re.sub(r"\{\{([^}]+)\}\}", lambda found: known[found[1]], text)


def records(name: str, docs: Path = DOCS) -> list[Record]:
    """What was found, of full and of small runs."""
    files = [_kept(name, size, docs) / "verdict.json" for size in SHOWN]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def section(name: str, found: list[Record]) -> str:
    if not found:
        return f"No run of this code is in the repository yet: `unbounded paper {name}`."
    return "\n\n".join(_run(name, record) for record in found)


def _run(name: str, record: Record) -> str:
    pictures = f'<!-- run\nfrom experiments.report import drawn\ndrawn("{name}", "{record["size"]}")\n-->'
    findings = [Finding(**finding) for finding in record["findings"]]
    blocks = [_judged(key, [f for f in findings if f.claim == key]) for key in dict.fromkeys(f.claim for f in findings)]
    return "\n\n".join([_how(record), pictures, *blocks])


def _how(record: Record) -> str:
    kind = {"full": "**Full run**", "small": "**Small run**, beside the full one and not instead of it"}[record["size"]]
    return (
        f"{kind}: `{record['sizes']}`, seed {record['seed']}, {record['jobs']} at once on {record['cores']} cores, "
        f"{record['seconds']:,.0f} s, commit `{record['commit']}`."
    )


def _judged(key: str | None, findings: list[Finding]) -> str:
    """A quotation with its verdict and what it rests on; or what is ours to say."""
    head = f"{quoted(CLAIMS[key])}\n\nVerdict: **{overall(findings)}**." if key else "Ours, not the paper's:"
    return "\n\n".join([head, "\n".join(f"- **{_word(f.held)}**: {f.statement}: {f.evidence}." for f in findings)])


def quoted(claim: Claim) -> str:
    return f"> “{claim.quotation}” ({_where(claim)})"


def _where(claim: Claim) -> str:
    return claim.section if claim.section == "Abstract" else f"Section {claim.section}"


def _word(held: bool | None) -> str:
    return {True: "held", False: "did not hold", None: "undecided"}[held]


def summary(found: dict[str, list[Record]]) -> str:
    """Every quotation in one table: its verdict in the full and in the small run."""
    verdicts: dict[str, dict[str, str]] = {key: {} for key in CLAIMS}
    for runs in found.values():
        for record in runs:
            findings = [Finding(**finding) for finding in record["findings"]]
            for key in {finding.claim for finding in findings} - {None}:
                verdicts[key][record["size"]] = overall([f for f in findings if f.claim == key])
    lines = ["| the paper says | full run | small run | judged by `unbounded paper` |", "|---|---|---|---|"]
    for key, claim in CLAIMS.items():
        cells = [verdicts[key].get(size, "not run yet") for size in SHOWN]
        lines.append(f"| “{claim.quotation}” ({_where(claim)}) | {cells[0]} | {cells[1]} | `{claim.experiment}` |")
    return "\n".join(lines)


def todo(found: dict[str, list[Record]]) -> str:
    """Which full runs the repository lacks."""
    lacking = [name for name, runs in found.items() if "full" not in {record["size"] for record in runs}]
    if not lacking:
        return "All full runs are in the repository."
    lines = [f"- `unbounded paper {name} --data FOLDER -j 16`: `{load(name).full}`" for name in lacking]
    return "\n".join(["Full runs that are still to be done:", "", *lines])


def main(runs: Path | None) -> None:
    if runs is not None:
        take_over(runs)
    (DOCS / "paper.md").write_text(page())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
