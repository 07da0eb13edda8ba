"""Our losses and those of verl, by its own code on the same tables.

verl runs in a process of its own, from the config lines that the registry prints. What
it does in another way is stated by a test each.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from entrometer.interventions import intervention, intervention_names
from tests.interventions.ratio_tables import random_tables, tokens

HERE = Path(__file__).parent
SITE = Path(os.environ.get("VERL_SITE", HERE.parents[1] / ".verl"))
LINE = (
    "pip install --require-hashes --no-deps --target .verl "
    "-r tests/interventions/verl.lock"
)

pytestmark = pytest.mark.skipif(
    not (SITE / "verl").is_dir(), reason=f"no verl in {SITE}: {LINE}"
)

# Clip-Cov draws by lot, which is the same only where the lot falls on every candidate.
ALL = "clip-cov:rho=1,lower=0.2,upper=0.9"
TEXTS = [
    {"clip-cov": ALL, "kl-cov": "kl-cov:rho=0.1"}.get(name, name)
    for name in intervention_names()
    # Not those whose weights are made before verl's losses.
    if intervention(name).remedy.verl and not intervention(name).remedy.needs
]
OTHERS = [
    "clip-higher:low=0.1,high=0.6",
    "kl-cov:rho=0.02,beta=0.3",
    "kl-cov:rho=0.0001",
    "cispo:low=0.2,high=0.28",
    "sapo:tau_positive=0.7,tau_negative=3",
    "clip-cov:rho=1,lower=0.5,low=0.2,high=0.2",
    "gspo:low=0.05,high=0.1",
    "gmpo:low=0.1,high=0.2",
    "dppo:low=0.05,high=0.3,cap=2",
]


def batch(seed, *, spread):
    """Without nonsense off the mask, which verl multiplies by 0."""
    # Its Dr-GRPO divides by the width of the padded table.
    tables = random_tables(seed, spread=spread, length_limit=9)
    S, H, S_old = (
        t.where(tables.mask, 1.0) for t in (tables.S, tables.H, tables.S_old)
    )
    return replace(tables, S=S, H=H, S_old=S_old)


FAR = tokens([2.9, 3.1, 2.9, 3.1], [-1.0, -1.0, 1.0, 1.0])
FARTHER = tokens([2.0**28, 2.0**30], [-1.0, -1.0])
CASES = {
    (text, spread): (text, batch(seed, spread=spread))
    for text in TEXTS + OTHERS
    for seed, spread in enumerate([0.0, 0.4])
}
CASES |= {
    "far": ("dr-grpo", FAR),
    "farther": ("cispo:high=1e12", FARTHER),
    "few": ("clip-cov:rho=0.02,lower=0.2", batch(5, spread=0.4)),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What verl says of every case: importing it takes seconds, so at once."""
    folder = tmp_path_factory.mktemp("verl")
    cases = []
    for text, tables in CASES.values():
        own = intervention(text)
        # Advantages that are made before they reach the loss of verl.
        A = tables.A
        if text == "grpo":
            A = A / (deviation(tables) + 1e-4)
        if text == "pass-at-k":
            A = lead(tables)
        line = own.remedy.verl.format(**dict(own.settings))
        names = ("S", "H", "S_old", "mask", "group")
        cases.append({"line": line, "A": A} | {n: getattr(tables, n) for n in names})
    torch.save(cases, folder / "cases.pt")
    command = [sys.executable, HERE / "verl_losses.py", SITE]
    subprocess.run(
        [*command, folder / "cases.pt", folder / "answers.pt"],
        check=True,
        cwd=folder,
        timeout=300,
    )
    found = torch.load(folder / "answers.pt", weights_only=True)
    return dict(zip(CASES, found, strict=True))


def deviation(tables):
    rewards = tables.A[:, 0].reshape(-1, 4)
    return rewards.std(dim=1).repeat_interleave(4)[:, None]


