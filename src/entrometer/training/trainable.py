"""Which interventions a trainer can run, and the settings that they require."""

from collections.abc import Collection, Mapping
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.interventions import Intervention, intervention

_AVAILABLE_TABLES = ("concentration", "S_engine", "S_ref")
"""Optional tables that a trainer can have."""

_PLAIN_LOSS: Mapping[str, Any] = {
    "loss_type": "dr_grpo",
    "scale_rewards": "none",
    "beta": 0.0,
    # The clip is a setting of the intervention, so TRL's must stay at its default.
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "importance_sampling_level": "token",
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
}
"""Arguments of TRL with which its loss is plain Dr-GRPO, without extra terms."""


def trainable(text: str) -> Intervention:
    """Parse an intervention; raise if it needs tables that no training has."""
    chosen = intervention(text)
    missing = chosen.remedy.lacks(_AVAILABLE_TABLES)
    if missing:
        raise InvalidValue(
            "expected an intervention that needs only tables of a trainer, got "
            f"{text!r}, which needs the table {missing[0]!r}, which no training has; "
            "take another intervention, or measure this one without training"
        )
    return chosen


def needs_lookahead(chosen: Intervention, micro_batch: int) -> bool:
    """Whether the loss of a micro-batch depends on the others of its update."""
    fits = chosen.micro_batch > 0 and micro_batch % chosen.micro_batch == 0
    measured = "concentration" in chosen.remedy.needs
    return measured or not (chosen.remedy.by_token or fits)


def require_lookahead_supported(
    chosen: Intervention, *, fsdp: bool, deepspeed: bool
) -> None:
    """Raise if the lookahead pass of an intervention cannot run on a sharded model."""
    if deepspeed:
        raise InvalidValue(
            f"expected data parallelism or FSDP for {str(chosen)!r}, whose statistics "
            "are over a complete update, got DeepSpeed, with which that was never "
            "tested; change the launch config, or set micro_batch=N with N the "
            "responses per micro-batch"
        )
    if fsdp and "concentration" in chosen.remedy.needs:
        raise InvalidValue(
            f"expected every process to hold the complete head for {str(chosen)!r}, "
            "which needs the table 'concentration', got FSDP; train on one process or "
            "with data parallelism, or take another intervention"
        )


def require_tables(chosen: Intervention, available: Collection[str]) -> None:
    """Raise if an intervention reads a table that this trainer does not have."""
    how = {
        "S_ref": "set beta above 0, so that TRL computes them (its own penalty is not "
        "added)",
        "S_engine": "sample with vLLM, or with a rollout_func that returns them",
    }
    for name in chosen.remedy.lacks(available):
        raise InvalidValue(
            f"expected a trainer with the log-probs {name!r}, which {str(chosen)!r} "
            f"reads, got one without; {how[name]}, or take another intervention"
        )


def require_plain_loss(trainer: Any, chosen: Intervention) -> None:
    """Raise if TRL's arguments change the loss from plain Dr-GRPO, or add terms."""
    wrong = [k for k, v in _PLAIN_LOSS.items() if getattr(trainer.args, k, v) != v]
    if "S_ref" in chosen.remedy.needs:
        # TRL computes the reference's log-probs then; its loss is not used.
        wrong = [name for name in wrong if name != "beta"]
    if trainer.use_vllm and trainer.vllm_importance_sampling_correction:
        wrong.append("vllm_importance_sampling_correction")
    if trainer.aux_loss_enabled:
        wrong.append("router_aux_loss_coef")
    if wrong:
        expected = _PLAIN_LOSS.get(wrong[0], False)
        raise InvalidValue(
            f"expected {wrong[0]}={expected!r} with an intervention, which defines the "
            f"complete loss, got {getattr(trainer.args, wrong[0])!r}; change either"
        )


def require_complete_window(trainer: Any, chosen: Intervention) -> None:
    """Raise if an update starts before all of its responses are sampled."""
    window = trainer.args.steps_per_generation
    accumulation = trainer.args.gradient_accumulation_steps
    if window % accumulation:
        raise InvalidValue(
            f"expected steps_per_generation to be a multiple of "
            f"gradient_accumulation_steps={accumulation} with {str(chosen)!r}, whose "
            f"statistics are over a complete update, got {window}; change one of them"
        )
