"""What decides the cost of a policy: sizes of a decoder with gated feed-forwards."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Sizes of a policy."""

    layers: int
    """$L$."""

    width: int
    """$C$, features of a hidden state."""

    heads: int
    """$H$, query heads of a layer."""

    attention_width: int
    """$a$, features of all query heads together."""

    kv_width: int
    """$k$, features of all key heads together, and as many of the values."""

    feed_forward: int
    """$F$."""

    vocabulary: int
    """$V$."""

    parameters: int
    """$P$, of the policy with its adapter."""

    trained: int
    """$d$."""

    adapted: bool
    """Whether what is trained is low-rank adapters alone."""

    @property
    def linear(self) -> int:
        """$W = L(2Ca + 2Ck + 3CF)$, weights of the linear layers but the head."""
        C = self.width
        return (
            self.layers
            * C
            * (2 * self.attention_width + 2 * self.kv_width + 3 * self.feed_forward)
        )

    @property
    def low_rank(self) -> int:
        """$A$, elements of the adapters: each token meets each of them once."""
        return self.trained if self.adapted else 0

    @property
    def outputs(self) -> int:
        """Outputs of the linear layers of one layer."""
        of_attention = self.attention_width + 2 * self.kv_width + self.width
        return of_attention + 2 * self.feed_forward + self.width

    @property
    def traffic(self) -> int:
        r"""$e = 24C + 8(a + 2k) + 8F$, elements that a token moves in a layer.

        Counted by operation: each reads what it takes and writes what it gives. Two
        norms take 12 C, residuals and the ends of products 12 C, rotary products and
        attention 8 of queries, keys and values, the gate 8 F.
        """
        inner = self.attention_width + 2 * self.kv_width
        return 24 * self.width + 8 * inner + 8 * self.feed_forward


def decoder(
    *,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    feed_forward: int,
    vocabulary: int,
    tied: bool,
    biased: bool = False,
    rank: int | None = None,
) -> Architecture:
    r"""A decoder by its published sizes.

    $P = VC(1 + [\text{untied}]) + W + 2LC + C$, with biases of queries, keys and values
    if there are any, and with $A = \sum r(I + O)$ over all linear layers of I inputs
    and O outputs if there are adapters of rank r.

    Args:
        layers: $L$.
        width: $C$.
        heads: Query heads.
        kv_heads: Key heads.
        feed_forward: $F$.
        vocabulary: $V$.
        tied: Whether the head is the embedding.
        biased: Whether queries, keys and values have biases.
        rank: Of adapters on every linear layer but the head; None trains everything.
    """
    a, k = width, width // heads * kv_heads
    C, F, V = width, feed_forward, vocabulary
    weights = layers * C * (2 * a + 2 * k + 3 * F)
    small = (2 * layers + 1) * C + layers * biased * (a + 2 * k)
    whole = V * C * (1 if tied else 2) + weights + small
    ends = 2 * (C + a) + 2 * (C + k) + 3 * (C + F)
    A = layers * (rank or 0) * ends
    return Architecture(
        layers=layers,
        width=C,
        heads=heads,
        attention_width=a,
        kv_width=k,
        feed_forward=F,
        vocabulary=V,
        parameters=whole + A,
        trained=A if rank else whole,
        adapted=rank is not None,
    )
