"""The messages of the page are those that the command line prints."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from entrometer.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/troubleshooting.md"
EXAMPLES = re.findall(
    r"```console\n\$ entrometer (.+)\n(.+)\n```", PAGE.read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A watched training of seconds, and copies of its checkpoint with a fault."""
    place = tmp_path_factory.mktemp("troubleshooting")
    example = [sys.executable, str(ROOT / "examples/watch_trl.py"), "out"]
    subprocess.run(example, cwd=place, check=True, capture_output=True)
    for name in ("unsaved", "unwatched"):
        shutil.copytree(place / "out/checkpoint-4", place / name / "checkpoint-4")
    (place / "unsaved/checkpoint-4/optimizer.pt").unlink()
    shutil.copytree(place / "out/updates", place / "unsaved/updates")
    (place / "questions.jsonl").write_text('{"question": "2+2="}\n')
    return place


def portable(message: str) -> str:
    """Return the message without what torch says about the machine."""
    return re.sub(r"\([^)]*CUDA[^)]*\)", "(…)", message)


def test_the_page_has_ten_mistakes():
    headings = re.findall(
        r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings == [str(n) for n in range(1, 11)]
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize(("command", "message"), EXAMPLES)
def test_the_message_is_what_the_command_prints(
    folder, monkeypatch, capsys, command, message
):
    monkeypatch.chdir(folder)
    assert main(shlex.split(command)) == 2
    assert portable(capsys.readouterr().err.strip()) == portable(message)


WARNINGS = re.findall(
    r"^\| (.+?) \|", PAGE.read_text().split("## It ran, and warned")[1], re.MULTILINE
)[2:]


@pytest.mark.parametrize("warning", WARNINGS)
def test_words_of_a_warning_are_in_the_package(warning):
    # Strings of the source, joined over lines as Python joins them.
    source = "".join(f.read_text() for f in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r"\{[^{}]*\}", "", re.sub(r'"\s*f?"', "", source))
    for words in re.split("…|\\d+", warning):
        assert words.strip(" ,") in joined
