"""Log-probs of the engine and of the reference model, from a recorded update."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer.estimators import Tables
from entrometer.experiments.update_batch import recorded_batch, recorded_tables
from entrometer.interventions import intervention
from entrometer.runs import read_update, update_path


@pytest.fixture(scope="module")
def update(trained):
    rng = np.random.default_rng(0)
    found = read_update(update_path(trained, 3))
    S_engine, S_ref = (
        tuple((S + 0.1 * rng.normal(size=S.size)).astype(np.float32) for S in found.S)
        for _ in range(2)
    )
    return replace(found, S_engine=S_engine, S_ref=S_ref)


def test_only_recorded_tables_are_known(update):
    assert recorded_tables(update) == {"S_engine", "S_ref"}
    assert recorded_tables(replace(update, S_ref=None)) == {"S_engine"}
    holed = tuple(np.where(np.arange(S.size) == 0, np.nan, S) for S in update.S_engine)
    assert recorded_tables(replace(update, S_engine=holed)) == {"S_ref"}


def test_tables_have_the_recorded_distances(update):
    """S of a pass may round otherwise: the mismatch stays the recorded one."""
    batch = recorded_batch(update)
    S = np.concatenate(update.S).astype(float) + 0.01
    tables = batch.tables(Tables(S=S, H=np.zeros_like(S)), S)
    log_m = (tables.S_old - tables.S_engine)[tables.mask].numpy()
    old, engine = (
        np.concatenate(x).astype(float) for x in (update.S_old, update.S_engine)
    )
    np.testing.assert_allclose(log_m, (old - engine)[batch.counted], atol=1e-12)
    reference = tables.S_ref[tables.mask].numpy()
    exact = np.concatenate(update.S_ref)[batch.counted]
    np.testing.assert_array_equal(reference, exact)
    # Some rows have the tables of these rows.
    rows = np.array([3, 1])
    some = batch.at(rows)
    at = np.concatenate(
        [np.arange(old.size).reshape(-1)[_span(update, i)] for i in rows]
    )
    np.testing.assert_array_equal(some.log_mismatch, batch.log_mismatch[at])
    np.testing.assert_array_equal(some.S_ref, batch.S_ref[at])


def test_losses_that_need_them_have_coefficients(update):
    batch = recorded_batch(update)
    S = np.concatenate(update.S).astype(float)
    tables = batch.tables(Tables(S=S, H=np.zeros_like(S)), S)
    for text in ("tis", "icepop", "mis", "dppo-engine", "kl-reference"):
        found = intervention(text).coefficients(tables)
        assert found.alpha[tables.mask].isfinite().all()
        assert found.alpha.any()


def _span(update, row):
    lengths = [S.size for S in update.S]
    return slice(sum(lengths[:row]), sum(lengths[: row + 1]))
