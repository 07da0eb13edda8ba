"""The command line: a verb, its settings, and one line for a mistake."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from entrometer.errors import EntrometerError, nearest_name
from entrometer.experiments.experiment import experiment, experiment_names
from entrometer.text import plain
from entrometer.version import __version__

VERBS = {
    "demo": "See it in minutes: train a tiny policy, evaluate, diagnose, report.",
    "train": "Train a policy on a task by imitation, then Dr-GRPO; or resume a run.",
    "import": "Convert a verl, OpenRLHF or DeepSpeed checkpoint, or a dumped batch.",
    "forecast": "Predict a training's entropy and reward at 2t and 4t from t steps.",
    "report": "Write finished runs as one HTML page, and their figures as files.",
    "view": "List the runs in a directory in the browser, and show their pages.",
    "export": "Write a run to share: page, tables, settings, card; no private texts.",
    "replay": "Run a finished run again from its saved settings; compare the tables.",
    "verify": "Compare your loss, or a framework's, with ours token by token.",
    "store": "List the passes in a store, verify them, delete what nothing needs.",
}
"""Verbs that are not experiments; the module of each is imported when it runs."""

_MODULES = {"import": "importing"}

_EXTRAS = {
    "accelerate": "train",
    "datasets": "train",
    "trl": "train",
    "math_verify": "tasks",
    "reasoning_gym": "tasks",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "starlette": "view",
    "uvicorn": "view",
    "gguf": "smollm2",
    "inspect_ai": "inspect",
    "peft": "",
    "torch": "",
    "transformers": "",
}
"""The extra that installs each optional package; "" for the package itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; return its exit code, or 2 for a mistake, printed in one line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verb = arguments[0] if arguments else "--help"
    names = [*VERBS, *experiment_names()]
    if verb in ("-h", "--help"):
        print(_help())
        return 0
    if verb == "--version":
        print(f"entrometer {__version__}")
        return 0
    if verb not in names:
        near = nearest_name(verb, names)
        return _refused("", f"no verb {verb!r}.{near} There are: {', '.join(names)}.")
    try:
        if verb in VERBS:
            module = import_module(f"{__name__}.{_MODULES.get(verb, verb)}")
            return int(module.run(arguments[1:]))
        from entrometer.cli.experiment_verb import run

        return run(experiment(verb), arguments[1:])
    except BrokenPipeError:
        # The reader of our output has closed it; Python must not flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        extra = _EXTRAS[missing]
        install = (
            f"pip install 'entrometer[{extra}]'" if extra else "pip install entrometer"
        )
        return _refused(verb, f"needs {missing}, which is not installed; {install}")
    except (EntrometerError, OSError) as error:
        return _refused(verb, error)
    except KeyboardInterrupt:
        print("\nstopped; resume with the same command and --resume", file=sys.stderr)
        return 130


def _refused(verb: str, why: object) -> int:
    print(plain(f"entrometer {verb}".rstrip() + f": {why}"), file=sys.stderr)
    return 2


def _help() -> str:
    lines = VERBS | {name: experiment(name).help for name in experiment_names()}
    first = ["demo", "train", "import"]
    last = ["forecast", "report", "view", "export", "replay", "verify", "store"]
    order = [*first, *experiment_names(), *last]
    width = max(map(len, order)) + 1
    return "\n".join(
        [
            "usage: entrometer VERB [settings]",
            "",
            "Measures what one policy-gradient step does to entropy and reward.",
            "",
            *(f"  {name:<{width}}{lines[name]}" for name in order),
            "",
            "entrometer VERB --help lists the settings; --version prints the version.",
        ]
    )
