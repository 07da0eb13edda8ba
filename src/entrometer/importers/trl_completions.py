"""TRL's completions, which are texts: not enough for an update.

With `log_completions=True` a trainer writes `completions/completions_N.parquet` to its
`output_dir`, with step, prompt, completion, each reward and the advantage.
"""

import re
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from entrometer.policy.sources import UnreadableSource, one_line
from entrometer.runs.untrusted import open_regular

_FILE = re.compile(r"completions_\d+\.parquet")
_SHOWN = 8  # Columns that a message lists.


def completion_files(path: Path) -> list[Path]:
    """Return the files of completions that a path is, or that a directory has."""
    if _FILE.fullmatch(path.name):
        return [path]
    for directory in (path, path / "completions"):
        if directory.is_dir():
            files = [f for f in directory.iterdir() if _FILE.fullmatch(f.name)]
            if files:
                return sorted(files)
    return []


def refuse_trl_completions(
    path: Path, *, temperature: float, max_tokens: int | None = None
) -> NoReturn:
    """Raise, with what the completions lack and what to do instead.

    Text is not enough: its tokens need not be those that were sampled.
    """
    file = completion_files(path)[0]
    try:
        # The footer alone: texts may be of any size.
        with open_regular(file) as opened:
            columns = pq.read_schema(opened).names
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise UnreadableSource(
            f"{file}: expected completions of TRL, got a file that is damaged or of "
            f"something else ({one_line(error)}). Record updates: `em.watch(trainer)`."
        ) from error
    listed = ", ".join(name[:40] for name in columns[:_SHOWN])
    raise UnreadableSource(
        f"{file}: expected token ids, log-probabilities and entropies of an update, "
        f"got TRL's completions ({listed}), which are texts. Record updates while "
        "training: `em.watch(trainer)`."
    )
