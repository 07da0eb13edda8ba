"""Update batches that stand for the training's next ones, and the passes over them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import recorded, step_of
from entrometer.experiments.config import NextBatchesConfig
from entrometer.experiments.next_batches.requests import LossGradients, LossProducts
from entrometer.experiments.requests import (
    Draw,
    Recorded,
    Request,
    Reweighted,
    Source,
    Subject,
    UpdateTables,
)
from entrometer.experiments.requests.step import Loss
from entrometer.experiments.token_influence.requests import FoldGradient
from entrometer.experiments.update_batch import recorded_batch
from entrometer.interventions import PLAIN
from entrometer.runs import present, read_update, update_path
from entrometer.tasks.own import OWN

HORIZONS = (8, 32, 128)
"""Steps that a loss is kept up for, in the rates."""


@dataclass(frozen=True, kw_only=True)
class NamedBatch:
    """An update batch of the pool."""

    name: str
    source: Source

    def requests(self) -> Iterator[Request]:
        """Yield the passes that the batch itself needs."""
        if isinstance(self.source, Draw):
            yield self.source
        if isinstance(self.source, Reweighted):
            yield self.source.here


@dataclass(frozen=True, kw_only=True)
class NextBatches:
    """Gradients of some losses by each batch, and their products with those of E."""

    batches: tuple[NamedBatch, ...]
    losses: tuple[str, ...]  #: Names of the losses; the first is plain.
    gradients: tuple[LossGradients, ...]  #: One request per batch, for all losses.
    products: tuple[LossProducts, ...]  #: One request per loss, over all batches.

    def requests(self) -> Iterator[Request]:
        """Yield all passes besides those of the evaluation batch."""
        for batch in self.batches:
            yield from batch.requests()
        yield from self.gradients
        yield from self.products


def pool(
    config: NextBatchesConfig,
    subject: Subject,
    update: str,
    steps: int,
    *,
    needs: frozenset[str] = frozenset(),
) -> tuple[NamedBatch, ...]:
    """Return the named update, then others that the training could draw next.

    Others are sampled from the policy, if the training's loss is plain Dr-GRPO, which a
    sampled batch has, rewards are known, and a sampled batch has the tables that losses
    need besides, as S by the engine that samples. Otherwise they are the training's own
    later updates, as far as they were recorded, reweighted to this policy: a few steps
    of a training that learns leave little of them.
    """
    first = step_of(config, subject, update, steps).batch
    assert isinstance(first, Draw | Recorded)
    found = [NamedBatch(name=update, source=first)]
    if not (_can_sample(config, first) and needs <= _sampled_log_probs(config)):
        if isinstance(first, Recorded):
            found += _later(config, subject, steps, first)
        return tuple(found[: config.batches])
    if isinstance(first, Recorded):
        # Sampled ones are as large as the training's.
        config = replace(
            config,
            update_prompts=max(2, first.prompts),
            update_responses=max(2, first.count // first.prompts),
        )
    # Not those that are measured by themselves.
    names = (n for n in (f"sampled-{i}" for i in count(1)) if n not in config.updates)
    for name in islice(names, config.batches - 1):
        source = step_of(config, subject, name, steps).batch
        found.append(NamedBatch(name=name, source=source))
    return tuple(found)


def _sampled_log_probs(config: NextBatchesConfig) -> frozenset[str]:
    return frozenset({"S_engine"} if config.sampler else ())


def _can_sample(config: NextBatchesConfig, first: Source) -> bool:
    if config.task == OWN and not config.reward:
        return False
    if not isinstance(first, Recorded):
        return True
    batch = recorded_batch(read_update(first.path))
    trained = batch.trained
    if first.intervention:
        return False
    if trained is None:
        return True
    counted = batch.alpha != 0
    plain = np.allclose(trained.scale[counted], 1.0, rtol=1e-3)
    return bool(plain and not trained.alpha.any() and not trained.gamma.any())


def _later(
    config: NextBatchesConfig, subject: Subject, steps: int, first: Recorded
) -> list[NamedBatch]:
    """Return the updates after the next one, whose responses are all different.

    Not the earlier ones: this policy was trained on them, so that their responses are
    no sample of what it will meet.
    """
    run, found = Path(subject.path), []
    seen = _responses(first)
    for step in config.later_steps(steps):
        if not present(update_path(run.parent, step)):
            break
        try:
            batch = recorded(config, run, step)
        except InvalidValue:
            # Sampled or trained otherwise: another training than the measured one.
            continue
        fresh = _responses(batch)
        # The same responses again, as in a second epoch over one generation.
        if fresh & seen:
            continue
        seen |= fresh
        here = UpdateTables(subject=subject, batch=batch)
        found.append(
            NamedBatch(name=f"step-{step}", source=Reweighted(batch=batch, here=here))
        )
    return found


def _responses(batch: Recorded) -> set[tuple[bytes, ...]]:
    update = read_update(batch.path)
    columns = (update.prompt_tokens, update.response_tokens, update.S_old)
    # With the log-probs when it was sampled: the same text may be sampled again.
    return {
        (np.asarray(p).tobytes(), np.asarray(r).tobytes(), np.asarray(S).tobytes())
        for p, r, S in zip(*columns, strict=True)
    }


def next_batches(
    config: NextBatchesConfig,
    subject: Subject,
    batches: tuple[NamedBatch, ...],
    losses: Mapping[str, Sequence[Loss | None]],
    gradients: tuple[FoldGradient, ...],
) -> NextBatches | None:
    """Return the passes for some losses, each given once per batch; plain is first.

    None with fewer than two batches, which say nothing about the next ones.
    """
    if len(batches) < 2:
        return None
    steps = tuple(
        LossGradients(
            subject=subject,
            batch=batch.source,
            losses=tuple(of_batch[b] for of_batch in losses.values()),
            max_grad_norm=config.max_grad_norm,
        )
        for b, batch in enumerate(batches)
    )
    products = tuple(
        LossProducts(
            subject=subject,
            gradients=gradients,
            updates=steps,
            loss=i,
            horizons=HORIZONS,
        )
        for i in range(len(losses))
    )
    return NextBatches(
        batches=batches, losses=tuple(losses), gradients=steps, products=products
    )


def plain_batches(
    config: NextBatchesConfig,
    subject: Subject,
    steps: int,
    gradients: tuple[FoldGradient, ...],
) -> NextBatches | None:
    """Return the passes for the loss that the batches come with."""
    if config.batches < 2:
        return None
    batches = pool(config, subject, config.updates[0], steps)
    losses = {PLAIN: [None] * len(batches)}
    return next_batches(config, subject, batches, losses, gradients)
