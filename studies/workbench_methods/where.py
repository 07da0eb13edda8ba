"""Folder of the study's tables; needs no torch."""

from pathlib import Path

HERE = Path(__file__).parents[1] / "workbench-methods"
