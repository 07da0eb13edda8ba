"""Ways that take turns."""

import os
import time
from functools import partial
from itertools import pairwise

from benchmarks.turns import in_turn, twice

PIECES = 2
SECONDS = 0.5
"""Of a piece: longer than a busy machine lets a process wait."""


def work(folder, ended):
    """Note who was at which piece, and when."""
    folder.mkdir(exist_ok=True)
    for number in range(PIECES):
        began = time.monotonic()
        time.sleep(SECONDS)
        note = folder / f"{number}-{os.getpid()}"
        note.write_text(f"{began} {time.monotonic()}")
        ended(PIECES - 1 - number)


def test_one_waits_for_another_and_twice_is_at_once(tmp_path):
    alone, both = partial(work, tmp_path / "alone"), partial(work, tmp_path / "both")
    spans = in_turn({"alone": alone, "both": partial(twice, both)}, PIECES)
    assert min(min(own) for own in spans.values()) >= SECONDS
    assert [len(own) for own in spans.values()] == [PIECES, PIECES]
    turns = []
    for number in range(PIECES):
        (one,) = times(tmp_path / "alone", number)
        first, second = times(tmp_path / "both", number)
        if number:  # Before the first, processes are started.
            assert second[0] < first[1]
        turns += [one, (first[0], max(first[1], second[1]))]
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


def times(folder, number):
    """Beginnings and ends of a piece, one of each process."""
    found = [path.read_text().split() for path in folder.glob(f"{number}-*")]
    return sorted((float(began), float(ended)) for began, ended in found)
