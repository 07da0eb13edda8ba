"""What decides the cost of a policy: sizes of a decoder with gated feed-forwards."""

from dataclasses import dataclass

HEAD_CHUNK = 16 << 20
"""Bytes of one chunk of logits, as `VocabularyHead` has it on a processor."""


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
    """$F$, of one expert in a mixture."""

    vocabulary: int
    """$V$."""

    parameters: int
    """$P$, of the policy with its adapter."""

    trained: int
    """$d$."""

    adapted: bool
    """Whether what is trained is low-rank adapters alone."""

    tied: bool
    """Whether the head is the embedding."""

    experts: int = 0
    """$E$, experts of a layer; 0 without a mixture."""

    chosen: int = 1
    """$K$, experts that a token goes through."""

    head_chunk: int = HEAD_CHUNK
    """Bytes of logits that the head makes at once, which the device decides."""

    @property
    def attention_weights(self) -> int:
        """$LC(2a + 2k)$, weights of the linear layers of attention."""
        inner = 2 * self.attention_width + 2 * self.kv_width
        return self.layers * self.width * inner

    @property
    def linear(self) -> int:
        """$W = LC(2a + 2k + 3FK + E)$, weights that a token meets below the head."""
        each = 3 * self.feed_forward * self.chosen + self.experts
        return self.attention_weights + self.layers * self.width * each

    @property
    def expert_weights(self) -> int:
        """$3LCFE$, weights of all experts."""
        return 3 * self.layers * self.width * self.feed_forward * self.experts

    @property
    def merged(self) -> int:
        """Weights that adapters are merged into: of attention alone in a mixture."""
        if not self.adapted:
            return 0
        return self.attention_weights if self.experts else self.linear

    @property
    def low_rank(self) -> int:
        """$A$, elements of the adapters: each token meets each of them once."""
        return self.trained if self.adapted else 0

    @property
    def frozen(self) -> int:
        """Parameters that are not trained."""
        return self.parameters - self.trained

    @property
    def head(self) -> int:
        """$VC$, weights of the vocabulary head."""
        return self.vocabulary * self.width

    @property
    def root(self) -> int:
        """Parameters outside of the layers: embedding, last norm and head."""
        return self.head * (1 if self.tied else 2) + self.width

    @property
    def outputs(self) -> int:
        """Outputs of the linear layers of one layer that have adapters."""
        of_attention = self.attention_width + 2 * self.kv_width + self.width
        if self.experts:
            return of_attention
        return of_attention + 2 * self.feed_forward + self.width

    @property
    def residual_traffic(self) -> int:
        """$24C$, elements of the residual stream that a token moves in a layer.

        Counted by operation: each reads what it takes and writes what it gives. Two
        norms take 12 C, residuals and the ends of products 12 C.
        """
        return 24 * self.width

    @property
    def inner_traffic(self) -> int:
        """$8(a + 2k) + 8FK$, other elements that a token moves in a layer.

        Rotary products and attention take 8 of queries, keys and values, the gate 8 F.
        A mixture also copies, weighs and sums the tokens of its experts, 6 C each.
        """
        inner = self.attention_width + 2 * self.kv_width
        copied = 6 * self.width * self.chosen if self.experts else 0
        return 8 * inner + 8 * self.feed_forward * self.chosen + copied

    def met(self, tokens: float) -> float:
        """Return how many parameters a call for so many tokens reads, on average.

        All of them, but for experts that no token chooses.
        """
        if not self.experts:
            return self.parameters
        unused: float = (1 - self.chosen / self.experts) ** tokens
        return self.parameters - unused * self.expert_weights


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
    head_width: int | None = None,
    normed_heads: bool = False,
    experts: int = 0,
    chosen: int = 1,
    rank: int | None = None,
) -> Architecture:
    r"""Return a decoder by its published sizes.

    $P = VC(1 + [\text{untied}]) + W + 2LC + C$ with the weights of all experts, with
    biases and norms of queries, keys and values if there are any, and with
    $A = \sum r(I + O)$ over linear layers of I inputs and O outputs if there are
    adapters of rank r.

    Args:
        layers: $L$.
        width: $C$.
        heads: Query heads.
        kv_heads: Key heads.
        feed_forward: $F$, of one expert in a mixture.
        vocabulary: $V$.
        tied: Whether the head is the embedding.
        biased: Whether queries, keys and values have biases.
        head_width: Features of a head; $C$ over the query heads by default.
        normed_heads: Whether queries and keys have a norm.
        experts: $E$, experts of a layer; 0 without a mixture.
        chosen: $K$, experts that a token goes through.
        rank: Of adapters on every linear layer but the head, in a mixture on those of
            attention; None trains everything.
    """
    each = head_width or width // heads
    a, k = heads * each, kv_heads * each
    C, F, V = width, feed_forward, vocabulary
    weights = layers * C * (2 * a + 2 * k + 3 * F * max(1, experts) + experts)
    small = (2 * layers + 1) * C + layers * biased * (a + 2 * k)
    small += layers * normed_heads * 2 * each
    whole = V * C * (1 if tied else 2) + weights + small
    ends = 2 * (C + a) + 2 * (C + k) + (0 if experts else 3 * (C + F))
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
        tied=tied,
        experts=experts,
        chosen=chosen,
    )
