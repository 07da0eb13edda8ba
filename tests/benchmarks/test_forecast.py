"""The series that the forecast is calibrated and scored on."""

import numpy as np
import pytest

from benchmarks.forecast.alarm import Outcome, chosen, watched
from benchmarks.forecast.series import Training, read, write
from entrometer.estimators.collapse import ALERT


@pytest.fixture(scope="module")
def trainings():
    return read()


def test_no_fork_is_in_both_parts(trainings):
    forks = {
        part: {t.fork for t in trainings if t.part == part}
        for part in ("calibration", "held-out")
    }
    assert not forks["calibration"] & forks["held-out"]
    assert sum(t.part == "held-out" for t in trainings) >= 40
    for training in trainings:
        assert (training.entropy > 0).all()
        assert np.isfinite(training.reward).all()


def test_alerts_are_raised_from_the_probability_of_the_calibration(trainings):
    assert chosen([t for t in trainings if t.part == "calibration"]) == ALERT


def made(entropy):
    return Training(
        part="held-out",
        fork="f",
        loss="l",
        seed=0,
        entropy=np.asarray(entropy, float),
        reward=np.linspace(0.0, 1.0, len(entropy)),
    )


def test_a_file_has_the_trainings_that_were_written(tmp_path):
    entropy = np.linspace(1.0, 0.5, 12)
    write([made(entropy)], tmp_path / "series.parquet")
    (again,) = read(tmp_path / "series.parquet")
    np.testing.assert_allclose(again.entropy, entropy, rtol=1e-7)
    assert (again.loss, again.seed, again.steps) == ("l", 0, 12)


def test_a_collapse_is_the_first_mean_of_four_below_the_floor():
    falls = made([1.0] * 10 + [0.25] * 4 + [0.1] * 16)
    seen = watched(falls)
    assert seen.floor == pytest.approx(0.2)
    # Steps 12 to 15: (3 x 0.25 + 0.1) / 4 = 0.2125; 13 to 16: 0.175.
    assert seen.collapse == 16
    assert watched(made(np.ones(30))).collapse is None


def test_outcomes_tell_lead_misses_and_false_alarms():
    assert Outcome(collapse=None, alert=10, steps=30).false
    assert not Outcome(collapse=None, alert=20, steps=30).false
    assert not Outcome(collapse=25, alert=10, steps=30).false
    assert Outcome(collapse=25, alert=None, steps=30).missed
    assert not Outcome(collapse=None, alert=None, steps=30).missed
    seen = watched(made(np.ones(30)))
    assert seen.outcome(2.0) == Outcome(None, None, 30)
    assert seen.outcome(0.0).alert == 8
