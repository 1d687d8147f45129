"""The live view of a run: what it says, who may ask, and how it looks in a real browser while a fit runs."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, BrowserError
from page_runs import rows
from test_browser import faults
from typer.testing import CliRunner

import unbounded as ub
from unbounded.chain.outlets import FILE
from unbounded.chain.store import RunError, RunStore
from unbounded.cli.commands import app
from unbounded.report import live

NASTY = "<img src=x onerror=alert(1)>"


@contextmanager
def served(run):
    with live.server(run) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", host=None):
    """(status, headers, content)."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=30)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def state_of(run: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(run.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("live") / NASTY.replace("/", "")
    brief = {"n_shards": 2, "n_warmup": 5, "n_draws": 40, "random_state": 0, "checkpoint": path}
    ub.DirichletProcessMixture(**brief).fit(rows()[:150], holdout=rows()[150:])
    return path


def test_what_it_says(run):
    with served(run) as server:
        status, headers, page = ask(server)
        _, _, now = ask(server, "/now")
    assert status == 200
    assert now in page
    assert page.index('id="gone"') < page.index('id="now"')  # in view, however far somebody has scrolled
    assert "done, round 90/90" in now
    assert '<progress value="90" max="90"' in now
    assert "R-hat so far" in now
    assert "held-out score" in now
    assert now.index("Trace of n_clusters") < now.index("Trace of holdout") < now.index("Trace of alpha")
    assert NASTY not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


def test_nothing_is_written_and_nobody_else_is_answered(run):
    before = state_of(run)
    with served(run) as server:
        port = server.server_address[1]
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, "/now")[0] == ask(server, "/", host=f"localhost:{port}")[0] == 200
        assert ask(server, host="example.org")[0] == ask(server, host=f"example.org:{port}")[0] == 403
        assert [ask(server, path)[0] for path in ("/run.json", "/../run.json", "/now?x")] == [404] * 3
        assert [ask(server, method=method)[0] for method in ("POST", "PUT", "DELETE", "PATCH")] == [501] * 4
    assert state_of(run) == before


def test_before_the_first_draw_and_after_a_death(tmp_path, monkeypatch):
    store = RunStore(tmp_path)
    store.prepare({"model": "DirichletProcessMixture", "n_chains": 2, "n_draws": 10, "n_warmup": 5})
    assert "has not reported anything yet" in live.render(tmp_path)
    said = {
        "phase": "start",
        "done": 0,
        "total": 30,
        "text": "start, <b>chain</b> 1",
        "at": time.time(),
        "seconds": 1.0,
    }
    (tmp_path / FILE).write_text(json.dumps(said))
    page = live.render(tmp_path)
    assert "start, &lt;b&gt;chain&lt;/b&gt; 1" in page
    assert "No draw has been made yet" in page
    assert "No sign of life" not in page
    (tmp_path / FILE).write_text(json.dumps(said | {"at": time.time() - 400}))
    assert "No sign of life for 7 min: the fit may have been killed." in live.render(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(said | {"phase": "stopped"}))
    page = live.render(tmp_path)
    assert all(f"<code>unbounded {command} {tmp_path}</code>" in page for command in ("resume", "report"))
    store.chain(0).prepare()
    (store.chain(0).path / "trace.jsonl").write_text("nonsense\n")
    with served(tmp_path) as server:
        assert "is missing, although there are draws" in ask(server, "/now")[2]  # a sentence, not a crash
        (tmp_path / FILE).write_text(json.dumps(said))
    with served(tmp_path) as server:
        assert "is damaged" in ask(server, "/now")[2]
    (store.chain(0).path / "trace.jsonl").unlink()
    (tmp_path / FILE).write_text(json.dumps(said | {"done": "<many>"}))
    with served(tmp_path) as server:
        assert "The run directory is damaged" in ask(server, "/now")[2]
        assert "<many>" not in ask(server, "/now")[2]


