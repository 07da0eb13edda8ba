"""Each real difference by a few tokens, in a script that anyone can run."""

import subprocess
import sys

import pytest

from tests.conformance.sites import ROOT, site_of

PRINTED = {
    "verl_gmpo": (
        "verl",
        [
            "vanilla: whole [0.5, -0.5], in halves [0.5, -0.5]",
            "geo_mean: whole [0.5, -0.5], in halves [1.0, -1.0]",
        ],
    ),
    "verl_kl_cov": (
        "verl",
        [
            "whole [0.2378, 0.2378, -0.2378, 0.0122], "
            "in halves [0.4878, 0.2378, 0.0122, -0.2378]"
        ],
    ),
    "skyrl_cov": (
        "skyrl",
        [
            "regular, 400 tokens: A > 0 +2.10, A < 0 -2.10",
            "kl_cov, 4 tokens: A > 0 -1.90, A < 0 -6.10",
            "kl_cov, 400 tokens: A > 0 -397.90, A < 0 -402.10",
            "kl_cov, 400 tokens without the divisor: A > 0 +1.10, A < 0 -3.10",
            "clip_cov, 400 tokens: A > 0 +2.10, A < 0 -2.10",
            "clip_cov, 400 tokens without the divisor: A > 0 +0.00, A < 0 +0.00",
        ],
    ),
    "nemo_rl_kl": (
        "nemo-rl",
        [
            "d = -1.0: α = +0.0400, of k3 alone +0.0687",
            "d = +1.0: α = -0.0400, of k3 alone -0.0253",
        ],
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_difference_is_there(name):
    framework, lines = PRINTED[name]
    script = ROOT / "examples" / "conformance" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, site_of(framework)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(lines) <= set(done.stdout.replace("-0.00", "+0.00").splitlines())
