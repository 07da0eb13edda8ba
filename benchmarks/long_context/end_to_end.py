"""Peak memory of whole commands on responses of 8,192 tokens of the tiny policy."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.untrained_checkpoint import write_untrained_checkpoint
from entrometer.policy.loading import load_policy
from entrometer.policy.tiny import EOS
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.influence import InfluenceTables

LENGTH = 8192
# No verdict on other batches, whose passes are the same. `influence` finds the
# responses that `measure` has sampled, which takes most of the time.
SETTINGS = (
    *("--prompts", "8", "--batches", "1", "--updates", "sampled-1"),
    *("--update-prompts", "2", "--update-responses", "2", "--no-report"),
)
VERBS = {
    "measure": ("--curvature-prompts", "0", "--variance-prompts", "0"),
    # No check by removal, which needs more folds.
    "influence": ("--folds", "2", "--remove", "0"),
}

_REWARD = '''"""A reward that differs between any two long responses."""


def digits(completions, **_):
    """Return the share of digits."""
    return [sum(map(str.isdigit, text)) / max(1, len(text)) for text in completions]
'''
_LIFT = 4.0


def peaks(length: int = LENGTH) -> dict[str, dict[str, float]]:
    """Return peak resident GiB and seconds of `measure` and `influence`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = _checkpoint(folder, length)
        found = {}
        for verb, special in VERBS.items():
            places = {"run": folder / verb, "store": folder / "store"}
            places["prompts-file"] = folder / "prompts.jsonl"
            where = [x for n, path in places.items() for x in (f"--{n}", str(path))]
            own = (*where, "--reward", "rewards:digits", *special)
            limit = ("--max-tokens", str(length))
            found[verb] = _peak(
                folder, (verb, str(checkpoint), *own, *limit, *SETTINGS)
            )
        tokens = read_tables(folder / "influence", InfluenceTables).tokens
        found["influence"]["tokens"] = len(tokens)
    return found


def _checkpoint(folder: Path, length: int) -> Path:
    """Write a policy whose responses reach the limit, its prompts and its reward."""
    policy = load_policy("tiny")
    model: Any = policy.model
    model.config.max_position_embeddings = 2 * length
    policy.tokenizer.model_max_length = 2 * length
    with torch.no_grad():
        # One feature of the residual stream is large for every token. The head is tied
        # to the embedding, so that EOS, with the other sign, is never sampled.
        embedding = model.get_input_embeddings().weight
        embedding[:, 0] = _LIFT
        embedding[EOS, 0] = -_LIFT
    checkpoint = folder / "checkpoint-1"
    write_untrained_checkpoint(policy, checkpoint)
    prompts = [json.dumps({"prompt": f"{n}+{n}="}) for n in range(8)]
    (folder / "prompts.jsonl").write_text("\n".join(prompts))
    (folder / "rewards.py").write_text(_REWARD)
    return checkpoint


def _peak(folder: Path, arguments: Sequence[str]) -> dict[str, float]:
    """Run a command in a process of its own; return its peak memory and seconds."""
    code = (
        "import json, resource, sys; from benchmarks.long_context.end_to_end "
        "import usage; from entrometer.cli import main; "
        "code = main(sys.argv[1:]); print(json.dumps(usage())); sys.exit(code)"
    )
    paths = [str(folder), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def usage() -> dict[str, float]:
    """Return this process's peak resident GiB and its processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Linux counts in KiB.
    return {"GiB": used.ru_maxrss / 2**20, "seconds": used.ru_utime + used.ru_stime}
