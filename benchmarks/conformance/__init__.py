"""Token weights of losses by the code of eight frameworks, compared with ours.

Frameworks are looked for in this environment and in the folders of `sites`. Each cell
is a loss in a framework; it agrees, or the reason predicts what is different.
"""

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import Check, Report, worst
from entrometer.cli.verify import print_rows
from entrometer.conformance.difference import apart
from entrometer.conformance.frameworks import FRAMEWORKS, FrameworkUnavailable
from entrometer.conformance.reasons import AGREES, DIFFERS, NORMALISER
from entrometer.conformance.rows import LACKS, Row, rows
from entrometer.conformance.scenarios import Scenario, scenarios
from entrometer.interventions import PLAIN, intervention

ROOT = Path(__file__).parents[2]
SITES = Path(os.environ.get("FRAMEWORKS", ROOT / ".frameworks"))
"""Folder with a folder for each framework, named as on the command line."""


def sites() -> dict[str, Path | None]:
    """Return where each framework is, None for this environment."""
    found: dict[str, Path | None] = {"trl": None, "verl": ROOT / ".verl"}
    return {name: found.get(name, SITES / name) for name in FRAMEWORKS}


def run() -> Report:
    table: list[Row] = []
    unavailable: dict[str, str] = {}
    for framework, site in sites().items():
        if site is not None and not site.is_dir():
            unavailable[framework] = f"no folder {site}"
            continue
        try:
            table += rows(framework, site)
        except FrameworkUnavailable as error:
            unavailable[framework] = str(error)
    compared = [row for row in table if row.verdict != LACKS]
    print_rows(compared)
    for framework, why in unavailable.items():
        print(f"{framework}: {why}")
    count = Counter(row.verdict for row in compared)
    named = [row for row in compared if row.verdict != AGREES]
    checks = [
        Check("frameworks", len({row.framework for row in compared}), at_least=4),
        Check("cells", len(compared), at_least=40),
        Check("differences", count[DIFFERS], at_least=3),
        # What agrees is within the arithmetic of its framework.
        Check(
            "agreeing, largest difference over its tolerance",
            worst([r.rest / r.tolerance for r in compared if r.verdict == AGREES]),
            at_most=1.0,
        ),
        Check(
            "differences whose reason does not predict the framework's coefficients",
            sum(row.rest > row.tolerance for row in named),
            at_most=1,
        ),
        Check("losses that do nothing on the batches", idle(compared), at_most=0),
    ]
    figures = {
        "rows": [asdict(row) for row in compared],
        "verdicts": {v: count[v] for v in (AGREES, NORMALISER, DIFFERS)},
        "unavailable": unavailable,
        "lacking": lacking(table),
    }
    return Report(checks, figures)


def idle(compared: list[Row]) -> int:
    """Return how many compared losses are Dr-GRPO on every batch.

    Two implementations of a loss that does nothing would agree as well.
    """
    batches = scenarios()
    plain = intervention(PLAIN)
    names = {row.loss for row in compared} - {PLAIN}

    def acts(text: str, s: Scenario) -> bool:
        own = intervention(text).coefficients(s.tables)
        return apart(plain.coefficients(s.tables), own).largest > 1e-3

    return sum(not any(acts(text, s) for s in batches) for text in names)


def lacking(table: list[Row]) -> dict[str, list[str]]:
    """Return the losses that each framework cannot express."""
    found: dict[str, list[str]] = {}
    for row in table:
        if row.verdict == LACKS:
            found.setdefault(row.framework, []).append(row.loss)
    return found
