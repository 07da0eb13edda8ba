"""The price of responses that vLLM servers draw, and what fits into a server."""

from dataclasses import replace

import pytest

from benchmarks.cost_model.flops import Lengths, decoder
from benchmarks.cost_model.flops.sampling import served, server_memory
from benchmarks.cost_model.scale import assumptions as assumed
from benchmarks.cost_model.scale.drawing import (
    AT_ONCE,
    Server,
    fits,
    parallel,
    server,
    server_seconds,
)
from benchmarks.cost_model.scale.workers import workers

SHAPE = decoder(
    layers=2,
    width=10,
    heads=2,
    kv_heads=1,
    feed_forward=30,
    vocabulary=50,
    tied=True,
)
LINEAR = 2 * 10 * (2 * 10 + 2 * 5 + 3 * 30)


def named(name):
    return next(w for w in workers() if w.labels == [name, "LoRA", "mixed"])


def test_two_responses_at_once_on_two_gpus():
    """Two responses of 3 tokens to prompts of 4: three steps of two sequences."""
    work = served(SHAPE, Lengths.of([(4, 3)] * 2), at_once=2, parallel=2)
    context = 2 * (3 * 4 + 1 + 2 + 3)
    flop = 2 * (8 + 6) * LINEAR + 2 * 6 * 50 * 10 + 4 * 2 * 10 * context
    assert work.calls == 3
    assert work.flop == flop / 2
    assert work.weights == 3 * 2 * SHAPE.parameters / 2
    assert work.bytes == (4 * 2 * 5 * context + 20 * 6 * 50) / 2
    # Two sums per layer, in which a GPU sends and gets half of every output.
    assert work.exchanged == 2 * 2 * 14 * 2 * 10


def test_a_server_holds_weights_and_the_cache_of_its_sequences():
    keys_and_values = 2 * 2 * 5 * 2 * 7
    assert server_memory(SHAPE, 7, 0) == 2 * SHAPE.parameters
    assert server_memory(SHAPE, 7, 3) == 2 * SHAPE.parameters + 3 * keys_and_values


@pytest.mark.parametrize("name", assumed.MODELS)
def test_a_response_costs_less_where_more_are_drawn_at_once(name):
    w = named(name)
    t = parallel(w.shape)
    few, more, many = (server_seconds(w, Server(t, n)) for n in (1, 64, 256))
    assert few > more > many > 0


def test_longer_responses_cost_more_and_fewer_fit():
    w = named("Llama-3.1-70B")
    long = replace(w, response=32768)
    assert server(w) == Server(4, AT_ONCE)
    t, at_once = server(long)
    assert 0 < at_once < AT_ONCE
    assert fits(long, t, at_once)
    assert not fits(long, t, at_once + 1)
    ratio = server_seconds(long, server(long)) / server_seconds(w, server(w))
    assert ratio > 32768 / assumed.RESPONSE
