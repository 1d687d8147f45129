from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # browser.py and pages.py


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run of every kind with its report."""
    from page_runs import BRIEF, interrupted, ok, rows, write_data

    from unbounded import DirichletProcessMixture

    folder = tmp_path_factory.mktemp("pages")
    write_data(folder)
    data, mix = folder / "rows.npy", ["fit", "dp", folder / "rows.npy", "--init", "one", *BRIEF]
    ok(*mix, "--out", folder / "mixture", "--chains", "3", "--holdout", "0.1")
    ok(*mix, "--out", folder / "approximate", "--instantiate", "published-cold")
    with pytest.MonkeyPatch.context() as patch:
        interrupted(patch, 40 + 32)
        ok(*mix, "--out", folder / "interrupted", "--chains", "3", status=130)
    topics = ["--vocabulary", folder / "words.txt", "--holdout", "0.1", "--chains", "2", "--init", "3"]
    ok("fit", "hdp", folder / "docs.npz", "--out", folder / "topics", *BRIEF, *topics)
    glyphs = ["--shape", "6x6", "--holdout", "0.05", "--chains", "2"]
    ok("fit", "beta-bernoulli", folder / "glyphs.npy", "--out", folder / "features", *BRIEF, *glyphs)
    made = {name: folder / name for name in ("mixture", "approximate", "interrupted", "topics", "features")}
    for run in made.values():
        ok("report", run)
    DirichletProcessMixture(
        n_shards=2,
        n_chains=1,
        n_warmup=10,
        n_draws=30,
        n_workers=1,
        init="one",
        random_state=0,
        checkpoint=folder / "estimator",
    ).fit(rows()).report()
    return made | {"estimator": folder / "estimator", "data": data}
