"""A policy small enough that every possible response can be enumerated."""

# Axes: N rows, L length limit, V vocabulary, D state width, M sequences of a prompt.

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

EOS = 0
"""The end-of-sequence token of every enumerable policy."""


@dataclass(frozen=True)
class EnumerablePolicy:
    r"""A recurrent policy over all responses of at most `length` tokens, in float64.

    $x_k = \tanh(W x_{k-1} + e_{t_{k-1}} + q_p + \ell_k)$ and logits $z_k = C x_k + c$:
    every logit depends on the prompt, the position and the whole prefix, so no result
    here relies on a short memory. Parameters are a plain dict.
    """

    vocabulary: int = 3
    """Number of tokens; token 0 is EOS."""

    length: int = 4
    """Length limit: a response ends with its first EOS, or here."""

    prompts: int = 4
    """Number of prompts, all equally likely."""

    width: int = 8
    """Size of the recurrent state."""

    def parameters(
        self, seed: int, *, scale: float = 0.7, eos_logit: float = 0.0
    ) -> dict[str, Tensor]:
        """Return random parameters; `eos_logit` < 0 makes long responses common."""
        generator = torch.Generator().manual_seed(seed)
        shapes = {
            "recurrence": (self.width, self.width),
            "token": (self.vocabulary, self.width),
            "prompt": (self.prompts, self.width),
            "position": (self.length, self.width),
            "head": (self.vocabulary, self.width),
            "bias": (self.vocabulary,),
        }
        params = {
            name: scale * torch.randn(shape, generator=generator, dtype=torch.float64)
            for name, shape in shapes.items()
        }
        params["bias"][EOS] += eos_logit
        return params

    def logits(
        self,
        params: dict[str, Tensor],
        prompt: Int[Tensor, " N"],
        tokens: Int[Tensor, "N L"],
    ) -> Float[Tensor, "N L V"]:
        """Return the logits before each token; logits k do not depend on token k."""
        state_ND = torch.zeros(tokens.shape[0], self.width, dtype=params["head"].dtype)
        before_ND = torch.zeros_like(state_ND)
        logits = []
        for k in range(tokens.shape[1]):
            state_ND = torch.tanh(
                state_ND @ params["recurrence"].T
                + before_ND
                + params["prompt"][prompt]
                + params["position"][k]
            )
            logits.append(state_ND @ params["head"].T + params["bias"])
            before_ND = params["token"][tokens[:, k]]
        return torch.stack(logits, dim=1)

    def sequences(self) -> Int[Tensor, "M L"]:
        """Return every possible response, padded with EOS; 31 for V = 3, L = 4."""
        open_prefixes: list[list[int]] = [[]]
        finished: list[list[int]] = []
        for k in range(self.length):
            grown = [[*s, t] for s in open_prefixes for t in range(self.vocabulary)]
            last = k == self.length - 1
            finished += [s for s in grown if last or s[-1] == EOS]
            open_prefixes = [s for s in grown if s[-1] != EOS]
        padded = [s + [EOS] * (self.length - len(s)) for s in finished]
        return torch.tensor(padded)

    def lengths(self) -> Int[Tensor, " M"]:
        """Return the number of tokens of each sequence, EOS included."""
        ends = [[*row, EOS].index(EOS) + 1 for row in self.sequences().tolist()]
        return torch.tensor(ends).clamp(max=self.length)
