"""Draw responses from a policy in this process."""

# Axes: B rows of a batch, T padded length, V vocabulary, D halvings of it, N responses.

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from entrometer.calculus.sharded import same
from entrometer.errors import InvalidValue
from entrometer.policy.policy import Policy
from entrometer.policy.turns import DECODED, GrowingResponse, Tool
from entrometer.runs.rollouts import Rollouts, Sampler, unscored
from entrometer.runs.seeds import seeds_for


def sample(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    *,
    prompt_ids: Sequence[int],
    responses_per_prompt: int = 1,
    temperature: float = 1.0,
    max_tokens: int,
    seed: int | Int[np.ndarray, " N"],
    batch_tokens: int = 2**14,
    keep_logprobs: bool = False,
    tool: Tool | None = None,
) -> Rollouts:
    r"""Draw responses from $\pi(\cdot|t_{<k}) = \mathrm{softmax}(z_k/\tau)$ itself.

    No top-k, top-p, penalty or forced token: the model's generation config is ignored,
    except for its EOS tokens. A response ends with its first EOS, included, or after
    `max_tokens`.

    A `tool` may reply in the middle of a response. Its tokens become part of the
    response, count towards `max_tokens`, and are marked as not written by the policy.

    Token k of a response is a function of its seed, k and $\pi(\cdot|t_{<k})$ alone.
    Batches and machines change a response only through different rounding of $\pi$:
    about three tokens in a million in float32, three in a hundred in bfloat16.

    A repeated prompt id gets new responses. `seed` is one number for all, or the seed
    of each response of a part of a batch. The key-value cache holds at most
    `batch_tokens` tokens, prompts and padding included. Rewards are not set.

    With `keep_logprobs` each token's log-prob, as the sampling itself computed it, is
    kept as an engine's: for a policy that samples in another precision than it trains.
    """
    source = Path(policy.source).expanduser()
    sampler = Sampler(
        name="transformers",
        temperature=temperature,
        max_tokens=max_tokens,
        # Rollouts are stored, and the path of a model would identify the machine.
        model=source.name if source.is_dir() else policy.source,
        version=version("transformers"),
    )
    seeds = seeds_for(seed, prompts, prompt_ids, responses_per_prompt)
    _check_prompts(policy, prompts, max_tokens)
    rows = [prompt for prompt in prompts for _ in range(responses_per_prompt)]
    numbers = [i for i in prompt_ids for _ in range(responses_per_prompt)]
    responses = [GrowingResponse(int(number)) for number in numbers]
    for batch in _batches([len(row) + max_tokens for row in rows], batch_tokens):
        of_batch = [rows[i] for i in batch], [responses[i] for i in batch]
        _draw_batch(policy, *of_batch, seeds[batch], sampler, tool)
    tokens = [response.tokens for response in responses]
    texts = [policy.tokenizer.decode(row, **DECODED) for row in tokens]
    written = [response.written for response in responses]
    rollouts = unscored(prompt_ids, rows, tokens, seeds, texts, sampler, written)
    if not keep_logprobs:
        return rollouts
    logprobs = tuple(np.array(response.logprobs) for response in responses)
    return replace(rollouts, engine_logprobs=logprobs)


def eos_tokens(policy: Policy) -> tuple[int, ...]:
    """Return the EOS token ids of tokenizer and generation config, ascending."""
    config = getattr(policy.base, "generation_config", None)
    listed = getattr(config, "eos_token_id", None)
    ids = listed if isinstance(listed, list | tuple) else [listed]
    return tuple(sorted({*ids, policy.tokenizer.eos_token_id} - {None}))


def _check_prompts(
    policy: Policy, prompts: Sequence[Sequence[int]], max_tokens: int
) -> None:
    base: Any = policy.base
    if policy.model.training:
        raise InvalidValue(
            "expected a policy in evaluation mode, got one in training mode, where "
            "dropout makes it another policy; call policy.model.eval()"
        )
    limit = getattr(base.config, "max_position_embeddings", None)
    for i, prompt in enumerate(prompts):
        if len(prompt) == 0 or min(prompt) < 0 or max(prompt) >= policy.vocabulary:
            raise InvalidValue(
                f"expected at least one token id, from 0 below {policy.vocabulary}, in "
                f"prompt {i}, got {len(prompt)} tokens up to "
                f"{max(prompt, default=None)}; use the tokenizer of this model"
            )
        if limit is not None and len(prompt) + max_tokens > limit:
            raise InvalidValue(
                f"expected at most {limit} tokens, the model's positions, got prompt "
                f"{i} of {len(prompt)} and max_tokens={max_tokens}; lower max_tokens"
            )


