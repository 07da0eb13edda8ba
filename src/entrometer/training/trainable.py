"""Interventions that a trainer can carry out, and what they ask of it."""

from collections.abc import Mapping
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.interventions import Intervention, intervention

_MEASURED = ("concentration",)
"""Tables that a trainer makes for those that need them."""

_ASKED: Mapping[str, Any] = {
    "loss_type": "dr_grpo",
    "scale_rewards": "none",
    "beta": 0.0,
    # Its clip is among the settings of an intervention.
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "importance_sampling_level": "token",
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
}
"""What TRL would add to a loss of its own, left out."""


def trainable(text: str) -> Intervention:
    """Read an intervention, and refuse one that needs what training does not know."""
    chosen = intervention(text)
    missing = [name for name in chosen.remedy.needs if name not in _MEASURED]
    if missing:
        raise InvalidValue(
            "expected an intervention that reads what a trainer knows of its tokens, "
            f"got {text!r}, which needs the table {missing[0]!r}, measured on a "
            "finished run; take another intervention, or measure this one without "
            "training"
        )
    return chosen


def looks_ahead(chosen: Intervention, micro_batch: int) -> bool:
    """Whether a micro-batch has to know the others of its update.

    If so, the responses of the update are taken through the model once more, without
    gradients, before its first micro-batch.
    """
    fits = chosen.micro_batch > 0 and micro_batch % chosen.micro_batch == 0
    return bool(chosen.remedy.needs) or not (chosen.remedy.by_token or fits)


def require_a_way_ahead(chosen: Intervention, *, fsdp: bool, deepspeed: bool) -> None:
    """Refuse what cannot look ahead where a process has a part of the model alone.

    Those that need not look ahead are trained like any loss.
    """
    if deepspeed:
        raise InvalidValue(
            f"expected data parallelism or FSDP for {str(chosen)!r}, whose statistics "
            "are of a whole update, got DeepSpeed, with which a pass ahead of the step "
            "was never tried; change the config of `accelerate launch`, or give it "
            "micro_batch=N with N the responses of a micro-batch"
        )
    if fsdp and chosen.remedy.needs:
        raise InvalidValue(
            f"expected every process to hold the whole head for {str(chosen)!r}, "
            f"which needs the table {chosen.remedy.needs[0]!r}, got FSDP; train on one "
            "process or with data parallelism, or take another intervention"
        )


def require_plain(trainer: Any) -> None:
    """Refuse what TRL would do to the loss beside the intervention."""
    wrong = [k for k, v in _ASKED.items() if getattr(trainer.args, k, v) != v]
    if trainer.use_vllm and trainer.vllm_importance_sampling_correction:
        wrong.append("vllm_importance_sampling_correction")
    if trainer.aux_loss_enabled:
        wrong.append("router_aux_loss_coef")
    if wrong:
        name = wrong[0]
        expected = _ASKED.get(name, False)
        raise InvalidValue(
            f"expected {name}={expected!r} with an intervention, which is the whole of "
            f"the loss, got {getattr(trainer.args, name)!r}; change it, or leave the "
            "intervention out"
        )


def require_whole_updates(trainer: Any, chosen: Intervention) -> None:
    """Refuse updates of which a part is not sampled yet when they begin."""
    window = trainer.args.steps_per_generation
    accumulation = trainer.args.gradient_accumulation_steps
    if window % accumulation:
        raise InvalidValue(
            f"expected steps_per_generation to be a multiple of "
            f"gradient_accumulation_steps={accumulation} with {str(chosen)!r}, whose "
            f"statistics are of a whole update, got {window}; change one of them"
        )
