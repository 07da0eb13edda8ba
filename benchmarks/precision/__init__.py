"""True float64 against naive float64 and float32: derivatives and matched pairs."""

from benchmarks.harness import Report
from benchmarks.precision.derivatives import naive_error, smollm2_checks
from benchmarks.precision.headline import headline


def run() -> Report:
    checks, figures = headline()
    figures["naive_float64.dS.relative_error"] = naive_error()
    return Report([*smollm2_checks(), *checks], figures)
