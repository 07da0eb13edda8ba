"""Problems, how they are asked, and how answers that nobody can trust are judged."""

from entrometer.tasks.arithmetic import Arithmetic, Level, Sum
from entrometer.tasks.gsm8k import GSM8K, WorkedProblem
from entrometer.tasks.gsm8k_files import ProblemsNotFound, UnreadableProblems
from entrometer.tasks.registry import register, task, task_names
from entrometer.tasks.task import Problem, Score, Split, Task
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
