"""Names of repositories on the Hugging Face hub, pinned to a commit."""

import re
from typing import NamedTuple

from entrometer.errors import InvalidValue

_NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>.*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HubName(NamedTuple):
    """A repository at a commit, written `owner/name@commit`."""

    repository: str
    revision: str
    """The commit's 40 hex digits."""


def hub_name(text: str) -> HubName | None:
    """Return the hub name that `text` is, or None if it has not the form of one.

    A name without a commit is refused: a branch or a tag may be moved, and the same
    setting would then load other weights or other problems.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    repository, revision = match["repository"], match["revision"]
    if revision is None or not _COMMIT.fullmatch(revision):
        got = "no commit" if revision is None else f"{revision!r}"
        raise InvalidValue(
            f"{text}: no such directory here, and a name on the Hugging Face hub is "
            f"expected with a commit, got {got}; write {repository}@<40 hex digits> "
            "with a commit from 'Files and versions' on its page, or give the path of "
            "a copy"
        )
    return HubName(repository, revision)
