"""pass@k, format, length and entropy of checkpoints: `entrometer eval`."""

import math
from collections.abc import Sequence
from typing import Any

from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.evaluation import Evaluated, EvaluationTables
from entrometer.text import table

_CUT = 0.1
"""Share of truncated responses above which the summary warns."""


def _steps() -> Steps:
    # Imported on use: these modules import torch, which `--help` does without.
    from entrometer.experiments.evaluation.collect import collect
    from entrometer.experiments.evaluation.plan import plan

    return Steps(plan, collect, summarize)


def _page() -> PageParts[EvaluationTables]:
    # Imported on use: pages import matplotlib.
    from entrometer.report.evaluation import PARTS

    return PARTS


def summarize(config: EvalConfig, tables: EvaluationTables) -> dict[str, Any]:
    """Return title, sentences and warnings of an evaluation."""
    passed = [row for row in tables.results if row.quantity == "pass_at_1"]
    first, last = passed[0], passed[-1]
    change = f"; change since step {first.step}: {_change(last)}" * (len(passed) > 1)
    truncated = [row for row in tables.results if row.quantity == "truncated"]
    cut = [row.checkpoint for row in truncated if row.value > _CUT]
    return {
        "title": "Evaluation of checkpoints",
        "sentences": [
            f"{len(passed)} checkpoints on {first.prompts} problems of {config.task} "
            f"({config.split.value} split), {config.responses} responses per problem.",
            f"pass@1 at step {last.step}: {_cell(last, '.3f')}{change}.",
        ],
        "warnings": [
            f"{name}: more than {_CUT:.0%} of the responses reach the length limit and "
            "are graded as they stand; raise --max-tokens."
            for name in cut
        ],
    }


def _text(tables: EvaluationTables) -> Sequence[str]:
    by_step: dict[int, dict[str, Evaluated]] = {}
    for row in tables.results:
        by_step.setdefault(row.step, {})[row.quantity] = row
    names = list(next(iter(by_step.values())))
    heads = ["step", *(n.replace("_at_", "@") for n in names), "pass@1 change"]
    lines = [
        [
            str(step),
            *(_cell(rows[n], ".1f" if n == "length" else ".3f") for n in names),
            _change(rows["pass_at_1"]),
        ]
        for step, rows in by_step.items()
    ]
    first = tables.results[0]
    note = (
        f"\nPer checkpoint: {first.prompts} problems, {first.responses} responses. "
        "Brackets: 95% intervals, clustered by problem. Length in tokens, entropy in "
        "nats per token."
    )
    return [table([h.replace("_", " ") for h in heads], lines, label_columns=0) + note]


def _cell(row: Evaluated, spec: str) -> str:
    return f"{row.value:{spec}} [{row.value_low:{spec}}, {row.value_high:{spec}}]"


def _change(row: Evaluated) -> str:
    # The first checkpoint has no earlier one: its change is NaN.
    if math.isnan(row.change):
        return ""
    return f"{row.change:+.3f} [{row.change_low:+.3f}, {row.change_high:+.3f}]"


EVAL = register(
    Experiment(
        name="eval",
        help="Evaluate checkpoints: pass@k, format, length and entropy.",
        config=EvalConfig,
        tables=EvaluationTables,
        steps=_steps,
        text=_text,
        page=_page,
        inside_training=True,
        grades=True,
    )
)
