"""What must work in a clean environment that has the wheel and nothing else: `make test-pythons` runs it there.

It is a script without pytest, which is not there either: `python tests/installed.py VERSION`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import unbounded as ub
from unbounded.chain import importing
from unbounded.datasets import load_cells, load_glyphs, load_news, load_penguins

BRIEF = {"n_warmup": 10, "n_draws": 20, "n_shards": 2, "random_state": 0}
NUMBERS = np.repeat([-4.0, 4.0], 40)[:, None] + np.random.default_rng(0).normal(size=(80, 2))
COUNTS = np.random.default_rng(1).poisson(2.0, (40, 5)).astype(float)


def mixtures() -> None:
    for estimator in (ub.DirichletProcessMixture, ub.PitmanYorMixture):
        model = estimator(**BRIEF).fit(NUMBERS)
        assert model.predict_proba(NUMBERS).shape == (80, model.n_clusters_)
        assert model.sample(3).shape == (3, 2)
        assert np.isfinite(model.score(NUMBERS))
    penguins = load_penguins()
    table = penguins.frame.drop(columns="species").dropna(subset="body_mass_g")
    numbers = list(table.select_dtypes("number"))
    parts = ub.Product(("diagonal_gaussian", numbers), ("categorical", [n for n in table if n not in numbers]))
    assert ub.DirichletProcessMixture(parts, **BRIEF).fit(table).n_clusters_ >= 1
    assert ub.DirichletProcessMixture("poisson", **BRIEF).fit(COUNTS).n_clusters_ >= 1
    assert load_cells(50).data.shape[0] == 50


def groups() -> None:
    news = load_news(40)
    model = ub.HierarchicalDirichletProcess(**BRIEF).fit(news.data)
    assert model.transform(news.data[:3]).shape == (3, model.n_topics_)
    assert model.top_words(n_words=3)
    rows = ub.HierarchicalDirichletProcess(**BRIEF).fit(NUMBERS, np.arange(80) % 5)
    assert rows.proportions_.shape == (5, rows.n_topics_)


def features() -> None:
    images = load_glyphs(60).data
    for estimator in (ub.BetaBernoulliFeatures, ub.GammaPoissonFeatures, ub.BetaNegativeBinomialFeatures):
        model = estimator(**BRIEF).fit(images)
        assert model.transform(images[:4]).shape == (4, model.n_atoms_)
    assert ub.BetaBernoulliFeatures("poisson_factors", **BRIEF).fit(COUNTS).exact_


def draws_for_arviz() -> None:
    """Both ArviZ 0.x and 1.x, whichever pip has brought: summaries, leaving one out, and rows beside new rows."""
    arviz = importing.arviz()  # ArviZ 0.x by itself is not imported where there is no home
    first = arviz.__version__.startswith("0.")
    longer = BRIEF | {"n_draws": 60}
    news = load_news(40).documents
    fitted = {
        "rows": (ub.DirichletProcessMixture(**longer).fit(NUMBERS), NUMBERS),
        "counts": (ub.PitmanYorMixture("poisson", **longer).fit(COUNTS), COUNTS),
        "parts": (ub.BetaBernoulliFeatures(**longer).fit(NUMBERS), NUMBERS),
        "words": (ub.HierarchicalDirichletProcess(**longer).fit(news), news),
    }
    for name, (model, given) in fitted.items():
        data = model.to_arviz(given, posterior_predictive=True)
        assert type(data).__name__ == ("InferenceData" if first else "DataTree")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of so few draws
            found = arviz.loo(data)
            assert len(arviz.summary(model.to_arviz())) > 2
        assert np.isfinite(float(found.elpd_loo if first else found.elpd)), name
        if name in ("rows", "counts"):
            drawn = arviz.plot_ppc(data) if first else arviz.plot_ppc_dist(data)
            assert drawn is not None


def runs_and_commands(folder: Path) -> None:
    settings = {**BRIEF, "checkpoint": folder / "run"}
    ub.DirichletProcessMixture(**settings).fit(NUMBERS)
    longer = ub.DirichletProcessMixture(**settings | {"n_draws": 30}).fit(NUMBERS)
    assert longer.posterior_.equals(ub.DirichletProcessMixture(**BRIEF | {"n_draws": 30}).fit(NUMBERS).posterior_)
    assert longer.report(X=NUMBERS).exists()
    (folder / "table.csv").write_text("a,b\n" + "\n".join(f"{x:.3f},{y:.3f}" for x, y in NUMBERS))
    fit = ["fit", "dp", str(folder / "table.csv"), "--out", str(folder / "other"), "--warmup", "5", "--draws", "5"]
    for words in (fit, ["report", str(folder / "other")]):
        done = subprocess.run([sys.executable, "-m", "unbounded", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (folder / "other" / "report.html").exists()


def main(version: str) -> None:
    assert ub.__version__ == version
    assert Path(ub.__file__).is_relative_to(sys.prefix), f"{ub.__file__} is not the wheel's."
    warnings.filterwarnings("ignore", "the chains? ha(s|ve) not converged")
    mixtures()
    groups()
    features()
    draws_for_arviz()
    with tempfile.TemporaryDirectory() as folder:
        runs_and_commands(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
