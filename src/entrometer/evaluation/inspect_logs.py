"""An evaluation as logs of Inspect, the evaluation framework of UK AISI."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai import log as inspect
from inspect_ai.log import EvalSample, EvalScore
from inspect_ai.model import (
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score
from inspect_ai.viewer import TaskSamplesView, ViewerConfig

from entrometer.estimators import Estimate
from entrometer.evaluation.checkpoint_shards import CheckpointShards
from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.results import Row
from entrometer.evaluation.run import Evaluation
from entrometer.evaluation.shards import Shard, measures_path
from entrometer.evaluation.table import record
from entrometer.runs.content import content_key
from entrometer.tasks.registry import Problem, Task
from entrometer.version import __version__

_MEAN = "mean"
"""How Inspect calls what makes one number of the epochs of a sample, for pass@1."""


def write_inspect_logs(
    logs: Path, evaluation: Evaluation, task: Task, config: EvaluationConfig
) -> tuple[Path, ...]:
    """Write a log a checkpoint into a directory that `inspect view` opens.

    A problem is a sample and each of its responses an epoch. The name of a log is a
    hash of what it is of: the same evaluation replaces its logs.
    """
    logs.mkdir(parents=True, exist_ok=True)
    paths = []
    for row, kept in zip(evaluation.rows, evaluation.checkpoints, strict=True):
        name = content_key({"subject": kept.subject})[:16]
        path = logs / f"checkpoint-{kept.step}-{name}.eval"
        inspect.write_eval_log(_log(name, row, kept, task, config), path)
        paths.append(path)
    return tuple(paths)


def _log(
    name: str, row: Row, kept: CheckpointShards, task: Task, config: EvaluationConfig
) -> inspect.EvalLog:
    model = "/".join(kept.checkpoint.resolve().parts[-2:])
    samples = [
        sample
        for problems, shard in kept.read()
        for sample in _samples(model, problems, shard, task, config)
    ]
    written = [
        measures_path(kept.directory, number).stat().st_mtime
        for number in range(len(kept.parts))
    ]
    first, last = (_utc(pick(written)) for pick in (min, max))
    usage = sum((s.model_usage[model] for s in samples), ModelUsage())
    return inspect.EvalLog(
        status="success",
        eval=_spec(name, model, last, kept, task, config),
        plan=inspect.EvalPlan(
            steps=[inspect.EvalPlanStep(solver="generate")], config=_sampling(config)
        ),
        results=inspect.EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=_scores(row, config),
            headline=inspect.HeadlineMetric(
                scorer="answer", metric="accuracy", reducer=_MEAN
            ),
            metadata=_defined(record(row)),
        ),
        # The viewer shows a duration of NaN where there are no times.
        stats=inspect.EvalStats(
            started_at=first, completed_at=last, model_usage={model: usage}
        ),
        samples=samples,
    )


def _spec(
    name: str,
    model: str,
    created: str,
    kept: CheckpointShards,
    task: Task,
    config: EvaluationConfig,
) -> inspect.EvalSpec:
    indices = [problem.index for part in kept.parts for problem in part]
    reducers = [_reducer(k) for k in config.all_ks]
    return inspect.EvalSpec(
        eval_id=name,
        run_id=kept.directory.parent.name,
        task_id=name,
        created=created,
        task=task.name,
        dataset=inspect.EvalDataset(
            name=f"{task.name} {config.split.value}",
            samples=len(indices),
            sample_ids=indices,
            shuffled=False,
        ),
        model=model,
        model_args={"step": kept.step, "precision": config.precision},
        model_generate_config=_sampling(config),
        config=inspect.EvalConfig(epochs=config.responses, epochs_reducer=reducers),
        packages={"entrometer": __version__},
        metadata=asdict(config),
        # What a model wrote is shown as it is: no markup, no link, no image of it.
        viewer=ViewerConfig(
            trust_content=False,
            task_samples_view=TaskSamplesView(name="responses", multiline=False),
        ),
    )


def _samples(
    model: str,
    problems: tuple[Problem, ...],
    shard: Shard,
    task: Task,
    config: EvaluationConfig,
) -> Iterator[EvalSample]:
    rollouts, n = shard.rollouts, config.responses
    entropies = np.split(shard.tables.H, np.cumsum(rollouts.length)[:-1])
    for i, text in enumerate(rollouts.text):
        problem = problems[i // n]
        output = ModelOutput.from_content(
            model, text, "max_tokens" if shard.truncated[i] else "stop"
        )
        asked, said = rollouts.prompt_tokens[i].size, rollouts.response_tokens[i].size
        output.usage = ModelUsage(
            input_tokens=asked, output_tokens=said, total_tokens=asked + said
        )
        prompt = task.prompt(problem)
        yield EvalSample(
            id=problem.index,
            epoch=i % n + 1,
            input=prompt,
            target=problem.answer,
            messages=[ChatMessageUser(content=prompt), output.message],
            output=output,
            scores={
                # Partial credit is no pass.
                "answer": Score(
                    value=CORRECT if rollouts.reward[i] == 1 else INCORRECT, answer=text
                ),
                "format": Score(value=float(shard.format[i])),
            },
            metadata={
                "reward": float(rollouts.reward[i]),
                "tokens": said,
                "truncated": bool(shard.truncated[i]),
                "entropy": float(entropies[i].mean()),
                "seed": int(rollouts.seed[i]),
            },
            model_usage={model: output.usage},
        )


def _scores(row: Row, config: EvaluationConfig) -> list[EvalScore]:
    measures = row.measures
    return [
        *(
            _score("answer", _reducer(k), "accuracy", row, measures[f"pass_at_{k}"])
            for k in config.all_ks
        ),
        _score("format", _MEAN, "mean", row, measures["format_rate"]),
        *(
            _score(name, None, "mean", row, measures[name])
            for name in ("truncated", "length", "entropy")
        ),
    ]


def _score(
    name: str, reducer: str | None, metric: str, row: Row, estimate: Estimate
) -> EvalScore:
    values = {metric: estimate.value, "stderr": estimate.standard_error}
    return EvalScore(
        name=name,
        scorer=name,
        reducer=reducer,
        scored_samples=row.prompts,
        unscored_samples=0,
        metrics={
            name: inspect.EvalMetric(name=name, value=value)
            for name, value in values.items()
        },
    )


def _reducer(k: int) -> str:
    return _MEAN if k == 1 else f"pass_at_{k}"


def _sampling(config: EvaluationConfig) -> GenerateConfig:
    return GenerateConfig(
        temperature=config.temperature, max_tokens=config.max_tokens, seed=config.seed
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _defined(values: dict[str, int | float]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not np.isnan(value)}
