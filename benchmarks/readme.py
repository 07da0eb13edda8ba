"""The README followed literally, from a fresh clone and with nothing installed.

Its `sh` and `python` blocks and the lines of its `console` blocks that begin with `$`
are run one after another in one shell, in a home of its own: no environment, cache or
model of this user is seen. What they print goes to stderr, as it comes.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote

from benchmarks.harness import Check, Report

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(sh|console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run() -> Report:
    commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        done = follow(commands, Path(folder))
    failed = [command for command, code, _ in done if code]
    demo = next(i for i, (x, *_) in enumerate(done) if x.startswith("entrometer demo"))
    to_page = sum(seconds for *_, seconds in done[: demo + 1])
    return Report(
        [
            Check("commands", len(done), at_least=len(commands)),
            Check("commands that failed", len(failed), at_most=0),
            Check("seconds from an empty environment to a page", to_page, at_most=300),
        ],
        {
            "seconds": [[command, seconds] for command, _, seconds in done],
            "failed": failed,
        },
    )


def commands_of(page: str) -> list[str]:
    """What a reader would type or save, in order; a Python program is one of them."""
    found: list[str] = []
    for language, text in _BLOCK.findall(page):
        if language == "python":
            found.append(text)
        elif language == "sh":
            found += [line for line in text.splitlines() if line.strip()]
        else:
            found += [x[2:] for x in text.splitlines() if x.startswith("$ ")]
    return found


def follow(commands: list[str], folder: Path) -> list[tuple[str, int, float]]:
    """First line, exit code and seconds of each command."""
    clone, home, times = folder / "entrometer", folder / "home", folder / "times"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    lines = []
    for number, command in enumerate(commands):
        first = command.splitlines()[0]
        typed = command
        if "\n" in command:
            program = folder / f"program_{number}.py"
            program.write_text(command, encoding="utf-8")
            typed = f"python {quote(str(program))}"
        lines += [
            f"printf '\\n$ %s\\n' {quote(first)}; began=$EPOCHREALTIME",
            typed,
            f'echo "$? $began $EPOCHREALTIME" >> {quote(str(times))}',
        ]
    # Without the environment that runs this: the README makes its own.
    here = os.path.dirname(sys.executable)
    path = (p for p in os.environ["PATH"].split(os.pathsep) if p != here)
    own = ("VIRTUAL_ENV", "PYTHON", "XDG_", "HF_", "ENTROMETER_")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(own)},
        "HOME": str(home),
        "PATH": os.pathsep.join(path),
    }
    subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=clone,
        env=environment,
        stdout=sys.stderr,
        check=False,
    )
    rows = [line.split() for line in times.read_text().splitlines()]
    return [
        (command.splitlines()[0], int(code), round(float(end) - float(began), 1))
        for command, (code, began, end) in zip(commands, rows, strict=False)
    ]
