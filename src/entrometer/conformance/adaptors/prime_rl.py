"""Loss of prime-rl: DPPO with the ratio to the engine, plus a squared log-ratio."""

from pathlib import Path
from types import SimpleNamespace

from torch import Tensor

from entrometer.conformance.adaptors.absent import imported, without, without_init
from entrometer.conformance.adaptors.adaptor import Config, Part, Settings

DISTRIBUTION = "prime-rl"
_LOSS = "prime_rl.trainer.rl.loss"


def _dppo(s: Settings) -> Config:
    return {
        "dppo_mask_low": s["low"],
        "dppo_mask_high": s["high"],
        "adv_tau": 1.0,
        # Its default, which no setting of ours has.
        "kl_tau": 1e-3,
    }


CONFIGS = {"dppo": _dppo}
FLOAT32: dict[str, str] = {}


def prepare(site: Path) -> None:
    """Import the loss; its config classes are not needed, their fields are."""
    without("pydantic_config", "pydantic_settings", "loguru", "zmq", "wandb")
    roots = [site, site / "src", site / "packages" / "prime-rl-configs" / "src"]
    packages = ("prime_rl", "prime_rl.trainer", "prime_rl.trainer.rl")
    without_init(roots, *packages, "prime_rl.utils", "prime_rl.configs")
    imported(_LOSS)


def loss(config: Config, part: Part) -> Tensor:
    """Return prime-rl's loss of a micro-batch; it has one policy that sampled."""
    module = imported(_LOSS)
    rows = range(len(part.S))
    # Sequences are packed, so each has its own length.
    packed = [
        [table[i][part.mask[i]] for i in rows] for table in (part.S, part.S_old, part.A)
    ]
    loss_config = SimpleNamespace(**config)
    found, _ = module.compute_loss(
        packed[0],
        packed[1],
        None,
        packed[2],
        [part.mask[i][part.mask[i]] for i in rows],
        None,
        None,
        None,
        lambda inputs: module.default_loss_fn(inputs, loss_config),
        part.tokens,
        1,
        1,
    )
    assert isinstance(found, Tensor)
    return found
