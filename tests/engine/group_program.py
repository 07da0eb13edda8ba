"""Started by torchrun: runs some sums in the store that the command line names."""

import json
import sys
from pathlib import Path

from entrometer.engine import quiet
from entrometer.engine.group import GroupEngine, serve, torchrun_group
from tests.engine.group_work import Hand, Sum


def main(store: Path, faults: list[str]) -> None:
    group = torchrun_group()
    assert group is not None
    if not group.leader:
        serve(group, Hand)
        return
    a = Sum("a")
    works = [a, Sum("b", (a,)), *(Sum(fault, fault=fault) for fault in faults)]
    engine = GroupEngine(group)
    try:
        for part in (works, works):
            rows = engine.run(part, worker=Hand, store=store, progress=quiet)
            print(json.dumps([row.name for row in rows]))
    except Exception as error:
        print(type(error).__name__, error)
        raise SystemExit(1) from None
    finally:
        group.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
