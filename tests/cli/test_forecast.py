"""What a user sees of a forecast."""

import json

import numpy as np
import pytest

from entrometer.cli import main
from entrometer.estimators.forecast import forecasts


def entropy_at(step):
    return 0.9 * np.exp(-step / 20)


@pytest.fixture
def run(tmp_path):
    """A log of 24 steps whose entropy falls."""
    steps = np.arange(1, 25)
    rows = [
        {
            "step": int(s),
            "entropy": float(entropy_at(s)),
            "reward": float(0.3 + 0.01 * s),
        }
        for s in steps
    ]
    folder = tmp_path / "checkpoint-24"
    folder.mkdir()
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    return tmp_path


def test_it_prints_entropy_and_reward_at_two_and_four_times_the_steps(run, capsys):
    assert main(["forecast", str(run)]) == 0
    first, head, *rows, below, alert = capsys.readouterr().out.splitlines()
    assert "24 steps, the last 24" in first
    assert head.split()[0] == "step"
    assert [row.split()[0] for row in rows] == ["48", "96"]
    assert "at step 48: probability" in below
    assert alert == "alert: entropy is about to collapse"


def test_json_has_the_forecasts_of_the_estimator(run, capsys):
    assert main(["forecast", str(run), "--at", "12", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    s = np.arange(1.0, 13.0)
    expected = forecasts(s, entropy_at(s), 0.3 + 0.01 * s)
    assert told["step"] == 12
    for row, forecast in zip(told["forecasts"], expected, strict=True):
        assert row["step"] == forecast.step
        assert row["entropy"]["value"] == pytest.approx(forecast.entropy.value)
        assert row["reward"]["high"] == pytest.approx(forecast.reward.high)


def test_a_floor_of_ones_own_decides_the_alert(run, capsys):
    assert main(["forecast", str(run), "--floor", "0.001", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["floor"] == 0.001
    assert told["alert"] is False


def test_entropy_below_the_floor_already_is_another_alert(run, capsys):
    assert main(["forecast", str(run), "--floor", "0.3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["probability_below_floor"] > 0.9
    # The first of the last four steps is above it.
    assert (told["alert"], told["collapsed"]) == (False, False)
    assert main(["forecast", str(run), "--floor", "0.35"]) == 0
    assert "alert: entropy was below 0.35 in the last four" in capsys.readouterr().out


def test_with_too_few_steps_nothing_is_known_yet(run, capsys):
    assert main(["forecast", str(run), "--at", "5"]) == 0
    assert "not known: a forecast needs 8 steps" in capsys.readouterr().out
    assert main(["forecast", str(run), "--at", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["forecasts"] == []
    assert told["probability_below_floor"] is None
    assert told["alert"] is False


@pytest.mark.parametrize(
    "flags", [["--at", "0"], ["--floor", "-1"], ["--floor", "nan"]]
)
def test_settings_out_of_range_are_refused(run, capsys, flags):
    assert main(["forecast", str(run), *flags]) == 2
    assert "expected" in capsys.readouterr().err


def test_a_directory_without_a_training_is_refused(tmp_path, capsys):
    assert main(["forecast", str(tmp_path)]) == 2
    assert "expected recorded updates" in capsys.readouterr().err