def test_nothing_is_obeyed(tmp_path):
    """Whatever stands in the files of a run: tags, quotes, and what a terminal would obey."""
    hostile = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202e"
    RunStore(tmp_path).prepare(
        {
            "model": "DirichletProcessMixture",
            "n_chains": 1,
            "n_draws": 10,
            "n_warmup": 0,
            "likelihood": {"name": hostile},
        }
    )
    lines = [json.dumps({"draw": d, "n_clusters": d, hostile: d}) for d in range(10)]
    RunStore(tmp_path).chain(0).prepare()
    (tmp_path / "chain-0" / "trace.jsonl").write_text("\n".join(lines) + "\n")
    said = {
        "phase": hostile, "text": hostile, "atoms": hostile, "unit": hostile, "at": time.time(), "seconds": 1.0,
        "rows_per_second": 3.0, "scalars": {f"n_{hostile}": 3.0, "above_1%": 2.0},
    }  # fmt: skip
    (tmp_path / FILE).write_text(json.dumps(said))
    page = live.render(tmp_path)
    assert page.count("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;") >= 5
    assert "<img" not in page
    assert "script>" not in page
    assert not set("\x1b\u202e") & set(page)


def test_one_sentence_where_there_is_nothing_to_watch(tmp_path, run):
    for words in (["watch", str(tmp_path)], ["report", str(tmp_path), "--live"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2
        assert "holds no run" in result.stderr
    with served(run) as server, pytest.raises(RunError, match=r"port \d+ cannot be used: .*; choose another --port."):
        live.server(run, server.server_address[1])


def test_a_live_report_is_the_same(run, monkeypatch):
    asked = []
    monkeypatch.setattr("unbounded.cli.commands._serve", lambda *given: asked.append(given))
    for words in (["report", "--live"], ["watch"]):
        assert CliRunner().invoke(app, [words[0], str(run), *words[1:]]).exit_code == 0
    assert asked == [(run, 0)] * 2
    assert not (run / "report.html").exists()


def test_the_command_line(run):
    """It says where, answers, and Ctrl-C ends it with status 0."""
    command = [sys.executable, "-m", "unbounded", "watch", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as process:
        line = process.stdout.readline()
        address = line.split(" at ")[1].split()[0]
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=30)
        connection.request("GET", "/now")
        assert b"done, round 90/90" in connection.getresponse().read()
        process.send_signal(2)
        assert process.wait(30) == 0


@pytest.fixture(scope="module")
def browser():
    try:
        running = Browser()
    except BrowserError as error:
        pytest.skip(str(error))
    with running:
        yield running


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (360, "dark")])
def test_it_follows_a_fit_in_a_browser(browser, tmp_path, width, scheme):
    """The page changes by itself, while the fit runs, until it has ended; and it is as legible as a report."""
    stop = threading.Event()
    model = ub.DirichletProcessMixture(
        n_shards=2, n_warmup=2, n_draws=100_000, random_state=0, checkpoint=tmp_path / NASTY,
        callback=lambda now: stop.is_set(),
    )  # fmt: skip
    fit = threading.Thread(target=model.fit, args=(rows(),), kwargs={"holdout": rows()[:20]})
    fit.start()
    try:
        while not (tmp_path / NASTY / "chain-1" / "trace.jsonl").exists():
            time.sleep(0.05)
        with served(tmp_path / NASTY) as server:
            browser.open(live.address(server), width, scheme)
            done = "Number(document.querySelector('progress').value)"
            first = browser.evaluate(done)
            browser.page.locator("summary", has_text="What the names mean").click()
            browser.page.wait_for_function(f"() => {done} > {first}")
            assert browser.evaluate("[...document.querySelectorAll('details')].map(e => e.open)") == [True, False]
            assert "rows/s" in browser.evaluate("document.querySelector('.now').innerText")
            stop.set()
            fit.join()
            browser.page.wait_for_function("() => document.body.innerText.includes('The fit was stopped')")
            found = faults(browser, width)
            assert found.pop("script", []) != []  # its own, the only one
            assert {name for name in found if name != "missing section"} == set()
            assert NASTY in browser.evaluate("document.body.innerText")
            assert browser.evaluate("document.querySelectorAll('[onerror]').length") == 0
        browser.page.wait_for_function("() => !document.getElementById('gone').hidden")  # and it says when it cannot
    finally:
        stop.set()
        fit.join()
    assert np.isfinite(model.posterior_["holdout"].values).all()
