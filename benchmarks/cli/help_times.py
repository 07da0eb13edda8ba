"""How long `--help` takes, by verb."""

from benchmarks.cli.process import entrometer
from benchmarks.harness import Check, worst
from entrometer.cli import VERBS

TRIES = 3


def help_times() -> tuple[list[Check], dict[str, float]]:
    seconds = {
        verb or "entrometer": worst(
            [entrometer(*filter(None, [verb]), "--help")[0] for _ in range(TRIES)]
        )
        for verb in ("", *VERBS)
    }
    slowest = worst(list(seconds.values()))
    return [Check("seconds of the slowest --help", slowest, at_most=1.0)], seconds
