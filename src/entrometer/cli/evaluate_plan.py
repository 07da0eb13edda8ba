"""What an evaluation would sample, and how long that takes."""

from entrometer.api.output import clock, print_json
from entrometer.cli.evaluate import Evaluate, Found
from entrometer.cli.timing import Line, seconds
from entrometer.evaluation import chosen_problems, draw_shard, evaluation_key
from entrometer.evaluation.config import EvaluationConfig
from entrometer.evaluation.shards import measures_path
from entrometer.policy import load_policy
from entrometer.tasks import task
from entrometer.training.config import TrainConfig


def dry_run(
    command: Evaluate, trained: TrainConfig, config: EvaluationConfig, found: Found
) -> None:
    """Print what is missing, and its time from drawing a little of it."""
    judge = task(trained.task, **trained.task_settings())
    problems = chosen_problems(judge, config)
    directory = command.run / "evaluation" / evaluation_key(judge, problems, config)
    parts = -(-len(problems) // config.shard_prompts)
    missing = {
        path: [
            number
            for number in range(parts)
            if not measures_path(directory / f"checkpoint-{step}", number).exists()
        ]
        for step, path in found
    }
    left = sum(map(len, missing.values()))
    time_left = 0.0
    if left:
        path = next(p for p, numbers in missing.items() if numbers)
        loading, policy = seconds(
            lambda: load_policy(
                path,
                base=trained.policy,
                precision=config.precision,
                device=command.device,
            )
        )

        def draw(count: int) -> object:
            return draw_shard(policy, judge, problems[:count], config)

        draw(1)
        line = Line.through(draw, (1, min(4, len(problems))))
        each = line.at(min(config.shard_prompts, len(problems)))
        time_left = left * each + loading * sum(1 for n in missing.values() if n)
    told = {
        "checkpoints": len(found),
        "responses": len(found) * len(problems) * config.responses,
        "shards": len(found) * parts,
        "shards_left": left,
        "seconds": time_left,
    }
    if command.json:
        print_json(told)
        return
    print(
        f"{len(found)} checkpoints x {len(problems)} problems x {config.responses} "
        f"responses of at most {config.max_tokens} tokens: {told['responses']}\n"
        f"shards: {told['shards']}, of which {told['shards'] - left} are there\n"
        f"time: about {clock(time_left)}, from drawing a few"
    )
