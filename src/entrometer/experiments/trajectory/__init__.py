"""What the recorded updates predict of a whole training: `entrometer trajectory`."""

from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.trajectory.config import TrajectoryConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.trajectory import TrajectoryTables
from entrometer.text import interval_of, table

DRAINING = 10
"""Rows in the printed table of the prompts that lower entropy most."""


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.trajectory.collect import collect
    from entrometer.experiments.trajectory.plan import plan
    from entrometer.experiments.trajectory.summary import summarize

    return Steps(plan, collect, summarize)


def _page() -> PageParts[TrajectoryTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.trajectory import PARTS

    return PARTS


def _text(tables: TrajectoryTables) -> Sequence[str]:
    return [_curve(tables), _sums(tables), _prompts(tables)]


def _curve(tables: TrajectoryTables) -> str:
    rewards = {r.checkpoint: r for r in tables.curve if r.objective == "reward"}
    rows = [
        [
            row.checkpoint,
            interval_of(row, "value").removeprefix("+"),
            *(interval_of(row, name) for name in ("change", "updates", "weights")),
            interval_of(rewards[row.checkpoint], "change"),
            interval_of(rewards[row.checkpoint], "weights"),
        ]
        for row in tables.curve
        if row.objective == "entropy"
    ]
    heads = ["checkpoint", "entropy", "change", "by updates", "by weights"]
    return (
        table([*heads, "change of reward", "by weights"], rows)
        + "\nChanges since the first checkpoint: measured, and summed predictions. "
        "Entropy in nats per token, reward per response; brackets: 95% intervals."
    )


def _sums(tables: TrajectoryTables) -> str:
    cells: dict[tuple[str, str], list[str]] = {}
    for row in tables.sums:
        cells.setdefault((row.by, row.name), []).append(interval_of(row, "value"))
    rows = [[*name, *values] for name, values in cells.items()]
    return (
        table(["by", "", "entropy", "reward"], rows, label_columns=2)
        + "\nLinear predictions of the updates, summed over the training. Kinds of "
        "token add up to the part `batch`."
    )


def _prompts(tables: TrajectoryTables) -> str:
    rows = [
        [
            p.text,
            str(p.updates),
            f"{p.mean_reward:.2f}",
            interval_of(p, "entropy"),
            interval_of(p, "reward"),
        ]
        for p in tables.prompts[:DRAINING]
    ]
    heads = ["prompt", "updates", "mean reward", "entropy", "reward"]
    return (
        table(heads, rows)
        + f"\nThe {len(rows)} of {len(tables.prompts)} prompts whose responses lowered "
        "entropy most, by the recorded updates."
    )


# A table with one row per prompt would make the output of --json too large.
_PRINTED = ("total", "curve", "intervals", "sums", "concentration")

TRAJECTORY = register(
    Experiment(
        name="trajectory",
        help="Explain the entropy curve of a whole training by its recorded updates.",
        config=TrajectoryConfig,
        tables=TrajectoryTables,
        steps=_steps,
        text=_text,
        json_rows=lambda tables: {name: getattr(tables, name) for name in _PRINTED},
        page=_page,
    )
)
