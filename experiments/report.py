"""Put what runs found into docs/paper.md: figures, verdicts and sizes between the marks of each experiment.

python -m experiments.report paper-run
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from experiments import NAMES, load

PAGE = Path(__file__).resolve().parents[1] / "docs" / "paper.md"
COLOURS, LARGEST = 128, 200_000  # of a picture, and its bytes


def section(folder: Path, page: Path) -> str:
    """The text of one run, whose pictures are copied beside the page."""
    record = json.loads((folder / "verdict.json").read_text())
    pictures = [_copied(path, page, record["experiment"]) for path in sorted(folder.glob("*.png"))]
    lines = [f"![{record['experiment']}]({picture})" for picture in pictures]
    found = [f"- **{_word(f['held'])}**: {f['statement']}: {f['evidence']}." for f in record["findings"]]
    return "\n\n".join([*lines, f"{_how(record)} Verdict: **{record['verdict']}**.", "\n".join(found)])


def _copied(path: Path, page: Path, name: str) -> str:
    """A copy in few colours, which keeps the repository small."""
    target = page.parent / "paper" / (f"{name}.png" if path.stem == "figure" else f"{name}-{path.stem}.png")
    target.parent.mkdir(exist_ok=True)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)
    if target.stat().st_size > LARGEST:
        raise ValueError(f"{target} has more than {LARGEST} bytes.")
    return f"paper/{target.name}"


def _word(held: bool | None) -> str:
    return {True: "held", False: "did not hold", None: "undecided"}[held]


def _how(record: dict[str, Any]) -> str:
    experiment = load(record["experiment"])
    sizes = experiment.quick if record["quick"] else experiment.full
    kind = "A quick run (small sizes, indicative only)" if record["quick"] else "A full run"
    return f"{kind}, `{sizes}`, seed {record['seed']}, {record['seconds']:.0f} s on {record['cores']} cores."


def update(page: Path, runs: Path) -> None:
    text = page.read_text()
    for name in NAMES:
        if (runs / name / "verdict.json").exists():
            marks = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
            filled = section(runs / name, page)
            text = marks.sub(lambda found, filled=filled: f"{found[1]}{filled}\n{found[2]}", text)  # type: ignore[misc]
    page.write_text(text)


if __name__ == "__main__":
    update(PAGE, Path(sys.argv[1]))
