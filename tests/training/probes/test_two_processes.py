import numpy as np
import pytest

from benchmarks.probes.two_processes import GROUPS, STEPS, figures

# Of what is a difference of float32 numbers: two entropies of 4 nats, two squared norms
# of about 0.5.
ROUNDING = {"predicted_change/": 2e-6, "noise_scale/signal": 5e-8}


@pytest.mark.slow
def test_two_processes_log_what_one_process_logs():
    """The same global batch, so the same gradient and the same figures."""
    one, two = figures(processes=1), figures(processes=2)
    assert one["gradient"].shape[0] == STEPS
    assert GROUPS % 2 == 0
    difference = np.linalg.norm(two["gradient"] - one["gradient"], axis=1)
    assert (difference < 1e-5 * np.linalg.norm(one["gradient"], axis=1)).all()
    assert one.keys() == two.keys()
    for name in one.keys() - {"gradient"}:
        atol = next((x for n, x in ROUNDING.items() if name.startswith(n)), 0.0)
        np.testing.assert_allclose(
            two[name], one[name], rtol=1e-5, atol=atol, err_msg=name
        )
        assert np.isfinite(one[name]).any(), name
