"""Where metrics go besides the run directory: progress output and trackers."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
from transformers import TrainerCallback
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    TensorBoardCallback,
    get_available_reporting_integrations,
)
from transformers.utils import logging

from entrometer.errors import InvalidValue, nearest_name

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Called with the stage, steps taken, steps in total, and metrics of the last step."""


class ShowProgress(TrainerCallback):
    """Passes the metrics of each step to a function, on the first process."""

    def __init__(self, stage: str, progress: Progress | None) -> None:
        self.stage = stage
        self.progress = progress

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
    ) -> None:
        """Report the step that was logged."""
        # The last log of a training is a summary, not a step.
        if self.progress is None or logs is None or "train_runtime" in logs:
            return
        if state.is_world_process_zero:
            self.progress(self.stage, state.global_step, state.max_steps, logs)


@contextmanager
def without_bars() -> Iterator[None]:
    """Disable the progress bars of the libraries, which would mix with our lines."""
    models = logging.is_progress_bar_enabled()
    tables = not datasets.are_progress_bars_disabled()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if models:
            logging.enable_progress_bar()
        if tables:
            datasets.enable_progress_bars()


def trackers(report_to: str) -> list[str]:
    """Return the trackers that `report_to` names; raise if one cannot be used."""
    # Transformers itself would raise only when Dr-GRPO starts, after imitation.
    if report_to == "none":
        return []
    names = report_to.split(",")
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InvalidValue(
                "expected report_to to be none or trackers separated by commas, got "
                f"{name!r}.{nearest_name(name, INTEGRATION_TO_CALLBACK)} There are: "
                f"{', '.join(INTEGRATION_TO_CALLBACK)}"
            )
        if name not in get_available_reporting_integrations():
            raise InvalidValue(
                f"expected the package of report_to={name!r} to be installed, got "
                "none; install it, or leave the tracker out"
            )
    return names


def alert(trainer: Any, title: str, text: str) -> None:
    """Send an alert to the trackers of a trainer that have alerts: trackio."""
    if "trackio" in trainer.args.report_to:
        import trackio  # type: ignore[import-not-found]

        trackio.alert(title=title, text=text)


class DropUndefined(TrainerCallback):
    """Removes undefined metrics from what later callbacks see.

    TRL logs them as None. The run keeps that; trackers accept numbers only.
    """

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Delete undefined values in place: all callbacks get the same dictionary."""
        logs = kwargs["logs"]
        for name in [n for n, value in logs.items() if value is None]:
            del logs[name]


def without_host_name(callback: TrainerCallback) -> TrainerCallback:
    """Replace transformers' TensorBoard callback by ours; return others as they are."""
    return TensorBoardEvents() if type(callback) is TensorBoardCallback else callback


_Untyped: Any = TensorBoardCallback


class TensorBoardEvents(_Untyped):  # type: ignore[misc]
    """TensorBoard's events in `RUN/runs`, without the machine's name and paths.

    Transformers names a folder after the machine and writes all arguments, with paths,
    next to the numbers. The settings of a run are in its `config.json`.
    """

    logging_dir: str | None

    def on_train_begin(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        """Open the event file."""
        if state.is_world_process_zero and self.tb_writer is None:
            self._init_summary_writer(args)

    def _init_summary_writer(self, args: Any) -> None:
        if self.logging_dir is None:
            started = time.strftime("%Y-%m-%d_%H-%M-%S")
            self.logging_dir = str(Path(args.output_dir) / "runs" / started)
        # TensorBoard puts the machine's name into the name of the file and has no
        # setting for it: replace the `socket` module that it asks, for this call only.
        module: Any = import_module("tensorboard.summary.writer.event_file_writer")
        socket = module.socket
        module.socket = SimpleNamespace(gethostname=lambda: "machine")
        try:
            super()._init_summary_writer(args)
        finally:
            module.socket = socket
