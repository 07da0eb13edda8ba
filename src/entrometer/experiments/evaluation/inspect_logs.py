"""An evaluation as logs of Inspect, the evaluation framework of UK AISI."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from inspect_ai import log as inspect
from inspect_ai.log import EvalSample, EvalScore
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelOutput, ModelUsage
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
    """Write one log per checkpoint for `inspect view`, and return their paths.

    A problem is a sample, and each of its responses an epoch. A log is named by its
    step and a hash of its first draw, so that the same evaluation replaces its logs.
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
        quantities = {row.quantity: row for row in rows if row.checkpoint == point.name}
        path = logs / f"checkpoint-{point.steps}-{name}.eval"
        inspect.write_eval_log(
            _log(name, quantities, point, store, judge, config), path
        )
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
    samples = list(_samples(model, read_graded(point, store), judge, config))
    indices = list(dict.fromkeys(i for draw in point.draws for i in draw.problems))
    sampling = GenerateConfig(
        temperature=config.temperature, max_tokens=config.max_tokens, seed=config.seed
    )
    # A run may be resumed days later, so times are those of its passes.
    written = [request.path(store).stat().st_mtime for request in point.here]
    first, last = (
        datetime.fromtimestamp(seconds, UTC).isoformat()
        for seconds in (min(written), max(written))
    )
    usage = sum((s.model_usage[model] for s in samples), ModelUsage())
    spec = inspect.EvalSpec(
        # A name by content, so that Inspect sees the same evaluation as one log.
        eval_id=name,
        run_id=name,
        task_id=name,
        created=last,
        task=judge.name,
        dataset=inspect.EvalDataset(
            name=f"{judge.name} {config.split.value}",
            samples=len(indices),
            sample_ids=indices,
            shuffled=False,
        ),
        model=model,
        model_args={"step": point.steps, "precision": config.precision},
        model_generate_config=sampling,
        config=inspect.EvalConfig(
            epochs=config.responses, epochs_reducer=[*map(_reducer, config.all_ks)]
        ),
        packages={"entrometer": __version__},
        # Without paths, which would name the machine in a log that is shared.
        metadata=asdict(replace(config, checkpoints=(point.name,), policy=None)),
        # Model text is untrusted: show it as it is, without markup, links or images.
        viewer=ViewerConfig(
            trust_content=False,
            task_samples_view=TaskSamplesView(name="responses", multiline=False),
        ),
    )
    results = inspect.EvalResults(
        total_samples=len(samples),
        completed_samples=len(samples),
        scores=list(_scores(rows, config)),
        headline=inspect.HeadlineMetric(
            scorer="answer", metric="accuracy", reducer=_MEAN
        ),
        # JSON has no NaN, so undefined ends of intervals are left out.
        metadata={
            f"{quantity}{end}": value
            for quantity, row in rows.items()
            for end in ("", "_se", "_low", "_high")
            if not np.isnan(value := getattr(row, f"value{end}"))
        },
    )
    generate = inspect.EvalPlanStep(solver="generate")
    return inspect.EvalLog(
        status="success",
        eval=spec,
        plan=inspect.EvalPlan(steps=[generate], config=sampling),
        results=results,
        # The viewer shows a duration of NaN if there are no times.
        stats=inspect.EvalStats(
            started_at=first, completed_at=last, model_usage={model: usage}
        ),
        samples=samples,
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
        # What a tool wrote is read by the policy, as the prompt is.
        new = int(rollouts.length[i])
        read = rollouts.prompt_tokens[i].size + int(rollouts.full_length[i]) - new
        output.usage = ModelUsage(
            input_tokens=read, output_tokens=new, total_tokens=read + new
        )
        prompt = judge.prompt(problem)
        yield EvalSample(
            id=problem.index,
            # The n responses to a problem are consecutive; Inspect counts from 1.
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
                "tokens": new,
                "truncated": bool(grade["truncated"]),
                "entropy": float(entropies[i].mean()),
                "seed": int(rollouts.seed[i]),
            },
            model_usage={model: output.usage},
        )


def _scores(rows: dict[str, Evaluated], config: EvalConfig) -> Iterator[EvalScore]:
    passed = [("answer", _reducer(k), f"pass_at_{k}") for k in config.all_ks]
    # These three are not scores of a sample, so there is nothing to reduce.
    others = [(name, None, name) for name in ("truncated", "length", "entropy")]
    for name, reducer, quantity in (*passed, ("format", _MEAN, "format_rate"), *others):
        row = rows[quantity]
        metric = "accuracy" if name == "answer" else "mean"
        metrics = {metric: row.value, "stderr": row.value_se}
        yield EvalScore(
            name=name,
            scorer=name,
            reducer=reducer,
            scored_samples=row.prompts,
            unscored_samples=0,
            metrics={
                key: inspect.EvalMetric(name=key, value=value)
                for key, value in metrics.items()
            },
        )


def _reducer(k: int) -> str:
    return _MEAN if k == 1 else f"pass_at_{k}"
