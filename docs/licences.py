"""Licences of what an install brings, as the installed packages state them.

python docs/licences.py > docs/licences.md
"""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "entrometer"
COPYLEFT = re.compile(r"GPL|GNU|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL|OSL", re.IGNORECASE)
TOOLS = {"dev", "docs"}
"""Extras of those who work on the package; they come last."""

LONGEST = 90
"""Some packages put the text of a licence where its name belongs."""

HEAD = """# Licences of dependencies

Entrometer is under the Apache License 2.0. It is shipped without the packages below,
which an install fetches beside it: those of a plain install, and what each extra adds
to it. A package is listed where it first comes in, those that `pyproject.toml` names
before those that they bring. The licences are those that each package states of itself;
in **bold** are those with terms of copyleft, and those that are not stated.

Written by `python docs/licences.py > docs/licences.md` in the environment of
`make install`, on Linux without a GPU; torch with CUDA brings NVIDIA's packages too,
under NVIDIA's terms.
"""


def main() -> None:
    """Print the page."""
    print(HEAD)
    own = distribution(PACKAGE)
    extras = set(own.metadata.get_all("Provides-Extra") or []) - {"all"}
    seen = {canonicalize_name(PACKAGE)}
    marked: list[str] = []
    for extra in ("", *sorted(extras, key=lambda name: (name in TOOLS, name))):
        print(f"## Extra `{extra}`\n" if extra else "## Plain install\n")
        rows = []
        for requirement, how in _walk(list(_needed(own, {extra}))):
            name = canonicalize_name(requirement.name)
            if name in seen:
                continue
            seen.add(name)
            found = distribution(name)
            said = _licence(found)
            if COPYLEFT.search(said) or said == "not stated":
                marked.append(f"{name} ({said})")
                said = f"**{said}**"
            rows.append(f"| {name} | {found.version} | {said} | {how} |")
        head = [
            "| package | version | licence | named or brought |",
            "|---|---|---|---|",
        ]
        print(
            *([*head, *rows] if rows else ["All listed above."]), sep="\n", end="\n\n"
        )
    print("## Copyleft, and unstated\n")
    print("\n".join(f"- {line}" for line in sorted(marked)))


def _needed(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """What a package requires here, with some of its extras."""
    for text in package.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": e}) for e in extras):
            yield requirement


def _walk(direct: list[Requirement]) -> Iterator[tuple[Requirement, str]]:
    """Those that are named, then all that they bring, by name."""
    yield from ((r, "named") for r in sorted(direct, key=lambda r: r.name))
    brought: dict[tuple[str, frozenset[str]], Requirement] = {}
    waiting = list(direct)
    while waiting:
        requirement = waiting.pop()
        package = distribution(requirement.name)
        for further in _needed(package, {"", *requirement.extras}):
            key = canonicalize_name(further.name), frozenset(further.extras)
            if key not in brought:
                brought[key] = further
                waiting.append(further)
    yield from (
        (brought[key], "brought") for key in sorted(brought, key=lambda k: k[0])
    )


def _licence(package: Distribution) -> str:
    """An expression if there is one, else a short name, else the classifiers."""
    metadata = package.metadata
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    named = str(metadata["License"] or "").strip()
    kinds = [
        classifier.rpartition(" :: ")[2]
        for classifier in metadata.get_all("Classifier") or []
        if classifier.startswith("License ::")
    ]
    vague = named in {"", "UNKNOWN", "Dual License"}
    if vague or "\n" in named or len(named) > LONGEST:
        return ", ".join(kinds) or "not stated"
    return named


if __name__ == "__main__":
    main()
