"""Losses of TRL: its trainer from rewards to loss, with our registry's lines."""

import ast
import contextlib
import io
import logging
import os
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

from entrometer.conformance.adaptors.absent import imported
from entrometer.conformance.adaptors.adaptor import Config, Part, Settings

DISTRIBUTION = "trl"
CONFIGS: dict[str, Any] = {}
FLOAT32: dict[str, str] = {}


def config_of_line(line: str, settings: Settings) -> Config:
    """Return the keyword arguments of a line such as `epsilon=0.2, beta=0.04`."""
    call = ast.parse(f"f({line.format(**settings)})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {k.arg: _value(k.value) for k in call.keywords if k.arg}


def _value(node: ast.expr) -> Any:
    """Return a literal, or the sum of two: CISPO's bound is `1 + high`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(node.left) + _value(node.right)
    # Python has no literal for it.
    if isinstance(node, ast.Name) and node.id == "inf":
        return float("inf")
    return ast.literal_eval(node)


def prepare(site: Path) -> None:
    """Import TRL, and have it compute in float64."""
    del site
    os.environ["HF_HUB_OFFLINE"] = "1"
    imported("trl")
    # It holds the temperatures of SAPO and a quantile in the default precision.
    torch.set_default_dtype(torch.float64)


def loss(config: Config, part: Part) -> Tensor:
    """Return TRL's loss of a micro-batch, as its trainer accumulates it."""
    trainer = _trainer(part.length_limit, repr(sorted(config.items())))
    micro_batches = part.responses // len(part.S)
    trainer.current_gradient_accumulation_steps = micro_batches
    trainer.args.gradient_accumulation_steps = micro_batches
    # A batch is one optimizer step; with two iterations the old log-probs are computed.
    trainer.args.steps_per_generation, trainer.num_iterations = micro_batches, 2
    trainer._metrics = {"train": defaultdict(list)}
    inputs = _inputs(trainer, part)
    H = part.H if _entropy_has_gradient(trainer) else part.H.detach()
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (part.S, H, None)
    if config.get("use_adaptive_entropy"):
        # As if the entropy of the step before were below the target.
        trainer._last_world_entropy = -float("inf")
        trainer.entropy_coef = trainer.args.entropy_coef
    found = trainer._compute_loss(None, inputs)
    assert isinstance(found, Tensor)
    return found


def _inputs(trainer: Any, part: Part) -> dict[str, Any]:
    """Return what TRL makes of sampled responses and rewards, in this micro-batch."""
    whole = {name: table.detach() for name, table in part.whole.items()}
    lengths = part.whole["mask"].sum(dim=1).tolist()
    ids = [[1] * n for n in lengths]
    sampled = None
    if trainer.use_vllm:
        engine = whole["S_engine"]
        sampled = [row[:n].tolist() for row, n in zip(engine, lengths, strict=True)]
    prompts = [{"prompt": "1+1="} for _ in lengths]
    texts = [""] * len(lengths)
    trainer._generate = lambda _: (ids, ids, None, texts, sampled, {}, None, None)
    trainer._calculate_rewards = lambda *_: part.rewards
    trainer._get_per_token_logps_and_entropies = lambda model, *_, **__: (
        whole["S_ref" if model is trainer.ref_model else "S_old"],
        None,
        None,
    )
    inputs: dict[str, Any] = trainer._generate_and_score_completions(prompts)
    tables = {n: t[part.rows] for n, t in inputs.items() if t is not None and t.dim()}
    return inputs | tables


def _entropy_has_gradient(trainer: Any) -> bool:
    """Whether entropies have a gradient where TRL computes them from its model."""
    own = type(trainer)._get_per_token_logps_and_entropies
    ids = torch.ones(1, 4, dtype=torch.long)
    _, H, _ = own(trainer, trainer.model, ids, ids, 2, compute_entropy=True)
    return bool(H.requires_grad)


@lru_cache(maxsize=4)
def _trainer(limit: int, settings: str) -> Any:
    """Return a trainer that trains nothing; its model only has to exist."""
    from entrometer.policy import tiny_policy

    trl, datasets = imported("trl"), imported("datasets")
    policy = tiny_policy()
    keywords = dict(ast.literal_eval(settings.replace("inf", "1e999")))
    # With these it would load a reference model and look for a server.
    beta, vllm = keywords.pop("beta", 0.0), keywords.pop("use_vllm", False)
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        logging.disable(logging.CRITICAL)
        config = trl.GRPOConfig(
            output_dir=mkdtemp(),
            max_completion_length=limit,
            per_device_train_batch_size=4,
            num_generations=4,
            report_to="none",
            bf16=False,
            use_cpu=True,
            **keywords,
        )
        trainer = trl.GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            args=config,
            train_dataset=datasets.Dataset.from_dict({"prompt": ["1+1="] * 4}),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
        )
        logging.disable(logging.NOTSET)
    trainer.model.train()
    trainer.beta, trainer.use_vllm = beta, vllm
    trainer.ref_model = object()
    return trainer
