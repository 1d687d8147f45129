"""Mixtures and features on a GPU against brute force: the same comparison as on the CPU, with few and many open rows.

In `make test` the kernels are those of device_mirror.py, which tests/gpu compares with the real ones; in `make
exactness` they are Triton's, in its interpreter, and in `make gpu-test` they run on the GPU.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch", reason="the kernels of GPUs need torch: pip install -e '.[dev]'")

from device_mirror import few_open, mirrored, mirrored_bits  # noqa: E402
from enumeration import Run, check  # noqa: E402
from feature_problems import problem as feature_problem  # noqa: E402
from feature_truth import FeatureRun  # noqa: E402
from feature_truth import check as check_features  # noqa: E402
from geweke import Joint  # noqa: E402
from geweke import check as check_joint  # noqa: E402
from jumps import Moves  # noqa: E402
from jumps import check as check_jumps  # noqa: E402
from problems import problem  # noqa: E402

from unbounded.instantiation import Ghosts, OneOpen  # noqa: E402
from unbounded.models.mixtures import merges  # noqa: E402
from unbounded.models.mixtures.jump import Jumps  # noqa: E402

ON_GPU = os.environ.get("TRITON_INTERPRET") != "1"

SHORT = [
    ("bernoulli", "py", 5, Run(Ghosts(4), 2, chains=24, rounds=50, device="cuda"), 0.6),
]
LONG = [
    ("gaussian-1", "dp", 5, Run(Ghosts(3), chains=24, rounds=50, device="cuda"), 0.6),
    ("bernoulli", "dp", 5, Run(Ghosts(), 2, 2, chains=24, rounds=60, device="cuda"), 0.6),
    ("bernoulli", "py", 5, Run(Ghosts(3), 1, chains=24, rounds=60, device="cuda"), 0.0),
    ("sharp", "py", 5, Run(Ghosts(0), 1, 2, chains=24, rounds=60, device="cuda"), 0.6),
    ("sharp", "dp", 5, Run(Ghosts(4), 3, chains=24, rounds=60, device="cuda"), 1.0),
    ("gaussian-2", "py-negative", 5, Run(OneOpen(3), 2, 2, chains=24, rounds=60, device="cuda"), 0.6),
    ("gaussian-6", "dp", 4, Run(Ghosts(), 2, dtype="float32", chains=24, rounds=60, device="cuda"), 0.4),
    ("mixed", "py", 4, Run(Ghosts(2), 2, chains=24, rounds=60, device="cuda"), 9.0),
    ("bernoulli-holes", "py", 5, Run(Ghosts(4), 2, 3, chains=24, rounds=60, device="cuda"), 0.6),
    ("diagonal", "dp", 5, Run(OneOpen(), 2, chains=24, rounds=60, device="cuda"), 0.6),
    ("categorical-holes", "py", 5, Run(Ghosts(3), chains=24, rounds=60, device="cuda"), 0.6),
    ("poisson", "py-sampled", 5, Run(Ghosts(4), 2, chains=24, rounds=60, device="cuda"), 0.6),
    ("multinomial", "dp-sampled", 4, Run(Ghosts(2), 2, dtype="float32", chains=24, rounds=60, device="cuda"), 0.6),
]


def names(parameters: tuple) -> str:
    case, measure, n, run, opened = parameters
    return f"{case}-{measure}-n{n}-{run}-open{opened}"


@pytest.mark.parametrize(
    "parameters", [*SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)], ids=names
)
def test_chains_agree_with_enumeration(parameters):
    """In the interpreter, the mirror stands in for most of it."""
    case, measure, n, run, opened = parameters
    with mirrored(opened) if not ON_GPU else few_open(opened):
        verdict = check(problem(case, measure, n), run)
    assert verdict.passed, str(verdict)


FEATURES = [
    ("gaussian-3", "bb-2", 3, FeatureRun(Ghosts(), 2, chains=24, rounds=25, device="cuda"), 0.01),
]
MORE_FEATURES = [
    ("gaussian-3", "bb-1", 3, FeatureRun(Ghosts(30), 3, 2, chains=40, rounds=40, device="cuda"), 0.01),
    ("sharp", "bb-1", 3, FeatureRun(Ghosts(), 1, chains=40, rounds=40, device="cuda"), 1e9),
    ("gaussian-intercept", "bb-1", 3, FeatureRun(OneOpen(), 3, chains=40, rounds=40, device="cuda"), 0.01),
    ("gaussian-holes", "bb-2", 3, FeatureRun(Ghosts(1), 2, chains=40, rounds=40, device="cuda"), 0.01),
    ("gaussian-2", "bb-2", 3, FeatureRun(Ghosts(30), 2, dtype="float32", chains=40, rounds=40, device="cuda"), 0.01),
]


@pytest.mark.parametrize(
    "parameters", [*FEATURES, *(pytest.param(each, marks=pytest.mark.long) for each in MORE_FEATURES)], ids=names
)
def test_features_agree_with_enumeration(parameters):
    """Shards on the device and on the host by turns; slack: of births that the device leaves to the host."""
    case, law, n, run, slack = parameters
    with mirrored_bits(slack) if not ON_GPU else nullcontext():
        verdict = check_features(feature_problem(case, law, n), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("case", ["bernoulli", "gaussian-1"])
def test_kernels_agree_with_enumeration(case):
    """The kernels themselves, in the interpreter for few rounds."""
    run = Run(Ghosts(3), 2, chains=20, rounds=100 if ON_GPU else 20, device="cuda")
    with few_open():
        verdict = check(problem(case, "dp", 4), run)
    assert verdict.passed, str(verdict)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["cut", "both"])
@pytest.mark.parametrize("case", ["gaussian-2", "bernoulli"])
def test_jumps_agree_with_enumeration(case, kind):
    with mirrored() if not ON_GPU else few_open():
        verdict = check_jumps(problem(case, "py", 5), Moves(kind, 2, device="cuda", chains=24, rounds=60))
    assert verdict.passed, str(verdict)


JOINTS = [
    Joint("py", "gaussian", Ghosts(2), 2, rounds=60, device="cuda"),
    Joint("dp", "bernoulli", Ghosts(3), 3, 2, rounds=60, device="cuda"),
    Joint(
        "py", "gaussian", Ghosts(), 2, rounds=60, jumps=Jumps(every=1, joined=0.3, merges=3, coin=0.3), device="cuda"
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("joint", JOINTS, ids=str)
def test_prior_and_successive_conditional_agree(joint, monkeypatch):
    monkeypatch.setattr(merges, "SEEDS", (0, 1, 2))
    with mirrored() if not ON_GPU else few_open():
        verdict = check_joint(joint)
    assert verdict.passed, str(verdict)
