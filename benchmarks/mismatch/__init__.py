"""What an engine's numerics do to a step: exactly, and predicted against taken."""

from pathlib import Path
from typing import Any

from benchmarks.harness import Check, Report
from benchmarks.keeping import keeping
from benchmarks.mismatch.exact import CORRECTIONS, error
from benchmarks.mismatch.taken import SUBJECTS, WITHIN, effects, wanted

POLICIES = range(4)


def run() -> Report:
    errors = {c: max(error(c, seed) for seed in POLICIES) for c in CORRECTIONS}
    checks = [Check(f"exact.{c}", x, at_most=1e-10) for c, x in errors.items()]
    figures: dict[str, Any] = {"exact": errors}
    for c, x in errors.items():
        print(f"{c:<24}{x:.1e} off the exact effect, enumerable policy")
    with keeping("MISMATCH_AT", Path(__file__).parent) as kept:
        for name in wanted(SUBJECTS):
            found = kept.once(name, SUBJECTS[name])
            figures[name] = found
            rows = effects(found)
            for row in rows:
                print(f"{name}: {row}")
            share = sum(row.agrees is True for row in rows) / len(rows)
            label = f"{name}: effects whose halves agree within 95%"
            checks.append(Check(label, share, at_least=WITHIN))
    return Report(checks, figures)
