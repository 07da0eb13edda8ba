"""A trainer in float64 whose responses were sampled in bfloat16, or recorded."""

import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from entrometer import passes
from entrometer.calculus import dot
from entrometer.errors import InvalidValue
from entrometer.experiments.experiment import run_kinds
from entrometer.experiments.mismatch import MISMATCH
from entrometer.experiments.mismatch.collect import Sampled
from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.experiments.mismatch.plan import plan
from entrometer.experiments.mismatch.summary import corrections, summarize
from entrometer.experiments.requests import Recorded, Reweighted, Worker
from entrometer.experiments.run import run_experiment
from entrometer.experiments.token_influence.requests import read_fold_gradients
from entrometer.experiments.update import adjoint
from entrometer.report import write_report
from entrometer.runs import read_update, update_path, write_update
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.mismatch import BY_RESPONSE, BY_TOKEN, MismatchTables
from tests.experiments.conftest import ON_TOY

mismatch = partial(run_experiment, MISMATCH)


@pytest.fixture(scope="module")
def config(trained) -> MismatchConfig:
    return MismatchConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        **ON_TOY,
        updates=("sampled-1",),
        prompts=24,
        update_prompts=4,
        update_responses=3,
        folds=4,
        eta=1e-5,
        precision="float64",
        sampler="bfloat16",
        shard=8,
        batches=3,
    )


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("mismatch") / "run"
    mismatch(config, directory)
    return directory


@pytest.fixture(scope="module")
def sampled(config, run) -> Sampled:
    (point,) = plan(config)
    return Sampled.of(point, run / "passes")


@pytest.fixture(scope="module")
def recorded(trained, tmp_path_factory):
    """The same training with log-probs of an engine in its updates."""
    root = tmp_path_factory.mktemp("recorded") / "run"
    shutil.copytree(trained, root)
    for manifest in root.rglob("manifest.json"):
        manifest.unlink()
    rng = np.random.default_rng(0)
    for path in (root / "updates").glob("*.parquet"):
        update = read_update(path)
        S_engine = tuple(
            (S + 0.1 * rng.normal(size=S.size)).astype(np.float32) for S in update.S_old
        )
        write_update(path, replace(update, S_engine=S_engine))
    return root


def test_effects_are_slopes_of_a_gradient_with_the_other_weights(config, run, sampled):
    """A vjp with the weights alpha (m - 1), preconditioned, against every fold."""
    point, store = sampled.point.compared, run / "passes"
    worker = Worker(store)
    policy = worker.checkpoint(point.subject).policy
    batch = sampled.measured.batch
    S = passes.forward(policy, batch.rollouts).S
    m = np.exp(S - np.concatenate(batch.rollouts.engine_logprobs))
    assert np.abs(np.log(m)).max() > 1e-4
    other = replace(batch, alpha=batch.alpha * (m - 1), gamma=batch.gamma * (m - 1))
    ascent = passes.vjp(policy, batch.rollouts, other.weights).gradient
    v = adjoint(ascent, point.plain.read(store))
    gradients = [*read_fold_gradients(point.gradients, store)]
    Q = config.folds
    rows = read_tables(run, MismatchTables).distances
    (every,) = (d for d in rows if d.by == "all")
    for name, some in (("entropy", gradients[:Q]), ("reward", gradients[Q : 2 * Q])):
        exact = config.eta * sum(dot(g, v).item() for g in some)
        scale = config.eta * sum(abs(dot(g, v).item()) for g in some)
        assert getattr(every, name) == pytest.approx(exact, abs=1e-10 * scale)


def test_groups_and_tokens_add_up_to_all(run):
    tables = read_tables(run, MismatchTables)
    (every,) = (d for d in tables.distances if d.by == "all")
    for objective in ("entropy", "reward"):
        whole = getattr(every, objective)
        size = sum(abs(getattr(t, objective)) for t in tables.tokens)
        for by in ("kind", "position", "probability", "advantage"):
            rows = [d for d in tables.distances if d.by == by]
            assert sum(d.tokens for d in rows) == every.tokens == len(tables.tokens)
            total = sum(getattr(d, objective) for d in rows)
            assert total == pytest.approx(whole, abs=1e-12 * size)
        total = sum(getattr(t, objective) for t in tables.tokens)
        assert total == pytest.approx(whole, abs=1e-12 * size)
    apart = np.array([abs(t.S_old - t.S_engine) for t in tables.tokens])
    assert every.size == pytest.approx(apart.mean())
    assert every.largest == apart.max()
    assert 0 < every.size < 0.1


