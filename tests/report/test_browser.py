"""Reports of every kind of run in a real browser: by day, by night, on a phone and on paper."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from browser import Browser, BrowserError
from page_runs import KINDS, rows

from unbounded import DirichletProcessMixture

WIDE, PHONE = 1100, 360
VIEWS = [
    (WIDE, "light", "screen"), (WIDE, "dark", "screen"), (PHONE, "light", "screen"), (PHONE, "dark", "screen"),
    (760, "dark", "print"),
]  # fmt: skip

LIBRARY = """
const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
  return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((u, v) => v - u);
  return (x + 0.05) / (y + 0.05); };
const behind = e => { while (e) { const c = getComputedStyle(e).backgroundColor;
  if (c !== 'rgba(0, 0, 0, 0)' && c !== 'transparent') return c; e = e.parentElement; } return 'rgb(255, 255, 255)'; };
const all = s => [...document.querySelectorAll(s)];
const box = e => e.getBoundingClientRect();
"""


@pytest.fixture(scope="module")
def browser():
    """Tests say why they are skipped where there is no browser to be had: no registry, or another machine."""
    try:
        running = Browser()
    except BrowserError as error:
        pytest.skip(str(error))
    with running:
        yield running


# What is wrong with a page, if anything: each of these is a list, and all of them must be empty.
CHECKS = {
    "script": "[...document.scripts].map(e => e.outerHTML)",
    "overflow": "document.documentElement.scrollWidth > wide ? [document.documentElement.scrollWidth] : []",
    "outside the page": "all('body *').filter(e => box(e).right > wide + 0.5).map(e => e.outerHTML.slice(0, 80))",
    "missing section": "all('section').length < 6 || all('figure > svg').length < 3 ? [all('section').length] : []",
    "broken image": "all('img').filter(e => !(e.complete && e.naturalWidth > 0)).map(e => e.alt)",
    "empty chart": "all('figure > svg').filter(e => box(e).width < 200 || box(e).height < 80).map(e => e.outerHTML)",
    "no words": "all('figure > svg, img').filter(e => !(e.getAttribute('aria-label') || e.alt)).map(e => e.outerHTML)",
    "small letters": """all('svg text').filter(e => parseFloat(getComputedStyle(e).fontSize)
        * box(e.ownerSVGElement).width / e.ownerSVGElement.viewBox.baseVal.width < 8.5).map(e => e.textContent)""",
    "outside the chart": """all('figure > svg text').filter(e => { const a = box(e), b = box(e.ownerSVGElement);
        return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; })
        .map(e => e.textContent)""",
    "on the axis name": """all('figure > svg').flatMap(s => { const name = [...s.querySelectorAll('.name')].map(box);
        return [...s.querySelectorAll('.tick')].filter(t => name.some(n => box(t).left < n.right - 1 &&
        box(t).right > n.left + 1 && box(t).top < n.bottom - 1 && box(t).bottom > n.top + 1))
        .map(t => t.textContent); })""",
    "poor contrast": """all('p, dt, dd, th, td, li, figcaption, .badge, footer')
        .filter(e => contrast(getComputedStyle(e).color, behind(e)) < 4.5).map(e => e.outerHTML.slice(0, 80))""",
    "poor contrast of letters": """all('svg text').filter(e => contrast(getComputedStyle(e).fill, behind(e)) < 4.5)
        .map(e => e.textContent)""",
    "poor contrast of lines": """all('.line, .points').filter(e => contrast(getComputedStyle(e).stroke, behind(e)) < 3)
        .map(e => e.getAttribute('class'))""",
    "poor contrast of bars": """all('path.f0').filter(e => contrast(getComputedStyle(e).fill, behind(e)) < 3)
        .map(e => e.getAttribute('class'))""",
}


def faults(browser, width):
    """By name; the width is that of the window, since a phone zooms out of a page that is too wide."""
    start = f"const wide = {width}; {LIBRARY}"
    found = {name: browser.evaluate(f"(() => {{ {start} return {check}; }})()") for name, check in CHECKS.items()}
    return {name: what for name, what in (found | {"complaint": browser.complaints()}).items() if what}


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: "-".join(map(str, v)))
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_legible(browser, runs, kind, view):
    browser.open(runs[kind] / "report.html", *view)
    assert faults(browser, view[0]) == {}


@pytest.mark.parametrize(
    ("fault", "damage"),
    [
        ("overflow", "<style>body { min-width: 420px }</style>"),
        ("outside the page", "<style>.numbers { width: 400px }</style>"),
        ("missing section", "<style></style>"),
        ("broken image", '<img alt="a" src="data:image/png;base64,AAAA">'),
        ("empty chart", "<style>figure > svg { height: 10px !important }</style>"),
        ("no words", '<img src="data:image/png;base64,AAAA">'),
        ("small letters", "<style>svg text { font-size: 8px !important }</style>"),
        ("outside the chart", "<style>svg text { font-size: 24px !important }</style>"),
        ("on the axis name", "<style>svg text { font-size: 24px !important }</style>"),
        ("poor contrast", "<style>:root { --quiet: #8a8a8a !important }</style>"),
        ("poor contrast of letters", "<style>svg text { fill: #8a8a8a !important }</style>"),
        ("poor contrast of lines", "<style>.line { stroke: #ffee88 !important }</style>"),
        ("poor contrast of bars", "<style>.f0 { fill: #ffee88 !important }</style>"),
        ("script", "<script></script>"),
        ("complaint", "<script>undefined.x</script>"),
        ("complaint", '<img alt="a" src="http://example.org/a.png">'),
    ],
)
def test_the_checks_notice(browser, runs, tmp_path, fault, damage):
    """A page that was damaged on purpose: a check that cannot fail is none."""
    text = (runs["mixture"] / "report.html").read_text()
    text = text.replace("<section>", "<div>") if fault == "missing section" else text
    (tmp_path / "page.html").write_text(text.replace("</body>", f"{damage}</body>"))
    browser.open(tmp_path / "page.html", PHONE)
    assert fault in faults(browser, PHONE)


def test_day_night_and_paper(browser, runs):
    grounds = {}
    for width, scheme, media in VIEWS:
        browser.open(runs["mixture"] / "report.html", width, scheme, media)
        grounds[scheme, media] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds["light", "screen"] == grounds["dark", "print"] == "rgb(255, 255, 255)"
    assert grounds["dark", "screen"] == "rgb(20, 23, 26)"


def test_paper(browser, runs):
    """A few pages of A4 or letter; no chart is cut by a page break."""
    browser.open(runs["mixture"] / "report.html")
    paper = browser.pdf()
    assert paper.startswith(b"%PDF")
    assert 2 <= paper.count(b"/Type /Page\n") <= 8
    browser.open(runs["mixture"] / "report.html", 760, "light", "print")
    assert browser.evaluate("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"


def test_words_are_shown_and_not_obeyed(browser, runs):
    browser.open(runs["topics"] / "report.html")
    shown = browser.evaluate("document.body.innerText")
    assert "<script>alert(1)</script>" in shown
    assert 'a&b"c' in shown
    assert r"\x1b[31mred" in shown
    assert browser.evaluate("document.querySelectorAll('script').length") == 0


def test_names_are_shown_and_not_obeyed(browser, runs, tmp_path):
    """Of a run's folder, and of columns: tags, what turns writing round, and what is no character at all."""
    table = pd.DataFrame(
        rows(), columns=["<img src=x onerror=alert(1)>\"'&", "</style><svg onload=alert(3)>\ud800", "\u202e"]
    )
    folder = tmp_path / "<img src=x onerror=alert(2)>"
    brief = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "init": "one", "random_state": 0}
    DirichletProcessMixture(**brief, checkpoint=folder).fit(table).report(tmp_path / "page.html", table)
    browser.open(tmp_path / "page.html")
    assert browser.evaluate("[...document.images].filter(e => !e.src.startsWith('data:')).length") == 0
    assert browser.evaluate("document.querySelectorAll('[onerror], [onload], script').length") == 0
    assert browser.complaints() == []
    shown = browser.evaluate("document.body.innerText")
    assert all(
        words in shown for words in ("onerror=alert(1)", "onerror=alert(2)", r"<svg onload=alert(3)>\ud800", r"\u202e")
    )


