import math
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.report.synthetic_influence import Shape, influence
from entrometer.report.influence.colours import (
    CLASSES,
    MODES,
    QUANTITIES,
    Scale,
    contrast,
    css,
    ink,
    linear,
    palette,
    scales,
)
from entrometer.report.influence.token_map import choose, response, token, token_map
from entrometer.report.influence.tokens import context
from entrometer.report.influence.updates import influences
from entrometer.report.kinds import FinishedRun
from tests.report.test_text import read

ENTROPY, REWARD, LOGPROB, _ = QUANTITIES


def run(tables=None, name="run"):
    shape = Shape(checkpoints=("checkpoint-8",), responses=12, per_prompt=4, length=6)
    return FinishedRun(
        "influence", name, "", (), (), {}, {}, tables or influence(shape)
    )


@pytest.fixture(scope="module")
def found():
    return influences([run()])


def test_no_two_quantities_share_a_letter():
    letters = "".join(q.letters for q in QUANTITIES)
    assert len(set(letters)) == len(letters) == 4 * CLASSES


def test_zero_is_in_the_middle_and_the_signs_on_either_side():
    scale = Scale(ENTROPY, 1.0)
    got = scale.classes(np.array([-2.0, -1.0, -0.25, 0.0, 0.25, 1.0, 9.0, np.nan]))
    assert got == ["a", "a", "d", "g", "j", "m", "m", ""]


def test_a_quantity_without_a_sign_starts_at_zero():
    got = Scale(LOGPROB, 4.0).classes(np.array([0.0, 1.0, 4.0, 5.0]))
    assert got == ["A", "G", "M", "M"]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_middle_of_a_class_is_in_it(quantity):
    scale = Scale(quantity, 0.37)
    for letter, value in scale.centres():
        size = value if quantity.diverging else abs(value)
        assert scale.classes(np.array([size])) == [letter]


def test_a_scale_ends_where_a_hundredth_is_left(found):
    values = [abs(3e-4 * t.entropy) for t in run().tables.tokens]
    assert scales(found)[0].top == pytest.approx(np.percentile(values, 99))


@pytest.mark.parametrize("mode", MODES)
def test_every_token_can_be_read_on_its_colour(mode):
    for colour in (c for colours in palette(mode) for c in colours):
        assert contrast(ink(colour), colour) >= 4.5


