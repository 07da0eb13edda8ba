"""Verbs in mixed precision, on an adapter whose base is stored in either precision."""

from pathlib import Path

import pytest

from entrometer.cli import main
from entrometer.policy.tiny import tiny_policy
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.measure import MeasureTables
from tests.cli.conftest import FEW, SMALL, at
from tests.training.toy import quietly

_COMPARE = [
    *("--prompts", "16"),
    *("--shard", "8"),
    *("--batches", "1"),
    *("--folds", "4"),
    *("--interventions", "entropy-bonus"),
    *("--minibatches", "1/1"),
]
_KERNEL = [
    *("--kernel-prompts", "4"),
    *("--kernel-responses", "2"),
    *("--held-out", "4"),
    *("--shard", "8"),
]
_DIAGNOSE = ["--quick", "--prompts", "12", "--shard", "8"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained adapter's base, stored in bfloat16."""
    directory = tmp_path_factory.mktemp("base")
    policy = tiny_policy()
    policy.model.bfloat16().save_pretrained(directory)
    policy.tokenizer.save_pretrained(directory)
    return directory


def test_measure_is_float32s_on_a_base_stored_in_bfloat16(trained, base, tmp_path):
    common = [*at(trained, 2), "--policy", str(base), *SMALL, "--no-report"]
    terms = {}
    for precision in ("float32", "mixed"):
        run = tmp_path / precision
        given = ["--precision", precision, "--run", str(run)]
        with quietly():
            assert main(["measure", *common, *given]) == 0
        tables = read_tables(run, MeasureTables)
        terms[precision] = tables.terms[0], tables.changes[0]
    (single, change), (mixed, same_change) = terms.values()
    assert mixed.precision == "mixed"
    # The same responses, and values of them in the same arithmetic.
    assert mixed.entropy == pytest.approx(single.entropy, rel=1e-6)
    # Along a step whose gradient had products in bfloat16.
    assert same_change.observed == pytest.approx(change.observed, rel=0.02)
    # The slope has products in bfloat16.
    assert mixed.slope != single.slope
    assert mixed.slope == pytest.approx(single.slope, rel=0.03)
    # The rounding of finite changes, a thousandth of that of the slope's products.
    assert 0 < mixed.floor < 1e-5


@pytest.mark.parametrize(
    ("verb", "few"),
    [
        ("influence", FEW),
        ("compare", _COMPARE),
        ("kernel", _KERNEL),
        ("diagnose", _DIAGNOSE),
    ],
)
def test_other_verbs_run_on_a_base_stored_in_float32(
    trained, tmp_path, verb, few, capsys
):
    run = ["--precision", "mixed", "--run", str(tmp_path / "run"), "--no-report"]
    with quietly():
        assert main([verb, *at(trained, 2), *few, *run]) == 0
    if verb != "diagnose":
        assert "mixed precision" in capsys.readouterr().out
