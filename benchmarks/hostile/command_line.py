"""Hostile values on the command line, and in the settings of a run."""

from typing import Any

from benchmarks.hostile.case import SMALL, Case, Workshop, deep, edit, put
from benchmarks.hostile.world import STEP

TRAIN: dict[str, tuple[str, ...]] = {
    "learning rate inf": ("--learning-rate", "inf"),
    "learning rate nan": ("--learning-rate", "nan"),
    "learning rate -1": ("--learning-rate", "-1"),
    "learning rate 1e999": ("--learning-rate", "1e999"),
    "learning rate abc": ("--learning-rate", "abc"),
    "prompts abc": ("--prompts", "abc"),
    "prompts 1e18": ("--prompts", str(10**18)),
    "prompts 1.5": ("--prompts", "1.5"),
    "problems 1e12": ("--problems", str(10**12)),
    "temperature inf": ("--temperature", "inf"),
    "temperature nan": ("--temperature", "nan"),
    "betas 2": ("--betas", "2", "2"),
    "betas nan": ("--betas", "nan", "0.9"),
    "decay inf": ("--weight-decay", "inf"),
    "gradient norm nan": ("--max-grad-norm", "nan"),
    "format weight inf": ("--format-weight", "inf"),
    "seed -1": ("--seed", "-1"),
    "seed 2^70": ("--seed", str(2**70)),
    "an unknown intervention": ("--intervention", "\x1b[31mred"),
    "an unknown task": ("--task", "../../x"),
    "an unknown level": ("--level", "x" * 10_000),
    "an imitation rate inf": ("--imitation.learning-rate", "inf"),
    "an unknown flag": ("--no-such-flag", "1"),
    "an intervention with text": ("--intervention", "entropy-bonus:alpha=abc"),
    "an intervention with nan": ("--intervention", "entropy-bonus:alpha=nan"),
}
MEASURE: dict[str, tuple[str, ...]] = {
    "prompts abc": ("--prompts", "abc"),
    "prompts 1e12": ("--prompts", str(10**12)),
    "prompts -1": ("--prompts", "-1"),
    "problems 1e12": ("--problems", str(10**12)),
    "etas inf": ("--etas", "inf"),
    "etas nan": ("--etas", "nan"),
    "temperature nan": ("--temperature", "nan"),
    "max tokens 1e15": ("--max-tokens", str(10**15)),
    "gradient norm inf": ("--max-grad-norm", "inf"),
    "updates nothing": ("--updates", ""),
    "updates of 5000 digits": ("--updates", "sampled-" + "9" * 5000),
    "a device of none": ("--device", "evil:9"),
    "a task of none": ("--task", "evil"),
    "seed -1": ("--seed", "-1"),
}
CONFIGS: dict[str, dict[str, Any]] = {
    "steps as text": {"steps": "many"},
    "policy as a number": {"policy": 5},
    "betas as a number": {"betas": 5},
    "learning rate NaN": {"learning_rate": float("nan")},
    "temperature infinite": {"temperature": float("inf")},
    "adapter as a list": {"adapter": [1]},
    "adapter's modules as numbers": {"adapter": {"modules": [1]}},
    "imitation null": {"imitation": None},
    "an unknown setting": {"os.system": 1},
    "a level of lists": {"level": [[[]]]},
    "problems 1e12": {"problems": 10**12},
}


def cases() -> list[Case]:
    found = [
        Case("command line", f"train: {name}", _train(flags), _setting(flags))
        for name, flags in TRAIN.items()
    ]
    found += [
        Case("command line", f"measure: {name}", _measure(flags), _setting(flags))
        for name, flags in MEASURE.items()
    ]
    found += [_config(name, change) for name, change in CONFIGS.items()]
    found += [
        _raw("deep", deep(50_000)),
        _raw("a list", "[]"),
        _raw("empty", ""),
        _raw("40 MB", '{"a": "' + "a" * (40 * 2**20) + '"}'),
    ]
    return found


def _setting(flags: tuple[str, ...]) -> str:
    """A setting is named as it is in Python, or as a flag, by its last part."""
    if flags[1].startswith("entropy-bonus"):
        return "entropy-bonus"
    last = flags[0].rpartition(".")[2].removeprefix("--").split("-")[0]
    return {"no": "--no-such-flag", "updates": "update"}.get(last, last)


def _train(flags: tuple[str, ...]) -> Any:
    few = ("--steps", "1", "--imitation.steps", "0", "--max-tokens", "4")
    return lambda shop: ["train", "--run", "new", *few, *flags]


def _measure(flags: tuple[str, ...]) -> Any:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("full") / f"checkpoint-{STEP}"
        common = ["--updates", "sampled-1", *SMALL]
        return ["measure", str(path), "--run", "new", *common, *flags]

    return make


def _config(name: str, change: dict[str, Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("trained") / "run"
        edit(path / "config.json", **change)
        return ["train", "--resume", str(path)]

    return Case("run settings", name, make, "config.json")


def _raw(name: str, text: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("trained") / "run"
        put(path / "config.json", text)
        return ["train", "--resume", str(path)]

    return Case("run settings", name, make, "config.json")
