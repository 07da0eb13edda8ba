"""Tasks: problems, prompts, and verifiers of untrusted answers.

One file per task. A file registers its task when it is imported, and this package
imports all of its files, so a new task needs a new file and no other change.
"""

from importlib import import_module
from pkgutil import iter_modules

from entrometer.tasks.arithmetic import Arithmetic, Level, Sum
from entrometer.tasks.gsm8k import (
    GSM8K,
    ProblemsNotFound,
    UnreadableProblems,
    WorkedProblem,
)
from entrometer.tasks.registry import (
    Problem,
    Score,
    Split,
    Task,
    register,
    task,
    task_names,
)
from entrometer.tasks.verifier import Verifier, verify, verify_many, verify_number
from entrometer.tasks.verifier_process import VerifierUnavailable

__all__ = [
    "GSM8K",
    "Arithmetic",
    "Level",
    "Problem",
    "ProblemsNotFound",
    "Score",
    "Split",
    "Sum",
    "Task",
    "UnreadableProblems",
    "Verifier",
    "VerifierUnavailable",
    "WorkedProblem",
    "register",
    "task",
    "task_names",
    "verify",
    "verify_many",
    "verify_number",
]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
