"""Hostile files and values: each is refused in one line, at once, in little memory."""

import os
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from benchmarks.harness import Check, Report, worst
from benchmarks.hostile.case import Case, Workshop, measure
from benchmarks.hostile.trial import Outcome, main
from benchmarks.hostile.trial import run as try_case

SECONDS, MEBIBYTES = 10, 1024
_SUPPORT = {"case", "trial", "world"}


def families() -> list[Case]:
    """The cases of all modules of this package."""
    modules = iter_modules([str(Path(__file__).parent)])
    names = sorted(m.name for m in modules if m.name not in _SUPPORT)
    return [
        case
        for name in names
        for case in import_module(f"benchmarks.hostile.{name}").cases()
    ]


def run(chosen: str = "") -> Report:
    # The parent forks: threads of tokenizers or of torch would not survive it.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    from benchmarks.hostile.world import STEP, build
    from entrometer.policy import load_policy

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        build(world)
        _import_all()
        load_policy(world / "lora" / f"checkpoint-{STEP}")
        found = [
            try_case(case, world, main)
            for case in families()
            if chosen in f"{case.family}: {case.name}"
        ]
        controls = [try_case(case, world, main) for case in _controls()]
        known = Case("controls", "256 MiB", lambda shop: ["256"], "")
        seen = try_case(known, world, _fill).mebibytes
    return _report(found, controls, seen)


def _import_all() -> None:
    """What a command imports, so that it is not measured."""
    for name in (
        *("api.calls", "cli.experiment_verb", "cli.train", "cli.report"),
        *("cli.importing", "cli.replay", "importers", "report", "training.run"),
        *("experiments.measure", "experiments.evaluation", "engine"),
    ):
        import_module(f"entrometer.{name}")


def _controls() -> list[Case]:
    """Sound inputs, which must be read: a check that refuses everything is none."""
    from benchmarks.hostile.world import STEP

    def checkpoint(kind: str, update: str = "sampled-1") -> Case:
        def make(shop: Workshop) -> list[str]:
            return measure(shop, shop.copy(kind) / f"checkpoint-{STEP}", update)

        return Case("controls", f"{kind}, {update}", make, "")

    def command(name: str, *arguments: str) -> Case:
        def make(shop: Workshop) -> list[str]:
            shop.copy(name)
            return list(arguments)

        return Case("controls", name, make, "")

    return [
        checkpoint("full", "recorded"),
        checkpoint("sharded"),
        checkpoint("lora"),
        command("measured", "report", "measured/run", "--out", "report.html"),
        command("trained", "report", "trained/run", "--out", "report.html"),
        command("verl", "import", f"verl/global_step_{STEP}", "imported"),
        command("prime_rl", "import", f"prime_rl/step_{STEP}", "imported"),
        command("slime", "import", f"slime/train_data/{STEP}.pt", "imported"),
    ]


def _fill(arguments: list[str]) -> int:
    """Take so many MiB, for a moment."""
    return 2 * bool(bytearray(int(arguments[0]) * 2**20))


def _report(found: list[Outcome], controls: list[Outcome], seen: float) -> Report:
    kinds = Counter(outcome.case.family for outcome in found)
    wrong: dict[str, list[Any]] = {
        "ran": [o for o in found if o.ran],
        "tracebacks": [o for o in found if o.traceback],
        "silent": [o for o in found if o.silent],
        "unnamed": [o for o in found if o.unnamed],
        "slow": [o for o in found if o.seconds > SECONDS],
        "large": [o for o in found if o.mebibytes > MEBIBYTES],
        "controls refused": [o for o in controls if o.code != 0],
    }
    counts = {name: len(outcomes) for name, outcomes in wrong.items()}
    return Report(
        [
            Check("hostile inputs", len(found), at_least=150),
            Check("families", len(kinds), at_least=12),
            Check("ran code", counts["ran"], at_most=0),
            Check("tracebacks", counts["tracebacks"], at_most=0),
            Check("accepted in silence", counts["silent"], at_most=0),
            Check("refused without a name or in lines", counts["unnamed"], at_most=0),
            Check("seconds of one", worst([o.seconds for o in found]), at_most=SECONDS),
            Check(
                "MiB above the size of one",
                worst([o.mebibytes for o in found]),
                at_most=MEBIBYTES,
            ),
            # A measure that sees nothing would hold any limit.
            Check("MiB that one of 256 MiB is seen to take", seen, at_least=240),
            Check("sound inputs refused", counts["controls refused"], at_most=0),
        ],
        {
            "families": dict(sorted(kinds.items())),
            "largest": [_told(o) for o in sorted(found, key=_size)[-3:]],
            **{name: [_told(o) for o in outcomes] for name, outcomes in wrong.items()},
        },
    )


def _size(outcome: Outcome) -> float:
    return outcome.mebibytes


def _told(outcome: Outcome) -> str:
    text = outcome.text.strip()
    case = outcome.case
    return (
        f"{case.family}: {case.name}: exit {outcome.code}, {outcome.seconds:.1f} s, "
        f"{outcome.mebibytes:.0f} MiB: {text[:120]} … {text[-300:]}"
    )
