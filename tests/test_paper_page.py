"""The page on the paper: written from digests alone, and its quotations can be compared with a text."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUNS = sorted((ROOT / "docs" / "paper" / "runs").glob("*/*/verdict.json"))
sys.path.insert(0, str(ROOT))

from experiments import NAMES, quotations, report  # noqa: E402
from experiments.claims import CLAIMS  # noqa: E402

TEXT = r"""
\begin{abstract} Samplers \emph{mix}
  slowly~\citep{Somebody:1999}. \end{abstract}
\section{\uppercase{Introduction}}
A ``warm'' start---as we \textbf{show} in Figure~\ref{fig:one}\footnote{On a {large} machine.}---is
$1/P$ of the work. % no
\subsection{Data}\label{sec:data}
It took 5\% longer, on average, than \citet[see][]{Else:2000} had hoped.
\appendix
\section{More}
The rest is here.
"""


@pytest.mark.parametrize(
    ("words", "section"),
    [
        ("Samplers mix slowly", "Abstract"),
        ("A “warm” start", "1"),
        ("as we show in Figure", "1"),
        ("is 1/P of the work.", "1"),
        ("A … is 1/P of the work.", "1"),
        ("It took 5% longer, on average, than", "1.1"),
        ("The rest is here.", "A"),
    ],
)
def test_quotations_are_found_through_markup(words, section):
    there = [number for number, text in quotations.sections(TEXT) if quotations.is_in(words, text)]
    assert there == [section]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("> “Samplers mix slowly” (Abstract)", None),
        ("> “The rest is\n> here.” (Section A)", None),
        ("> “Samplers mix quickly” (Abstract)", "not in the text"),
        ("> “samplers mix slowly” (Abstract)", "not in the text"),
        ("> “work … start” (Section 1)", "not in the text"),
        ("> “Samplers mix slowly” (Section 1)", "not in section 1 but in Abstract"),
        ("> “The rest is here.”", "without a section"),
    ],
)
def test_what_is_wrong_with_a_page_is_said(page, problem):
    said = quotations.problems(page, TEXT)
    assert said == [] if problem is None else problem in said[0]


def test_text_without_headings_is_compared_by_words():
    assert quotations.problems("“plain words” (Section 3)", "Some plain\nwords.") == []


def test_the_script_fails_where_a_quotation_is_not_found(tmp_path):
    text, page = tmp_path / "text.tex", tmp_path / "page.md"
    text.write_text(TEXT)
    for words, status in (("The rest is here.", 0), ("The rest is there.", 1)):
        page.write_text(f"> “{words}” (Section A)\n")
        command = [sys.executable, "-m", "experiments.quotations", page, text]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
    page.write_text("Nothing is quoted.\n")
    assert quotations.main(page, text) == 1


def test_every_claim_is_quoted_on_the_page_and_nothing_else():
    page = (ROOT / "docs" / "paper.md").read_text()
    on_page = {quotation.words for quotation in quotations.quotations(page)}
    assert on_page == {claim.quotation for claim in CLAIMS.values()}


def test_every_claim_is_judged_by_the_experiment_that_it_names():
    sources = {name: (ROOT / "experiments" / f"{name.replace('-', '_')}.py").read_text() for name in NAMES}
    for key, claim in CLAIMS.items():
        assert [name for name, source in sources.items() if f'"{key}"' in source] == [claim.experiment], key


@pytest.mark.data
@pytest.mark.skipif("UNBOUNDED_PAPER" not in os.environ, reason="no text of the paper (set UNBOUNDED_PAPER)")
def test_quotations_are_the_papers():
    text = Path(os.environ["UNBOUNDED_PAPER"]).read_text()
    assert quotations.problems((ROOT / "docs" / "paper.md").read_text(), text) == []


# ---- the page


def test_writing_the_page_again_changes_nothing():
    """Every number on it comes from the digests in the repository: `make paper-docs` after a change of words."""
    assert report.page() == (ROOT / "docs" / "paper.md").read_text()


def test_digests_are_small_and_name_their_commit():
    for file in RUNS:
        record = json.loads(file.read_text())
        assert record["experiment"] == file.parts[-3] in NAMES
        assert record["size"] == file.parts[-2]
        assert record["commit"]
        here = {key for key, claim in CLAIMS.items() if claim.experiment == record["experiment"]}
        assert {finding["claim"] for finding in record["findings"]} <= {None, *here}
        assert file.with_name("plotted.csv").exists()
        assert all(table.stat().st_size < 300_000 for table in file.parent.glob("*.csv"))


@pytest.mark.parametrize("file", RUNS, ids=lambda file: "-".join(file.parts[-3:-1]))
def test_figures_are_drawn_from_digests(file):
    """All that they show has come from there: lines or marks in every part."""
    for figure in report.drawn(*file.parts[-3:-1]):
        parts = [part for part in figure.axes if part.get_label() != "<colorbar>"]
        assert parts
        for part in parts:
            shown = [*part.lines, *part.collections, *part.images, *part.texts]
            assert shown or not part.axison


def run_of(folder: Path, **changes: object) -> None:
    """A run of `exactness` with two findings, and a curve of forty rounds."""
    folder.mkdir(parents=True)
    findings = [
        {"statement": "it is", "held": False, "evidence": "1 and 2", "claim": "guarantees"},
        {"statement": "so is this", "held": True, "evidence": "3", "claim": None},
    ]
    record = {
        "experiment": "exactness", "about": "", "verdict": "held in part", "findings": findings, "size": "small",
        "sizes": "Sizes(1)", "seed": 0, "cores": 2, "jobs": 1, "commit": "abc", "data": False, "seconds": 3.2,
    }  # fmt: skip
    (folder / "verdict.json").write_text(json.dumps(record | changes))
    lines = [f"a,{r},{r / 3}" for r in range(40)] + [f"b,{r},{r / 7}" for r in range(40)]
    (folder / "plotted.csv").write_text("\n".join(["method,round,score", *lines]) + "\n")


def test_runs_go_into_digests_and_digests_into_the_page(tmp_path):
    run_of(tmp_path / "run" / "exactness" / "small")
    docs = tmp_path / "docs"
    report.take_over(tmp_path / "run", docs)
    with (docs / "paper" / "runs" / "exactness" / "small" / "plotted.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [sum(row["method"] == m for row in rows) for m in "ab"] == [len(rows) // 2] * 2
    assert report.POINTS - 3 < len(rows) // 2 <= report.POINTS
    assert [rows[i]["round"] for i in (0, len(rows) // 2 - 1)] == ["0", "39"]
    assert rows[len(rows) // 2 - 1]["score"] == "13"
    text = report.page(docs)
    assert f"> “{CLAIMS['guarantees'].quotation}” (Abstract)\n\nVerdict: **did not hold**." in text
    assert "- **held**: so is this: 3." in text
    assert 'drawn("exactness", "small")' in text
    assert "`unbounded paper exactness --data FOLDER -j 16`" in text


def test_a_template_that_forgets_an_experiment_is_refused(tmp_path):
    template = tmp_path / "template"
    template.write_text("{{claims}}\n{{todo}}\n{{exactness}}\n")
    with pytest.raises(ValueError, match="must have all of"):
        report.page(tmp_path, template)
