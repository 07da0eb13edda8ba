"""The order of requests on several workers; knows nothing of any engine."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from entrometer.engine.work import Work, Works

_NOWHERE = Path()

ATTEMPTS = 3
"""Number of errors after which a request is given up."""

LOSSES = 16
"""Number of dead workers after which their request is given up. More than `ATTEMPTS`:
a node that is taken away is not the request's fault; lack of memory may be."""


@dataclass
class _Gate:
    """Requests that wait for the same inputs."""

    # Gates are looked up by `id(needs)`: a reference, so that the id is not reused.
    needs: Sequence[Work]
    missing: int = 0
    waiting: list[str] = field(default_factory=list)


class Schedule:
    """Requests that are waiting, ready, running, done or failed.

    The costliest ready request goes first, so that no long one is left for the end. A
    worker gets requests for the model it has loaded as long as there are any.
    """

    def __init__(self, works: Works, have: Container[str]) -> None:
        """Leave out what the store has (`have`), and group requests by their inputs."""
        self._work: dict[str, Work] = {}
        for work in works:
            name = name_of(work)
            if name not in have:
                self._work.setdefault(name, work)
        self._order = {name: i for i, name in enumerate(self._work)}
        self._ready: dict[Hashable, list[tuple[float, int, str]]] = {}
        self._ready_cost: dict[Hashable, float] = defaultdict(float)
        self._running: Counter[Hashable] = Counter()
        self._opens: dict[str, list[_Gate]] = defaultdict(list)
        self._failures: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._left = set(self._work)
        self.failed: dict[str, str] = {}
        """Requests that failed too often, with the last reason."""

        # One gate per tuple of inputs: thousands of shards share one, and a result then
        # costs one decrement, not one per shard.
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
        """Cost of all requests that the store lacked."""
        return sum((work.cost for work in self._work.values()), start=0.0)

    @property
    def count(self) -> int:
        """Number of requests that the store lacked."""
        return len(self._work)

    @property
    def left(self) -> int:
        """Number of requests that are not done, including failed ones."""
        return len(self._left)

    @property
    def ready(self) -> int:
        """Number of requests that can run now."""
        return sum(map(len, self._ready.values()))

    @property
    def retries(self) -> int:
        """Number of errors of requests and of deaths of workers so far."""
        return sum(self._failures.values()) + sum(self._losses.values())

    def take(self, required_model: Hashable = None) -> Work | None:
        """Return the next request for a worker with this model loaded, or None."""
        if not self._ready.get(required_model):
            able = [h for h, heap in self._ready.items() if heap]
            if not able:
                return None
            # The model with the most work per worker, or all workers would load the
            # same one and later all wait for the next.
            required_model = max(
                able, key=lambda h: self._ready_cost[h] / (1 + self._running[h])
            )
        _, _, name = heapq.heappop(self._ready[required_model])
        work = self._work[name]
        self._ready_cost[required_model] -= work.cost
        self._running[required_model] += 1
        return work

    def done(self, work: Work) -> None:
        """Mark a request as done; requests that waited for it may become ready."""
        name = name_of(work)
        self._running[work.required_model] -= 1
        self._left.discard(name)
        for gate in self._opens.pop(name, ()):
            gate.missing -= 1
            if not gate.missing:
                for waiting in gate.waiting:
                    self._make_ready(waiting)

    def fail(self, work: Work, why: str) -> None:
        """Retry a request that raised an error; give it up after `ATTEMPTS` errors."""
        self._again(work, self._failures, ATTEMPTS, why)

    def lose(self, work: Work, why: str) -> None:
        """Retry a request whose worker died; give it up after `LOSSES` deaths."""
        self._again(work, self._losses, LOSSES, why)

    def blocked(self) -> int:
        """Return how many requests wait for a failed one, once no other can run."""
        return self.left - len(self.failed)

    def _again(self, work: Work, counts: Counter[str], most: int, why: str) -> None:
        name = name_of(work)
        self._running[work.required_model] -= 1
        counts[name] += 1
        if counts[name] < most:
            self._make_ready(name)
        else:
            self.failed[name] = why

    def _make_ready(self, name: str) -> None:
        work = self._work[name]
        heap = self._ready.setdefault(work.required_model, [])
        # The order of the plan breaks ties: names are never compared.
        heapq.heappush(heap, (-work.cost, self._order[name], name))
        self._ready_cost[work.required_model] += work.cost

    def _gate(self, needs: Sequence[Work], have: Container[str]) -> _Gate:
        gate = _Gate(needs)
        for name in {name_of(work) for work in needs}:
            if name in self._work:
                gate.missing += 1
                self._opens[name].append(gate)
            else:
                assert name in have, f"{name} is needed, and no request makes it"
        return gate


def name_of(work: Work) -> str:
    """Return the name of a request's file, the same in every store."""
    return work.path(_NOWHERE).name
