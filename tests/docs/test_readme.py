"""What the README and the first pages promise is there."""

import re
import subprocess
import sys
from pathlib import Path

import gallery
import pytest

from entrometer.cli import VERBS
from entrometer.experiments.experiment import experiment_names

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
WHY = (ROOT / "docs/why-entropy-collapses.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_readme_is_short():
    assert len(README.splitlines()) < 150


@pytest.mark.parametrize("page", [README, TUTORIAL, WHY])
def test_every_verb_of_a_page_exists(page):
    verbs = set(re.findall(r"^(?:\$ | {4})?entrometer ([a-z]+) ", page, re.MULTILINE))
    assert verbs
    assert verbs <= {*VERBS, *experiment_names()}


def test_the_numbers_of_one_token_are_what_its_program_prints():
    (program,), (printed,) = blocks(WHY, "python"), blocks(WHY, "text")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == printed


def test_pages_of_the_gallery_are_linked_by_name_and_have_tables():
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r'"gallery/([\w-]+)\.html"', pages)) == gallery.PAGES.keys()
    for folder in gallery.PAGES.values():
        assert list((ROOT / folder).glob("*.parquet")), folder


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_have_alternative_text(page):
    text = page.read_text(encoding="utf-8")
    assert "![](" not in text
    for tag in re.findall(r"<img[^>]*>", text):
        assert re.search(r'alt="[^"]{20,}"', tag), tag
    for options in re.findall(r"```\{(?:image|figure)\} .*\n((?::.*\n)*)", text):
        assert re.search(r":alt: .{20,}", options), options
