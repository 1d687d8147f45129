"""Threads and serial need nothing that only Unix has: it is taken away, and a fit runs, stops and goes on."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal, socket, sys, warnings
import numpy, pandas, scipy.stats, sklearn, numba, llvmlite, xarray, matplotlib, arviz  # theirs may stay as they are

for module in ("fcntl", "pwd", "grp", "resource", "termios", "_posixshmem"):
    sys.modules[module] = None  # importing it fails
for owner, names in {
    os: "getuid geteuid getgid fork pread pwrite sched_yield sched_getaffinity memfd_create uname killpg O_CLOEXEC",
    signal: "pthread_sigmask SIGHUP SIGUSR1",
    socket: "send_fds recv_fds",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
os.supports_fd = set()

warnings.simplefilter("ignore")
import unbounded as ub

X = numpy.random.default_rng(0).normal(size=(60, 2))
settings = {"n_warmup": 5, "n_draws": 6, "random_state": 0}
whole = ub.DirichletProcessMixture(**settings, engine="serial").fit(X)
ub.DirichletProcessMixture(**{**settings, "n_draws": 3}, checkpoint="run").fit(X)
longer = ub.DirichletProcessMixture(**settings, checkpoint="run").fit(X)
assert longer.posterior_.equals(whole.posterior_)
assert longer.report(X=X).exists()
try:
    ub.DirichletProcessMixture(**settings, engine="processes").fit(X)
except ub.EngineError as error:
    print(error)
"""


def test_threads_and_serial_run_without_unix(tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "passes open files between processes, which this system has not." in done.stdout
