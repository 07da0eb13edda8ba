"""The command line: a verb, its settings, one line for a mistake."""

import ast
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from entrometer.api.output import plain
from entrometer.errors import EntrometerError, nearest_name

VERBS = {
    "demo": "demo",
    "train": "train",
    "eval": "evaluate",
    "import": "importing",
    "measure": "measure",
    "influence": "influence",
    "kernel": "kernel",
    "compare": "compare",
    "report": "report",
    "replay": "replay",
}
"""The module of each; only that of the verb that is run is imported."""

_EXTRAS = {
    "accelerate": "train",
    "datasets": "train",
    "trl": "train",
    "math_verify": "tasks",
    "reasoning_gym": "tasks",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "gguf": "smollm2",
    "inspect_ai": "inspect",
    "peft": "",
    "torch": "",
    "transformers": "",
}
"""Packages that tables are read without, by the extra that brings them; "" for none."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; 0 for success, 2 for a mistake of the user, told in one line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verb = arguments[0] if arguments else "--help"
    if verb in ("-h", "--help"):
        print(_help())
        return 0
    if verb not in VERBS:
        near = nearest_name(verb, VERBS)
        return _refused("", f"no verb {verb!r}.{near} There are: {', '.join(VERBS)}.")
    try:
        code: int = import_module(f"{__name__}.{VERBS[verb]}").run(arguments[1:])
        return code
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not flush it again.
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
        print("\nstopped; the same command with --resume goes on", file=sys.stderr)
        return 130


def _refused(verb: str, why: object) -> int:
    print(plain(f"entrometer {verb}".rstrip() + f": {why}"), file=sys.stderr)
    return 2


def _help() -> str:
    lines = [f"  {name:<10}{_told(module)}" for name, module in VERBS.items()]
    return "\n".join(
        [
            "usage: entrometer VERB [settings]",
            "",
            "Measures what one policy-gradient step does to entropy and reward.",
            "",
            *lines,
            "",
            "entrometer VERB --help lists the settings.",
        ]
    )


def _told(module: str) -> str:
    """First line of a verb's docstring, read without the imports that it needs."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
