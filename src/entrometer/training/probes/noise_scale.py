"""Gradient noise scale of the updates, from the gradients of training itself."""

import math
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from entrometer.errors import InvalidValue
from entrometer.estimators import Estimate, noise_scale, noise_scale_moments
from entrometer.training.instruments import Instrument, require_complete_parameters
from entrometer.training.micro_batch import MicroBatch


class NoiseScale(Instrument):
    r"""Logs $\mathrm{tr}\,\Sigma$ and $|G|^2$ of each update and their running ratio.

    A hook on each trained parameter sees the gradient $\gamma_{mr}$ of micro-batch m on
    process r alone: before it is accumulated, and before processes exchange theirs.
    With n micro-batches on each of W processes the update's gradient, before clipping,
    is

    $$g_B = \frac1W\sum_{m,r}\gamma_{mr}
          = \frac1{nW}\sum_{m,r} g_b^{(m,r)}, \qquad g_b^{(m,r)} = n\gamma_{mr},$$

    whatever the loss is divided by, so $|g_b|^2 = n^2\overline{|\gamma_{mr}|^2}$. A
    micro-batch of b complete prompt groups has the mean gradient of b groups, the
    update that of $B = bnW$; see `noise_scale_moments`. No extra pass over the model is
    needed.

    The result is exact for every loss whose micro-batch gradients are sums over groups,
    up to a divisor that all groups of the update share. `bnpo` and the entropy bonus
    divide by the tokens of each micro-batch, and are exact for micro-batches of one
    group.

    Logs `noise_scale/trace`, `noise_scale/signal` ($|G|^2$), and
    `noise_scale/B_simple`, in prompt groups, with `_se`: the ratio of the averages of
    the last `window` updates, for the scale grows during training.

    Where a trainer shuffles responses over micro-batches, as TRL does, groups are torn
    apart. With `by="response"` the scale is in responses: their spread within an
    update, which leaves out that the responses of a group share a baseline.
    """

    def __init__(
        self, *, window: int = 1000, by: Literal["group", "response"] = "group"
    ) -> None:
        if window < 2:
            raise InvalidValue(
                f"expected window >= 2 updates to average, got {window}; make it larger"
            )
        self.by = by
        self._kept: deque[tuple[float, float]] = deque(maxlen=window)
        self._sizes = (0, 0)
        self._handles: list[RemovableHandle] = []
        self._seen: dict[int, Tensor] = {}
        self._parts: list[Tensor] = []
        self._b = 0

    def attach(self, trainer: Any) -> None:
        """Hook the trained parameters."""
        require_complete_parameters(trainer, "NoiseScale")
        micro, group = trainer.args.per_device_train_batch_size, trainer.num_generations
        if self.by == "group" and micro % group:
            raise InvalidValue(
                f"expected micro-batches of complete groups of {group} responses, got "
                f"per_device_train_batch_size={micro}; make it a multiple of {group}"
            )
        accumulation = trainer.args.gradient_accumulation_steps
        if accumulation * trainer.accelerator.num_processes < 2:
            raise InvalidValue(
                "expected at least 2 micro-batches per update, for the noise scale "
                "compares two batch sizes, got 1; halve per_device_train_batch_size "
                "and double gradient_accumulation_steps, or leave NoiseScale out"
            )
        for handle in self._handles:
            handle.remove()
        self._seen, self._parts = {}, []
        self._handles = [
            p.register_hook(partial(self._see, i))
            for i, p in enumerate(trainer.model.parameters())
            if p.requires_grad
        ]

    def _see(self, i: int, gradient: Tensor) -> None:
        # By parameter: a backward pass of other code in between is overwritten.
        self._seen[i] = _square(gradient)

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        """Store the squared norm of this micro-batch's gradient."""
        self._parts.append(_total(self._seen.values(), trainer.accelerator.device))
        self._seen = {}
        each = trainer.num_generations if self.by == "group" else 1
        self._b = len(micro.row) // each

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        """Return the moments of this update, and the running ratio."""
        n = len(self._parts)
        squares = trainer.accelerator.gather(torch.stack(self._parts))
        self._parts = []
        b, B = self._b, self._b * len(squares)
        if b == B:
            return {}  # The end of an epoch fits into a single micro-batch.
        gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        update = _total(map(_square, gradients), trainer.accelerator.device)
        scaler = trainer.accelerator.scaler
        # Float16 training scales its gradients, and unscales them only at clipping.
        unit = 1.0 if scaler is None else float(scaler.get_scale()) ** -2
        small = n**2 * unit * float(squares.double().mean())
        large = unit * float(update)
        if not math.isfinite(small + large):
            return {}  # Float16 overflowed: the optimizer skips this step.
        squares = np.array([small]), np.array([large])
        trace, signal = noise_scale_moments(*squares, b=b, B=B)
        if n == trainer.args.gradient_accumulation_steps:
            if (b, B) != self._sizes:
                self._kept.clear()
                self._sizes = (b, B)
            self._kept.append((small, large))
        running = self.estimate()
        ratio = (running.value, running.standard_error) if running else (math.nan,) * 2
        return {
            "noise_scale/trace": float(trace[0]),
            "noise_scale/signal": float(signal[0]),
            "noise_scale/B_simple": ratio[0],
            "noise_scale/B_simple_se": ratio[1],
        }

    def estimate(self) -> Estimate | None:
        r"""Return $B_{\text{simple}}$ with its error; None before the second update."""
        if len(self._kept) < 2:
            return None
        small, large = np.array(self._kept).T
        b, B = self._sizes
        return noise_scale(small, large, b=b, B=B)

    def state(self) -> dict[str, Any]:
        """Return the stored squared norms."""
        return {"sizes": list(self._sizes), "kept": [list(x) for x in self._kept]}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the stored squared norms."""
        self._sizes = tuple(state["sizes"])
        self._kept.clear()
        self._kept.extend((small, large) for small, large in state["kept"])


def _square(gradient: Tensor) -> Tensor:
    # Row by row: one float32 sum over a matrix of the size of an embedding is off by
    # 0.2%, and squaring the matrix first takes memory and four times as long.
    g = gradient.detach()
    rows: Tensor = torch.linalg.vector_norm(g, dim=-1, dtype=torch.float32)
    return rows.square().sum()


def _total(squares: Any, device: torch.device) -> Tensor:
    return torch.stack([x.to(device) for x in squares]).sum()
