"""List what a store of passes holds, verify it, and delete what nothing needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from entrometer.cli.flags import Flag, only, parse
from entrometer.text import file_size, plain, print_json, table


@dataclass(frozen=True, kw_only=True)
class Store:
    """List the passes in a store; verify them, or delete what nothing needs."""

    stores: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="STORE")
    ] = ()
    """Directory of passes: `passes` in a run directory, or what --store named."""

    verify: Flag = False
    """Compare every result with its hash in the log; exit code 1 if one is damaged."""

    collect: Flag = False
    """Delete pieces and snapshots of finished sums, and unfinished files that are older
    than an hour."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Store, arguments, verb="store")
    # Imported late: `--help` must not load torch.
    from entrometer.engine.store import (
        garbage,
        kinds,
        remove,
        require_store,
        size_of,
        verified,
    )

    store = only(
        command.stores,
        "one directory of passes",
        "name `passes` in a run directory, or what --store named",
    )
    require_store(store)
    unneeded = garbage(store)
    size = size_of(unneeded)
    if command.collect:
        remove(unneeded)
    found = kinds(store)
    compared = verified(store) if command.verify else None
    if command.json:
        print_json(
            {
                "kinds": [kind._asdict() for kind in found],
                "unneeded": {"files": len(unneeded), "bytes": size},
                "collected": command.collect,
                "verified": compared and compared._asdict(),
            }
        )
    else:
        heads = ("passes", "results", "size", "seconds")
        rows = [
            (k.kind, str(k.results), file_size(k.bytes), f"{k.seconds:.0f}")
            for k in found
        ]
        print(table(heads, rows))
        done = "deleted" if command.collect else "not needed, --collect deletes them"
        print(f"{len(unneeded)} files of {file_size(size)}: {done}")
        if compared is not None:
            print(
                f"verified: {len(compared.whole)} whole, {len(compared.damaged)} "
                f"damaged, {len(compared.unlisted)} without a hash in the log"
            )
            for name in compared.damaged:
                print(plain(f"damaged: {store / name}; delete it, then resume the run"))
    return 1 if compared and compared.damaged else 0
