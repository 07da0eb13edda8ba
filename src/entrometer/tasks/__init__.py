"""Tasks: problems, prompts, and verifiers of untrusted answers.

One file per task. A file registers its task when it is imported, and this package
imports all of its files, so a new task needs a new file and no other change.
"""

from importlib import import_module
from pkgutil import iter_modules

from entrometer.tasks.arithmetic import Arithmetic as Arithmetic
from entrometer.tasks.arithmetic import Level as Level
from entrometer.tasks.arithmetic import Sum as Sum
from entrometer.tasks.calculator import Calculator as Calculator
from entrometer.tasks.calculator import Steps as Steps
from entrometer.tasks.gsm8k import GSM8K as GSM8K
from entrometer.tasks.gsm8k import ProblemsNotFound as ProblemsNotFound
from entrometer.tasks.gsm8k import UnreadableProblems as UnreadableProblems
from entrometer.tasks.gsm8k import WorkedProblem as WorkedProblem
from entrometer.tasks.registry import Problem as Problem
from entrometer.tasks.registry import Score as Score
from entrometer.tasks.registry import Split as Split
from entrometer.tasks.registry import Task as Task
from entrometer.tasks.registry import register as register
from entrometer.tasks.registry import task as task
from entrometer.tasks.registry import task_names as task_names
from entrometer.tasks.tool import ProblemTool as ProblemTool
from entrometer.tasks.tool import TaskWithTool as TaskWithTool
from entrometer.tasks.tool import tool_of as tool_of
from entrometer.tasks.verifier import Verifier as Verifier
from entrometer.tasks.verifier import verify as verify
from entrometer.tasks.verifier import verify_many as verify_many
from entrometer.tasks.verifier import verify_number as verify_number
from entrometer.tasks.verifier_process import VerifierUnavailable as VerifierUnavailable

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
