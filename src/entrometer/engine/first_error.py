"""The error that came first in a group of processes, and those that follow from it."""

import json
import re
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from entrometer.engine.work import FailedWork, StoreTrouble, one_line

_KEY = "entrometer/error"

# Gloo has no error class of its own. Its other errors, as of tensors whose sizes
# differ, are faults of the program.
_CLOSED = re.compile(r"gloo.*(connection|broken pipe|socket|timed? ?out)", re.I | re.S)


class LostMember(FailedWork):
    """A group of which a process ended or no longer answers."""


@dataclass(frozen=True)
class FirstError:
    """The first error of a group, in a store that all members reach."""

    store: Store
    rank: int
    """Rank of this process."""

    size: int

    def cause(self, error: Exception) -> Exception:
        """Return the error to raise for an error in this process.

        The same error if it came first; otherwise one that says what did.
        """
        first = self._first(error)
        if first["lost"]:
            return LostMember(
                f"expected {self.size} processes to hold the model together, got "
                "one that ended or no longer answers; see its output, or the memory "
                "that is left, then resume with --resume"
            )
        if first["rank"] == self.rank:
            return error
        if first["errno"] is not None:
            return StoreTrouble(first["errno"], first["message"])
        return FailedWork(
            "expected all processes of the group to run the request, got "
            f"{first['why']} (process {first['rank']}); fix the cause, then resume "
            "with --resume"
        )

    def _first(self, error: Exception) -> dict[str, Any]:
        own = {
            "rank": self.rank,
            "lost": _lost(error),
            "why": one_line(error),
            "errno": error.errno if isinstance(error, StoreTrouble) else None,
            "message": error.strerror if isinstance(error, StoreTrouble) else None,
        }
        try:
            # Sets it if nobody has. A member that fails says so before it ends, so the
            # lost connections of the others come later.
            first: dict[str, Any] = json.loads(
                self.store.compare_set(_KEY, "", json.dumps(own))
            )
        except RuntimeError:
            # The store may have ended with its process.
            return own
        return first


def _lost(error: Exception) -> bool:
    """Return whether an error says that another process is gone."""
    if isinstance(error, LostMember | dist.DistError):
        return True
    return isinstance(error, RuntimeError) and bool(_CLOSED.search(str(error)))
