"""What is recorded of a trained model besides its rows."""

import pytest
from torch import nn

from entrometer.training.update_rows import dropout


def attention(value):
    module = nn.Linear(2, 2)
    module.attention_dropout = value
    return module


@pytest.mark.parametrize(
    ("modules", "names"),
    [
        ([nn.Dropout(0.0), attention(0.0)], []),
        ([nn.Dropout(0.1), nn.Dropout(0.1)], ["dropout of 0.1"]),
        # As Llama and Qwen have it, whose attention drops by a function.
        ([attention(0.2)], ["dropout of 0.2"]),
        # As Bloom has it.
        ([attention(nn.Dropout(0.3)), attention(0.2)], ["dropout of 0.2", "of 0.3"]),
    ],
)
def test_every_dropout_is_named(modules, names):
    found = dropout(nn.Sequential(*modules))
    assert len(found) == len(names)
    assert all(text.endswith(name) for text, name in zip(found, names, strict=True))