@pytest.mark.parametrize("mode", MODES)
def test_the_signs_differ_in_lightness_and_each_side_goes_one_way(mode):
    def light(colour):
        return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) ** (1 / 3)

    diverging, plain = ([light(c) for c in cs] for cs in palette(mode))
    assert abs(diverging[0] - diverging[-1]) > 0.2
    for side in (diverging[: CLASSES // 2 + 1], diverging[CLASSES // 2 :], plain):
        steps = np.diff(side)
        assert (steps > 0).all() or (steps < 0).all()


def test_the_sign_is_a_line_too():
    rules = css()
    for quantity in (ENTROPY, REWARD):
        for place, letter in enumerate(quantity.letters):
            (body,) = re.findall(rf"\[class\*={letter}\][^{{]*{{([^}}]*)}}", rules)
            side = "underline" if place < CLASSES // 2 else "overline"
            assert (side in body) == (place != CLASSES // 2)


def test_a_token_is_its_text_and_few_bytes_more():
    assert token(" 7", "aqCX") == "<b class=aqCX> 7</b>"
    assert token("a\n", "aqCX") == "<u class=aqCX>a\n</u>"
    assert token("<b>&", "t") == "<b class=_t>&lt;b&gt;&amp;</b>"


def test_a_response_has_its_tokens_and_what_they_do_together(found):
    update = found.updates[0]
    answer = update.answers[0]
    markup = response(answer, update.rate, scales(found))
    tokens = read(markup)
    assert "".join(t.text for t in answer.tokens) in tokens.text
    assert tokens.text.startswith(f"Response {answer.number}: reward ")
    assert ("p", "class", "tabindex", "role", "aria-label", "data-v") in tokens.tags
    assert ("div", "class", "data-k") in tokens.tags


def test_what_tokens_do_together_is_the_group_or_else_their_sum():
    tables = influence(Shape(checkpoints=("a",), responses=2, length=4, per_prompt=1))
    (told,) = influences([run(tables)]).updates
    (summed,) = influences([run(replace(tables, groups=[]))]).updates
    for one, other in zip(told.answers, summed.answers, strict=True):
        assert one.influence["entropy"].value == pytest.approx(
            other.influence["entropy"].value
        )
        assert one.influence["entropy"].se > 0
        assert math.isnan(other.influence["entropy"].se)


def test_everything_is_shown_where_there_is_room(found):
    shown = choose(found.updates[0], scales(found), 10**6)
    assert sum(len(p.responses) for p in shown.prompts) == 12
    assert shown.left_out == ""
    assert [p.number for p in shown.prompts if p.number in (0, 1, 2)]
    assert len(shown.prompts) == 3


def test_without_room_those_that_do_most_are_shown_and_the_rest_counted(found):
    update = found.updates[0]
    budget = 4_000
    shown = choose(update, scales(found), budget)
    bodies = "".join(body for p in shown.prompts for body in p.responses)
    count = sum(len(p.responses) for p in shown.prompts)
    size = {a.number: abs(a.influence["entropy"].value) for a in update.answers}
    most = max(size, key=size.get)
    assert 0 < count < 12
    assert f"Response {most}:" in bodies
    assert len(bodies.encode()) <= shown.bytes <= budget
    assert f"Shown are {count} of 12 responses" in shown.left_out
    assert f"{12 - count} did not fit" in shown.left_out


def test_an_unknown_learning_rate_leaves_influences_per_unit_of_it():
    tables = influence(Shape(checkpoints=("a",), responses=2, length=4, rate=math.nan))
    found = influences([run(tables)])
    assert found.updates[0].rate == 1.0
    assert found.rates.where == "per unit learning rate"
    assert found.rates.units["entropy"] == "nats per token per unit learning rate"


def test_two_runs_keep_their_own_learning_rates():
    runs = [
        run(influence(Shape(checkpoints=("a",), responses=2, rate=rate)), name)
        for name, rate in (("one", 1e-4), ("two", 3e-4))
    ]
    assert [u.rate for u in influences(runs).updates] == [1e-4, 3e-4]
    assert [u.name for u in influences(runs).updates] == ["one", "two"]


def with_context(text):
    """A tool's output before the last token of every response."""
    tables = run().tables
    after = [*tables.tokens[1:], None]
    tokens = [
        t if b is not None and b.position else replace(t, context=text)
        for t, b in zip(tables.tokens, after, strict=True)
    ]
    return run(replace(tables, tokens=tokens))


def markup_of(finished):
    found = influences([finished])
    (update,) = found.updates
    return [response(a, update.rate, scales(found)) for a in update.answers]


def test_what_a_tool_wrote_is_between_the_tokens_without_colour_or_number():
    plain, found = markup_of(run()), markup_of(with_context("=<b>7;\n"))
    for before, after in zip(plain, found, strict=True):
        assert after.count("<i>=&lt;b&gt;7;\n</i>") == 1
        # Nothing else changes: neither numbers nor colours nor order.
        assert after.replace("<i>=&lt;b&gt;7;\n</i>", "") == before
        assert [*re.findall(r"<([bui])[ >]", after)][-2] == "i"


def test_the_page_says_what_grey_text_is_where_there_is_some():
    assert token_map([with_context("=7;")], 1).has_context
    assert not token_map([run()], 1).has_context


def test_a_token_is_listed_with_the_tool_s_words_around_it():
    (update,) = influences([with_context("=7;")]).updates
    answer = max(update.answers, key=lambda a: len(a.tokens))
    last = len(answer.tokens) - 1
    before, end = (t.text for t in answer.tokens[-2:])
    assert context(answer.tokens, last - 1).endswith(f"[{before}]=7;{end}")
    assert context(answer.tokens, last).endswith(f"{before}=7;[{end}]")
