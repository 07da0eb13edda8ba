"""Which piece of work is next: pure bookkeeping, for any engine."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from entrometer.engine.work import Work, Works

_NOWHERE = Path()

ATTEMPTS = 3
"""Times that a piece may fail."""

LOSSES = 16
"""Times that a piece may be lost with its worker: a node that is taken away is not the
piece's fault, but a piece may well be what kills its workers."""


@dataclass
class _Gate:
    """Waits for all that some pieces need."""

    needs: Sequence[Work]
    """Kept, so that nothing else gets its identity."""

    missing: int = 0
    waiting: list[str] = field(default_factory=list)


class Schedule:
    """Pieces that are waiting, ready, under way, done or given up.

    The longest of the ready go first; a worker is given what needs no loading while
    there is any.
    """

    def __init__(self, works: Works, have: Container[str]) -> None:
        """Drop what the store has, and find out what waits for what."""
        self._work: dict[str, Work] = {}
        for work in works:
            name = name_of(work)
            if name not in have:
                self._work.setdefault(name, work)
        self._order = {name: i for i, name in enumerate(self._work)}
        self._ready: dict[Hashable, list[tuple[float, int, str]]] = {}
        self._ready_cost: dict[Hashable, float] = defaultdict(float)
        self._under_way: Counter[Hashable] = Counter()
        self._opens: dict[str, list[_Gate]] = defaultdict(list)
        self._failures: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._left = set(self._work)
        self.failed: dict[str, str] = {}
        """Pieces that are given up, and why."""

        gates: dict[int, _Gate] = {}
        for name, work in self._work.items():
            needs = work.needs
            gate = gates.get(id(needs))
            if gate is None:
                gate = gates[id(needs)] = self._gate(needs, have)
            if gate.missing:
                gate.waiting.append(name)
            else:
                self._make_ready(name)

    @property
    def cost(self) -> float:
        """Of all that was missing."""
        return sum((work.cost for work in self._work.values()), start=0.0)

    @property
    def pieces(self) -> int:
        """All that were missing."""
        return len(self._work)

    @property
    def left(self) -> int:
        """Pieces that are not done, the ones given up among them."""
        return len(self._left)

    @property
    def ready(self) -> int:
        """Pieces that can be handed out now."""
        return sum(map(len, self._ready.values()))

    @property
    def retries(self) -> int:
        """Times that a piece had to be begun again."""
        return sum(self._failures.values()) + sum(self._losses.values())

    def take(self, required_model: Hashable = None) -> Work | None:
        """Return the next piece for a worker with this model loaded, or None."""
        if not self._ready.get(required_model):
            able = [h for h, heap in self._ready.items() if heap]
            if not able:
                return None
            # Workers spread over the homes by what there is to do in each.
            required_model = max(
                able, key=lambda h: self._ready_cost[h] / (1 + self._under_way[h])
            )
        _, _, name = heapq.heappop(self._ready[required_model])
        work = self._work[name]
        self._ready_cost[required_model] -= work.cost
        self._under_way[required_model] += 1
        return work

    def done(self, work: Work) -> None:
        """Its result is there: what waited for it may be ready."""
        name = name_of(work)
        self._under_way[work.required_model] -= 1
        self._left.discard(name)
        for gate in self._opens.pop(name, ()):
            gate.missing -= 1
            if not gate.missing:
                for waiting in gate.waiting:
                    self._make_ready(waiting)

    def fail(self, work: Work, why: str) -> None:
        """It raised an error: try again, or give it up."""
        self._again(work, self._failures, ATTEMPTS, why)

    def lose(self, work: Work, why: str) -> None:
        """Its worker died: try again, or give it up."""
        self._again(work, self._losses, LOSSES, why)

    def blocked(self) -> int:
        """Pieces that wait for what is given up, once nothing else is left."""
        return self.left - len(self.failed)

    def _again(self, work: Work, counts: Counter[str], most: int, why: str) -> None:
        name = name_of(work)
        self._under_way[work.required_model] -= 1
        counts[name] += 1
        if counts[name] < most:
            self._make_ready(name)
        else:
            self.failed[name] = why

    def _make_ready(self, name: str) -> None:
        work = self._work[name]
        heap = self._ready.setdefault(work.required_model, [])
        heapq.heappush(heap, (-work.cost, self._order[name], name))
        self._ready_cost[work.required_model] += work.cost

    def _gate(self, needs: Sequence[Work], have: Container[str]) -> _Gate:
        gate = _Gate(needs)
        for name in {name_of(work) for work in needs}:
            if name in self._work:
                gate.missing += 1
                self._opens[name].append(gate)
            else:
                assert name in have, f"{name} is needed, and nobody asked for it"
        return gate


def name_of(work: Work) -> str:
    """Name of its file, in whatever store."""
    return work.path(_NOWHERE).name
