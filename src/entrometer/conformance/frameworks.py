"""Losses of other frameworks, run by their own code in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from entrometer.conformance.normalisers import group_deviation
from entrometer.conformance.scenarios import Scenario
from entrometer.errors import EntrometerError, MissingKey, nearest_name
from entrometer.interventions import Intervention
from entrometer.tokens import LossCoefficients


class FrameworkUnavailable(EntrometerError, RuntimeError):
    """A framework is not installed, or its losses cannot be imported."""


@dataclass(frozen=True)
class Framework:
    """A framework whose losses can be called."""

    name: str  #: Name on the command line.
    distribution: str  #: Name of the package that holds it.
    module: str  #: Name of its adaptor.
    line: str = ""  #: Field of `Remedy` with its config line, if it has one.


_FRAMEWORKS = {
    f.name: f
    for f in (
        Framework("trl", "trl", "trl", "trl"),
        Framework("verl", "verl", "verl", "verl"),
        Framework("openrlhf", "openrlhf", "openrlhf"),
        Framework("skyrl", "skyrl", "skyrl"),
        Framework("torchtitan", "torchtitan", "torchtitan"),
        Framework("prime-rl", "prime-rl", "prime_rl"),
        Framework("nemo-rl", "nemo-rl", "nemo_rl"),
        Framework("slime", "slime", "slime"),
    )
}

FRAMEWORKS = tuple(_FRAMEWORKS)
"""Names of the frameworks whose losses can be called."""

_SECONDS = 600
"""Longest time of a framework's process, most of which is importing it."""


def framework_of(name: str) -> Framework:
    """Return a framework by its name."""
    if name not in _FRAMEWORKS:
        raise MissingKey(
            f"expected a framework of {list(FRAMEWORKS)}, got {name!r}; name one of "
            f"them.{nearest_name(name, FRAMEWORKS)}"
        )
    return _FRAMEWORKS[name]


@dataclass(frozen=True)
class Answer:
    """What a framework's loss gives on the scenarios, or why it gives nothing."""

    coefficients: list[LossCoefficients]
    config: str  #: Its settings as `name=value`.
    float32: str = ""  #: Why it computes in float32; "" if it computes in float64.
    error: str = ""


def answers(
    framework: Framework,
    site: Path | None,
    interventions: Sequence[Intervention],
    scenarios: Sequence[Scenario],
) -> list[Answer]:
    """Return what a framework's losses give, for each intervention on all scenarios."""
    cases = [
        _case(framework, own, scenario)
        for own in interventions
        for scenario in scenarios
    ]
    found = _run(framework, site, cases)
    each = len(scenarios)
    return [
        _answer(found[i * each : (i + 1) * each]) for i in range(len(interventions))
    ]


def _case(
    framework: Framework, own: Intervention, scenario: Scenario
) -> dict[str, Any]:
    tables = scenario.tables
    names = ("S", "H", "S_old", "A", "mask", "group", "S_engine", "S_ref")
    line = getattr(own.remedy, framework.line) if framework.line else ""
    return {
        "loss": own.name,
        "settings": dict(own.settings),
        "line": line or "",
        "A_std": tables.A / (group_deviation(tables) + 1e-4),
        "micro_batch": scenario.micro_batch,
        "length_limit": tables.length_limit,
        **{name: getattr(tables, name).detach() for name in names},
    }


def _answer(found: Sequence[Mapping[str, Any]]) -> Answer:
    errors = [x["error"] for x in found if "error" in x]
    if errors:
        return Answer([], "", error=errors[0])
    pairs = [LossCoefficients(alpha=x["alpha"], gamma=x["gamma"]) for x in found]
    return Answer(pairs, found[0]["config"], found[0]["float32"])


def _run(
    framework: Framework, site: Path | None, cases: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    with TemporaryDirectory() as directory:
        asked, answered = Path(directory, "cases.pt"), Path(directory, "answers.pt")
        torch.save(cases, asked)
        # -P: no file of the working directory replaces a module of the framework.
        command = [sys.executable, "-P", "-m", "entrometer.conformance.child"]
        place = "" if site is None else str(site.resolve())
        done = subprocess.run(
            [*command, framework.module, place, str(asked), str(answered)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            cwd=directory,
            # Compiling a loss takes a minute and changes no number.
            env=os.environ | {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"},
        )
        if done.returncode or not answered.is_file():
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise FrameworkUnavailable(
                f"expected the losses of {framework.name}"
                + (f" in {site}" if site else "")
                + f", got {lines[-1]}; install it in a folder of its own with "
                "`pip install --no-deps --target FOLDER "
                f"{framework.distribution}`, and name the folder with --site"
            )
        found: list[dict[str, Any]] = torch.load(answered, weights_only=True)
    return found


def version_of(framework: Framework, site: Path | None) -> str:
    """Return the version of a framework, with the commit of a source folder."""
    path = [str(site)] if site else sys.path
    for distribution in metadata.distributions(name=framework.distribution, path=path):
        return distribution.version
    return _commit(site) if site else ""


def _commit(site: Path) -> str:
    """Return the short commit of a git folder; "source" if it is none."""
    head = site / ".git" / "HEAD"
    if not head.is_file():
        return "source"
    text = head.read_text().strip()
    if text.startswith("ref: "):
        reference = head.parent / text.removeprefix("ref: ")
        if not reference.is_file():
            return "source"
        text = reference.read_text().strip()
    return text[:9]
