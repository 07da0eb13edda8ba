"""How far a trainer has come, told to whoever asked."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import datasets
from transformers import TrainerCallback
from transformers.utils import logging

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Told the stage, steps taken, steps in all, and what was logged of the last one."""


class ShowProgress(TrainerCallback):
    """Passes the log of the first process on."""

    def __init__(self, stage: str, progress: Progress | None) -> None:
        self.stage = stage
        self.progress = progress

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Tell of the step that was logged."""
        # The last log of a training is a summary, not a step.
        if self.progress is None or logs is None or "train_runtime" in logs:
            return
        if state.is_world_process_zero:
            self.progress(self.stage, state.global_step, state.max_steps, logs)


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep the libraries from drawing bars of their own between our lines."""
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