def lead(tables):
    """Of the best response over the second of its group, as its advantage."""
    rewards = tables.A[:, 0].reshape(-1, 4)
    first, second = rewards.topk(2, dim=1).values.T
    best = (rewards == first[:, None]) * (first - second)[:, None]
    return best.reshape(-1, 1).expand_as(tables.A).clone()


@pytest.mark.parametrize("spread", [0.0, 0.4])
@pytest.mark.parametrize("text", TEXTS + OTHERS)
def test_pulls_are_those_of_verl(answers, text, spread):
    _, tables = CASES[text, spread]
    ours = intervention(text).coefficients(tables)
    alpha, gamma = answers[text, spread]["alpha"], answers[text, spread]["gamma"]
    lengths = tables.mask.sum(dim=1, keepdim=True).double()
    if text.startswith(("grpo", "sapo", "gmpo")):
        # Its mean over a response divides by the length and a hundred-millionth.
        alpha = alpha * (lengths + 1e-8) / lengths
    if text.startswith(("sapo", "gmpo")):
        # It takes the mean over each response, whatever it is told.
        alpha = alpha * lengths / tables.length_limit
    if text.startswith("entropy-bonus"):
        # It adds up the entropy as it adds up the loss; ours is a mean over tokens.
        gamma = gamma * tables.length_limit / lengths.mean()
        assert gamma.any()
    # The hundred-millionth is in the exponent of its geometric mean too.
    rtol = 1e-7 if text.startswith("gmpo") else 1e-10
    torch.testing.assert_close(ours.alpha, alpha, rtol=rtol, atol=1e-13)
    torch.testing.assert_close(ours.gamma, gamma, rtol=1e-10, atol=1e-13)
    assert ours.alpha.any()


def test_verl_clips_bad_tokens_at_a_ratio_of_3_too(answers):
    ours = intervention("dr-grpo").coefficients(FAR).alpha
    assert ours[0].tolist() == pytest.approx([-2.9, -3.1, 0.0, 0.0], abs=1e-12)
    its = answers["far"]["alpha"][0] * FAR.mask.shape[1]
    assert its.tolist() == pytest.approx([-2.9, 0.0, 0.0, 0.0], abs=1e-12)


def test_verl_cuts_log_ratios_at_20(answers):
    ours = intervention("cispo:high=1e12").coefficients(FARTHER).alpha
    assert ours[0].tolist() == pytest.approx([-(2.0**28), -(2.0**30)])
    its = answers["farther"]["alpha"][0] * FARTHER.mask.shape[1]
    assert its.tolist() == pytest.approx([-(2.0**28), -torch.tensor(20.0).exp().item()])


def test_clip_cov_of_verl_drops_as_many_of_the_same_candidates(answers):
    text, tables = CASES["few"]
    every = intervention("clip-cov:rho=1,lower=0.2").coefficients(tables).alpha
    plain = intervention("clip-cov:lower=1e9").coefficients(tables).alpha
    candidates = (every == 0) & (plain != 0)
    count = int(0.02 * int(tables.mask.sum()))
    assert candidates.sum() > count > 1
    for alpha in (
        intervention(text).coefficients(tables).alpha,
        answers["few"]["alpha"],
    ):
        dropped = (alpha == 0) & (plain != 0)
        assert int(dropped.sum()) == count
        assert (candidates | ~dropped).all()


def test_verl_divides_by_the_deviation_and_a_millionth(answers):
    """Ours and TRL's have 1e-4, so its α is larger by that ratio."""
    _, tables = CASES["grpo", 0.0]
    scaled = tables.A / (deviation(tables) + 1e-4)
    # It was given ours for rewards, and their deviation is a little below 1.
    torch.testing.assert_close(
        answers["grpo", 0.0]["A"],
        scaled / (deviation(replace(tables, A=scaled)) + 1e-6),
        rtol=1e-10,
        atol=1e-13,
    )