def _batches(lengths: list[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield rows of similar length; a row above the budget is alone."""
    # Longest first: a lack of memory shows in the first batch.
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = max(1, batch_tokens // lengths[order[0]])
        yield order[:size]
        order = order[size:]


def _draw_batch(
    policy: Policy,
    prompts: list[Sequence[int]],
    responses: list[GrowingResponse],
    seeds: Int[np.ndarray, " B"],
    sampler: Sampler,
    tool: Tool | None,
) -> None:
    """Draw the tokens of some responses, which are empty when this begins."""
    device = policy.device
    model: Any = policy.model
    # Drawn by NumPy: the same numbers on every device, and a longer limit only appends.
    streams = [np.random.default_rng(seed) for seed in seeds]
    eos, limit = frozenset(eos_tokens(policy)), sampler.max_tokens
    ids_BT, mask_BT = _left_padded(prompts, device)
    position_BT = (mask_BT.cumsum(dim=1) - 1).clamp(min=0)
    # A few older architectures lack this argument and return all logits.
    one = "logits_to_keep" in inspect.signature(policy.base.forward).parameters
    last_only = {"logits_to_keep": 1} if one else {}

    rows = list(range(len(prompts)))
    cache = None
    with torch.no_grad():
        for _ in range(limit):
            step = partial(
                model,
                input_ids=ids_BT,
                attention_mask=mask_BT,
                position_ids=position_BT,
                past_key_values=cache,
                use_cache=True,
                **last_only,
            )
            output = policy.within(step)
            logits_BV = output.logits[:, -1]
            halvings = (logits_BV.shape[1] - 1).bit_length()
            # Also for a token of a tool: numbers belong to places in a response.
            u_BD = np.stack([streams[row].random(halvings) for row in rows])
            u = torch.from_numpy(u_BD).to(device)
            # All processes of a group draw the same; a rounding must not part them.
            token_B, S_B = _draw(logits_BV, sampler.temperature, u)
            token_B = same(policy.mesh, token_B)
            drawn = zip(rows, token_B.tolist(), S_B.tolist(), strict=True)
            for row, token, S in drawn:
                responses[row].add(token, S)
            places = [
                i
                for i, row in enumerate(rows)
                if responses[row].goes_on(eos, tool, policy.tokenizer, limit)
            ]
            if not places:
                break
            cache, going = output.past_key_values, torch.tensor(places, device=device)
            if len(places) < len(rows):
                cache.batch_select_indices(going)
                rows = [rows[i] for i in places]
            last = [responses[row].tokens[-1:] for row in rows]
            ids_BT = torch.tensor(last, device=device)
            position_BT = position_BT[going, -1:] + 1
            mask_BT = torch.nn.functional.pad(mask_BT[going], (0, 1), value=1)


def _draw(
    logits: Float[Tensor, "B V"], temperature: float, u: Float[Tensor, "B D"]
) -> tuple[Int[Tensor, " B"], Float[Tensor, " B"]]:
    r"""Draw a token of each row by halving the vocabulary D times; with its log-prob.

    At each halving the token is in the left half if $u < m_l / (m_l + m_r)$, m the
    masses of the halves: the product of these chances is $\pi$.
    """
    # Rounding moves each comparison by its own relative error. Inverting the
    # distribution function would move thousands of boundaries at once, and change one
    # token in a thousand.
    # Float64: in float32 the noise is coarser than the rare tokens' probability.
    mass_BV = (logits.double() / temperature).softmax(dim=-1)
    if not bool(torch.isfinite(mass_BV[:, -1]).all()):
        raise InvalidValue(
            "expected finite logits, got NaN or infinity; check the weights, or use "
            "precision='float32'"
        )
    D = u.shape[1]
    levels = [torch.nn.functional.pad(mass_BV, (0, 2**D - mass_BV.shape[1]))]
    while len(levels) < D:
        left, right = levels[-1].chunk(2, dim=1)
        levels.append(left + right)
    # Node n of a level has the tokens v = n modulo its width: adding the two ends of a
    # row, a whole end at a time, is many times faster than adding neighbours.
    node_B1 = torch.zeros(len(u), 1, dtype=torch.long, device=u.device)
    for d, mass in enumerate(reversed(levels)):
        left, right = (half.gather(1, node_B1) for half in mass.chunk(2, dim=1))
        # Never into an empty half: u (left + 0) >= left is false for every u < 1.
        node_B1 += 2**d * (u[:, d, None] * (left + right) >= left)
    return node_B1[:, 0], mass_BV.gather(1, node_B1)[:, 0].log()


def _left_padded(
    prompts: list[Sequence[int]], device: torch.device
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    # On the left: every row's next token is then in the same column.
    T = max(map(len, prompts))
    ids = [[0] * (T - len(p)) + list(p) for p in prompts]
    mask = [[0] * (T - len(p)) + [1] * len(p) for p in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
