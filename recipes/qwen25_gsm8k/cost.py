"""Print the tables of README.md: what the recipe takes on H100, by the cost model.

Usage: python -m recipes.qwen25_gsm8k.cost, from the root of the repository. The machine
and how close one comes to it are what docs/figures/scale.py assumes. Plans are made on
checkpoints of studies/reference, which stand for any: what is counted is passes and
responses, and the sizes are Qwen2.5-1.5B's.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from docs.figures.scale import CALL, EFFICIENCY, MODELS, duration, seconds, size
from entrometer.experiments.calibrate import Calibration
from entrometer.experiments.comparison import plan as of_comparison
from entrometer.experiments.comparison.compare import trial_requests
from entrometer.experiments.comparison.forecast import likely
from entrometer.experiments.cost_model import (
    H100,
    ITEM_BYTES,
    Lengths,
    Rate,
    decoder,
    passes,
    peak_memory,
)
from entrometer.experiments.cost_model.sampling import sampling
from entrometer.experiments.entropy_change import plan as of_measurement
from entrometer.experiments.forecast import price
from entrometer.experiments.influence import plan as of_influence
from entrometer.experiments.influence.gradients import gradient_names
from entrometer.experiments.influence.removals import checks
from entrometer.experiments.kernel import plan as of_kernel
from entrometer.experiments.requests import Request
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
ITEM = ITEM_BYTES[PRECISION]
MACHINE = H100[PRECISION]


def lengths(count: int) -> Lengths:
    """So many responses."""
    return Lengths.of([(PROMPT, LENGTH)] * count)


def step() -> dict[str, float]:
    """GPU-seconds of one update, by what takes them."""
    responses = lengths(TRAINED.prompts * TRAINED.responses)
    parts = {
        "sampling": sampling(SHAPE, responses, ITEM, LENGTH),
        "gradient": passes.gradient(SHAPE, responses, ITEM),
    }
    return {name: seconds(MACHINE, SHAPE, work) for name, work in parts.items()}


def training() -> float:
    """GPU-seconds of imitation and of all updates."""
    shown = TRAINED.imitation.steps * TRAINED.imitation.batch
    imitation = passes.gradient(SHAPE, lengths(shown), ITEM)
    return seconds(MACHINE, SHAPE, imitation) + TRAINED.steps * sum(step().values())


def evaluating() -> float:
    """GPU-seconds of all checkpoints, the one before the first step among them."""
    checkpoints = TRAINED.steps // TRAINED.save_every + 1
    drawn = lengths(TEST * evaluation().responses)
    work = sampling(SHAPE, drawn, ITEM, LENGTH) + passes.forward(SHAPE, drawn, ITEM)
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
    """The passes of each verb."""
    run = Path("run")
    measured, influenced, kernel, compared = (
        stand_in(make(run)) for make in (measurement, influences, kernels, comparison)
    )
    points = of_influence.plan(influenced)
    taken_out = [
        request
        for own in checks(influenced, points, NOWHERE)
        for check in own
        for request in check.requests()
    ]
    trials = [likely(point) for point in of_comparison.plan(compared)]
    return {
        "measure": _all(of_measurement.plan(measured)),
        "influence": _all(points) + taken_out,
        "kernel": _all(of_kernel.plan(kernel)),
        "compare": [r for t in trials for r in t.shared()] + trial_requests(trials),
    }


def _all(points: Iterable[Any]) -> list[Request]:
    return [request for point in points for request in point.requests()]


def passing(wanted: list[Request]) -> float:
    """GPU-seconds of some passes, without loading."""
    rate = Rate(call=CALL * SHAPE.layers, stretch=1 / EFFICIENCY)
    prices = Calibration(
        machine=MACHINE,
        rates={request.stage: rate for request in wanted},
        first_load=0.0,
        load=0.0,
        lengths=((PROMPT, LENGTH),),
        architecture=SHAPE,
    )
    stages, _ = price(wanted, NOWHERE, prices)
    return sum(stage.seconds for stage in stages.values())


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
        "measure": (passes.TOKEN_BUDGET, 5, "4,096 tokens"),
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
        total = peak_memory(SHAPE, tokens, vectors, PRECISION).total
        rows.append([name, what, size(total)])
    return table(["what", "of", "memory of a GPU"], rows)


def step_table() -> str:
    """An update, on both GPUs."""
    found = step()
    rows = [[name, f"{each / GPUS:.0f} s"] for name, each in found.items()]
    return table(["of an update", "time"], rows)


if __name__ == "__main__":
    print(time_table(), step_table(), memory_table(), sep="\n\n")
