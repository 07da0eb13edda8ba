"""Ways that take turns."""

import os
import time
from functools import partial
from itertools import pairwise

from benchmarks import turns
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
    assert min(span.seconds for own in spans.values() for span in own) >= SECONDS
    assert [len(own) for own in spans.values()] == [PIECES, PIECES]
    order = []
    for number in range(PIECES):
        (one,) = times(tmp_path / "alone", number)
        first, second = times(tmp_path / "both", number)
        if number:  # Before the first, processes are started.
            assert second[0] < first[1]
        order += [one, (first[0], max(first[1], second[1]))]
    assert all(before[1] <= after[0] for before, after in pairwise(order))


def test_what_a_host_keeps_is_counted_in_seconds(tmp_path, monkeypatch):
    counts = tmp_path / "stat"
    monkeypatch.setattr(turns, "_COUNTS", counts)
    assert turns._stolen() == 0.0
    hertz = os.sysconf("SC_CLK_TCK")
    counts.write_text(f"cpu  9 8 7 6 5 4 3 {2 * hertz} 1 0\ncpu0 0 0 0 0 0 0 0 5 0 0\n")
    assert turns._stolen() == 2.0


def times(folder, number):
    """Beginnings and ends of a piece, one of each process."""
    found = [path.read_text().split() for path in folder.glob(f"{number}-*")]
    return sorted((float(began), float(ended)) for began, ended in found)
