"""Our losses and the loss of TRL's own trainer, on the same tables.

Trainers are made from the very config lines that the registry prints. What TRL does in
another way is stated by a test each.
"""

from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from entrometer.interventions import intervention, intervention_names
from entrometer.policy import tiny_policy
from entrometer.tokens import LossCoefficients
from tests.interventions.ratio_tables import random_tables
from tests.training.toy import quietly

LIMIT = 12
# Not those whose tables TRL has only with a server or a reference model.
NAMES = [
    name
    for name in intervention_names()
    if intervention(name).remedy.trl
    and not {"S_engine", "S_ref"} & {*intervention(name).remedy.needs}
]


@pytest.fixture(scope="module")
def make_trainer(tmp_path_factory):
    """TRL's trainer by keywords of its config; it trains nothing."""
    patched = pytest.MonkeyPatch()
    patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    policy = tiny_policy()
    folder = str(tmp_path_factory.mktemp("trl"))

    def make(**settings):
        with quietly(), torch.random.fork_rng(devices=[]):
            from datasets import Dataset
            from trl import GRPOConfig, GRPOTrainer

            config = GRPOConfig(
                output_dir=folder,
                max_completion_length=LIMIT,
                per_device_train_batch_size=4,
                num_generations=4,
                report_to="none",
                bf16=False,
                use_cpu=True,
                **settings,
            )
            trainer = GRPOTrainer(
                model=policy.model,
                processing_class=policy.tokenizer,
                args=config,
                train_dataset=Dataset.from_dict({"prompt": ["1+1="] * 4}),
                reward_funcs=lambda completions, **_: [0.0] * len(completions),
            )
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = 1
        trainer._metrics = {"train": defaultdict(list)}
        return trainer

    yield make
    patched.undo()


def keywords(text):
    """The config line of an intervention, as keywords."""
    own = intervention(text)
    line = own.remedy.trl.format(**dict(own.settings))
    return eval(f"dict({line})", {"dict": dict})


def batch(seed, *, spread):
    """Without nonsense off the mask, which TRL multiplies by 0."""
    tables = random_tables(seed, spread=spread, length_limit=LIMIT)
    S, H, S_old = (
        t.where(tables.mask, 1.0) for t in (tables.S, tables.H, tables.S_old)
    )
    return replace(tables, S=S, H=H, S_old=S_old)


