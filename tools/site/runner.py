"""Runs the blocks of pages (`pages.py` gives them on standard input), and writes down what they leave.

Each page runs in a process of its own, in an empty folder. They are forks of this one, which has imported what takes
long: twenty pages take the time of one import.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

DOTS = 150  # per inch of a picture: twice what a page shows
SEVERAL = 5  # pages, for which it pays to load what they share beforehand


def main() -> None:
    for name in ("matplotlib.pyplot", "pandas", "sklearn.mixture", "unbounded.public"):
        importlib.import_module(name)
    works = json.load(sys.stdin)
    if len(works) > SEVERAL:
        load_kernels()
    for work in works:
        with tempfile.TemporaryDirectory(prefix="unbounded-page-") as scratch:
            child = os.fork()
            if child == 0:
                os._exit(run_page(work, scratch))
            if os.waitpid(child, 0)[1] != 0:
                sys.exit(f"{work['page']} does not run.")


def load_kernels() -> None:
    """Compiled code that most pages use, read from disk once for all of them. Nothing here leaves a thread behind,
    which forks would not have."""
    import numpy as np

    import unbounded as ub

    rows = np.random.default_rng(0).normal(size=(60, 2))
    brief: dict[str, Any] = {"engine": "serial", "n_chains": 1, "n_shards": 2, "n_warmup": 4, "n_draws": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ub.DirichletProcessMixture(**brief).fit(rows).predict(rows)
        ub.HierarchicalDirichletProcess(**brief).fit(["one two three", "two three four"] * 10)
        ub.BetaBernoulliFeatures(**brief).fit(rows)


def run_page(work: dict[str, Any], scratch: str) -> int:
    """0, or 1 and words on standard error."""
    os.chdir(scratch)
    names: dict[str, Any] = {"__name__": "__main__", "__file__": work["page"]}
    folder = Path(work["folder"])
    left = []
    for number, (code, line) in enumerate(work["blocks"]):
        try:
            outcome, value = run(code, line, work["page"], names)
            left.append(outcome | {"pictures": pictures(folder, number, value)})
        except BaseException:
            print(traceback.format_exc(), f"in the block of line {line}.", file=sys.stderr, flush=True)
            return 1
    result = {"digest": work["digest"], "outcomes": left}
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    return 0


def run(code: str, line: int, page: str, names: dict[str, Any]) -> tuple[dict[str, str], Any]:
    """What is shown of a block, and the value that it ends with. Warnings are shown as output: a page that hides one
    would promise what readers do not get."""
    tree = ast.parse(code, page)
    ast.increment_lineno(tree, line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        exec(compile(tree, page, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), page, "eval"), names)
    said = [f"{one.category.__name__}: {one.message}" for one in warned if ours(one)]
    silent = code.rstrip().endswith(";")
    text = "\n".join(filter(None, [out.getvalue().rstrip(), *said]))
    return {"text": text, "table": "" if silent else table(value)}, None if silent else value


def ours(warning: warnings.WarningMessage) -> bool:
    """Of this library, not of those that it uses."""
    return warning.category.__module__.partition(".")[0] == "unbounded"


def table(value: Any) -> str:
    """A data frame at the end of a block is shown, as in a notebook."""
    if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_html"):
        shown: str = value.to_html(border=0, float_format=figures)
        return shown
    return ""


def figures(number: float) -> str:
    """Three of them, or as many as a whole number has: 0.0123, 39.1, 3,750."""
    return f"{number:,.0f}" if 1_000 <= abs(number) < 1e9 else f"{number:.3g}"


def pictures(folder: Path, number: int, value: Any) -> list[tuple[str, str]]:
    """All figures that are open, and those that the block ends with, as files; what they show is their label, or the
    title of the first part that has one."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    made = []
    ended = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Figure)]
    for index, figure in enumerate([*map(plt.figure, plt.get_fignums()), *ended], 1):
        titles = [figure.get_label(), figure.get_suptitle(), *(part.get_title() for part in figure.axes)]
        name = f"{number}-{index}.png"
        figure.savefig(folder / name, dpi=DOTS, bbox_inches="tight")
        made.append((name, next(filter(None, titles), "what the code above draws")))
    plt.close("all")
    return made


if __name__ == "__main__":  # workers that a page starts import this file
    main()
