"""What a report says, of every kind of run and of runs that lack something."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from page_runs import BRIEF, KINDS, ok, rows
from typer.testing import CliRunner

import unbounded as ub
from unbounded.chain.run import Chain
from unbounded.chain.store import RunStore, read_arrays, write_arrays
from unbounded.cli.commands import app
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.models.groups import point_estimate as topics
from unbounded.models.groups import show
from unbounded.models.mixtures import describe
from unbounded.report import looks, page, svg
from unbounded.report.view import View
from unbounded.round import PHASES


def content(run):
    return (run / "report.html").read_text()


@pytest.fixture
def copy(runs, tmp_path):
    """A copy of a run that may be damaged, and its report made again."""

    def made(kind, damage):
        run = tmp_path / kind
        shutil.copytree(runs[kind], run)
        damage(run)
        ok("report", run)
        return content(run)

    return made


class Balanced(HTMLParser):
    """Every element that opens is closed, in order."""

    VOID = ("meta", "img")

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.mark.parametrize("kind", KINDS)
def test_one_small_file_that_needs_nothing(runs, kind):
    text = content(runs[kind])
    parser = Balanced()
    parser.feed(re.sub(r"<(path|image)([^>]*)/>", r"<\1\2></\1>", text))
    assert parser.wrong == parser.open == []
    assert len(text) < 300_000
    outside = [
        url for url in re.findall(r'(?:src|href)="([^"]*)"', text) if not url.startswith("data:image/png;base64,")
    ]
    assert outside == []
    assert not re.search(r"url\(|@import|<script|<link", text)


@pytest.mark.parametrize("kind", KINDS)
def test_exactness_is_at_the_top(runs, kind):
    text = content(runs[kind])
    head = text.partition("</header>")[0]
    assert ("APPROXIMATE" in head) == (kind == "approximate")
    assert ('badge good">EXACT' in head) == (kind != "approximate")
    assert "TOO SHORT TO JUDGE" in head
    rule = "the published rule" if kind == "approximate" else "ghosts"
    assert f"hybrid sampler with {rule}" in text
    assert "None" not in re.sub('<style>.*?</style>|data:image[^"]*', "", text)  # plain words, no Python


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_comes_first(runs, kind):
    """What was found, in words and a picture; whether to trust it; then everything else."""
    text = content(runs[kind])
    titles = re.findall(r"<h2>([^<]*)</h2>", text)
    assert titles[:2] == ["What was found", "Can it be trusted?"]
    answer = text.partition("<h2>What was found</h2>")[2].partition("</section>")[0]
    assert re.search(r"\d+ (clusters|topics|features) in the best summary of the draws; their number is ", answer)
    assert '<div class="answer">' in answer
    assert answer.count("<svg") >= 2
    trust = text.partition("<h2>Can it be trusted?</h2>")[2].partition("</section>")[0]
    assert "Convergence: not judged" in trust
    assert ("NOT EXACT" in trust) == (kind == "approximate")
    assert text.count("<summary>") >= 5  # help inside the page


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_the_trace_is_explained(runs, kind):
    names = json.loads((runs[kind] / "chain-0" / "trace.jsonl").read_text().splitlines()[0])
    said = content(runs[kind]).partition("What the names mean</summary>")[2].partition("</details>")[0]
    assert len(names) > 4
    assert [name for name in names if f"{name}: " not in said] == ["draw"]


def test_what_was_fitted(runs):
    assert "Gaussian likelihood, 180 rows, 3 columns" in content(runs["mixture"])
    assert "<p>2,160 words, 25 different words, 54 documents" in content(runs["topics"])
    assert "linear Gaussian likelihood, 200 rows, 36 columns" in content(runs["features"])
    text = content(runs["mixture"])
    for said in (
        json.loads((runs["mixture"] / "run.json").read_text())["data"],
        ub.__version__,
        np.__version__,
        "threads",
    ):
        assert said in text


def test_sections_of_every_model(runs):
    titles = {kind: re.findall(r"<h2>([^<]*)</h2>", content(runs[kind])) for kind in KINDS}
    common = ["Traces", "Diagnostics", "Time", "Settings"]
    atoms = {"topics": "Topics", "features": "Features"}
    for kind, found in titles.items():
        assert found[2:] == [atoms.get(kind, "Clusters"), *common]
        assert f"Posterior of the number of {found[2].lower()}: most probable" in content(runs[kind])
    assert "Trace of holdout" in content(runs["mixture"])
    assert "Trace of holdout" not in content(runs["approximate"])


def test_every_scalar_has_a_trace_of_every_chain(runs):
    text = content(runs["mixture"])
    names = json.loads((runs["mixture"] / "chain-0" / "trace.jsonl").read_text().splitlines()[0])
    constant = re.search(r"The same in every draw: ([^<]*)[.]</p>", text)
    still = {word.split(" = ")[0] for word in constant[1].split(", ")} if constant else set()
    assert still <= {"n_clusters", "above_0.1%", "above_1%"}
    for name in names.keys() - {"draw"} - still:
        (drawn,) = re.findall(rf'aria-label="Trace of {name}: 3 chains, mean [^"]*">(.*?)</svg>', text)
        assert drawn.count('class="line') == 3
    assert "not judged" in text
    assert "R-hat of one chain" not in text
    assert "R-hat of one chain" in content(runs["approximate"])


def test_clusters_are_drawn_where_the_data_are_at_hand(runs, copy):
    assert "(linear discriminants)" in content(runs["mixture"])
    assert "180 of 180 rows" in content(runs["mixture"])
    gone = copy("mixture", lambda run: _edit(run / "command.json", data=str(run / "gone.npy")))
    assert "linear discriminants" not in gone
    assert "what distinguishes it" not in gone
    assert "The data are not at hand" in gone
    assert "Sizes: " in gone
    np.save(runs["data"].parent / "other.npy", rows() + 1e-9)
    assert "The data have changed since the fit" in copy_of(runs, "approximate", "other.npy")


def copy_of(runs, kind, data):
    run = runs[kind].parent / f"{kind}-copy"
    shutil.copytree(runs[kind], run)
    _edit(run / "command.json", data=str(runs["data"].parent / data))
    ok("report", run)
    return content(run)


def _edit(path, **changes):
    """On purpose, and so without its checksum."""
    content = {name: value for name, value in json.loads(path.read_text()).items() if name != "sha256"}
    path.write_text(json.dumps(content | changes))


def _older(path, **other):
    """The checkpoint as older versions wrote it: it knows of no other file. other: what is to be in it."""
    arrays = {name: value for name, value in read_arrays(path).items() if name not in ("files", "exact")}
    write_arrays(path, arrays | other)


def test_interrupted_runs(runs, copy):
    text = content(runs["interrupted"])
    assert "Interrupted or still running: 30 + 22 draws so far of 3 x 30." in text
    assert "From 2 x 22 draws" in text

    def barely(run):  # the second chain has hardly begun
        _older(run / "chain-1" / "checkpoint.ub", n_draws=np.array(3))
        trace = run / "chain-1" / "trace.jsonl"
        trace.write_text("".join(trace.read_text().splitlines(keepends=True)[:3]) + '{"n_clus')

    text = copy("interrupted", barely)
    assert "30 + 3 draws" in text
    assert "From 1 x 30 draws" in text
    assert "Chains that have just begun are left out" in text


def test_runs_without_whole_draws_or_times(copy):
    def strip(run):
        for name in ("chain-*/snapshots/*", "chain-*/timing.json", "about.json"):
            for path in run.glob(name):
                path.unlink()
        for path in run.glob("chain-*/checkpoint.ub"):
            _older(path)

    text = copy("approximate", strip)
    assert "yet: whole draws are too few (0)." in text
    assert "No times were recorded" in text
    assert "APPROXIMATE" in text.partition("</header>")[0]


def test_topics_without_their_vocabulary(copy):
    text = copy("topics", lambda run: _edit(run / "command.json", vocabulary=str(run / "gone.txt")))
    assert "alert(1)" not in text
    assert re.search(r'class="text wide">(\d+ ){9}\d+<', text)


def test_terminals_are_not_obeyed(runs, tmp_path):
    """Names of words and of files are written out: no escape sequence, no markup of the console."""
    for name in ("summary.txt", "topics.txt"):
        words = (runs["topics"] / name).read_text()
        assert "\x1b" not in words
        assert r"\x1b[31mred" in words
    said = ok("report", runs["topics"], "--out", tmp_path / "[red].html")
    assert "[red].html" in said.replace("\n", "")


def test_python_and_command_line(runs, tmp_path):
    assert ub.report(runs["estimator"], tmp_path / "page.html", X=rows()) == tmp_path / "page.html"
    assert "200 of 200 rows" in (tmp_path / "page.html").read_text()
    ok("report", runs["estimator"], "--out", tmp_path / "other.html")
    assert "The data are not at hand" in (tmp_path / "other.html").read_text()
    with pytest.raises(ValueError, match="on clusters has no use for 'shape'; it can use X, loss, merge_cost"):
        ub.report(runs["estimator"], tmp_path / "none.html", at_hand={"shape": (2, 1)})
    plain = ub.DirichletProcessMixture(n_shards=2, n_chains=1, n_warmup=1, n_draws=4, init="one", random_state=0).fit(
        rows()
    )
    with pytest.raises(ValueError, match="checkpoint"):
        plain.report(tmp_path / "none.html")
    for path, message in ((tmp_path, "holds no run"), (_begun(tmp_path / "begun"), "no draws yet")):
        result = CliRunner().invoke(app, ["report", str(path)])
        assert result.exit_code == 2
        assert message in result.stderr


def _begun(path):
    store = RunStore(path)
    store.prepare({"model": "DirichletProcessMixture"})
    store.chain(0).prepare()
    return path


# ---- diagnostics


def made(series, n_draws=None):
    """A run with one scalar, given as a list of chains."""
    chains = [Chain(True, [{"n_clusters": 3, "alpha": float(v)} for v in one]) for one in series]
    config = {
        "model": "DirichletProcessMixture", "likelihood": {"name": "Gaussian"}, "instantiate": {"name": "Ghosts"},
        "n_chains": len(chains), "n_draws": n_draws or len(series[0]), "n_warmup": 0, "thin": 1,
    }  # fmt: skip
    return View("made", config, {}, chains, [], None)


@pytest.mark.parametrize(
    ("shift", "stickiness", "bad"),
    [(0.0, 0.0, set()), (1.0, 0.0, {"r_hat", "ess_bulk"}), (0.0, 0.995, {"ess_bulk", "ess_tail", "r_hat"})],
)
def test_bad_diagnostics_are_marked(shift, stickiness, bad):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 1000))
    for t in range(1, 1000):
        noise[:, t] += stickiness * noise[:, t - 1]
    run = made(noise + shift * np.arange(4)[:, None])
    found = run.convergence
    marked = set(found.problems("alpha")) - {"drift"}
    assert marked >= bad
    assert bool(marked) == bool(bad)
    assert found.problems("n_clusters") == ()
    text = page.render(run)
    assert text.count('class="flag"') == len(marked)
    assert ("have not converged: alpha" in text) == bool(bad)


@pytest.mark.parametrize("n_draws", [1, 2, 3, 5])
def test_few_draws_and_odd_values(n_draws):
    values = np.array([[np.nan, np.inf, -np.inf, 1e300, 1e-300][:n_draws]] * 2)
    text = page.render(made(values, 9))
    assert "Interrupted" in text
    assert ">nan<" not in text
    assert "nan " not in re.sub("aria-label.*?>", "", text)


def test_long_chains_make_a_small_page():
    series = np.random.default_rng(1).normal(size=(10, 20_000))
    series[3, 777] = 99.0
    text = page.render(made(series))
    assert len(text) < 500_000
    x, y = svg._envelope(np.arange(20_000.0), series[3])
    assert y.max() == 99.0
    assert y.min() == series[3].min()
    assert (np.diff(x) > 0).all()


# ---- time


def test_times_add_up_over_sessions_and_leave_the_chain_alone(runs, tmp_path):
    base = ["fit", "dp", runs["data"], "--init", "one", *BRIEF]
    ok(*base, "--out", tmp_path / "a", "--draws", "5")
    before = json.loads((tmp_path / "a" / "chain-0" / "timing.json").read_text())
    ok("resume", tmp_path / "a", "--draws", "12", "--quiet")
    after = json.loads((tmp_path / "a" / "chain-0" / "timing.json").read_text())
    assert (before["rounds"], after["rounds"]) == (15, 22)
    assert set(after["seconds"]) == set(PHASES)
    assert after["seconds"]["start"] == before["seconds"]["start"] > 0
    assert all(
        after["seconds"][name] > before["seconds"][name] > 0 for name in ("global", "local", "record", "checkpoint")
    )
    ok(*base, "--out", tmp_path / "b", "--draws", "12")
    (tmp_path / "a" / "chain-0" / "timing.json").write_text("not JSON")
    for name in ("chain-0/trace.jsonl", "draws.csv", "labels.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "second" not in (tmp_path / "a" / "chain-0" / "trace.jsonl").read_text()
    ok("resume", tmp_path / "a", "--draws", "13", "--quiet")


# ---- charts


@pytest.mark.parametrize(
    ("low", "high", "whole"),
    [(0, 1, False), (-11_900.3, -11_803, False), (3, 4, True), (0, 9e6, True), (0.10476, 0.10502, False)],
)
def test_ticks_are_round_and_inside(low, high, whole):
    found = np.array(svg.ticks(low, high, 5, whole))
    assert 1 <= len(found) <= 7
    assert ((found >= low) & (found <= high)).all()
    assert not whole or (found == np.rint(found)).all()
    labels = svg._labels(tuple(found))
    assert len(set(labels)) == len(labels)
    assert [float(label.replace(",", "")) for label in labels] == pytest.approx(found.tolist())


def test_labels_of_a_chart_give_way():
    """The first one stays; none covers another."""
    frame = svg.Frame(svg.Range(0, 1, "", (0, 1)), svg.Range(0, 1, "", (0, 1)), 300)
    drawn = svg.labels(frame, np.full(9, 0.5), np.full(9, 0.5), [str(k) for k in range(3, 12)])
    places = [tuple(map(float, found)) for found in re.findall(r'x="([\d.]+)" y="([\d.]+)"', drawn)]
    assert places[0] == pytest.approx((float(frame.across(0.5)), float(frame.up(0.5)) + 4.0), abs=0.1)
    for (x, y), (a, b) in itertools.combinations(places, 2):
        assert abs(x - a) > 8.0 or abs(y - b) > 11.0


def test_shares_of_topics_follow_the_draws():
    named = np.repeat([0, 1, 2], [50, 30, 20])
    other = np.repeat([0, 1, 2], [60, 25, 15])
    share = topics.spread(other, named)
    np.testing.assert_allclose(topics.sizes(np.bincount(other), share), [0.6, 0.25, 0.15])
    np.testing.assert_allclose(topics.sizes(np.bincount(named), topics.spread(named, named)), [0.5, 0.3, 0.2])


@pytest.mark.parametrize("value", [1.3843868885550263, 0.0, -2e3, 1e-12])
def test_what_is_constant_but_for_rounding_has_an_axis(value):
    axis = svg.Range.around(np.array([value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)]), "entropy")
    assert axis.low < value < axis.high
    assert len(set(axis.labels())) == len(axis.ticks) >= 2


# ---- what tells atoms apart


@pytest.mark.parametrize("n_groups", [3, 20, 30])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_groups_that_touch_differ_in_colour(n_groups, seed):
    """The cells of a tessellation all touch their neighbours; no two groups look the same."""
    rng = np.random.default_rng(seed)
    points, centres = rng.random((2500, 2)) * [1.0, 1000.0], rng.random((n_groups, 2)) * [1.0, 1000.0]
    groups = ((points[:, None] - centres) / [1.0, 1000.0]).__pow__(2).sum(2).argmin(1)
    ranks = looks.apart(points, groups, n_groups)
    colours, marks = zip(*map(svg.look, ranks), strict=True)
    touching = looks.contacts(points, groups, n_groups) > 0
    alike = np.equal.outer(colours, colours) & ~np.eye(n_groups, dtype=bool)
    assert touching.sum() >= 2 * (n_groups - 1)
    assert not (touching & alike).any()
    assert len(set(zip(colours, marks, strict=True))) == n_groups


def test_looks_of_few_points():
    assert len(looks.apart(np.zeros((1, 2)), np.zeros(1, int), 3)) == 3
    assert len(looks.apart(np.zeros((0, 2)), np.zeros(0, int), 2)) == 2


def test_the_projection_shows_clusters_that_principal_components_hide():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 200)
    rows = rng.normal(size=(600, 10)) * [1, 1, 9, 9, 9, 9, 9, 9, 9, 9]
    rows[:, 0] += 6.0 * (labels == 1)
    rows[:, 1] += 6.0 * (labels == 2)
    names = [f"c{d}" for d in range(10)]
    points, axes, meaning = describe.projection(rows, labels, names)
    assert "linear discriminants" in meaning
    centres = np.stack([points[labels == k].mean(0) for k in range(3)])
    spread = np.mean([points[labels == k].std(0) for k in range(3)])
    gaps = [np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert min(gaps) > 4 * spread
    assert all("c0" in axis or "c1" in axis for axis in axes)
    for few in (np.zeros(600, int), (labels == 1).astype(int)):  # fewer clusters than a plane has directions
        points, _, meaning = describe.projection(rows, few, names)
        assert points.shape == (600, 2)
        assert np.isfinite(points).all()
        assert "principal component" in meaning


def test_categories_do_not_cut_the_picture_into_stripes():
    """Numbers alone are projected where there are two columns of them; codes may be known as words or by their kind."""
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [rng.normal(size=100), rng.integers(0, 3, 100), rng.normal(size=100), rng.integers(0, 2, 100)]
    )
    rows[4, 0] = np.nan
    assert describe.amounts_only(rows, [1, 3], levels=False) == [0, 2]
    assert describe.amounts_only(rows, (), levels=True) == [0, 2]
    assert describe.amounts_only(rows, (), levels=False) == [0, 1, 2, 3]
    assert describe.amounts_only(rows[:, :2], [1], levels=True) == [0, 1]  # one number makes no plane


def test_names_of_axes_fit():
    rows = np.random.default_rng(0).normal(size=(50, 3)) * [3.0, 2.0, 1.0]
    labels = np.zeros(50, int)
    assert describe.projection(rows, labels, ["a", "b", "c"]).axes[0].count(", ") == 1
    for names in (["flipper_length_mm" * 2] * 3, ["x" * 90] * 3):
        assert max(map(len, describe.projection(rows, labels, names).axes)) <= 40


def test_holes_are_filled_with_the_means_of_their_cluster():
    rows = np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0], [np.nan, np.nan]])
    full = describe.filled(rows, np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(full, [[1, 4], [3, 4], [2, 8], [2, 8]])


def test_few_groups_have_a_colour_each():
    points = np.random.default_rng(0).random((800, 2))
    labels = np.arange(800) % svg.N_COLOURS
    assert len({svg.look(rank)[0] for rank in looks.apart(points, labels, svg.N_COLOURS)}) == svg.N_COLOURS


def test_what_distinguishes_a_cluster():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], [300, 200, 100])
    rows = rng.normal(size=(600, 4))
    rows[:, 2] -= 5.0 * (labels == 1)
    rows[:, 3] = np.where(labels == 2, 7, rng.integers(3, size=600))
    rows[5, 2] = np.nan
    marks = describe.distinguishing(rows, labels, ["a", "b", "c", "d"], levels=True)
    assert (marks[1][0].column, marks[1][0].effect < -1) == ("c", True)
    assert (marks[2][0].column, marks[2][0].level, marks[2][0].own) == ("d", "7", 1.0)
    assert marks[2][0].overall == pytest.approx(1 / 6)
    assert all(len(found) <= 3 for found in marks)


def test_names_of_columns_and_what_they_say_are_in_the_report(runs, tmp_path):
    import pandas as pd

    table = pd.DataFrame(rows(), columns=["height", "width", "depth"])
    model = ub.DirichletProcessMixture(
        n_shards=2, n_chains=1, n_warmup=5, n_draws=10, random_state=0, checkpoint=tmp_path / "run"
    ).fit(table)
    text = model.report(tmp_path / "page.html", table).read_text()
    assert "what distinguishes it" in text
    assert re.search(r"(height|width|depth) (high|low): -?[\d.]+ \([+-][\d.]+ sd\)", text)


def test_topics_have_bars_of_words_documents_and_likeness(runs):
    text = content(runs["topics"])
    assert re.search(r'aria-label="Most probable words of topic 0: ', text)
    assert "of documents" in text
    assert "How many of the documents have at least 10% of each topic." in text
    assert "Likeness of topics. The two most alike are " in text


def test_prevalence_counts_documents():
    named = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 1])
    np.testing.assert_allclose(show._present(named, {"group_sizes": [4, 4, 0, 2]}), [2 / 3, 1.0])
    assert show._present(named, {"group_sizes": [4, 4]}) is None


def test_features_have_their_uncertainty(runs):
    text = content(runs["features"])
    assert "Standard deviations of the loadings of feature 0" in text
    assert "with two standard deviations either way" in text
    assert re.search(r"column \d+ -?[\d.]+ ± [\d.]+", text)


def test_features_of_a_file_have_the_names_of_its_columns(tmp_path):
    import pandas as pd

    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["bread", "wine", "cheese"])
    table["wine"] += 5.0 * (np.arange(60) % 2)
    table.to_csv(tmp_path / "shop.csv", index=False)
    ok("fit", "beta-bernoulli", tmp_path / "shop.csv", "--out", tmp_path / "run", *BRIEF)
    ok("report", tmp_path / "run")
    assert re.search(r"(bread|wine|cheese) -?[\d.]+ ± [\d.]+", content(tmp_path / "run"))
    (tmp_path / "shop.csv").unlink()
    ok("report", tmp_path / "run")
    assert "column 1 " in content(tmp_path / "run")


def test_topics_of_rows_say_what_they_are(tmp_path):
    """Rows of a file in any order of their groups, some of them held out: a picture, and what topics are."""
    import pandas as pd

    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(5), 30))
    kinds = rng.integers(0, 2, 150)
    table = pd.DataFrame(rng.normal(size=(150, 3)), columns=["CD3", "CD4", "CD8"])
    table["CD4"] += 9.0 * kinds
    table.to_csv(tmp_path / "cells.csv", index=False)
    np.save(tmp_path / "groups.npy", groups)
    fit = ["fit", "hdp", tmp_path / "cells.csv", "--groups", tmp_path / "groups.npy", "--likelihood", "gaussian"]
    ok(*fit, "--out", tmp_path / "run", "--holdout", "0.2", *BRIEF)
    ok("report", tmp_path / "run")
    text = content(tmp_path / "run")
    assert "120 of 120 rows, coloured by topic" in text
    assert re.search(r"CD4 (high|low): [\d.-]+ \([+-][\d.]+ sd\)", text)
    assert text.count("How many of the groups have at least 10% of each topic.") == 1
    assert "token" not in re.sub("<style>.*?</style>", "", text)
    settings = {"n_chains": 1, "n_warmup": 5, "n_draws": 10, "n_shards": 2, "random_state": 0}
    model = ub.HierarchicalDirichletProcess("gaussian", **settings, checkpoint=tmp_path / "python").fit(table, groups)
    assert "150 of 150 rows, coloured by topic" in model.report(tmp_path / "page.html", table).read_text()
    assert "The data are not at hand" in model.report(tmp_path / "page.html").read_text()


def test_deviations_of_loadings_are_those_over_draws():
    rng = np.random.default_rng(2)
    Z = rng.integers(0, 2, (50, 2))
    loadings = np.array([[5.0, 0.0, 0.0], [0.0, 0.0, -4.0]])
    draws = [FeatureDraw(Z, loadings + 0.1 * rng.normal(size=(2, 3)), 0.0) for _ in range(40)]
    estimate = point_estimate(draws)
    order = np.argsort(-Z.sum(0), kind="stable")
    np.testing.assert_allclose(estimate.deviations, np.std([draw.loadings[order] for draw in draws], axis=0))
    np.testing.assert_array_equal(estimate.shared, [1.0, 1.0])


@pytest.mark.parametrize(
    ("shift", "n_draws", "chains", "said"),
    [
        (0.0, 400, 2, ""),
        (0.0, 20, 2, "The run is too short to judge; this may change."),
        (3.0, 400, 2, "The chains do not agree yet; this may change."),
        (3.0, 400, 1, "The chain has not settled yet; this may change."),
    ],
)
def test_an_answer_that_may_change_says_so(shift, n_draws, chains, said):
    noise = np.random.default_rng(0).normal(size=(chains, n_draws))
    noise[0, : n_draws // (1 if chains > 1 else 2)] += shift
    text = page.render(made(noise))
    lead = text.partition('<p class="lead">')[2].partition("</p>")[0]
    assert said in lead
    assert ("may change" in lead) == bool(said)
    trust = text.partition("Can it be trusted?")[2].partition("</section>")[0]
    assert ("Which numbers, and by how much" in trust) == (n_draws == 400 and bool(said))
    assert "R-hat" not in trust.partition("<details")[0]  # plain words first


def test_numbers_of_clusters_are_whole():
    chains = [Chain(True, [{"n_clusters": k, "above_1%": 3.0} for k in (19, 21) * 60]) for _ in range(2)]
    run = made(np.zeros((2, 120)))
    text = page.render(View(run.name, run.config, {}, chains, [], None))
    assert "<dd>19 to 21<small>90% interval; median 19; 3 with more than 1% of the rows</small></dd>" in text


def test_settings_in_words(runs):
    text = content(runs["mixture"]).partition("<h2>Settings</h2>")[2]
    assert "Dirichlet process; concentration: learned, with the prior Gamma(1, 1)" in text
    assert "discount" not in text
    assert "merges tried at once, at most: 10" in text


def test_scalars_that_never_moved_are_said():
    text = page.render(made(np.random.default_rng(0).normal(size=(2, 200))))
    assert "The same in every draw: n_clusters = 3." in text
    assert "Trace of n_clusters" not in text
    assert "Trace of alpha" in text
