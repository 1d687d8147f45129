"""scikit-learn, pandas and ArviZ, as their users expect: names, words, generators, groups of draws, good sentences."""

from __future__ import annotations

import re
import sys

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils import Bunch
from typer.testing import CliRunner

import unbounded as ub
from unbounded import Categorical, DirichletProcessMixture, Gaussian, HierarchicalDirichletProcess, Product, datasets
from unbounded.cli.commands import app
from unbounded.gpu import device

BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "n_shards": 2, "random_state": 0}
RNG = np.random.default_rng(0)
SIDE = np.repeat([-4.0, 4.0], 40)
X = SIDE[:, None] + RNG.normal(size=(80, 2))
TABLE = pd.DataFrame({
    "height": X[:, 0], "colour": pd.Categorical(np.where(SIDE < 0, "red", "blue"), ["red", "green", "blue"]),
    "kind": np.where(SIDE < 0, "a", "b"), "weight": X[:, 1], "flag": (SIDE > 0).astype(int),
})  # fmt: skip
PARTS = ((Gaussian(), ["height", "weight"]), ("categorical", ["colour", "kind"]), ("bernoulli", ["flag"]))


# ---- pandas


def test_product_takes_names_of_columns():
    by_name = DirichletProcessMixture(Product(*PARTS), **BRIEF).fit(TABLE)
    coded = TABLE.assign(colour=(SIDE > 0).astype(float), kind=(SIDE > 0).astype(float))
    by_place = DirichletProcessMixture(
        Product((Gaussian(), [0, 3]), (Categorical(), [1, 2]), ("bernoulli", [4])), **BRIEF
    ).fit(coded)
    assert by_name.posterior_.identical(by_place.posterior_)
    assert {j: list(found) for j, found in by_name.categories_.items()} == {1: ["red", "blue"], 2: ["a", "b"]}
    np.testing.assert_array_equal(by_name.predict(TABLE), by_place.predict(coded))
    for parts, message in (
        (((Gaussian(), ["height", "wait"]),), "there is no column 'wait'; the rows have 'height', 'colour', 'kind'"),
        (
            ((Gaussian(), ["height"]), ("categorical", ["kind"])),
            "every one of the 5 columns must belong to exactly one",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            DirichletProcessMixture(Product(*parts), **BRIEF).fit(coded)
    with pytest.raises(ValueError, match="'height' is given by name, but the rows have none; use a DataFrame"):
        DirichletProcessMixture(Product(*PARTS), **BRIEF).fit(coded.to_numpy())


@pytest.mark.parametrize("kind", ["frame", "array", "objects"])
def test_categorical_takes_categories_and_strings(kind):
    words = TABLE[["colour", "kind"]]
    rows = {"frame": words, "array": words.to_numpy(str), "objects": words.to_numpy(object)}[kind]
    model = DirichletProcessMixture("categorical", **BRIEF).fit(rows)
    codes = np.column_stack([(SIDE > 0) if kind == "frame" else (SIDE < 0), SIDE > 0]).astype(float)
    assert model.posterior_.identical(DirichletProcessMixture("categorical", **BRIEF).fit(codes).posterior_)
    np.testing.assert_array_equal(model.score_samples(rows[:5]), model.score_samples(rows)[:5])


def test_missing_and_unknown_categories():
    holes = TABLE[["colour", "kind"]].copy()
    holes.loc[3, "colour"], holes.loc[5, "kind"] = None, None
    model = DirichletProcessMixture("categorical", **BRIEF).fit(holes)
    assert np.isfinite(model.score_samples(holes)).all()
    for column, other in (("colour", "green"), ("kind", "c")):
        with pytest.raises(ValueError, match=f"column '{column}' has the category '{other}', which fit never saw"):
            model.predict(holes.assign(**{column: other}))
    with pytest.raises(ValueError, match="column 'kind' mixes values of the types int and str; use one"):
        DirichletProcessMixture("categorical", **BRIEF).fit(holes.assign(kind=["a", 1] * 40))
    with pytest.raises(ValueError, match="column 'colour' holds words; give it to Categorical, encode it, or drop it"):
        DirichletProcessMixture(**BRIEF).fit(TABLE)


def test_samples_have_the_words_of_the_fit():
    """In the form of the rows of the fit, so that its methods take them."""
    model = DirichletProcessMixture(Product(*PARTS), **BRIEF).fit(TABLE)
    drawn = model.sample(200)
    assert list(drawn.columns) == list(TABLE.columns)
    assert set(drawn["colour"]) == {"red", "blue"}
    assert list(drawn["colour"].cat.categories) == ["red", "blue"]  # in the order of those of the fit
    assert set(drawn["kind"]) == {"a", "b"}
    assert ((drawn["height"] < 0) == (drawn["colour"] == "red")).mean() > 0.9
    assert np.isfinite(model.score_samples(drawn)).all()
    array = DirichletProcessMixture("categorical", **BRIEF).fit(TABLE[["colour", "kind"]].to_numpy(str)).sample(50)
    assert isinstance(array, np.ndarray)
    assert {tuple(row) for row in array} >= {("red", "a"), ("blue", "b")}
    rows, groups = HierarchicalDirichletProcess("categorical", **BRIEF).fit(TABLE[["kind"]], SIDE).sample(3, size=4)
    assert set(rows["kind"]) <= {"a", "b"}
    assert len(groups) == len(rows) == 12
    more = DirichletProcessMixture(Categorical(levels=[9], concentration=99.0), **BRIEF).fit(TABLE[["kind"]])
    assert set(more.sample(200)["kind"]) - {"a", "b"} <= set(range(2, 9))  # levels that no row had
    assert isinstance(DirichletProcessMixture(**BRIEF).fit(TABLE[["height", "weight"]]).sample(3), np.ndarray)


def test_a_report_of_a_table_with_words(tmp_path):
    model = DirichletProcessMixture(Product(*PARTS), **BRIEF, checkpoint=tmp_path / "run").fit(TABLE)
    page = model.report(tmp_path / "page.html", TABLE).read_text()
    assert "80 of 80 rows" in page
    found = set(re.findall(r"colour = (\S+) in \d+%", page))
    assert found
    assert found <= set(TABLE["colour"])  # its words, and not their codes


# ---- files, names and objects of other libraries


OWN_KINDS = (
    DirichletProcessMixture, ub.PitmanYorMixture, ub.BetaBernoulliFeatures, ub.GammaPoissonFeatures,
    ub.BetaNegativeBinomialFeatures,
)  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same rows in every form that `datasets.load` knows."""
    folder = tmp_path_factory.mktemp("stored")
    table = pd.DataFrame(X, columns=["a", "b"])
    table.to_parquet(folder / "x.parquet")
    table.to_csv(folder / "x.csv", index=False)
    np.save(folder / "x.npy", X)
    return {
        "csv": str(folder / "x.csv"), "parquet": folder / "x.parquet", "npy": str(folder / "x.npy"),
        "arrow": pytest.importorskip("pyarrow").Table.from_pandas(table),
        "anndata": pytest.importorskip("anndata").AnnData(X), "bunch": Bunch(data=table, DESCR="80 rows"),
    }  # fmt: skip


def grouped(estimator):
    """What comes behind the rows."""
    return (np.arange(80) // 20,) if estimator is HierarchicalDirichletProcess else ()


@pytest.fixture(scope="module")
def plain():
    """Fits of the rows themselves, and what is said of them held out."""
    fits = {kind: kind(**BRIEF).fit(X, *grouped(kind)) for kind in (*OWN_KINDS, HierarchicalDirichletProcess)}
    return fits, DirichletProcessMixture(**BRIEF).fit(X, holdout=X).posterior_["holdout"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "arrow", "anndata", "bunch"])
def test_fit_takes_what_load_takes(kind, stored, plain):
    rows, (fits, holdout) = stored[kind], plain
    for estimator, same in fits.items():
        more = grouped(estimator)
        model = estimator(**BRIEF).fit(rows, *more)
        assert model.posterior_.identical(same.posterior_)
        if more and kind == "npy":
            continue  # a source, whose groups may be too many
        if hasattr(model, "transform"):
            np.testing.assert_array_equal(model.transform(rows, *more), same.transform(X, *more))
        else:
            np.testing.assert_array_equal(model.predict(rows), same.predict(X))
        assert model.score(rows, *more) == same.score(X, *more)
    held = DirichletProcessMixture(**BRIEF).fit(rows, holdout=rows).posterior_["holdout"]
    np.testing.assert_array_equal(held, holdout)


def test_documents_come_by_name_and_in_bunches():
    news = datasets.load_news(20)
    model = HierarchicalDirichletProcess(**BRIEF).fit(news)
    assert model.posterior_.identical(HierarchicalDirichletProcess(**BRIEF).fit(news.data).posterior_)
    np.testing.assert_array_equal(model.transform(news), model.transform(news.data))


def test_a_likelihood_that_names_columns_chooses_those_of_a_file(tmp_path):
    TABLE.to_csv(tmp_path / "table.csv")  # with the number of the row in front
    text = "gaussian: height, weight; categorical: colour, kind"
    parts = Product((Gaussian(), ["height", "weight"]), ("categorical", ["colour", "kind"]))
    plain = TABLE[["height", "weight", "colour", "kind"]].assign(colour=TABLE["colour"].astype(str))
    for likelihood in (text, parts):
        model = DirichletProcessMixture(likelihood, **BRIEF).fit(tmp_path / "table.csv")
        assert model.posterior_.identical(DirichletProcessMixture(likelihood, **BRIEF).fit(plain).posterior_)
        np.testing.assert_array_equal(model.predict(str(tmp_path / "table.csv")), model.predict(plain))


def test_columns_of_penguins_that_are_words_are_no_numbers(tmp_path):
    assert {"island", "sex"} <= set(datasets.load("penguins", words=True).columns)
    assert "species" not in datasets.load("penguins", words=True)
    with pytest.raises(ValueError, match="column 'island' holds words; give it to Categorical, encode it, or drop it"):
        DirichletProcessMixture(**BRIEF).fit("penguins")
    said = refused("fit", "dp", "penguins", "--out", tmp_path / "r")
    assert "penguins: column 'island' is not numeric; encode or drop it, or say which columns are of which kind" in said


@pytest.mark.parametrize("missing", ["nowhere.csv", "nothing"])
def test_files_that_are_not_there(missing):
    for estimator in (DirichletProcessMixture, ub.BetaBernoulliFeatures, HierarchicalDirichletProcess):
        with pytest.raises(ValueError, match=f"{missing} does not exist"):
            estimator(**BRIEF).fit(missing)


# ---- words


DOCUMENTS = ["The cat sat on the mat", "A cat and a dog", "Stocks fell, stocks rose", "the market of stocks"] * 5


def test_documents_as_strings():
    model = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    assert model.vocabulary_ == sorted(model.vocabulary_)
    assert {"cat", "stocks", "the"} <= set(model.vocabulary_)
    assert "a" not in model.vocabulary_  # one letter
    lists = [document.lower().replace(",", "").split() for document in DOCUMENTS]
    same = HierarchicalDirichletProcess(**BRIEF).fit([[w for w in words if len(w) > 1] for words in lists])
    assert model.posterior_.identical(same.posterior_)
    np.testing.assert_array_equal(model.transform(pd.Series(DOCUMENTS[:3])), model.transform(np.array(DOCUMENTS[:3])))


def test_a_tokenizer_and_a_vectorizer():
    split = HierarchicalDirichletProcess(**BRIEF, tokenizer=str.split).fit(DOCUMENTS)
    assert "fell," in split.vocabulary_
    vectorizer = CountVectorizer(stop_words="english")
    counted = HierarchicalDirichletProcess(**BRIEF, tokenizer=vectorizer).fit(DOCUMENTS)
    assert counted.vocabulary_ == ["cat", "dog", "fell", "market", "mat", "rose", "sat", "stocks"]
    assert not hasattr(vectorizer, "vocabulary_")  # the one that was given stays as it was
    assert counted.transform(["a cat and unseen words"]).shape == (1, counted.n_topics_)
    with pytest.raises(ValueError, match="tokenizer must be a function, a CountVectorizer or None, got 3"):
        HierarchicalDirichletProcess(**BRIEF, tokenizer=3).fit(DOCUMENTS)


def test_columns_are_a_vocabulary():
    counts = pd.DataFrame(RNG.poisson(1.0, size=(12, 4)), columns=["cat", "dog", "stock", "bond"])
    model = HierarchicalDirichletProcess(**BRIEF).fit(counts)
    assert model.vocabulary_ == ["cat", "dog", "stock", "bond"]
    assert set(model.top_words(n_words=2)[0]) <= set(counts.columns)
    assert not hasattr(model.fit(counts.to_numpy()), "vocabulary_")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([["a", 1], ["b"]], "document 0 has the word 1, which is not a string; give all words as strings"),
        ([["a"], [None, "b"]], "document 1 has the word None, which is not a string"),
        (["a b c", ["d"]], "document 1 is not like the first: give strings, or lists of words"),
        ([[b"a", b"b"], [b"a"]], "document 0 has the word b'a', which is not a string; give all words as strings"),
        ([b"a b", b"a c"], r"the documents are bytes; give strings: document.decode\(\)"),
        (pd.DataFrame({"text": ["a b", "a c"]}), "column 'text' holds words; give that column alone as the documents"),
        (np.array([["a b"], ["a c"]]), "column number 0 holds words; give that column alone as the documents"),
        ([[], []], "the documents have no words; at least one of them needs some"),
        (["", "- -"], "the documents have no words; at least one of them needs some"),
        (
            pd.DataFrame(np.ones((4, 2)), columns=["a", "a"]),
            "the vocabulary has the word 'a' 2 times; give every column",
        ),
        ("one text", "the documents are one string; give a list with a string for each document"),
    ],
)
def test_words_of_other_kinds(documents, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalDirichletProcess(**BRIEF).fit(documents)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "the tokenizer made None of document 0; it must make a list of words"),
        ("cat", "the tokenizer made 'cat' of document 0; it must make a list of words"),
        (["cat", 3], "the tokenizer made 3 of a word of document 0; words must be strings"),
    ],
)
def test_what_a_tokenizer_makes(made, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalDirichletProcess(**BRIEF, tokenizer=lambda text: made).fit(DOCUMENTS)


def test_what_topics_have_no_words():
    rows = HierarchicalDirichletProcess(**BRIEF).fit(X, np.arange(80) % 4)
    with pytest.raises(ValueError, match="the topics of rows have no words: top_words is for documents"):
        rows.top_words()
    documents = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    empty = documents.transform([[], []])
    np.testing.assert_allclose(empty.sum(1), 1.0)
    with pytest.raises(
        ValueError, match="the vocabulary has the word 'a' 3 times; give every column a word of its own"
    ):
        documents.top_words(["a", "b", "a", "a"])


@pytest.mark.parametrize("n_words", [-1, 0, 2.5, True, "ten"])
def test_how_many_words(n_words):
    model = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    with pytest.raises(ValueError, match=f"n_words must be a whole number of at least 1, got {n_words!r}"):
        model.top_words(n_words=n_words)
    assert len(model.top_words(n_words=10**6)[0]) == len(model.vocabulary_)


# ---- numbers that are none


DAYS = pd.date_range("2020-01-01", periods=80)


@pytest.mark.parametrize(
    ("days", "held"),
    [
        (DAYS, "dates or times; make numbers of them, such as days since the first, or drop it"),
        (DAYS.tz_localize("UTC"), "dates or times; make numbers"),
        (DAYS - DAYS[0], "dates or times; make numbers"),
        (DAYS.date, "dates or times; make numbers"),
        (DAYS.to_period("D"), "values of the type Period; give it to Categorical, encode it, or drop it"),
    ],
)
def test_days_are_no_words(days, held):
    with pytest.raises(ValueError, match=f"column 'day' holds {held}"):
        DirichletProcessMixture(**BRIEF).fit(TABLE[["height", "weight"]].assign(day=days))


def test_days_in_an_array():
    for array in (DAYS.to_numpy()[:, None], DAYS.date[:, None]):
        with pytest.raises(ValueError, match="column 0 holds dates or times; make numbers"):
            DirichletProcessMixture(**BRIEF).fit(array)


@pytest.mark.parametrize("seed", [-1, True, np.True_, 2**63])
def test_seeds_that_are_none(seed, fitted):
    said = "random_state must be a whole number from 0 to 2\\^63 - 1, a generator or None, got"
    with pytest.raises(ValueError, match=said):
        DirichletProcessMixture(**BRIEF | {"random_state": seed}).fit(X)
    with pytest.raises(ValueError, match=said):
        fitted.sample(2, random_state=seed)


@pytest.mark.parametrize("n", [True, 2.5, 0, "two", None])
def test_numbers_of_samples_that_are_none(n, fitted):
    with pytest.raises(ValueError, match=f"n_samples must be a whole number of at least 1, got {n!r}"):
        fitted.sample(n)


def test_a_seed_that_numpy_would_not_take(fitted):
    assert fitted.sample(2, random_state=2**40).shape == (2, 2)


@pytest.mark.parametrize("name", ["n_draws", "n_warmup", "n_shards", "thin", "n_chains", "n_snapshots"])
def test_true_is_no_number(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least .*, got True"):
        DirichletProcessMixture(**BRIEF | {name: True}).fit(X)


@pytest.mark.parametrize("init", [-1, 0, 2.5, True])
def test_starts_that_are_none(init):
    for model in (DirichletProcessMixture, ub.BetaBernoulliFeatures):
        with pytest.raises(ValueError, match=f"init must be one of .*, got {init}"):
            model(**BRIEF, init=init).fit(X)
    with pytest.raises(ValueError, match=f"init must be .* topics?.*, got {init}"):
        HierarchicalDirichletProcess(**BRIEF, init=init).fit(DOCUMENTS)


def test_a_generator_of_numpy():
    def fit(state):
        return DirichletProcessMixture(**BRIEF | {"random_state": state}).fit(X)

    first, again, other = (fit(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.posterior_.identical(again.posterior_)
    assert not first.posterior_.identical(other.posterior_)
    a, b = (first.sample(5, random_state=np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(a, b)


# ---- files and engines


def refused(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


def test_files_that_are_damaged(tmp_path):
    whole = tmp_path / "whole.npz"
    sparse.save_npz(whole, sparse.csr_matrix(np.eye(3)))
    (tmp_path / "words.txt").write_bytes("cat\ncaf\xe9\ndog\n".encode("latin-1"))
    said = refused("fit", "hdp", whole, "--out", tmp_path / "r", "--vocabulary", tmp_path / "words.txt")
    assert "words.txt is not UTF-8 in line 2; convert it" in said
    for size in (0, 100, len(whole.read_bytes()) - 30):
        (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:size])
        assert "is not a whole .npz file: it is damaged, or was cut short" in refused(
            "fit", "hdp", tmp_path / "cut.npz", "--out", tmp_path / "r"
        )
    for text, said in (("a,b\n1,2\n3,4,5\n", "has 3 values in line 3 and 2 in the first"),
                       ("a,b\n1,2\n3\n", "has 1 values in line 3 and 2 in the first")):  # fmt: skip
        (tmp_path / "ragged.csv").write_text(text)
        assert said in refused("fit", "dp", tmp_path / "ragged.csv", "--out", tmp_path / "r")
    (tmp_path / "latin.csv").write_bytes("caf\xe9,b\n1,2\n".encode("latin-1"))
    assert "latin.csv is not UTF-8" in refused("fit", "dp", tmp_path / "latin.csv", "--out", tmp_path / "r")
    assert "got -1" in refused("fit", "hdp", whole, "--out", tmp_path / "r", "--init", "-1")
    assert not (tmp_path / "r").exists()


def test_holes_at_the_end_of_lines_are_not_ragged(tmp_path):
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n3,\n")
    assert np.isnan(ub.datasets.load(tmp_path / "holes.csv").iloc[1, 1])


def test_a_mixed_table_from_the_command_line(tmp_path):
    """Words stay words, holes holes, and what is not named is left out; new rows are read in the same way."""
    mixed = "gaussian: height, weight; categorical: colour, kind; bernoulli: flag"
    table = TABLE.assign(name=[f"row {i}" for i in range(80)])
    table.loc[3, "height"], table.loc[5, "kind"] = np.nan, None
    table.to_csv(tmp_path / "table.csv", index=False)
    brief = ["--chains", "1", "--warmup", "2", "--draws", "4", "--shards", "2", "--quiet"]
    fit = ["fit", "dp", tmp_path / "table.csv", "--out", tmp_path / "r", *brief]
    said = refused(*fit)
    assert "column 'colour' is not numeric; encode or drop it, or say which columns are of which kind" in said
    assert "has no column 'size'; it has 'height', 'colour'" in refused(*fit, "--likelihood", "gaussian: size")
    assert "looks like 'gaussian: a, b; categorical: c', got 'gaussian:'" in refused(*fit, "--likelihood", "gaussian:")
    done = CliRunner().invoke(app, [*map(str, fit), "--likelihood", mixed])
    assert done.exit_code == 0, done.output
    columns = ["height", "weight", "colour", "kind", "flag"]
    rows = ub.datasets.load(tmp_path / "table.csv", columns)
    same = DirichletProcessMixture(mixed, **BRIEF).fit(rows)
    np.testing.assert_array_equal(np.load(tmp_path / "r" / "labels.npy"), same.labels_)
    words = ["predict", tmp_path / "r", tmp_path / "table.csv", "--out", tmp_path / "new.csv"]
    assert CliRunner().invoke(app, list(map(str, words))).exit_code == 0
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "new.csv")["cluster"], same.predict(rows))
    assert CliRunner().invoke(app, ["report", str(tmp_path / "r")]).exit_code == 0


def test_torch_that_is_not_installed(tmp_path, monkeypatch):
    def not_there(name):
        raise ModuleNotFoundError("No module named 'torch'", name=name)

    device.missing.cache_clear()
    monkeypatch.setattr(device, "import_module", not_there)
    np.save(tmp_path / "x.npy", X)
    said = refused("fit", "dp", tmp_path / "x.npy", "--out", tmp_path / "r", "--device", "cuda")
    device.missing.cache_clear()
    assert said == """error: device='cuda' needs PyTorch and its Triton: pip install "unbounded[gpu]"."""
    assert not (tmp_path / "r").exists()


def test_ray_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "unbounded.engines.ray", raising=False)  # tests of it may have been here
    np.save(tmp_path / "x.npy", X)
    said = refused("fit", "dp", tmp_path / "x.npy", "--out", tmp_path / "r", "--engine", "ray")
    assert said == "error: engine='ray' needs Ray: pip install 'unbounded[ray]'."
    assert not (tmp_path / "r").exists()


# ---- ArviZ


@pytest.fixture(scope="module")
def fitted():
    options = {"n_chains": 2, "n_warmup": 20, "n_draws": 60, "n_snapshots": 40, "n_shards": 2, "random_state": 0}
    return DirichletProcessMixture(**options).fit(X)


def test_groups_of_draws(fitted):
    plain = fitted.to_arviz()
    assert set(plain.groups()) == {"posterior", "sample_stats"}
    np.testing.assert_array_equal(plain.sample_stats["lp"], fitted.posterior_["log_joint"])
    np.testing.assert_array_equal(plain.posterior["alpha"], fitted.posterior_["alpha"])
    whole = fitted.to_arviz(X, posterior_predictive=True)
    n = whole.posterior.sizes["draw"]
    assert 10 <= n <= 20
    assert whole.log_likelihood["rows"].shape == (2, n, 80)
    assert whole.posterior_predictive["rows"].shape == (2, n, 80, 2)
    assert whole.sample_stats["lp"].shape == (2, n)
    at = fitted._kept[1][3]
    assert float(whole.posterior["alpha"][1, 3]) == float(fitted.posterior_["alpha"][1, at])
    np.testing.assert_array_equal(whole.observed_data["rows"], X)


def test_loo_and_ppc_of_arviz_0(fitted):
    import matplotlib as mpl

    data = fitted.to_arviz(X, posterior_predictive=True)
    loo = az.loo(data)
    assert np.isfinite(loo.elpd_loo)
    assert 0.0 < loo.p_loo < 25.0  # about two clusters of five parameters each
    assert loo.elpd_loo < 80 * fitted.score(X)  # rows that were left out are harder to predict
    with mpl.rc_context({"backend": "agg"}):
        assert az.plot_ppc(data, num_pp_samples=5) is not None


def test_loo_of_arviz_1(fitted, monkeypatch):
    """The statistics of ArviZ 1.x are a package of their own, which takes a DataTree; the two versions agree.

    `make test-pythons` does the same with the whole of ArviZ 1.x, which needs Python 3.12.
    """
    stats = pytest.importorskip("arviz_stats")
    old = az.loo(fitted.to_arviz(X, random_state=3))
    monkeypatch.setattr(az, "__version__", "1.3.0")
    tree = fitted.to_arviz(X, posterior_predictive=True, random_state=3)
    assert type(tree).__name__ == "DataTree"
    assert set(tree.children) == {
        "posterior", "posterior_predictive", "log_likelihood", "sample_stats", "observed_data",
    }  # fmt: skip
    new = stats.loo(tree)
    assert float(new.elpd) == pytest.approx(float(old.elpd_loo), abs=0.5)
    assert set(fitted.to_arviz().children) == {"posterior", "sample_stats"}


def test_log_likelihoods_average_to_the_predictive_density(fitted):
    """Over draws of weights and parameters, the density of a row is its predictive one (five standard errors)."""
    rng, rows = np.random.default_rng(0), X[::8]
    draws = np.array([[fitted._log_likelihood(s, rows, rng) for s in range(len(fitted._snapshots))] for _ in range(60)])
    densities = np.exp(draws)
    error = densities.mean(1).std(0, ddof=1) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(densities.mean((0, 1)) - np.exp(fitted.score_samples(rows))), 5 * error)


def torn(share):
    """Rows of four columns that go together, with holes."""
    rows = SIDE[:, None] + RNG.multivariate_normal(np.zeros(4), 0.4 * np.eye(4) + 0.6, size=80)
    rows[RNG.random(rows.shape) < share] = np.nan
    return rows


@pytest.mark.parametrize("likelihood", ["gaussian", "diagonal_gaussian", "product"])
def test_log_likelihoods_of_rows_with_holes(likelihood):
    """Of the cells that are there: on average over draws their predictive density (five standard errors), and
    `az.loo` goes through."""
    parts = Product((Gaussian(), [0, 1, 2]), ("diagonal_gaussian", [3]))
    rows, chosen = torn(0.2), parts if likelihood == "product" else likelihood
    options = {"n_chains": 2, "n_warmup": 20, "n_draws": 60, "n_snapshots": 40, "n_shards": 2, "random_state": 0}
    model = DirichletProcessMixture(chosen, **options).fit(rows)
    found = az.loo(model.to_arviz(rows))
    assert np.isfinite(found.elpd_loo)
    some, rng = rows[::8], np.random.default_rng(0)
    assert np.isnan(some).any()
    snapshots = range(len(model._snapshots))
    densities = np.exp([[model._log_likelihood(s, some, rng) for s in snapshots] for _ in range(60)])
    error = densities.mean(1).std(0, ddof=1) / np.sqrt(len(densities))
    np.testing.assert_array_less(np.abs(densities.mean((0, 1)) - np.exp(model.score_samples(some))), 5 * error)


def test_log_likelihoods_of_grouped_rows_with_holes():
    rows = torn(0.2)
    model = HierarchicalDirichletProcess(**BRIEF | {"n_chains": 2, "n_draws": 20}).fit(rows, np.arange(80) % 4)
    logs = model.to_arviz(rows, groups=np.arange(80) % 4).log_likelihood["rows"]
    assert np.isfinite(logs).all()


def test_samples_follow_the_density_in_two_columns(fitted):
    """The mean over samples of q / p is one, for any density q with lighter tails than the predictive density p."""
    rows = np.concatenate([fitted.sample(400, random_state=seed) for seed in range(25)])
    q = multivariate_normal([-4.0, -4.0], 0.5 * np.eye(2))
    means = np.exp(q.logpdf(rows) - fitted.score_samples(rows)).reshape(25, 400).mean(1)
    assert abs(means.mean() - 1.0) < 5 * means.std(ddof=1) / np.sqrt(len(means))
    assert means.std(ddof=1) < 0.5


def test_features_have_log_likelihoods_too():
    model = ub.BetaBernoulliFeatures(**BRIEF | {"n_chains": 2, "n_draws": 8}).fit(X)
    data = model.to_arviz(X, posterior_predictive=True)
    logs = data.log_likelihood["rows"].values.reshape(-1, len(X))
    np.testing.assert_allclose(logsumexp(logs, axis=0) - np.log(len(logs)), model.score_samples(X), atol=1e-9)
    assert data.posterior_predictive["rows"].shape[2:] == X.shape


def test_what_arviz_is_not_given(fitted):
    topics = HierarchicalDirichletProcess(**BRIEF).fit(DOCUMENTS)
    assert set(topics.to_arviz().groups()) == {"posterior", "sample_stats"}
    with pytest.raises(ValueError, match="X has 79 rows, but the fit had 80; give those of the fit"):
        fitted.to_arviz(X[1:])


# ---- rows with rows


def test_coclustering(fitted, monkeypatch):
    together = fitted.coclustering_
    assert together.shape == (80, 80)
    np.testing.assert_array_equal(together, together.T)
    np.testing.assert_array_equal(np.diag(together), 1.0)
    assert together[:40, :40].mean() > 0.8 > 0.2 > together[:40, 40:].mean()
    np.testing.assert_array_equal(together[3:5, 3:5], fitted.similarity([3, 4]))
    monkeypatch.setattr("unbounded.models.mixtures.estimator._MOST_PAIRED", 79)
    with pytest.raises(ValueError, match=r"coclustering_ of 80 rows would be too large; similarity\(rows\)"):
        _ = fitted.coclustering_
