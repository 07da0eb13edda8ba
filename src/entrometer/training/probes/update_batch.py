"""Probes of the update batch: its entropy, and its effective sample size."""

# Axes: B responses of a micro-batch, T response tokens.

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.estimators import PromptSums, entropy
from entrometer.tokens import loss_coefficients
from entrometer.training.instruments import Instrument, MicroBatch

LOSSES = ("cispo", "dapo", "dr_grpo", "grpo", "luspo")
"""Losses of TRL whose token weights `EffectiveSampleSize` knows."""


class Entropy(Instrument):
    r"""Logs the entropy per token $h = \sum H_k/\sum T$ and per response $\sum H_k/n$.

    The sums run over the tokens that enter the loss, in all micro-batches of an update
    and on all processes: one ratio, where TRL logs a mean of ratios. $H_k$ is the
    entropy over the complete vocabulary at the trainer's sampling temperature, in
    nats. Standard errors are clustered by prompt group. Responses without counted
    tokens are not among the $n$.

    Logs `entropy/token`, `entropy/sequence` and each with `_se`.
    """

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Sum the entropy over the tokens of each response."""
        mask = micro.response_mask.bool()
        H = micro.H.float().where(mask, 0.0)
        # One tensor, so that processes exchange data once. Float32 holds the index of a
        # group exactly.
        columns = (micro.group, H.sum(dim=1), mask.sum(dim=1))
        self._rows.append(torch.stack([c.float() for c in columns], dim=1))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return the entropy of the update, over all its responses."""
        rows: Tensor = trainer.accelerator.gather(torch.cat(self._rows))
        self._rows = []
        group, H, T = rows.cpu().double().numpy().T
        values = [math.nan] * 4
        if T.any():
            sums = PromptSums.of(group.astype(np.int64), responses=np.sign(T), H=H, T=T)
            pair = entropy(sums), entropy(sums, per="sequence")
            values = [x for e in pair for x in (e.value, e.standard_error)]
        names = ("token", "token_se", "sequence", "sequence_se")
        return {f"entropy/{n}": x for n, x in zip(names, values, strict=True)}


class EffectiveSampleSize(Instrument):
    r"""Logs $(\sum|w|)^2/\sum w^2$ of the weights of tokens in the gradient.

    Up to a constant the gradient of the policy loss is $-\sum w_{ik}\nabla S_{ik}$, so
    $w = -\partial L/\partial S$. With $r = e^{S - S_{old}}$ (of the response's mean
    if the trainer takes ratios of sequences) and the mask m,

    $$w_{ik} = m_{ik}\,r_{ik}A_{ik}\,[\text{the minimum of } rA \text{ and }
    \mathrm{clip}(r)A \text{ is not clipped}],$$

    over the response's length for `grpo`; $w = m\min(r, \epsilon_{high})A$ for `cispo`;
    with an intervention, its $\alpha$.
    Clipped tokens have weight 0, and so have responses with the mean reward of their
    group.

    Logs, over all micro-batches and processes, `effective_samples/tokens`,
    `effective_samples/responses` (of $\sum_k|w_{ik}|$), and `effective_samples/ratios`
    (of $m r$ alone: the number of tokens if the policy is the sampling policy).
    """

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def attach(self, trainer: Any) -> None:
        """Raise if the weights of the trainer's loss are not known."""
        plain = (
            trainer.loss_type in LOSSES
            and trainer.top_entropy_quantile == 1.0
            and trainer.off_policy_mask_threshold is None
            and not (trainer.use_vllm and trainer.vllm_importance_sampling_correction)
        )
        if not plain:
            raise InvalidValue(
                f"EffectiveSampleSize: expected a loss among {', '.join(LOSSES)} "
                "without entropy quantile, off-policy mask or vLLM correction, got "
                f"{trainer.loss_type!r} or one of these; leave it out"
            )

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Add the moments of the weights of a micro-batch."""
        mask = micro.response_mask.bool()
        r = (micro.S - micro.S_old).where(mask, 0.0).exp() * mask
        alpha = micro.alpha
        w = (token_weights(trainer, micro) if alpha is None else alpha).abs()
        columns = (w, w.sum(dim=1), r)
        self._sums.append(torch.stack([m for c in columns for m in _moments(c)]))

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return effective samples by weight of tokens and responses, and by ratio."""
        local = torch.stack(self._sums).sum(dim=0)
        self._sums = []
        sums = trainer.accelerator.reduce(local, reduction="sum").tolist()
        names = ("tokens", "responses", "ratios")
        return {
            f"effective_samples/{name}": first**2 / second if second else math.nan
            for name, first, second in zip(names, sums[::2], sums[1::2], strict=True)
        }


def token_weights(trainer: Any, micro: MicroBatch) -> Float[Tensor, "B T"]:
    r"""Return $w = -\partial L/\partial S$ by token log-prob, up to one constant."""
    mask = micro.response_mask.bool()

    def loss(S: Tensor, _: Tensor) -> Tensor:
        return -(_objective(trainer, micro, S, mask) * mask).sum()

    w: Tensor = loss_coefficients(loss, micro.S, micro.H).alpha
    if trainer.loss_type == "grpo":
        w = w / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return w


def _objective(
    trainer: Any, micro: MicroBatch, S: Tensor, mask: Bool[Tensor, "B T"]
) -> Tensor:
    A = micro.advantage
    log_r = (S - micro.S_old).where(mask, 0.0)
    if trainer.importance_sampling_level == "sequence":
        T = mask.sum(dim=1, keepdim=True).clamp(min=1)
        log_r = log_r.sum(dim=1, keepdim=True) / T
    r = log_r.exp()
    if trainer.loss_type == "cispo":
        return r.clamp(max=trainer.epsilon_high).detach() * A * S
    clipped = r.clamp(1 - trainer.epsilon_low, 1 + trainer.epsilon_high)
    if trainer.args.delta is not None:
        r = r.clamp(max=trainer.args.delta)
    return torch.minimum(r * A, clipped * A)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(), x.square().sum()