def test_corrections_weigh_tokens_or_responses_by_their_ratio(sampled):
    point, m = sampled.point.compared, np.exp(sampled.log_m)
    batch, tables = sampled.measured.batch, sampled.measured.tables
    by = {str(v.intervention): v.intervention for v in point.variants}
    own = batch.treated(by[BY_TOKEN], tables).alpha
    np.testing.assert_allclose(own, m * batch.alpha, rtol=1e-12)
    M = sampled.responses.spread(np.exp(sampled.responses.total(sampled.log_m)))
    own = batch.treated(by[BY_RESPONSE], tables).alpha
    np.testing.assert_allclose(own, M * batch.alpha, rtol=1e-12)


def test_corrections_are_measured_on_several_batches(config, run):
    tables = read_tables(run, MismatchTables)
    (engine,) = tables.engines
    names = {o.settings for o in corrections(tables, engine, "entropy")}
    assert names == {BY_TOKEN, BY_RESPONSE, "tis", "icepop", "mis", "dppo-engine"}
    assert {r.batches for r in tables.expected} == {3}
    assert names <= {r.loss for r in tables.expected if r.against}
    assert all(o.taken for o in tables.outcomes if o.tried)
    summary = summarize(config, tables)
    text = " ".join(summary["sentences"])
    assert "sampled by transformers" in text
    assert "bfloat16, measured in float64" in text
    assert "over the next batches" in text


def test_the_page_has_a_section_for_each_question(run, tmp_path):
    page = write_report([run], tmp_path / "page.html", run_kinds()).read_text()
    titles = ("How far apart engine", "What it does to the step", "Over the next")
    for title in (*titles, "Share of tokens that are further apart"):
        assert title in page


def test_the_evaluation_says_what_its_responses_are_worth(run):
    sentences = json.loads((run / "summary.json").read_text())["sentences"]
    (told,) = (s for s in sentences if "effective sample size" in s)
    assert "an engine sampled the 24 responses" in told


def test_an_engine_of_the_trainers_precision_is_not_apart(config, tmp_path):
    same = replace(config, precision="float32", sampler="float32", batches=1)
    tables = mismatch(replace(same, truth=False), tmp_path / "run")
    (every,) = (d for d in tables.distances if d.by == "all")
    assert every.largest < 1e-4


def test_an_update_without_the_engines_log_probs_is_refused(config, trained):
    for own in (
        replace(config, updates=("recorded",)),
        replace(config, sampler=None),
    ):
        with pytest.raises(InvalidValue, match=r"'S_engine'.* --sampler"):
            plan(own)


def test_a_recorded_engine_is_compared_with_the_recorded_trainer(
    config, recorded, tmp_path
):
    """Later updates stand in for the next ones: sampled ones have no engine."""
    own = replace(
        config,
        checkpoints=(str(recorded / "checkpoint-1"),),
        updates=("recorded",),
        sampler=None,
        batches=2,
    )
    (point,) = plan(own)
    batches = [b.source for b in point.compared.next_batches.batches]
    assert [type(b) for b in batches] == [Recorded, Reweighted]
    tables = mismatch(replace(own, truth=False), tmp_path / "run")
    update = read_update(update_path(recorded, 2))
    exact = np.concatenate(update.S_old) - np.concatenate(update.S_engine)
    found = np.array([t.S_old - t.S_engine for t in tables.tokens])
    np.testing.assert_allclose(found, exact.astype(float), atol=1e-6)
    (engine,) = tables.engines
    assert engine.sampled_by == "recorded"
    assert 1 < engine.effective < engine.responses
