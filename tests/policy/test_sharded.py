"""A policy in the shards of two processes, against the same in one."""

import json

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.calculus import AdamWState, dot
from entrometer.calculus.sharded import divided, mesh_of_group, rows_of, whole
from entrometer.errors import ShapeMismatch
from entrometer.estimators import GradientWeights
from entrometer.policy import load_checkpoint, load_policy, sample
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import Policy, moved
from entrometer.policy.sharding import shard
from tests.groups import in_group
from tests.policy.small_models import random_rollouts, small_policy, with_tool

# Tied weights with biases, experts, and experts with sinks and adapters.
POLICIES = [("qwen2", False), ("qwen3_moe", False), ("gpt_oss", True)]
BUDGET = 16  # Tokens of a batch, so that the processes have several, and not as many.
# With a tool's output, which the passes leave out.
ROLLOUTS = with_tool(random_rollouts(lengths=[(4, 9), (4, 5), (5, 1), (1, 7), (3, 6)]))


def weights():
    rng = np.random.default_rng(0)
    K = ROLLOUTS.tokens
    return [
        GradientWeights(S=rng.normal(size=K), H=rng.normal(size=K)) for _ in range(2)
    ]


def direction(policy):
    generator = torch.Generator().manual_seed(3)
    return {
        name: 0.01 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, p in policy.trained().items()
    }


def figures(policy: Policy, v):
    """What the passes return, as arrays that can be sent to another process."""
    here = passes.forward(policy, ROLLOUTS, budget=BUDGET)
    tangents = passes.jvp(policy, ROLLOUTS, [v, v], budget=3 * BUDGET).tangents[1]
    many = passes.vjps(policy, ROLLOUTS, weights(), budget=BUDGET).gradients
    rows = next(iter(passes.per_sequence(policy, ROLLOUTS, weights()[0])))
    with moved(policy, v, 0.1):
        there = passes.forward(policy, ROLLOUTS, budget=BUDGET)
    back = passes.forward(policy, ROLLOUTS, budget=BUDGET)
    return {
        "forward": np.stack([*here, *there]),
        "back": np.stack(back),
        "jvp": np.stack(tangents),
        "dot": dot(v, many[0]).item(),
        "vjp": [{n: whole(g).numpy() for n, g in each.items()} for each in many],
        "row": {n: g.numpy() for n, g in rows.gradients.items()},
    }


def in_shards(name, lora):
    mesh = mesh_of_group(2, "cpu")
    policy = small_policy(name, lora=lora)
    v = {n: divided(x, mesh) for n, x in direction(policy).items()}
    policy = shard(policy, mesh)
    refused = []
    for refuse in (
        lambda: passes.jvp2(policy, ROLLOUTS, v),
        lambda: passes.jvp(policy, ROLLOUTS, [{n: whole(x) for n, x in v.items()}]),
        lambda: shard(small_policy("llama"), mesh) and dot(v, {"other": v}),
    ):
        try:
            refuse()
        except (UnknownArchitecture, ShapeMismatch, KeyError) as error:
            refused.append(type(error).__name__)
    held = sum(rows_of(p).nbytes for p in policy.model.parameters())
    total = sum(p.nbytes for p in policy.model.parameters())
    return figures(policy, v) | {"refused": refused[:2], "share": held / total}


