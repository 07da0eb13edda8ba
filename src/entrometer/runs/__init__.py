"""Run directories: tables with checked schemas, written completely or not at all."""

from entrometer.runs.atomic import (
    DamagedFile,
    RunInUse,
    apply_umask,
    atomic_write,
    hold,
    write_json,
)
from entrometer.runs.columns import (
    Metrics,
    logged_metrics,
    read_metrics,
    write_metrics,
)
from entrometer.runs.complete import (
    IncompleteDirectory,
    checkpoints,
    is_sealed_file,
    newest_complete,
    present,
    publish,
    seal,
    verified,
    verify,
)
from entrometer.runs.rollouts import (
    Rollouts,
    Sampler,
    read_rollouts,
    response_seeds,
    write_rollouts,
)
from entrometer.runs.updates import (
    UpdateBatch,
    UpdateSettings,
    prompt_name,
    read_update,
    update_path,
    write_update,
)

__all__ = [
    "DamagedFile",
    "IncompleteDirectory",
    "Metrics",
    "Rollouts",
    "RunInUse",
    "Sampler",
    "UpdateBatch",
    "UpdateSettings",
    "apply_umask",
    "atomic_write",
    "checkpoints",
    "hold",
    "is_sealed_file",
    "logged_metrics",
    "newest_complete",
    "present",
    "prompt_name",
    "publish",
    "read_metrics",
    "read_rollouts",
    "read_update",
    "response_seeds",
    "seal",
    "update_path",
    "verified",
    "verify",
    "write_json",
    "write_metrics",
    "write_rollouts",
    "write_update",
]
