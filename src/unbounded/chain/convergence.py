"""Has a fit run long enough? One check, which `fit`, `summary()`, the command line and the report share.

Every scalar of the trace is judged by its rank-normalised split R-hat, its effective sample sizes in the bulk and in
the tails, and its drift between the halves of the chains (docs/convergence.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from sklearn import exceptions

from unbounded.arrays import Array
from unbounded.chain.diagnostics import Diagnostics, diagnose

LEAST_DRAWS = 100  # of a chain: with fewer, whatever the numbers say is noise
R_HAT = 1.05  # the most
ESS = 50  # effective draws per chain, the least
DRIFT, DRIFT_ERRORS = 0.25, 4.0  # standard deviations, and standard errors: it is bad where it is above both
STUCK = 3.0  # standard deviations of a score by which a chain may be behind the best one
SCORES = ("holdout", "log_joint", "log_likelihood")  # the higher, the better; the first that a trace has
_NAMED = 4  # scalars, in a message
_FAR = 20  # times as many draws: too many for a number to help
PAGE = "Has it run long enough?"  # of the documentation

Spelling = Callable[..., str]  # (option, value): how an option of a fit is written by whoever reads the advice


def in_python(option: str, value: int | str | None = None) -> str:
    return option if value is None else f"{option}={value!r}"


_FLAGS = {"n_draws": "--draws", "n_warmup": "--warmup", "n_chains": "--chains"}


def on_the_command_line(option: str, value: int | str | None = None) -> str:
    return _FLAGS[option] if value is None else f"{_FLAGS[option]} {value}"


class ConvergenceWarning(exceptions.ConvergenceWarning):
    """The draws are not yet what they should be; the message says what is wrong, by how much, and what to do."""


@dataclass(frozen=True)
class Check:
    """The diagnostics of all scalars, and what follows from them."""

    n_chains: int
    n_draws: int  # of each chain
    scalars: Mapping[str, Diagnostics]
    skipped: tuple[str, ...]  # those with values that are not finite
    stuck: tuple[str, ...]  # a sentence on each chain that is behind the best one

    @property
    def judged(self) -> bool:
        return self.n_draws >= LEAST_DRAWS

    @property
    def passed(self) -> bool:
        return self.judged and not self.failing

    @property
    def failing(self) -> dict[str, tuple[str, ...]]:
        """Failing diagnostics by scalar, the worst scalar first."""
        bad = {name: wrong for name in self.scalars if (wrong := self.problems(name))}
        return dict(sorted(bad.items(), key=lambda item: -self._factor(item[0])))

    def problems(self, name: str) -> tuple[str, ...]:
        """Failing diagnostics of a scalar; none for a constant one."""
        if name in self.skipped or self.scalars[name].constant:
            return ()
        found = self.scalars[name]
        least = ESS * self.n_chains
        bad = {
            "r_hat": not found.r_hat <= R_HAT,
            "ess_bulk": not found.ess_bulk >= least,
            "ess_tail": not found.ess_tail >= least,
            "drift": abs(found.drift) > max(DRIFT, DRIFT_ERRORS * found.drift_error),
        }
        return tuple(statistic for statistic, wrong in bad.items() if wrong)

    def verdict(self, name: str) -> str:
        """The verdict on one scalar, in a word or two."""
        if name in self.skipped:
            return "not finite"
        if self.scalars[name].constant:
            return "constant"
        wrong = self.problems(name)
        if not self.judged:
            return "too few draws"
        return ", ".join(_NAMES[statistic] for statistic in wrong) if wrong else "converged"

    def _factor(self, name: str) -> float:
        """How many times as many draws it takes for the scalar's effective sample sizes to be large enough."""
        found = self.scalars[name]
        return ESS * self.n_chains / max(min(found.ess_bulk, found.ess_tail), 1.0)

    # ---- in words

    @property
    def headline(self) -> str:
        """One sentence."""
        if not self.judged:
            return f"not judged: {self.n_draws} draws per chain are too few, {LEAST_DRAWS} are the least."
        if self.passed:
            whole = "the chains agree" if self.n_chains > 1 else "the halves of the chain agree"
            return f"{whole} on every scalar of the trace."
        has = "the chains have" if self.n_chains > 1 else "the chain has"
        failing = self.failing
        named = [f"{name} ({self._numbers(name, wrong)})" for name, wrong in list(failing.items())[:_NAMED]]
        rest = len(failing) - len(named)
        return f"{has} not converged: {', '.join(named)}{f' and {rest} more' if rest > 0 else ''}."

    @property
    def message(self) -> str:
        """The headline, what disagrees, and what to do."""
        return self.said(in_python)

    def said(self, spelled: Spelling) -> str:
        """The message, with options as its reader writes them."""
        sentences = [self.headline]
        if self.judged and not self.passed:
            sentences += [*self.stuck, self.advice(spelled)]
        elif self.judged and self.n_chains == 1:
            sentences.append(f"One chain cannot show what another start would find; {spelled('n_chains', 2)} can.")
        return " ".join(sentences)

    def advice(self, spelled: Spelling = in_python) -> str:
        """What to do where the check fails."""
        factor = max(map(self._factor, self.failing))
        auto, longer = spelled("n_draws", "auto"), f"a longer {spelled('n_warmup')}"
        if factor > _FAR:
            more = f"Far more draws are needed ({auto} goes on until this check passes), or {longer}"
        elif factor > 1.0:
            least = int(-(-factor * self.n_draws // 50) * 50)
            more = (
                f"About {least - self.n_draws:,} more draws per chain would do ({spelled('n_draws', least)}, or {auto})"
            )
        else:
            more = f"More draws ({auto}), or {longer}, may help"
        other = "" if self.n_chains > 1 else f"; {spelled('n_chains', 2)} shows whether chains agree"
        return f'{more}{other}. The documentation says more under "{PAGE}".'

    def _numbers(self, name: str, wrong: tuple[str, ...]) -> str:
        found = self.scalars[name]
        total = f"{self.n_chains * self.n_draws:,} draws"
        numbers = {
            "r_hat": f"R-hat {found.r_hat:.3f}",
            "ess_bulk": f"ESS {found.ess_bulk:.0f} of {total}",
            "ess_tail": f"tail ESS {found.ess_tail:.0f}" + ("" if "ess_bulk" in wrong else f" of {total}"),
            "drift": f"drift {found.drift:+.2g} sd",
        }
        return ", ".join(numbers[statistic] for statistic in wrong)


_NAMES = {"r_hat": "R-hat", "ess_bulk": "ESS", "ess_tail": "tail ESS", "drift": "drift"}


def check(posterior: xr.Dataset) -> Check:
    """The check of all scalars with dimensions (chain, draw); assignments are left out."""
    traces = {str(name): value.values for name, value in posterior.items() if name != "assignments"}
    finite = {name: trace.astype(float) for name, trace in traces.items() if np.isfinite(trace).all()}
    return Check(
        posterior.sizes["chain"],
        posterior.sizes["draw"],
        {name: diagnose(trace) for name, trace in finite.items()},
        tuple(name for name in traces if name not in finite),
        _stuck(finite),
    )


def _stuck(traces: Mapping[str, Array]) -> tuple[str, ...]:
    """Chains whose score is below that of the best one by more than the score varies within chains."""
    score = next((name for name in SCORES if name in traces), None)
    if score is None:
        return ()
    means, spread = traces[score].mean(1), float(traces[score].std(1).mean())
    best = int(means.argmax())  # mutant: best chain
    behind = np.flatnonzero(means[best] - means > STUCK * spread)
    # Labels of atoms that overlap cost entropy: the mode with the lower log joint may have more mass.
    where = (
        "it is in a worse mode"
        if score == "holdout"
        else "they are in different modes; a holdout tells which is better"
    )
    return tuple(
        f"Chain {chain} is behind chain {best} by {means[best] - means[chain]:.4g} in {score}, which varies by "
        f"{spread:.2g} within a chain: {where}."
        for chain in behind
    )


def warn(found: Check, stacklevel: int) -> None:
    """Warn of what has not converged. A fit too short to be judged was not meant to converge: there is no warning."""
    if found.judged and not found.passed:
        warnings.warn(found.message, ConvergenceWarning, stacklevel=stacklevel + 1)
