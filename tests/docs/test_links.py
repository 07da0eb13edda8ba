"""Links between files of the repository lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p.name for p in ROOT.glob("*.md"))


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_in_the_root_exist(page):
    for link in links((ROOT / page).read_text()):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = ROOT / (path or page)
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def listed() -> list[str]:
    return links((DOCS / "llms.txt").read_text())


def source(link: str) -> Path:
    """File that Sphinx makes a page of llms.txt from."""
    if link.startswith("_sources/"):
        return DOCS / link.removeprefix("_sources/").removesuffix(".txt")
    return DOCS / link.replace(".html", ".md")


def test_every_page_for_language_models_exists():
    pages = listed()
    assert len(pages) == len(set(pages)) > 30
    for link in pages:
        assert re.fullmatch(r"_sources/.*\.(md|py)\.txt|reference/index\.html", link)
        assert source(link).is_file(), link


def in_toctrees(index: Path) -> set[Path]:
    """Markdown pages that the tables of contents of a page name."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL)
    names = [line for tree in trees for line in tree.splitlines()]
    return {index.parent / f"{n}.md" for n in names if re.fullmatch(r"[\w/-]+", n)}


def test_every_page_of_the_site_is_listed_for_language_models():
    pages = in_toctrees(DOCS / "index.md") | in_toctrees(DOCS / "how-to/index.md")
    assert len(pages) > 30
    assert pages <= {source(link) for link in listed()}


def test_the_site_has_the_list_for_language_models():
    assert '"llms.txt"' in (DOCS / "conf.py").read_text()
