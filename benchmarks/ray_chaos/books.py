"""What a store holds after a run."""

from collections import Counter
from pathlib import Path

from entrometer.engine import read_log
from entrometer.engine.manifest import LOG
from entrometer.runs.content import file_sha256


def results(store: Path) -> list[Path]:
    """The finished ones; none before a driver has made the store."""
    if not store.exists():
        return []
    return [
        path
        for path in store.iterdir()
        if path.name != LOG and not path.name.startswith(".")
    ]


class Books:
    """Results by name with their hashes, and the passes that were logged."""

    def __init__(self, store: Path) -> None:
        self.files = {path.name: file_sha256(path) for path in results(store)}
        rows = Counter(row.name for row in read_log(store))
        self.doubled = sum(count - 1 for count in rows.values())
        self.passes = len(rows)
        self.sums = sum(name.startswith("sum") for name in rows)
