"""An update batch from the responses that a framework dumped, whichever it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from entrometer.policy.sources import UnreadableSource
from entrometer.runs import UpdateBatch, UpdateSettings, prompt_name
from entrometer.runs.rollouts import masks
from entrometer.runs.updates import require_usable


@dataclass(frozen=True, eq=False, kw_only=True)
class DumpedResponse:
    """One response with its prompt; columns have one value per response token."""

    prompt: np.ndarray  #: Token ids.
    response: np.ndarray  #: Token ids.
    #: Whether each token enters the loss. Others are taken for context that the policy
    #: did not write: dumps have one mask for both.
    counted: np.ndarray
    reward: float  #: NaN if the dump has none.
    advantage: np.ndarray
    S: np.ndarray  #: Log-probability under the policy that is updated.
    S_old: np.ndarray  #: Log-probability that the ratio of the loss divides by.
    H: np.ndarray  #: Entropy before each token, in nats.
    S_engine: np.ndarray | None = None  #: Log-probability of the inference engine.


def update_from(
    path: Path,
    responses: Sequence[DumpedResponse],
    *,
    step: int,
    temperature: float,
    max_tokens: int | None,
) -> UpdateBatch:
    """Return the responses as an update batch, those to one prompt next to each other.

    `step` counts from 1. `max_tokens` is the length limit of a response; by default the
    longest response.
    """
    if not responses:
        raise UnreadableSource(
            f"{path}: expected a sequence with a token that the loss counts, got none. "
            "Name the dump of another step."
        )
    names = [prompt_name(r.prompt) for r in responses]
    # No dump says which responses were sampled as a group: equal prompts are one.
    group_of = {name: group for group, name in enumerate(dict.fromkeys(names))}
    order = sorted(range(len(names)), key=lambda i: group_of[names[i]])
    rows = [responses[i] for i in order]
    engine = [r.S_engine for r in rows if r.S_engine is not None]
    batch = UpdateBatch(
        row=np.arange(len(rows)),
        group=np.array([group_of[names[i]] for i in order]),
        prompt=np.array([names[i] for i in order]),
        prompt_tokens=tuple(r.prompt for r in rows),
        response_tokens=tuple(r.response for r in rows),
        counted=tuple(r.counted for r in rows),
        rewards=np.array([[r.reward] for r in rows]),
        advantage=tuple(r.advantage for r in rows),
        S=tuple(r.S for r in rows),
        S_old=tuple(r.S_old for r in rows),
        H=tuple(r.H for r in rows),
        S_engine=tuple(engine) if len(engine) == len(rows) else None,
        written=masks([r.counted for r in rows]),
        settings=UpdateSettings(
            step=step,
            temperature=temperature,
            max_tokens=max_tokens or max(r.response.size for r in rows),
            rewards=("reward",),
            reward_weights=(1.0,),
        ),
    )
    require_usable(path, batch)
    return batch
