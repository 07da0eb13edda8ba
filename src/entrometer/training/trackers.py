"""Where metrics go beside the run directory."""

import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import TrainerCallback
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    TensorBoardCallback,
    get_available_reporting_integrations,
)

from entrometer.errors import InvalidValue, nearest_name


def trackers(report_to: str) -> list[str]:
    """Names of trackers, of which `report_to` has several parted by commas.

    Each is one that transformers knows and that is installed: it would tell only when
    Dr-GRPO begins, after imitation.
    """
    if report_to == "none":
        return []
    names = report_to.split(",")
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InvalidValue(
                "expected report_to of none or of trackers parted by commas, got "
                f"{name!r}.{nearest_name(name, INTEGRATION_TO_CALLBACK)} There are: "
                f"{', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        if name not in get_available_reporting_integrations():
            raise InvalidValue(
                f"expected the package of report_to={name!r}, got none; install it, or "
                "leave the tracker out"
            )
    return names


class OnlyNumbers(TrainerCallback):
    """Spares the callbacks after it what is undefined.

    TRL logs it as None, which the run keeps, and which is no number to a tracker.
    """

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Take it out of what is passed on."""
        logs = kwargs["logs"]
        for name in [n for n, value in logs.items() if value is None]:
            del logs[name]


def without_machine(callback: TrainerCallback) -> TrainerCallback:
    """Replace the tracker that writes into the run directory by ours."""
    return Events() if type(callback) is TensorBoardCallback else callback


_Untyped: Any = TensorBoardCallback


class Events(_Untyped):  # type: ignore[misc]
    """TensorBoard's events in `RUN/runs`, without the machine's name and paths.

    Transformers names a folder for the machine, and writes its arguments, with paths,
    beside the numbers. A run has its settings in `config.json`.
    """

    logging_dir: str | None

    def on_train_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        """Open the file of events."""
        if state.is_world_process_zero and self.tb_writer is None:
            self._init_summary_writer(args)

    def _init_summary_writer(self, args: Any) -> None:
        if self.logging_dir is None:
            started = time.strftime("%Y-%m-%d_%H-%M-%S")
            self.logging_dir = str(Path(args.output_dir) / "runs" / started)
        # TensorBoard puts the machine's name into the name of the file, and has no
        # setting for it.
        module: Any = import_module("tensorboard.summary.writer.event_file_writer")
        socket = module.socket
        module.socket = SimpleNamespace(gethostname=lambda: "machine")
        try:
            super()._init_summary_writer(args)
        finally:
            module.socket = socket
