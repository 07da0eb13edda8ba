"""Which tokens of a padded batch belong to the response."""

# Axes: B sequences, T completion tokens.

from jaxtyping import Bool, Int
from torch import Tensor


def response_mask(tokens: Int[Tensor, "B T"], *, eos: int) -> Bool[Tensor, "B T"]:
    """True up to and including the first EOS; nothing after it counts.

    A row without EOS was cut at the length limit: all of it counts.
    """
    is_eos_BT = (tokens == eos).long()
    eos_before_BT = is_eos_BT.cumsum(dim=-1) - is_eos_BT
    return eos_before_BT == 0
