"""Recording of a verl training by one line of its config, without a script.

    ENTROMETER_RUN=/path/of/run python3 -m verl.trainer.main_ppo ... \
        actor_rollout_ref.model.external_lib=entrometer.training.verl_plugin

verl imports the module that `external_lib` names in every process with a model. The
import makes every actor whose loss is set from then on a watched one.
"""

import os
from functools import wraps
from pathlib import Path
from typing import Any

from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import value_loss

from entrometer.errors import InvalidValue
from entrometer.training.verl import watch_verl

_RUN = "ENTROMETER_RUN"


def _run() -> Path:
    path = Path(os.environ.get(_RUN, ""))
    # Workers of Ray have working directories of their own.
    if not path.is_absolute():
        raise InvalidValue(
            f"expected the absolute path of a run in {_RUN}, got {str(path)!r}; set it "
            "in the environment of every worker, or leave external_lib out"
        )
    return path


def _watched(set_loss: Any, run: Path) -> Any:
    # With verl's own marks, by which its worker groups find the method.
    @wraps(set_loss)
    def set_loss_and_watch(worker: Any, loss_fn: Any) -> Any:
        output = set_loss(worker, loss_fn)
        # A critic is a worker of the same class.
        if getattr(loss_fn, "func", loss_fn) is not value_loss:
            watch_verl(worker, run)
        return output

    return set_loss_and_watch


TrainingWorker.set_loss_fn = _watched(TrainingWorker.set_loss_fn, _run())
