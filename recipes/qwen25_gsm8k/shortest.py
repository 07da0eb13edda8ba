"""Write the shortest problems of GSM8K as files in its format.

Usage: python recipes/qwen25_gsm8k/shortest.py DIRECTORY COUNT. They come from where
ENTROMETER_GSM8K says, else from the Hugging Face hub. A policy of a token a character
learns to answer in their format within a minute.
"""

import json
import sys
from pathlib import Path

import tyro

from entrometer.errors import EntrometerError
from entrometer.runs import atomic_write
from entrometer.tasks import GSM8K, Split
from entrometer.tasks.gsm8k import find_file, read_rows

REMEDY = "Set ENTROMETER_GSM8K to a directory with train.jsonl and test.jsonl."


def main(directory: Path, count: int) -> None:
    """Write both splits, unless they are there."""
    directory.mkdir(parents=True, exist_ok=True)
    for split in Split:
        path = directory / f"{split.value}.jsonl"
        if path.is_file():
            continue
        found = find_file(GSM8K().path, split, remedy=REMEDY)
        rows = [(question, answer) for _, question, answer in read_rows(found)]
        rows.sort(key=lambda row: sum(map(len, row)))
        with atomic_write(path) as file:
            for question, answer in rows[:count]:
                row = {"question": question, "answer": answer}
                file.write(json.dumps(row).encode() + b"\n")


if __name__ == "__main__":
    try:
        tyro.cli(main, config=(tyro.conf.PositionalRequiredArgs,))
    except EntrometerError as error:
        sys.exit(f"shortest.py: {error}")
