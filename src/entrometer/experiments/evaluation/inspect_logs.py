"""An evaluation as logs of Inspect, the evaluation framework of UK AISI."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

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

from entrometer.errors import InvalidValue
from entrometer.experiments.evaluation import EVAL
from entrometer.experiments.evaluation.collect import Graded, read_graded
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.evaluation.plan import CheckpointPlan, plan
from entrometer.experiments.settings import read_settings
from entrometer.runs import verified
from entrometer.runs.locations import located
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.evaluation import Evaluated
from entrometer.runs.untrusted import read_json
from entrometer.tasks import task
from entrometer.tasks.registry import Task
from entrometer.version import __version__

_MEAN = "mean"
"""Inspect's name of the reducer over the epochs of a sample, for pass@1."""


def write_inspect_logs(logs: Path, run: Path) -> tuple[Path, ...]:
    """Write one log per checkpoint of an evaluation, for `inspect view`.

    A problem is a sample, and each of its responses an epoch. A log is named by the
    content of what it shows, so that the same evaluation replaces its logs.
    """
    if (verified(run) or {}).get("kind") != EVAL.name:
        raise InvalidValue(
            f"{run}: expected the run of an evaluation for --inspect, got another; "
            "name the directory that `entrometer eval` wrote"
        )
    config = EvalConfig(**read_settings(EVAL, run))
    store = Path(located(read_json(run / "about.json")["store"], run))
    rows = read_tables(run, EVAL.tables).results
    judge = task(config.task, **config.task_settings())
    logs.mkdir(parents=True, exist_ok=True)
    paths = []
    for point in plan(config):
        name = point.draws[0].key[:16]
        own = {row.quantity: row for row in rows if row.checkpoint == point.name}
        path = logs / f"checkpoint-{point.steps}-{name}.eval"
        inspect.write_eval_log(_log(name, own, point, store, judge, config), path)
        paths.append(path)
    return tuple(paths)


def _log(
    name: str,
    rows: dict[str, Evaluated],
    point: CheckpointPlan,
    store: Path,
    judge: Task,
    config: EvalConfig,
) -> inspect.EvalLog:
    model = "/".join(Path(point.path).resolve().parts[-2:])
    graded = read_graded(point, store)
    samples = list(_samples(model, graded, judge, config))
    written = [request.path(store).stat().st_mtime for request in point.here]
    first, last = (_utc(pick(written)) for pick in (min, max))
    usage = sum((s.model_usage[model] for s in samples), ModelUsage())
    return inspect.EvalLog(
        status="success",
        eval=_spec(name, model, last, point, judge, config),
        plan=inspect.EvalPlan(
            steps=[inspect.EvalPlanStep(solver="generate")], config=_sampling(config)
        ),
        results=inspect.EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=_scores(rows, config),
            headline=inspect.HeadlineMetric(
                scorer="answer", metric="accuracy", reducer=_MEAN
            ),
            metadata={
                f"{quantity}{end}": value
                for quantity, row in rows.items()
                for end in ("", "_se", "_low", "_high")
                if not np.isnan(value := getattr(row, f"value{end}"))
            },
        ),
        # The viewer shows a duration of NaN if there are no times.
        stats=inspect.EvalStats(
            started_at=first, completed_at=last, model_usage={model: usage}
        ),
        samples=samples,
    )


def _spec(
    name: str,
    model: str,
    created: str,
    point: CheckpointPlan,
    judge: Task,
    config: EvalConfig,
) -> inspect.EvalSpec:
    indices = list(dict.fromkeys(i for draw in point.draws for i in draw.problems))
    reducers = [_reducer(k) for k in config.all_ks]
    return inspect.EvalSpec(
        eval_id=name,
        run_id=name,
        task_id=name,
        created=created,
        task=judge.name,
        dataset=inspect.EvalDataset(
            name=f"{judge.name} {config.split.value}",
            samples=len(indices),
            sample_ids=indices,
            shuffled=False,
        ),
        model=model,
        model_args={"step": point.steps, "precision": config.precision},
        model_generate_config=_sampling(config),
        config=inspect.EvalConfig(epochs=config.responses, epochs_reducer=reducers),
        packages={"entrometer": __version__},
        metadata=asdict(config),
        # Model text is untrusted: show it as it is, without markup, links or images.
        viewer=ViewerConfig(
            trust_content=False,
            task_samples_view=TaskSamplesView(name="responses", multiline=False),
        ),
    )


def _samples(
    model: str, graded: Graded, judge: Task, config: EvalConfig
) -> Iterator[EvalSample]:
    rollouts, n = graded.rollouts, config.responses
    entropies = np.split(graded.tables.H, np.cumsum(rollouts.length)[:-1])
    problems = judge.problems(config.split, config.problems or None)
    for i, text in enumerate(rollouts.text):
        problem = problems[int(rollouts.prompt[i])]
        grade = {name: float(column[i]) for name, column in graded.grades.items()}
        output = ModelOutput.from_content(
            model, text, "max_tokens" if grade["truncated"] else "stop"
        )
        asked, said = rollouts.prompt_tokens[i].size, rollouts.response_tokens[i].size
        output.usage = ModelUsage(
            input_tokens=asked, output_tokens=said, total_tokens=asked + said
        )
        prompt = judge.prompt(problem)
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
                    value=CORRECT if grade["answer"] == 1 else INCORRECT, answer=text
                ),
                "format": Score(value=grade["format"]),
            },
            metadata={
                "reward": grade["answer"],
                "tokens": said,
                "truncated": bool(grade["truncated"]),
                "entropy": float(entropies[i].mean()),
                "seed": int(rollouts.seed[i]),
            },
            model_usage={model: output.usage},
        )


def _scores(rows: dict[str, Evaluated], config: EvalConfig) -> list[EvalScore]:
    return [
        *(
            _score("answer", _reducer(k), "accuracy", rows[f"pass_at_{k}"])
            for k in config.all_ks
        ),
        _score("format", _MEAN, "mean", rows["format_rate"]),
        *(
            _score(name, None, "mean", rows[name])
            for name in ("truncated", "length", "entropy")
        ),
    ]


def _score(name: str, reducer: str | None, metric: str, row: Evaluated) -> EvalScore:
    values = {metric: row.value, "stderr": row.value_se}
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


def _sampling(config: EvalConfig) -> GenerateConfig:
    return GenerateConfig(
        temperature=config.temperature, max_tokens=config.max_tokens, seed=config.seed
    )


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
