"""Models, machine and measurement that the predictions are about."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.cost_model.flops import H100, Architecture, Machine, decoder

RANK = 16
"""Of adapters on every linear layer; on those of attention in a mixture."""

MODELS: dict[str, dict[str, int | bool]] = {
    "Qwen2.5-1.5B": {
        "layers": 28,
        "width": 1536,
        "heads": 12,
        "kv_heads": 2,
        "feed_forward": 8960,
        "vocabulary": 151936,
        "tied": True,
        "biased": True,
    },
    "Qwen2.5-7B": {
        "layers": 28,
        "width": 3584,
        "heads": 28,
        "kv_heads": 4,
        "feed_forward": 18944,
        "vocabulary": 152064,
        "tied": False,
        "biased": True,
    },
    "Qwen3-30B-A3B": {
        "layers": 48,
        "width": 2048,
        "heads": 32,
        "kv_heads": 4,
        "head_width": 128,
        "normed_heads": True,
        "feed_forward": 768,
        "experts": 128,
        "chosen": 8,
        "vocabulary": 151936,
        "tied": False,
    },
    "Llama-3.1-70B": {
        "layers": 80,
        "width": 8192,
        "heads": 64,
        "kv_heads": 8,
        "feed_forward": 28672,
        "vocabulary": 128256,
        "tied": False,
    },
}

PRECISIONS = {"LoRA": ("float32", "mixed"), "full": ("float32", "bfloat16")}
"""By what is trained. Mixed precision needs something frozen."""

SEQUENCES, CHECKPOINTS, UPDATE = 1_000_000, 20, 1024
PROMPT, RESPONSE = 128, 512

RATES = 4
"""Learning rates at which a change is measured."""

DIRECTIONS = 2
"""Of a jvp: the step and momentum's part of it."""

VECTORS = 4
"""Of a sum of gradients: the sum, the part before, this part, and this batch's."""

FOLD_GRADIENTS = 3
"""Of a fold: of entropy, reward and length."""

FOLD_VECTORS = 3 * FOLD_GRADIENTS + 1
"""The same of a sum of the gradients of a fold; those of a batch go one by one."""

EFFICIENCY = 0.4
"""Assumed, of all peaks: nothing here has run on an H100."""

CALL = 2e-5
"""Assumed, seconds that a call of the model costs per layer."""

REDUCTION = 1e-5
"""Assumed, seconds that a sum over the GPUs of a server takes besides its bytes."""

MEMORY = 80e9
SERVED_MEMORY = 0.9 * MEMORY
"""Bytes that a server takes of each GPU."""

STORAGE = 5e9
"""Assumed, bytes per second of the shared storage, for all nodes together."""

NODE = 8
"""GPUs of a node."""

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Numbers of GPUs that a worker may have."""

LINKS = {
    "NVLink": 450e9,
    "InfiniBand": 400e9,
    "PCIe": 64e9,
    "Ethernet": 12.5e9,
}
"""Bytes per second in each direction, by the data sheets.

NVLink 4 and PCIe 5.0 x16 of a GPU; eight adapters of 400 Gb/s or one of 100 Gb/s of a
node, which a ring through all nodes shares.
"""

GPUS = (8, 64, 512)
HEAD_CHUNK = 256 << 20
"""Bytes of one chunk of logits, as `VocabularyHead` has it on a GPU."""

SHARD, FAN_IN = 1 << 16, 8
"""Response tokens of a shard of a sum, and sums that are added up at once."""


def shapes() -> Iterator[tuple[str, str, Architecture]]:
    """Yield each model with each way to train it."""
    for name, sizes in MODELS.items():
        for trained, rank in (("LoRA", RANK), ("full", None)):
            shape = decoder(**sizes, rank=rank)  # type: ignore[arg-type]
            yield name, trained, replace(shape, head_chunk=HEAD_CHUNK)


def machine(precision: str, shards: int = 1, link: str | None = None) -> Machine:
    """Return an H100 of a worker, by default with NVLink and between nodes InfiniBand.

    A worker of more GPUs than a node has all its traffic at the slower of the two.
    """
    if link is None:
        link = "NVLink" if shards <= NODE else "InfiniBand"
    return replace(H100[precision], link=LINKS[link])
