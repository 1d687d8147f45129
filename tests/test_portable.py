"""Threads and serial need nothing that only Unix has: it is taken away, and a fit runs, stops and goes on.

What Windows forbids is forbidden as well: replacing or removing a file that is open, and text other than ASCII in files
whose encoding nobody names.
"""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = r"""
import contextlib, mmap, os, pathlib, select, signal, socket, sys, time, warnings
import numpy, pandas, scipy.stats, sklearn, numba, llvmlite, xarray, matplotlib.pyplot, arviz  # theirs may stay
import asyncio, multiprocessing, subprocess, http.server, importlib.metadata, typer, rich.console

for module in ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog", "readline", "curses",
               "_posixshmem", "_posixsubprocess"):
    sys.modules[module] = None  # importing it fails
for owner, names in {
    os: "getuid geteuid getgid getegid fork forkpty pread pwrite preadv pwritev readv writev sched_yield "
        "sched_getaffinity sched_setaffinity memfd_create uname killpg getpgid getpgrp setsid O_CLOEXEC O_DIRECTORY "
        "O_NOFOLLOW O_SYNC O_DSYNC O_NONBLOCK posix_fallocate posix_fadvise fchmod fchown chown lchown mkfifo mknod "
        "nice getloadavg getrlimit statvfs fstatvfs sync fdatasync pipe2 wait3 wait4 waitid sendfile copy_file_range "
        "sysconf register_at_fork getpriority ctermid ttyname openpty lockf splice eventfd pidfd_open getxattr",
    signal: "pthread_sigmask pthread_kill sigwait sigpending sigtimedwait setitimer alarm pause SIGHUP SIGUSR1 SIGUSR2 "
            "SIGKILL SIGALRM SIGCHLD SIGQUIT SIGPIPE SIGSTOP SIGCONT SIGTSTP",
    socket: "send_fds recv_fds AF_UNIX SO_REUSEPORT CMSG_LEN",
    mmap: "MAP_PRIVATE MAP_SHARED MAP_ANONYMOUS MAP_POPULATE PROT_READ PROT_WRITE PROT_EXEC MADV_DONTNEED",
    select: "poll epoll",
    time: "tzset clock_gettime clock_getres pthread_getcpuclockid CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID "
          "CLOCK_THREAD_CPUTIME_ID CLOCK_REALTIME",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
os.supports_fd = os.supports_dir_fd = os.supports_follow_symlinks = set()


def open_files():
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it meanwhile
            yield os.readlink(f"/proc/self/fd/{name}")


def is_open(path):
    where = os.path.abspath(path)
    return where in open_files() or f" {where}\n" in open("/proc/self/maps", encoding="utf-8").read()


def careful(function):
    def checked(*paths, **options):
        for path in paths:
            if isinstance(path, str | os.PathLike) and is_open(path):
                raise PermissionError(13, "the file is open", os.fspath(path))
        return function(*paths, **options)

    return checked


for name in ("replace", "rename", "unlink", "remove"):
    setattr(os, name, careful(getattr(os, name)))

with open("probe", "w") as file:
    try:
        os.replace("probe", "other")
        sys.exit("an open file was replaced")
    except PermissionError:
        pass

warnings.simplefilter("ignore")
import unbounded as ub

X = numpy.random.default_rng(0).normal(size=(60, 2))
settings = {"n_warmup": 5, "n_draws": 6, "random_state": 0}
whole = ub.DirichletProcessMixture(**settings, engine="serial").fit(X)
ub.DirichletProcessMixture(**{**settings, "n_draws": 3}, checkpoint="run").fit(X)
longer = ub.DirichletProcessMixture(**settings, checkpoint="run", progress=True).fit(X)
assert longer.posterior_.equals(whole.posterior_)
assert longer.report(X=X).exists()
ub.HierarchicalDirichletProcess(**settings, checkpoint="topics").fit([["aa", "bb"], ["aa", "cc"]] * 8)
ub.BetaBernoulliFeatures(**settings, checkpoint="features").fit(X)

from unbounded.cli.commands import app

pandas.DataFrame(X, columns=["gr\u00f6\u00dfe", "b"]).to_csv("table.csv", index=False, encoding="utf-8")
for words in ("fit dp table.csv --out there --warmup 3 --draws 4", "report there", "summary there"):
    app(words.split(), standalone_mode=False)
assert pathlib.Path("there/report.html").exists()
try:
    ub.DirichletProcessMixture(**settings, engine="processes").fit(X)
except ub.EngineError as error:
    print(error)
"""


def test_threads_and_serial_run_without_unix(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=os.environ | plain, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "passes open files between processes, which this system cannot do." in done.stdout