def all_in_shards():
    return [in_shards(*policy) for policy in POLICIES]


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    return in_group(tmp_path_factory.mktemp("group"), 2, all_in_shards)


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_passes_of_a_group_are_those_of_one_process(members, number):
    name, lora = POLICIES[number]
    policy = small_policy(name, lora=lora)
    expected = figures(policy, direction(policy))
    for rank, member in enumerate(members):
        found = member[number]
        # To the bit: each process computes whole sequences with whole weights.
        for part in ("forward", "jvp"):
            np.testing.assert_array_equal(found[part], expected[part])
        np.testing.assert_array_equal(found["back"], found["forward"][:2])
        assert found["dot"] == pytest.approx(expected["dot"], rel=1e-12)
        for mine, all_of_it in zip(found["vjp"], expected["vjp"], strict=True):
            for n, g in all_of_it.items():
                np.testing.assert_allclose(mine[n], g, atol=1e-14 * np.abs(g).max())
        for n, g in expected["row"].items():
            size = -(-g.shape[1] // 2)
            own = g[:1, rank * size : (rank + 1) * size]
            scale = 1e-13 * np.abs(g).max()
            np.testing.assert_allclose(found["row"][n][:1], own, atol=scale)
        assert 0.45 < found["share"] < 0.6


def test_what_a_group_cannot_compute_is_refused(members):
    for member in members:
        for found in member:
            assert found["refused"] == ["UnknownArchitecture", "ShapeMismatch"]


def saved(folder, name, lora, *, optimizer=False):
    """A model as trainers save it, with a tokenizer, and AdamW's moments if asked."""
    from benchmarks.untrained_checkpoint import write_untrained_checkpoint
    from entrometer.policy.tiny import tiny_tokenizer

    policy = small_policy(name, lora=lora, precision="float32")
    tokenizer = tiny_tokenizer(length=64)
    if optimizer:
        named = Policy(policy.model, tokenizer, policy.precision, policy.source)
        write_untrained_checkpoint(named, folder)
    elif lora:
        # Saved by itself: inside the adapter its weights have other names.
        below = small_policy(name, lora=False, precision="float32")
        below.model.save_pretrained(folder / "base")
        tokenizer.save_pretrained(folder / "base")
        policy.model.save_pretrained(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = str(folder / "base")
        (folder / "adapter_config.json").write_text(json.dumps(settings))
    else:
        policy.model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def loaded(policy):
    values = {n: whole(p.detach()).numpy() for n, p in policy.model.named_parameters()}
    buffers = {n: b.numpy() for n, b in policy.model.named_buffers()}
    drawn = sample(policy, [[5, 6, 7]], prompt_ids=[0], max_tokens=5, seed=0)
    H = passes.forward(policy, ROLLOUTS).H
    return values | buffers, [t.tolist() for t in drawn.response_tokens], H


def moments(state: AdamWState):
    both = {"m": state.first_moment, "s": state.second_moment}
    return {k + n: whole(v[n]).numpy() for k, v in both.items() for n in v}


def all_loaded(folders, checkpoint):
    mesh = mesh_of_group(2, "cpu")
    found = [loaded(load_policy(f, precision="float64", mesh=mesh)) for f in folders]
    return found, moments(load_checkpoint(checkpoint, mesh=mesh).state)


def test_each_process_reads_its_rows_of_a_saved_model(tmp_path):
    # Experts by expert in the file, a scale in a buffer, an adapter on its base.
    names = [("qwen3_moe", False), ("gemma3_text", False), ("llama", True)]
    folders = [tmp_path / name for name, _ in names]
    for folder, (name, lora) in zip(folders, names, strict=True):
        saved(folder, name, lora)
    checkpoint = tmp_path / "checkpoint-1"
    saved(checkpoint, "qwen2", False, optimizer=True)
    members = in_group(tmp_path, 2, all_loaded, folders, checkpoint)
    for i, folder in enumerate(folders):
        expected = loaded(load_policy(folder, precision="float64"))
        for found, _ in members:
            values, tokens, H = found[i]
            assert values.keys() == expected[0].keys()
            for n, x in expected[0].items():
                np.testing.assert_array_equal(values[n], x, err_msg=n)
            assert tokens == expected[1]
            np.testing.assert_array_equal(H, expected[2])
    expected = moments(load_checkpoint(checkpoint).state)
    for _, found in members:
        assert found.keys() == expected.keys()
        for n, x in expected.items():
            np.testing.assert_array_equal(found[n], x)
