"""Recording of a verl training by one line of its config, without a script.

    ENTROMETER_RUN=/path/of/run python3 -m verl.trainer.main_ppo ... \
        actor_rollout_ref.model.external_lib=entrometer.training.verl_plugin

verl imports the module that `external_lib` names in every process with a model, before
it makes the model. The import makes every actor of the process a watched one.
"""

import os
from functools import wraps
from pathlib import Path
from typing import Any

from verl.workers.engine_workers import ActorRolloutRefWorker

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


def _watching(register: Any, run: Path) -> Any:
    @wraps(register)
    def register_and_watch(worker: Any, mesh_name: str, *args: Any, **kw: Any) -> None:
        register(worker, mesh_name, *args, **kw)
        if mesh_name == "actor":
            watch_verl(worker, run)

    return register_and_watch


# `init_model` is running when it imports this module. The last that it does with a new
# actor, after it set the loss, is to register where the actor's data go.
ActorRolloutRefWorker.set_dispatch_collect = _watching(
    ActorRolloutRefWorker.set_dispatch_collect, _run()
)
