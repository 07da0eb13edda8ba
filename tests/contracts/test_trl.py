"""What `entrometer.training` overrides in TRL's trainers, or reads out of them.

An override that TRL no longer calls does nothing, and nothing says so. So one short
training runs with every override under observation, and each must be called by the
library's own code.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import RepeatSampler

from entrometer.policy import tiny_policy
from entrometer.training import Instrument, Trainer
from entrometer.training.imitation import ImitationTrainer
from entrometer.training.trainable import _PLAIN_LOSS
from entrometer.training.update_tables import _MEDIA_INPUTS
from tests.contracts.library import accepts, parameters
from tests.training.toy import ARGUMENTS, make_trainer, quietly, train

OVERRIDES = {
    "_calculate_rewards": ["inputs", "prompts", "completions", "completion_ids_list"],
    "_compute_loss": ["model", "inputs"],
    "_generate_and_score_completions": ["inputs"],
    "_get_output_dir": ["trial"],
    "_get_per_token_logps_and_entropies": [
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "batch_size",
        "compute_entropy",
        "compute_aux_loss",
        *_MEDIA_INPUTS,
    ],
    "_get_train_sampler": ["dataset"],
    "_load_optimizer_and_scheduler": ["checkpoint"],
    "_prepare_inputs": ["generation_batch"],
    "_run_epoch": [
        "model",
        "epoch",
        "train_dataloader",
        "steps_in_epoch",
        "num_update_steps_per_epoch",
        "trial",
        "ignore_keys_for_eval",
        "start_time",
        "resume_from_checkpoint",
        "epochs_trained",
        "steps_trained_in_current_epoch",
    ],
    "_save_checkpoint": ["model", "trial"],
    "_send_telemetry": [],
    "create_model_card": ["model_name", "dataset_name", "tags"],
    "training_step": ["model", "inputs", "num_items_in_batch"],
}
"""Methods of a `GRPOTrainer` that `Trainer` overrides, and their parameters."""


def overridden(ours: type, theirs: type) -> set[str]:
    """Methods of a library's class that our classes above it define again."""
    classes = ours.__mro__[: ours.__mro__.index(theirs)]
    names = {name for cls in classes for name in vars(cls)}
    return {n for n in names if hasattr(theirs, n) and not n.startswith("__")}


@dataclass
class Observed:
    trainer: Any
    callers: dict[str, set[str]]
    """For each override, the packages that called it."""

    order: list[str]
    """Overrides and callbacks in the order in which they were called."""

    inputs: dict[str, Any]
    """What TRL gave to `_compute_loss`."""

    attributes: dict[str, Any]
    """What an instrument read from the trainer after a backward pass."""


READ = (
    "_buffered_inputs",
    "_metrics",
    "_step",
    "accelerator",
    "args",
    "aux_loss_enabled",
    "callback_handler",
    "current_gradient_accumulation_steps",
    "epsilon_high",
    "epsilon_low",
    "importance_sampling_level",
    "is_deepspeed_enabled",
    "is_fsdp_enabled",
    "loss_type",
    "max_completion_length",
    "model",
    "num_generations",
    "num_iterations",
    "off_policy_mask_threshold",
    "optimizer",
    "processing_class",
    "reward_func_names",
    "reward_weights",
    "state",
    "temperature",
    "top_entropy_quantile",
    "use_vllm",
    "vllm_importance_sampling_correction",
)
"""Attributes of a `GRPOTrainer` that our code reads."""


class Reader(Instrument):
    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def update(self, trainer, step):
        self.attributes = {n: getattr(trainer, n) for n in READ if hasattr(trainer, n)}
        return {}


class Events(TrainerCallback):
    def __init__(self, order):
        self.order = order

    def on_train_begin(self, *args, **kwargs):
        self.order.append("on_train_begin")

    def on_step_end(self, *args, **kwargs):
        self.order.append("on_step_end")

    def on_log(self, *args, **kwargs):
        if "loss" in kwargs["logs"]:
            self.order.append("on_log")


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    run = tmp_path_factory.mktemp("contracts") / "run"
    callers, order, inputs = defaultdict(set), [], {}

    def observe(name):
        method = getattr(Trainer, name)

        @wraps(method)
        def call(self, *args, **kwargs):
            frame = sys._getframe(1)
            callers[name].add(frame.f_globals["__name__"].partition(".")[0])
            order.append(name)
            if name == "_compute_loss":
                inputs.update(args[1])
            return method(self, *args, **kwargs)

        return call

    spied = type("Spied", (Trainer,), {name: observe(name) for name in OVERRIDES})
    with torch.random.fork_rng(devices=[]), pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        train(make_trainer(spied, run, 1, [Reader()]))
        reader = Reader()
        trainer = make_trainer(spied, run, 2, [reader])
        trainer.add_callback(Events(order))
        order.clear()
        train(trainer, resume_from_checkpoint=True)
    return Observed(trainer, dict(callers), order, inputs, reader.attributes)