@pytest.fixture(autouse=True)
def _double():
    """TRL holds the temperatures of SAPO in the default precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def by_trl(trainer, tables):
    """Its alpha and gamma, turned to the mean of Dr-GRPO where its loss has another."""
    S = tables.S.clone().requires_grad_()
    H = tables.H.clone().requires_grad_()
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (S, H, None)
    ids = torch.ones_like(tables.mask, dtype=torch.long)
    lengths = tables.mask.sum(dim=1)
    loss = trainer._compute_loss(
        None,
        {
            "prompt_ids": ids[:, :1],
            "prompt_mask": ids[:, :1],
            "completion_ids": ids,
            "completion_mask": tables.mask.long(),
            "advantages": tables.A[:, 0],
            "old_per_token_logps": tables.S_old,
            "num_items_in_batch": lengths.sum().double(),
            "ref_per_token_logps": tables.S_ref,
        },
    )
    dS, dH = torch.autograd.grad(
        loss, (S, H), allow_unused=True, materialize_grads=True
    )
    divisor = {
        # Of the loss of a token: the length of its response, or the tokens of all.
        "sapo": lengths[:, None] * tables.count,
        "cispo": lengths.sum() / trainer.args.steps_per_generation,
        "vespo": lengths.sum() / trainer.args.steps_per_generation,
    }.get(trainer.loss_type)
    if divisor is not None:
        dS = dS * divisor / (tables.count * tables.length_limit)
    return LossCoefficients(alpha=-dS, gamma=-dH)


def agree(trainer, text, tables, *, given=None):
    """Both, within 1e-10; TRL may be given advantages that we scale ourselves."""
    ours = intervention(text).coefficients(tables)
    theirs = by_trl(trainer, given or tables)
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-10, atol=1e-13)
    return ours


@pytest.mark.parametrize("name", NAMES)
def test_pulls_are_those_of_trl(make_trainer, name):
    # A target above any entropy of ours, or the adaptive bonus would not act.
    text = "adaptive-bonus:target=9" if name == "adaptive-bonus" else name
    trainer = make_trainer(**keywords(text))
    for seed, spread in enumerate([0.0, 0.0, 0.4, 0.4]):
        tables = batch(seed, spread=spread)
        # State of the adaptive bonus, which one call changes for the next.
        trainer._last_world_entropy = tables.mean_entropy
        trainer.entropy_coef = trainer.args.entropy_coef
        given = None
        if name == "grpo":
            deviation = tables.A[:, 0].reshape(-1, 4).std(dim=1).repeat_interleave(4)
            given = replace(tables, A=tables.A / (deviation[:, None] + 1e-4))
        ours = agree(trainer, text, tables, given=given)
        assert ours.alpha.any()
        assert bool(ours.gamma.any()) == name.endswith("bonus")


@pytest.mark.parametrize(
    "text",
    [
        "clip-higher:low=0.1,high=0.6",
        "cispo:high=0.28",
        "sapo:tau_positive=0.7,tau_negative=3",
        "high-entropy:rho=0.5",
        "gspo:low=0.05,high=0.1",
        "vespo:k_positive=1,lambda_positive=0.5,k_negative=2,lambda_negative=4",
    ],
)
def test_settings_do_what_they_do_in_trl(make_trainer, text):
    trainer = make_trainer(**keywords(text))
    tables = batch(7, spread=0.6)
    ours = agree(trainer, text, tables)
    assert not torch.equal(ours.alpha, intervention("dr-grpo").coefficients(tables)[0])


@pytest.mark.parametrize("beta", [0.001, 0.5])
def test_form_3_of_the_penalty_is_that_of_trl(make_trainer, beta):
    text = f"kl-reference:beta={beta}"
    # With `beta` in its config the trainer would load a reference model.
    trainer = make_trainer(**keywords(text) | {"beta": 0.0})
    trainer.beta = keywords(text)["beta"]
    for seed, spread in enumerate([0.0, 0.4]):
        tables = batch(seed, spread=spread)
        S_ref = batch(seed + 9, spread=0.0).S
        agree(trainer, text, replace(tables, S_ref=S_ref))


def test_luspo_of_trl_is_gspo_times_the_length_limit(make_trainer):
    line = keywords("gspo:low=0.05,high=0.1") | {"loss_type": "luspo"}
    tables = batch(3, spread=0.4)
    ours = intervention("gspo:low=0.05,high=0.1").coefficients(tables).alpha
    its = by_trl(make_trainer(**line), tables).alpha
    torch.testing.assert_close(its, LIMIT * ours, rtol=1e-10, atol=1e-13)


def test_the_adaptive_bonus_moves_as_in_trl(make_trainer):
    """TRL looks at the entropy of the step before, and takes `alpha` from it too."""
    tables = batch(0, spread=0.4)
    h = tables.mean_entropy
    for target, acts in [(h + 0.1, True), (h - 0.1, False)]:
        own = intervention(f"adaptive-bonus:target={target}")
        trainer = make_trainer(**keywords(str(own)))
        trainer._last_world_entropy = h
        ours = agree(trainer, str(own), tables)
        assert bool(ours.gamma.any()) == acts
        assert trainer.entropy_coef == pytest.approx(
            dict(own.adapted(h).settings)["alpha"], abs=1e-15
        )


def test_cispo_of_trl_is_a_fifth_where_epsilon_high_is_not_set(make_trainer):
    trainer = make_trainer(loss_type="cispo", scale_rewards="none")
    tables = batch(0, spread=0.0)
    plain = intervention("dr-grpo").coefficients(tables).alpha
    torch.testing.assert_close(
        by_trl(trainer, tables).alpha, 0.2 * plain, rtol=1e-10, atol=0
    )


def test_cispo_of_trl_has_no_lower_side(make_trainer):
    tables = batch(0, spread=0.4)
    trainer = make_trainer(**keywords("cispo:low=0.2"))
    its = by_trl(trainer, tables).alpha
    two_sided = intervention("cispo:low=0.2").coefficients(tables).alpha
    far = tables.mask & (tables.ratio < 0.8)
    assert far.any()
    assert (two_sided[far].abs() > its[far].abs()).all()
    torch.testing.assert_close(two_sided[~far], its[~far], rtol=1e-10, atol=1e-13)
