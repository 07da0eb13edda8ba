import pytest

from entrometer.errors import InvalidValue
from entrometer.interventions import dr_grpo, intervention, register
from entrometer.training.trainable import (
    needs_lookahead,
    require_lookahead_supported,
    trainable,
)


@register("test-measured", needs=("influence",))
def measured(tables):
    return dr_grpo(tables)


@register("test-peaked", by_token=True, needs=("concentration",))
def peaked(tables):
    return dr_grpo(tables)


def test_what_is_measured_elsewhere_is_refused():
    said = r"got 'test-measured', which needs the table 'influence'.*take another"
    with pytest.raises(InvalidValue, match=said):
        trainable("test-measured")


def test_what_the_trainer_measures_itself_is_not():
    assert trainable("test-peaked") == intervention("test-peaked")


@pytest.mark.parametrize(
    ("text", "micro_batch", "ahead"),
    [
        ("dr-grpo", 4, False),
        ("grpo", 4, True),
        ("grpo:micro_batch=4", 4, False),
        ("grpo:micro_batch=2", 4, False),
        ("grpo:micro_batch=8", 4, True),
        ("grpo:micro_batch=3", 4, True),
        ("test-peaked", 4, True),
    ],
)
def test_who_looks_ahead(text, micro_batch, ahead):
    assert needs_lookahead(intervention(text), micro_batch) is ahead


def test_where_a_process_has_a_part_of_the_model():
    whole, peak = intervention("grpo"), intervention("test-peaked")
    for chosen in (whole, peak):
        require_lookahead_supported(chosen, fsdp=False, deepspeed=False)
        with pytest.raises(InvalidValue, match="got DeepSpeed"):
            require_lookahead_supported(chosen, fsdp=False, deepspeed=True)
    require_lookahead_supported(whole, fsdp=True, deepspeed=False)
    with pytest.raises(InvalidValue, match=r"'test-peaked'.*got FSDP"):
        require_lookahead_supported(peak, fsdp=True, deepspeed=False)
