import pytest

from entrometer.errors import InvalidValue
from entrometer.training.run import accumulation_steps


@pytest.mark.parametrize(
    ("prompts", "responses", "micro_batch", "processes", "steps"),
    [
        (8, 8, 16, 1, 4),
        (8, 8, 16, 2, 2),
        (8, 8, 16, 4, 1),
        (8, 8, 64, 1, 1),
        (3, 2, 2, 3, 1),
        (6, 2, 4, 1, 3),
    ],
)
def test_micro_batches_make_up_the_update(
    prompts, responses, micro_batch, processes, steps
):
    found = accumulation_steps(
        prompts=prompts,
        responses=responses,
        micro_batch=micro_batch,
        processes=processes,
    )
    assert found == steps
    assert found * micro_batch * processes == prompts * responses


def test_a_micro_batch_that_would_cut_a_group_is_refused():
    with pytest.raises(InvalidValue, match=r"groups of 8.*micro_batch=12.*multiple"):
        accumulation_steps(prompts=8, responses=8, micro_batch=12, processes=1)


@pytest.mark.parametrize(
    ("micro_batch", "processes"), [(128, 1), (16, 3), (32, 4), (48, 1)]
)
def test_an_update_that_processes_cannot_share_is_refused(micro_batch, processes):
    with pytest.raises(InvalidValue, match=r"8 x 8 = 64 .*change prompts") as caught:
        accumulation_steps(
            prompts=8, responses=8, micro_batch=micro_batch, processes=processes
        )
    assert f"{micro_batch} x {processes} = {micro_batch * processes}" in str(
        caught.value
    )
