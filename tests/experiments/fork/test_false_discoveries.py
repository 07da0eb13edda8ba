"""Which losses pass at the end, when others were stopped on the way."""

from dataclasses import replace

from entrometer.experiments.fork.collect import Evaluations, _outcomes
from entrometer.experiments.fork.plan import follow_up, plan


def test_losses_that_were_stopped_count_as_tests(config, run, monkeypatch):
    """Otherwise the best of many would be tested as if it were the only one."""
    store = run / "passes"
    (point,) = follow_up(config, plan(config), store)
    evaluations = Evaluations.of(point.evaluated, config.steps, store)
    p_values = dict(zip(evaluations.losses, (1.0, 0.02, 0.9), strict=True))
    zeros = {
        f"{objective}{gain}{end}": 0.0
        for objective in ("entropy", "reward")
        for gain in ("", "_gain")
        for end in ("", "_se", "_low", "_high")
    }
    monkeypatch.setattr(
        "entrometer.experiments.fork.collect._estimates",
        lambda evaluations, loss: (
            zeros | {"entropy_gain_p": 1.0, "reward_gain_p": p_values[loss]}
        ),
    )
    chosen = replace(config, by="reward")

    def passes(began):
        rows = _outcomes(chosen, "checkpoint-2", evaluations, (), began)
        return [row.passes for row in rows]

    assert passes(3) == [False, True, False]
    assert passes(9) == [False, False, False]