def test_every_override_is_in_the_table():
    """`train` is called by users; `run` and the others are not TRL's names."""
    assert overridden(Trainer, GRPOTrainer) == OVERRIDES.keys() | {"train"}


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_has_the_parameters_that_it_was_written_for(name):
    assert parameters(getattr(GRPOTrainer, name)) == OVERRIDES[name]


@pytest.mark.parametrize("name", OVERRIDES)
def test_an_override_is_called_by_the_library(observed, name):
    # TRL's methods are wrapped by decorators of its own package.
    assert observed.callers.get(name, set()) & {"trl", "transformers"}


def test_train_takes_a_checkpoint_and_returns_before_any_step():
    assert accepts(GRPOTrainer.train, "resume_from_checkpoint")


@pytest.mark.parametrize("name", READ)
def test_a_trainer_has_the_attributes_that_are_read(observed, name):
    assert name in observed.attributes


def test_metrics_are_lists_by_mode_and_name(observed):
    """`note` appends to them, and `log` takes their means."""
    observed.trainer._metrics["train"]["contract/value"] += [1.0, 3.0]
    with quietly():
        observed.trainer.log({"loss": 0.0})
    assert observed.trainer.state.log_history[-1]["contract/value"] == 2.0


def test_a_step_is_shown_before_it_is_logged_and_saved(observed):
    """Instruments add metrics in `on_step_end`, and checkpoints hold their states."""
    after = observed.order[observed.order.index("on_step_end") :]
    assert after.index("on_log") < after.index("_save_checkpoint")
    assert observed.order.index("on_train_begin") < observed.order.index("_run_epoch")
    loaded = observed.order.index("_load_optimizer_and_scheduler")
    assert loaded < observed.order.index("on_train_begin")


def test_a_micro_batch_has_the_columns_that_are_read(observed):
    B = ARGUMENTS["per_device_train_batch_size"]
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    for name in names:
        assert observed.inputs[name].shape[0] == B
        assert observed.inputs[name].ndim == 2
    assert observed.inputs["advantages"].shape[0] == B
    # Two optimizer steps per round of sampling: the sampling policy is another one.
    T = observed.inputs["completion_ids"].shape[1]
    assert observed.inputs["old_per_token_logps"].shape == (B, T)


def test_our_columns_travel_through_the_window(observed):
    """TRL shuffles and splits every column that `_generate_and_score...` returns."""
    window = observed.attributes["_buffered_inputs"]
    assert len(window) == ARGUMENTS["steps_per_generation"]
    for micro in window:
        assert isinstance(micro["row"], Tensor)
        assert micro["rewards"].shape[1] == len(ARGUMENTS["reward_weights"])


def test_the_loss_is_divided_by_the_micro_batches_in_trl():
    """`Intervened` divides its own; transformers must not divide a second time."""
    assert GRPOTrainer.loss_is_scaled_for_ga is True


def test_arguments_that_would_change_the_loss_are_fields():
    """A name that is gone would be taken for its default."""
    assert _PLAIN_LOSS.keys() <= {field.name for field in fields(GRPOConfig)}


def test_arguments_of_a_run_are_fields():
    known = {field.name for field in fields(GRPOConfig)}
    assert ARGUMENTS.keys() | {"run_name", "save_total_limit", "delta"} <= known


def test_the_sampler_draws_an_epoch_from_its_generator():
    """`EpochSampler` seeds the generator and relies on nothing else being drawn."""
    assert parameters(RepeatSampler) == [
        "data_source",
        "mini_repeat_count",
        "batch_size",
        "repeat_count",
        "shuffle",
        "seed",
    ]
    sampler = RepeatSampler(range(32), 1, seed=5)
    assert sampler.seed == 5
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.generator.manual_seed(5)
    assert list(sampler) == first


def test_the_sampler_of_a_trainer_is_trls(observed):
    """`Trainer` exchanges the class of that object, and nothing else."""
    assert type(GRPOTrainer._get_train_sampler(observed.trainer)) is RepeatSampler


def test_a_pass_can_run_without_activation_checkpointing():
    assert parameters(disable_gradient_checkpointing)[:2] == [
        "model",
        "gradient_checkpointing_kwargs",
    ]


def test_telemetry_of_imitation_is_overridden_too(tmp_path):
    assert overridden(ImitationTrainer, SFTTrainer) == {"_send_telemetry"}
    sent = []

    class Spied(ImitationTrainer):
        def _send_telemetry(self):
            sent.append(sys._getframe(1).f_globals["__name__"])

    with quietly():
        from datasets import Dataset

        policy = tiny_policy(lora_rank=2)
        Spied(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=SFTConfig(
                output_dir=str(tmp_path),
                report_to="none",
                use_cpu=True,
                bf16=False,
                dataloader_pin_memory=False,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["1+"], "completion": ["2"]}),
        )
    assert sent == ["trl.trainer.base_trainer"]
