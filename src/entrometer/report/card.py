"""The card of an exported run: what was measured, on what, with what, how to cite."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from entrometer.report.identity import run_facts, run_name
from entrometer.report.kinds import FinishedRun
from entrometer.text import plain
from entrometer.version import __version__


def card(
    run: FinishedRun[Any], tables: Mapping[str, int], texts: int, paths: int
) -> str:
    """Return the card as Markdown, for the README of a folder or a dataset.

    Args:
        run: The run as exported.
        tables: Number of rows of each table file, by its path.
        texts: Number of texts that were left out.
        paths: Number of paths that were shortened.
    """
    about = run.about
    source = _text(about.get("source") or "")
    commit = f", commit `{source}`" if source else ""
    versions = about.get("versions")
    kept = versions if isinstance(versions, dict) else {}
    used = ", ".join(f"{_text(n)} {_text(v)}" for n, v in kept.items())
    date = str(about.get("date") or "")[:10]
    lines = [
        f"# {_text(run_name(run))}: {_text(run.title)}",
        "",
        _text(run_facts(run)),
        "",
        "## Found",
        "",
        *(f"- {_text(sentence)}" for sentence in run.sentences),
        *(f"- Warning: {_text(warning)}" for warning in run.warnings),
        "",
        "## Files",
        "",
        "`report.html` is a page for any browser; it loads nothing from elsewhere. "
        "`entrometer report .` draws it again; `pandas.read_parquet` reads a table:",
        "",
        "| table | rows |",
        "|---|--:|",
        *(f"| `{name}` | {rows:,} |" for name, rows in tables.items()),
        "",
        "`config.json` has every setting. Checkpoints, samples and passes are not "
        "here, so the run cannot be repeated from this folder alone.",
        "",
        "## Left out",
        "",
        _left_out(texts, paths),
        "",
        "## Made with",
        "",
        f"Entrometer {__version__} exported it."
        + (f" Measured on {_text(date)}{commit}, with {used}." if used else ""),
        "",
        "## Cite",
        "",
        "```bibtex",
        "@software{entrometer,",
        "  author = {{The Entrometer authors}},",
        "  title = {Entrometer},",
        f"  version = {{{_text(kept.get('entrometer', __version__))}}},",
        "}",
        "```",
        "",
        "and the publications of the losses that were compared, which the page names.",
    ]
    return "\n".join(lines) + "\n"


def _left_out(texts: int, paths: int) -> str:
    said = []
    if texts:
        said.append(
            f"{texts:,} texts of prompts, responses and tokens, with the ids of tokens"
        )
    if paths:
        said.append(f"all but the last part of {paths:,} paths")
    listed = "; ".join(said)
    if not listed:
        return "Nothing of the tables and settings."
    return f"{listed[0].upper()}{listed[1:]}."


def _text(value: object) -> str:
    """Return text of a run on one line that Markdown shows as it is."""
    # Names and sentences may come from someone else's files.
    return re.sub(r"([\\`*_|]|\](?=\())", r"\\\1", escape(plain(value), quote=False))
