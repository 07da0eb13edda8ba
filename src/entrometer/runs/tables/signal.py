"""What the batch of an update contributes: groups with signal, and momentum's part."""

from dataclasses import dataclass

from entrometer.runs.tables.subjects import OfUpdate


@dataclass(frozen=True, kw_only=True)
class UpdateSignal(OfUpdate):
    """How much of an update is due to its own batch, and how much to momentum.

    A prompt group has signal if it has an advantage other than 0. Without any such
    group the batch's policy gradient is 0, and AdamW steps on its momentum alone.
    """

    minibatch: str
    """`j/J`: the j-th of J parts of the update; `1/1` is the whole update."""
    groups: int
    """Prompt groups of the batch."""
    groups_with_signal: int
    eta: float
    """Learning rate of the changes below."""
    quantity: str
    """`entropy`, in nats per token, or `log-prob`, in nats per held-out response."""
    predicted: float
    """First-order change that the whole step makes."""
    momentum: float
    r"""Part of `predicted` along $v_\text{history}$: momentum of earlier batches."""
    momentum_se: float
    momentum_low: float
    momentum_high: float
