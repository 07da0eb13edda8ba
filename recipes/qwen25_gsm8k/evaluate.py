"""Evaluate every checkpoint of the training, on a device.

Usage: python recipes/qwen25_gsm8k/evaluate.py RUN DEVICE [--problems N]. It goes on
where it stopped. `entrometer eval` does the same on the processor alone, and with the
same settings goes on in the same directory.
"""

import sys
from dataclasses import replace
from pathlib import Path

import tyro

from entrometer.api.progress import Ticker
from entrometer.cli.evaluate import complete_checkpoints
from entrometer.errors import EntrometerError
from entrometer.evaluation import evaluate, render
from entrometer.recipes.qwen25_gsm8k import evaluation
from entrometer.tasks import task
from entrometer.training.config import read_config


def main(run: Path, device: str, problems: int | None = None) -> None:
    """Evaluate at the temperature and the length limit of the training, and print."""
    trained = read_config(run)
    config = replace(
        evaluation(),
        problems=problems,
        temperature=trained.temperature,
        max_tokens=trained.max_tokens,
    )
    with Ticker() as ticker:
        found = evaluate(
            run,
            complete_checkpoints(run),
            task(trained.task, **trained.task_settings()),
            config,
            base=trained.policy,
            device=device,
            progress=lambda done, total, note: ticker.tick("eval", done, total, note),
        )
    print(render(found.rows), end="")


if __name__ == "__main__":
    try:
        tyro.cli(main, config=(tyro.conf.PositionalRequiredArgs,))
    except EntrometerError as error:
        sys.exit(f"evaluate.py: {error}")
