"""Print the tables of README.md: what the recipe takes on H100, by the cost model.

Usage: python -m recipes.qwen25_gsm8k.cost, from the root of the repository. The machine
and how close one comes to it are what docs/design/scale.md assumes. Plans are made on
checkpoints of studies/reference, which stand for any: what is counted is passes and
responses, and the sizes are Qwen2.5-1.5B's.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cost_model.flops import (
    FORMATS,
    H100,
    Lengths,
    decoder,
    gradient_memory,
    passes,
)
from benchmarks.cost_model.flops.sampling import sampling
from benchmarks.cost_model.scale.assumptions import MODELS, VECTORS
from benchmarks.cost_model.scale.text import duration, size
from benchmarks.cost_model.scale.workers import seconds
from entrometer.experiments.experiment import experiment
from entrometer.experiments.requests import Draw, Request
from entrometer.experiments.run import requests_of
from entrometer.experiments.token_influence.gradients import gradient_names
from entrometer.recipes import qwen25_gsm8k
from entrometer.recipes.qwen25_gsm8k import (
    comparison,
    evaluation,
    influences,
    kernels,
    measurement,
)
from studies.markdown import table

REFERENCE = Path(__file__).parents[2] / "studies/reference"
NOWHERE = Path("a store that is empty")

GPUS = 2
PROMPT = 128
"""Assumed, tokens; responses are as long as they may be."""

LONGEST = 256
"""Assumed, tokens of the longest prompt of a batch, which the others are padded to."""

TEST = 1319
"""Problems of the test split."""

TRAINED = qwen25_gsm8k()
LENGTH = TRAINED.max_tokens
assert TRAINED.adapter is not None
SHAPE = decoder(**MODELS["Qwen2.5-1.5B"], rank=TRAINED.adapter.rank)  # type: ignore[arg-type]
PRECISION = "float32"
ITEM = FORMATS[PRECISION].values
MACHINE = H100[PRECISION]


def lengths(count: int) -> Lengths:
    """So many responses."""
    return Lengths.of([(PROMPT, LENGTH)] * count)


def step() -> dict[str, float]:
    """GPU-seconds of one update, by what takes them."""
    responses = lengths(TRAINED.prompts * TRAINED.responses)
    parts = {
        "sampling": sampling(SHAPE, responses, PRECISION, LENGTH),
        "gradient": passes.gradient(SHAPE, responses, PRECISION),
    }
    return {name: seconds(MACHINE, SHAPE, work) for name, work in parts.items()}


def training() -> float:
    """GPU-seconds of imitation and of all updates."""
    shown = TRAINED.imitation.steps * TRAINED.imitation.batch
    imitation = passes.gradient(SHAPE, lengths(shown), PRECISION)
    return seconds(MACHINE, SHAPE, imitation) + TRAINED.steps * sum(step().values())


def evaluating() -> float:
    """GPU-seconds of all checkpoints, the one before the first step among them."""
    checkpoints = TRAINED.steps // TRAINED.save_every + 1
    drawn = lengths(TEST * evaluation(Path()).responses)
    work = sampling(SHAPE, drawn, PRECISION, LENGTH) + passes.forward(
        SHAPE, drawn, PRECISION
    )
    return checkpoints * seconds(MACHINE, SHAPE, work)


def stand_in(config: Any) -> Any:
    """The same experiment where no file of the recipe's training is needed."""
    prompts = config.update_prompts
    if config.updates == ("recorded",):
        prompts = TRAINED.prompts
    paths = [str(REFERENCE / Path(path).name) for path in config.checkpoints]
    return replace(
        config,
        checkpoints=tuple(paths),
        updates=("sampled-1",),
        update_prompts=prompts,
        task="arithmetic",
        level="easy",
        problems=2048,
    )


def requests() -> dict[str, list[Request]]:
    """Return the passes of each verb."""
    made = {
        "measure": measurement,
        "influence": influences,
        "kernel": kernels,
        "compare": comparison,
    }
    return {verb: _passes(verb, make(Path("run"))) for verb, make in made.items()}


def _passes(verb: str, config: Any) -> list[Request]:
    steps, planned = experiment(verb).steps(), stand_in(config)
    points = steps.plan(planned)
    if steps.follow_up is not None:
        points = steps.follow_up(planned, points, NOWHERE)
    return list({r.key: r for r in requests_of(points)}.values())


def passing(wanted: list[Request]) -> float:
    """Return the GPU-seconds of some passes, without loading the policy."""
    batch = 64
    forward = seconds(MACHINE, SHAPE, passes.forward(SHAPE, lengths(batch), PRECISION))
    total = 0.0
    for request in wanted:
        if isinstance(request, Draw):
            work = sampling(SHAPE, lengths(request.count), PRECISION, LENGTH)
            total += seconds(MACHINE, SHAPE, work)
        else:
            total += request.forwards * request.rows * forward / batch
    return total


def time_table() -> str:
    """Every verb, on one GPU and shared out."""
    one_alone = {"eval": evaluating()}
    shared = {"train": training()}
    others = {verb: passing(wanted) for verb, wanted in requests().items()}
    rows = []
    for verb, found in (shared | one_alone | others).items():
        gpus = 1 if verb in one_alone else GPUS
        rows.append([verb, f"{found / 3600:.2g}", duration(found / gpus)])
    return table(["verb", "GPU-hours", "time"], rows)


def memory_table() -> str:
    """What a GPU holds, by what it does."""
    each = TRAINED.prompts * TRAINED.responses // GPUS
    # Keys and values of every token; and of the prompts that go in, both sides of the
    # gate and their product.
    cache = 2 * SHAPE.kv_width * SHAPE.layers * (LONGEST + LENGTH)
    entering = 3 * SHAPE.feed_forward * LONGEST
    weights, rank = ITEM * SHAPE.parameters, ITEM * SHAPE.trained
    drawing = weights + 3 * rank + each * ITEM * (cache + entering)
    longest = LONGEST + LENGTH
    rows = [["train, sampling", f"{each} responses at once", size(drawing)]]
    kept = {
        "train, imitation": (TRAINED.imitation.batch // GPUS * longest, 4, "a batch"),
        "train, gradient": (TRAINED.micro_batch * longest, 4, "a micro-batch"),
        "measure": (passes.TOKEN_BUDGET, VECTORS, "4,096 tokens"),
        "influence, compare": (
            passes.TOKEN_BUDGET,
            4 + 2 * len(gradient_names(influences(Path()).folds)),
            "4,096 tokens, gradients of folds",
        ),
        "kernel": (
            passes.TOKEN_BUDGET,
            4 + kernels(Path()).memory * 1e9 / ITEM / SHAPE.trained,
            "4,096 tokens, rows of gradients",
        ),
    }
    for name, (tokens, vectors, what) in kept.items():
        memory = gradient_memory(SHAPE, tokens, vectors, PRECISION)
        if name.startswith("train"):
            # Training neither computes layers again nor merges adapters.
            memory = gradient_memory(
                SHAPE, tokens, vectors, PRECISION, recomputed=False
            )._replace(merged=0.0)
        rows.append([name, what, size(memory.total)])
    return table(["what", "of", "memory of a GPU"], rows)


def step_table() -> str:
    """An update, on both GPUs."""
    found = step()
    rows = [[name, f"{each / GPUS:.0f} s"] for name, each in found.items()]
    return table(["of an update", "time"], rows)


if __name__ == "__main__":
    print(time_table(), step_table(), memory_table(), sep="\n\n")
