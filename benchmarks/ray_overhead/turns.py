"""Ways of doing the same work that take turns."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

Spans = list[float]
"""Seconds of each piece of work."""


class Turns:
    """Ways that go one at a time, a piece each, and what each piece took."""

    def __init__(self, *ways: str) -> None:
        self._order = deque(ways)
        self._changed = threading.Condition()
        self._began = 0.0
        self.spans: dict[str, Spans] = {way: [] for way in ways}

    @contextmanager
    def taken_by(self, way: str) -> Iterator[None]:
        """Whoever goes, or fails, is out of the others' way."""
        try:
            yield
        finally:
            with self._changed:
                self._order.remove(way)
                self._changed.notify_all()

    def begin(self, way: str) -> None:
        """Wait until it is this way's turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._order[0] == way)
        self._began = time.perf_counter()

    def end(self, way: str) -> None:
        """The piece is done: the next one's turn."""
        self.spans[way].append(time.perf_counter() - self._began)
        with self._changed:
            self._order.rotate(-1)
            self._changed.notify_all()
