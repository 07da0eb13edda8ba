"""Run a framework's own losses on saved batches, in a process of its own.

    python -m entrometer.conformance.child FRAMEWORK SITE CASES ANSWERS

SITE is a folder at the end of the path, "" for none. CASES is a list of dictionaries of
tables with `loss`, `settings` and `line`, written by torch; ANSWERS the same with
`alpha` and `gamma`, or with `error`.
"""

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from entrometer.conformance.adaptors.adaptor import coefficients


def main(framework: str, site: str, cases: str, answers: str) -> None:
    """Write the framework's coefficients of each case."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if site:
        # At the end: a framework may bring other versions of what is installed here,
        # or a package with a common name.
        sys.path.append(site)
    adaptor: Any = import_module(f"entrometer.conformance.adaptors.{framework}")
    adaptor.prepare(Path(site))
    found = []
    for case in torch.load(cases, weights_only=True):
        config_of = getattr(adaptor, "config_of_line", None)
        try:
            line = case["line"] or getattr(adaptor, "LINES", {}).get(case["loss"], "")
            if config_of is not None and line:
                config = config_of(line, case["settings"])
            else:
                config = adaptor.CONFIGS[case["loss"]](case["settings"])
            answer = coefficients(adaptor, config, case)
            why = adaptor.FLOAT32.get(case["loss"], "")
            found.append(answer | {"config": shown(config), "float32": why})
        # A framework's code may raise anything; the other losses go on.
        except Exception as error:
            found.append({"error": f"{type(error).__name__}: {error}"})
    torch.save(found, answers)


def shown(config: dict[str, Any], prefix: str = "") -> str:
    """Return settings as `name=value` with spaces between them."""
    words = []
    for name, value in config.items():
        if isinstance(value, dict):
            words.append(shown(value, f"{prefix}{name}."))
        else:
            words.append(f"{prefix}{name}={value}")
    return " ".join(filter(None, words))


if __name__ == "__main__":
    main(*sys.argv[1:])
