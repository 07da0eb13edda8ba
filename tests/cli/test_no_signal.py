"""An update without signal, at a checkpoint without momentum: a step of exactly 0."""

from dataclasses import dataclass

import numpy as np
import pytest

from entrometer.cli import main
from entrometer.tasks import Problem, Score, register
from tests.cli.conftest import FEW, SMALL, FewLetters, at


@register("unmoved-letters")
@dataclass(frozen=True)
class Unmoved(FewLetters):
    """All responses are worth the same."""

    name: str = "unmoved-letters"

    def score(self, problem: Problem, response: str) -> Score:
        return Score(0.0, 0.0)


@pytest.mark.parametrize(
    ("verb", "settings", "said"),
    [
        ("measure", SMALL, "the step moves nothing"),
        ("influence", FEW, "is not told from 0"),
        ("compare", FEW[:6], "pull on every token as plain"),
    ],
)
def test_what_moves_nothing_is_told_as_that(
    trained, tmp_path, capsys, verb, settings, said
):
    run = ["--run", str(tmp_path / "run"), "--updates", "sampled-1"]
    task = ["--task", "unmoved-letters", *settings]
    with np.errstate(all="raise", under="ignore"):
        assert main([verb, *at(trained, 0), *run, *task]) == 0
    told = capsys.readouterr().out
    assert said in told
    assert "nan" not in told
    assert (tmp_path / "run" / "report.html").is_file()
