import pytest

from benchmarks.cost_model.flops import Machine, Rate, Work, fit_rate

MACHINE = Machine(flops=100.0, bandwidth=10.0)


def test_seconds_are_calls_and_tokens_stretched():
    rate = Rate(call=2.0, stretch=3.0, first=100.0)
    assert MACHINE.ideal(Work(5, 200, 40)) == 2.0 + 4.0
    assert rate.seconds(MACHINE, Work(5, 200, 40)) == 10.0 + 18.0


def test_reading_the_policy_is_in_the_ideal_and_in_the_price_of_a_call():
    work = Work(5, 200, 40, weights=100)
    assert MACHINE.ideal(work) == 2.0 + 4.0 + 10.0
    assert Rate(call=2.0, stretch=3.0).seconds(MACHINE, work) == 10.0 + 18.0


def test_a_draw_is_foretold_where_memory_goes_at_full_speed_and_products_do_not():
    """Five times what a product of many tokens takes, and once what memory takes."""

    def draw(rows, steps):
        return Work(steps, flop=rows * steps * 40.0, weights=steps * 20.0)

    def took(work):
        return 5 * work.flop / MACHINE.flops + work.weights / MACHINE.bandwidth

    works = [draw(2, 16), draw(6, 24)]
    found = fit_rate(MACHINE, works, [took(work) for work in works])
    third = draw(12, 32)
    assert found.seconds(MACHINE, third) == pytest.approx(took(third))


def test_a_head_in_float32_goes_at_its_own_speed():
    slow = Machine(flops=100.0, bandwidth=10.0, single=5.0)
    work = Work(flop=200, single=50)
    assert (MACHINE.ideal(work), slow.ideal(work)) == (2.5, 12.0)


def test_what_processes_exchange_is_added_at_the_speed_of_their_link():
    linked = Machine(flops=100.0, bandwidth=10.0, link=4.0)
    work = Work(flop=200, exchanged=8)
    assert (MACHINE.ideal(work), linked.ideal(work)) == (2.0, 4.0)


def test_a_rate_is_found_from_two_passes_and_foretells_a_third():
    true = Rate(call=1e-3, stretch=1.7)
    works = [Work(1, 10, 1), Work(3, 200, 9)]
    found = fit_rate(MACHINE, works, [true.seconds(MACHINE, w) for w in works])
    third = Work(7, 5e4, 3e3)
    assert found.seconds(MACHINE, third) == pytest.approx(true.seconds(MACHINE, third))


def test_no_part_of_a_rate_is_below_zero():
    """More work in less time: noise, of which no negative price is made."""
    found = fit_rate(MACHINE, [Work(1, 100, 0), Work(1, 200, 0)], [2.0, 1.5])
    assert found.call > 0
    assert found.stretch == 0


def test_work_without_flop_has_a_price_a_call():
    found = fit_rate(MACHINE, [Work(calls=1), Work(calls=1)], [0.5, 0.5])
    assert found.seconds(MACHINE, Work(calls=4)) == pytest.approx(2.0)
