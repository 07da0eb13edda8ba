"""The kernel by dattri-llm: hooks on the adapter's halves, then its similarity."""

from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.kernel.padded import labelled
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts


def gram(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    from dattri_llm import (  # type: ignore[import-not-found]
        CaptureCallback,
        HookManager,
        HookManagerConfig,
    )

    model: Any = policy.model
    capture = CaptureCallback()
    config = HookManagerConfig(linear_io=[r"lora_[AB]\."], capture_style="materialized")
    found: list[tuple[list[int], Any]] = []
    manager = HookManager(model, config=config, callbacks=[capture])
    with manager.collect(deregister_on_exit=True):
        for rows, ids_BT, labels_BT in labelled(rollouts):
            logits = model(input_ids=ids_BT, use_cache=False).logits
            loss = cross_entropy(
                logits[:, :-1].flatten(0, 1),
                labels_BT[:, 1:].flatten(),
                ignore_index=-100,
                reduction="sum",
            )
            loss.backward()
            model.zero_grad()
            found.append((rows, capture.record.gradient))
    K = torch.zeros(rollouts.count, rollouts.count)
    for i, (left, a) in enumerate(found):
        for right, b in found[i:]:
            part = a.similarity(b, reduce="all")
            K[np.ix_(left, right)] = part
            K[np.ix_(right, left)] = part.T
    return K.numpy()
