"""What decides a result is in its name."""

import pytest

from entrometer.experiments.requests import Draw, Subject


def draw(device):
    subject = Subject(
        path="checkpoint-2",
        base=None,
        precision="float32",
        device=device,
        weights="w",
        optimizer="o",
    )
    return Draw(
        subject=subject,
        task="arithmetic",
        settings=(),
        split="train",
        problems=(0,),
        asked="a",
        seeds=(0,),
        temperature=1.0,
        max_tokens=8,
        format_weight=0.0,
    )


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("cpu", "cuda", False), ("cuda", "cuda:1", True), ("cuda", "mps", False)],
)
def test_a_kind_of_device_is_part_of_the_name_and_its_number_is_not(one, other, alike):
    assert (draw(one).key == draw(other).key) == alike
