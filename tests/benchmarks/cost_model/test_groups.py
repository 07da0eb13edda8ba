"""Memory of one GPU of a worker, and what the processes of a group exchange."""

from dataclasses import replace

import pytest

from benchmarks.cost_model.flops import decoder, gradient_memory, groups, jvp_memory
from benchmarks.cost_model.flops.architecture import HEAD_CHUNK
from benchmarks.cost_model.flops.memory import CHUNK_COPIES
from benchmarks.cost_model.flops.passes import TOKEN_BUDGET
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.workers import pass_seconds, workers

SIZES = {
    "layers": 2,
    "width": 10,
    "heads": 2,
    "kv_heads": 1,
    "feed_forward": 30,
    "vocabulary": 50,
}
CHUNK = CHUNK_COPIES * HEAD_CHUNK
ROOT = 50 * 10 + 10


@pytest.fixture(params=[None, 4], ids=["whole", "adapters"])
def shape(request):
    return decoder(**SIZES, tied=True, rank=request.param)


def test_memory_is_weights_vectors_and_what_a_backward_pass_keeps(shape):
    found = gradient_memory(shape, tokens=64, vectors=3, precision="float64")
    assert found.weights == 8 * shape.parameters
    assert found.vectors == 8 * 3 * shape.trained
    assert found.activations == 8 * 64 * 2 * (8 * 10 + 2 * (10 + 2 * 5) + 4 * 30)
    assert found.merged == (8 * shape.linear if shape.adapted else 0)
    assert found.gathered == 0
    assert found.head == CHUNK + (0 if shape.adapted else 4 * 50 * 10)
    assert found.total == sum(found)


def test_a_group_divides_weights_and_vectors_and_gathers_layers(shape):
    one, four = (
        gradient_memory(shape, 64, vectors=3, precision="float32", shards=g)
        for g in (1, 4)
    )
    assert four.weights == one.weights / 4
    assert four.vectors == one.vectors / 4
    # Both layers are gathered, with the gradients of both.
    gathered = 4 * (shape.parameters + shape.trained)
    assert four.gathered == pytest.approx(gathered)


def test_a_group_keeps_the_inputs_of_layers_and_merges_no_adapters(shape):
    """With the inside of one layer and its gradients, divided by no GPUs."""
    two, four = (gradient_memory(shape, 64, 3, "float64", shards=g) for g in (2, 4))
    layer = 8 * 10 + 2 * (10 + 2 * 5) + 4 * 30
    assert two.activations == four.activations == 8 * 64 * (2 * 10 + 2 * layer)
    assert two.merged == 0


def test_one_process_recomputes_rows_beyond_the_budget(shape):
    shape = replace(shape, layers=20)
    whole, more = TOKEN_BUDGET, TOKEN_BUDGET + 1
    within = gradient_memory(shape, whole, 3, "float32")
    beyond = gradient_memory(shape, more, 3, "float32")
    assert within == gradient_memory(shape, whole, 3, "float32", recomputed=False)
    assert beyond == gradient_memory(shape, more, 3, "float32", recomputed=True)
    assert beyond.activations < within.activations
    assert beyond.merged == within.merged


def test_mixed_precision_holds_two_bytes_per_frozen_weight_and_merges_none():
    shape = decoder(**SIZES, tied=True, rank=4)
    found = gradient_memory(shape, 64, vectors=3, precision="mixed", shards=2)
    assert found.weights == (2 * shape.frozen + 4 * shape.trained) / 2
    assert found.vectors == 4 * 3 * shape.trained / 2
    assert found.merged == 0
    # The head computes in float32.
    assert found.head == CHUNK + 4 * 50 * 10


def test_tangents_of_one_layer_and_of_the_head_are_whole_in_a_group():
    shape = decoder(**SIZES, tied=False)
    alone, group = (jvp_memory(shape, 64, 2, "float32", g) for g in (1, 2))
    assert alone.head == CHUNK
    assert group.head == CHUNK + 2 * 4 * 50 * 10
    two_layers = 4 * (shape.parameters - shape.root)
    assert group.gathered == 4 * shape.root + two_layers + 2 * 4 * 30 * 10


def test_a_forward_gathers_every_parameter_once(shape):
    assert groups.of_forward(shape, "float32", 1) == 0
    assert groups.of_forward(shape, "float32", 4) == 3 * shape.parameters
    tangents = shape.trained + (0 if shape.adapted else 50 * 10)
    moved = groups.of_jvp(shape, "float32", 4, directions=2)
    assert moved == 3 * (shape.parameters + 2 * tangents)


def test_a_backward_pass_gathers_again_and_sums_gradients(shape):
    """The head's own gradient is a whole tensor, summed and not only scattered."""
    layers = shape.parameters - ROOT
    head = 0 if shape.adapted else 2 * 50 * 10
    moved = groups.of_vjp(shape, "float32", 4)
    assert moved == 3 * (2 * layers + 3 * ROOT + shape.trained + head)


def named(name, trained, precision):
    return next(w for w in workers() if w.labels == [name, trained, precision])


def test_the_fewest_gpus_of_a_worker_fit_and_half_of_them_do_not():
    w = named("Qwen2.5-7B", "full", "float32")
    assert w.needed is not None
    assert w.gradient_memory(w.needed).total <= assumed.MEMORY
    assert w.gradient_memory(w.needed // 2).total > assumed.MEMORY


def test_activations_that_do_not_fit_are_not_helped_by_more_gpus():
    w = named("Llama-3.1-70B", "LoRA", "mixed")
    assert w.needed is not None
    long = replace(w, response=32768)
    assert long.gradient_memory(assumed.SIZES[-1]).activations > assumed.MEMORY
    assert long.needed is None
    assert long.needed_by_jvp is not None


@pytest.mark.parametrize("trained", ["LoRA", "full"])
def test_a_group_computes_one_forward_more_for_each_gradient(trained):
    w = named("Qwen2.5-7B", trained, "float32")
    alone, group = w.passes(1), w.passes(2)
    forward = 2 * 1000 * w.sequence * w.shape.linear
    if trained == "full":
        # The last product of a layer is not computed again.
        forward -= 2 * 1000 * w.sequence * 28 * 3584 * 18944
    for name, times in (("forward", 0), ("jvp", 0), ("update", 1), ("folds", 3)):
        more = group[name].flop - alone[name].flop
        # Attention, and adapters that are not merged, are a tenth.
        assert times * forward <= more <= 1.1 * times * forward


def test_a_slower_link_adds_its_seconds_and_no_others():
    w = named("Qwen2.5-7B", "full", "float32")
    fast, slow = (pass_seconds(w, 4, link)["jvp"] for link in ("NVLink", "PCIe"))
    moved = w.passes(4)["jvp"].exchanged
    links = 1 / assumed.LINKS["PCIe"] - 1 / assumed.LINKS["NVLink"]
    assert slow - fast == pytest.approx(moved * links / assumed.EFFICIENCY)
