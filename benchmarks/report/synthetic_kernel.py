"""A made-up kernel whose numbers behave as those of a real one do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from entrometer.runs.tables.kernel import (
    Block,
    Eigenvalue,
    Element,
    Growth,
    KernelTables,
    Prediction,
    SketchError,
    Whole,
)

BLOCKS = {"self": 1.0, "prompt": 0.12, "other": 0.03}


@dataclass(frozen=True)
class Shape:
    """What is made up."""

    checkpoints: Sequence[str] = ("checkpoint-8", "checkpoint-40")
    metrics: Sequence[str] = ("sgd", "adam")
    responses: int = 64
    elements: int = 400


def kernel(shape: Shape, seed: int = 0) -> KernelTables:
    """Tables of a kernel with a heavy spectrum and elements that grow with length."""
    rng = np.random.default_rng(seed)
    made = KernelTables()
    for place, checkpoint in enumerate(shape.checkpoints):
        made.predictions.extend(_predictions(checkpoint, rng))
        for metric in shape.metrics:
            scale = 3e4 if metric == "adam" else 40.0
            who = {"checkpoint": checkpoint, "metric": metric}
            made.blocks.extend(_blocks(who, scale, shape.responses))
            made.eigenvalues.extend(_eigenvalues(who, scale, shape.responses))
            made.growth.extend(
                Growth(**who, block=b, power=p, power_se=0.08, pairs=500)
                for b, p in (("self", 1.0), ("prompt", 0.8), ("other", 0.6))
            )
            made.elements.extend(_elements(who, scale, shape.elements, rng))
            made.sketches.extend(
                SketchError(
                    **who,
                    m=m,
                    error=1.02 / math.sqrt(m) * float(rng.uniform(0.9, 1.1)),
                    expected=1.02 / math.sqrt(m),
                )
                for m in (64, 256, 1024, 4096)
            )
            made.whole.append(_whole(who, 8 + 32 * place, scale, shape.responses))
    return made


def _blocks(who: dict[str, str], scale: float, responses: int) -> list[Block]:
    rows = []
    for block, part in BLOCKS.items():
        for quantity, mean in (("kernel", scale * part), ("cosine", part)):
            se = 0.1 * mean if block != "self" or quantity == "kernel" else 0.0
            rows.append(
                Block(
                    **who,
                    block=block,
                    quantity=quantity,
                    mean=mean,
                    mean_se=se,
                    mean_low=mean - 2 * se,
                    mean_high=mean + 2 * se,
                    size=1.6 * mean,
                    pairs=responses * 7,
                    responses=responses,
                    prompts=responses // 8,
                )
            )
    return rows


def _eigenvalues(who: dict[str, str], scale: float, n: int) -> list[Eigenvalue]:
    rows = []
    for method, most in (("dense", n), ("matrix-free", 12), ("sketch", n)):
        noise = 1.05 if method == "sketch" else 1.0
        for rank in range(1, most + 1):
            flat = scale * (2.0 - 1.6 * rank / n)
            rows.append(
                Eigenvalue(
                    **who,
                    method=method,
                    rank=rank,
                    value=noise * scale * 20 / rank**1.1,
                    wishart=flat if method == "dense" else math.nan,
                )
            )
    return rows


def _elements(
    who: dict[str, str], scale: float, count: int, rng: np.random.Generator
) -> list[Element]:
    rows = []
    for block, part in BLOCKS.items():
        for length in rng.uniform(8, 80, count).tolist():
            sign = 1 if block == "self" else float(rng.choice([-1, 1], p=[0.3, 0.7]))
            value = scale * part * (length / 30) * float(rng.lognormal(0, 0.5))
            rows.append(Element(**who, block=block, length=length, value=sign * value))
    return rows


def _predictions(checkpoint: str, rng: np.random.Generator) -> list[Prediction]:
    rows = []
    for response in range(32):
        change = float(rng.normal(0, 0.2))
        own = 0.6 * change + float(rng.normal(0, 0.03))
        rows.append(
            Prediction(
                checkpoint=checkpoint,
                update="recorded",
                eta=3e-4,
                response=response,
                length=20 + response,
                predicted=change * 1.02 + float(rng.normal(0, 0.01)),
                own=own,
                observed=change,
            )
        )
    return rows


def _whole(who: dict[str, str], step: int, scale: float, responses: int) -> Whole:
    return Whole(
        **who,
        step=step,
        responses=responses,
        prompts=responses // 8,
        parameters=134_515_008,
        trace=scale * responses,
        effective_rank=11.4,
        off_diagonal=0.44,
        noise_scale=68.0,
        noise_scale_low=31.0,
        noise_scale_high=math.inf,
        seconds=812.0,
    )
