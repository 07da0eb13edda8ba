"""A worker in the process of a Ray actor, alone or as a member of a group."""

from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import Any

from ray._private import worker as ray_process

from entrometer.engine.group import Group, join_on_this_node
from entrometer.engine.local import run_timed
from entrometer.engine.work import MakeWorker, Row, Work


class RemoteWorker:
    """A worker in an actor's process."""

    def __init__(
        self, make_worker: MakeWorker, store: str, token: str, *, alone: bool = True
    ) -> None:
        self._store = Path(store)
        # A node without the shared file system may have an empty directory by the same
        # name, so the driver's token file is checked, not the directory.
        if not (self._store / token).exists():
            raise FileNotFoundError(
                f"expected the store {store} on every node, got a node without it; "
                "give --store on storage that all nodes mount"
            )
        self._make_worker = make_worker
        self._group: Group | None = None
        if alone:
            self._worker = make_worker(self._store)

    def ready(self) -> bool:
        """Return True; Ray makes this call wait until the worker has been created."""
        return True

    def meeting_place(self) -> str:
        """Return the path of a new file, in which the members of a group meet."""
        # A file rather than a port, which other machines could reach. In Ray's own
        # directory, because a killed process deletes nothing.
        session: Any = ray_process._global_node
        return str(Path(mkdtemp(dir=session.get_session_dir_path())) / token_hex(4))

    def join(self, file: str, rank: int, size: int) -> None:
        """Join a group that meets in a file; make this member's worker."""
        self._group = join_on_this_node(file, rank, size)
        self._worker = self._group.make(self._make_worker, self._store)

    def run(self, work: Work) -> Row | None:
        """Return the log row of a request; None if the store has its result by now.

        In a group, the leader's row is the group's, and all members run the request.
        """
        group = self._group
        path = work.path(self._store)
        # An actor that was reported dead may still have written the result.
        if path.exists() if group is None else group.from_leader(path.exists):
            return None
        if group is None:
            return run_timed(work, self._worker, self._store)
        if group.leader:
            return run_timed(work, self._worker, self._store, group.run)
        group.run(work, self._worker, self._store)
        return None
