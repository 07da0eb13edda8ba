"""The command line: a verb, its settings, one line for a mistake."""

import sys
from collections.abc import Sequence

from entrometer.cli import evaluate, train
from entrometer.cli.verb import Verb
from entrometer.errors import EntrometerError, nearest_name

VERBS: dict[str, Verb] = {"eval": evaluate, "train": train}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; 0 for success, 2 for a mistake of the user, told in one line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verb = arguments[0] if arguments else "--help"
    if verb in ("-h", "--help"):
        print(_help())
        return 0
    if verb not in VERBS:
        print(
            f"entrometer: no verb {verb!r}.{nearest_name(verb, VERBS)} "
            f"There are: {', '.join(VERBS)}.",
            file=sys.stderr,
        )
        return 2
    try:
        return VERBS[verb].run(arguments[1:])
    except (EntrometerError, FileNotFoundError, PermissionError) as error:
        print(f"entrometer {verb}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on", file=sys.stderr)
        return 130


def _help() -> str:
    lines = [
        f"  {name:<8}{(module.__doc__ or '').splitlines()[0]}"
        for name, module in VERBS.items()
    ]
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