def test_categories_are_shown_and_not_obeyed(browser, tmp_path):
    """What distinguishes a cluster has the words of the table in it."""
    hostile = ["</script><script>document.title = 'mine'</script>", "\"'><img src=x onerror=alert(1)>\x1b[31m"]
    table = pd.DataFrame({"</td><script>": np.repeat(hostile, 40), "b": np.repeat(["x", "y"], 40)})
    brief = {"n_chains": 1, "n_warmup": 5, "n_draws": 10, "random_state": 0}
    DirichletProcessMixture("categorical", **brief, checkpoint=tmp_path / "run").fit(table).report(
        tmp_path / "page.html", table
    )
    browser.open(tmp_path / "page.html")
    assert browser.evaluate("document.querySelectorAll('[onerror], script').length") == 0
    assert browser.evaluate("document.title") != "mine"
    shown = browser.evaluate("document.body.innerText")
    assert f"</td><script> = {hostile[0]}" in shown
    assert r"onerror=alert(1)>\x1b[31m" in shown


def test_features_have_images_of_their_shape(browser, runs):
    browser.open(runs["features"] / "report.html")
    sizes = browser.evaluate("[...document.querySelectorAll('.tile img')].map(e => [e.naturalWidth, e.naturalHeight])")
    assert len(sizes) >= 2
    assert all(size == [6, 6] for size in sizes)
