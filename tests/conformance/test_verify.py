"""`entrometer verify --against`: what is right passes, what is wrong is named."""

import json

import pytest

from entrometer.cli import main

LOSSES = """
import torch

def right(S, S_old, A):
    r = (S - S_old).exp()
    return -torch.minimum(r * A, r.clamp(0.8, 1.2) * A)

def wide(S, S_old, A):
    r = (S - S_old).exp()
    return -torch.minimum(r * A, r.clamp(0.8, 1.28) * A)

def narrow(S, S_old, A):
    r = (S - S_old).exp()
    return -torch.minimum(r * A, r.clamp(0.9, 1.2) * A)

def dual(S, S_old, A):
    r = (S - S_old).exp()
    loss = -torch.minimum(r * A, r.clamp(0.8, 1.2) * A)
    return torch.where(A < 0, torch.minimum(loss, -3 * A), loss)

def double(S, S_old, A):
    return 2 * right(S, S_old, A)

def token_mean(S, S_old, A, mask):
    return (right(S, S_old, A) * mask).sum() / mask.sum()

def response_mean(S, S_old, A, mask):
    return ((right(S, S_old, A) * mask).sum(1) / mask.sum(1)).mean()

def with_squared_log_ratio(S, S_old, A):
    return right(S, S_old, A) + 0.01 * (S - S_old) ** 2

def bonus(S, H, S_old, A, mask, length_limit, detached=False):
    B = len(S)
    loss = (right(S, S_old, A) * mask).sum() / (B * length_limit)
    return loss - 0.01 * ((H.detach() if detached else H) * mask).sum() / mask.sum()

def detached_bonus(S, H, S_old, A, mask, length_limit):
    return bonus(S, H, S_old, A, mask, length_limit, detached=True)

def from_tables(tables):
    return right(tables.S, tables.S_old, tables.A)

def to_reference(S, S_old, A, S_ref):
    d = S - S_ref
    return right(S, S_old, A) + 0.04 * ((-d).exp() + d - 1)

def kl_cov_of_the_batch(S, S_old, A, mask):
    c = (A - A[mask].mean()) * (S.detach() - S[mask].detach().mean())
    top = c.masked_fill(~mask, -torch.inf).flatten().topk(max(1, int(mask.sum() * 0.1)))
    chosen = torch.zeros(c.numel(), dtype=torch.bool)
    chosen[top.indices] = True
    return -(S - S_old).exp() * A + chosen.reshape(S.shape) * (S - S_old).abs()

def undefined(S, S_old, A):
    return right(S, S_old, A) * float("nan")

def typo(S, S_odl):
    return S

def of_no_tensor(S):
    return 1.0

def without_gradient(S):
    return S.detach().sum()

def raises(S):
    raise ZeroDivisionError("no tokens")
"""


@pytest.fixture
def verify(tmp_path, capsys, monkeypatch):
    """Runs the verb with a loss of the file; returns exit code and its JSON."""
    (tmp_path / "own_losses.py").write_text(LOSSES)

    def run(loss, function, *flags):
        where = f"{tmp_path / 'own_losses.py'}:{function}"
        some = ["--json", "--seeds", "1"]
        code = main(["verify", loss, "--against", where, *some, *flags])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if code < 2 else captured.err

    return run


@pytest.mark.parametrize(
    ("loss", "function"),
    [
        ("dr-grpo", "right"),
        ("dr-grpo", "from_tables"),
        ("clip-higher", "wide"),
        ("dr-grpo:low=0.1", "narrow"),
        ("entropy-bonus", "bonus"),
        ("kl-reference", "to_reference"),
    ],
)
def test_the_same_loss_agrees(verify, loss, function):
    code, found = verify(loss, function, "--micro-batch", "0")
    assert code == 0
    assert found["verdict"] == "agrees"
    assert max(found["alpha"], found["gamma"]) <= 1e-10
    assert found["tokens"] == []


@pytest.mark.parametrize(
    ("loss", "function", "verdict", "reason"),
    [
        ("dr-grpo", "wide", "differs", "a gradient where A > 0 and r is from 1.2"),
        ("dr-grpo", "narrow", "differs", "as ours with low times 1/2"),
        ("dr-grpo:low=0.15", "narrow", "differs", "none where A < 0 and r is from 0.8"),
        ("dr-grpo", "dual", "differs", "no gradient where A < 0 and r > 3"),
        ("dr-grpo", "double", "other normaliser", "a constant factor of 2"),
        ("dr-grpo", "token_mean", "other normaliser", "mean over the tokens of the b"),
        ("dr-grpo", "response_mean", "other normaliser", "mean over each response's"),
        ("dr-grpo", "with_squared_log_ratio", "differs", "also has -0.02·(log r)"),
        ("entropy-bonus", "detached_bonus", "differs", "no gradient in the entropy"),
        ("entropy-bonus", "right", "differs", "no gradient in the entropy"),
        ("kl-reference:form=2", "to_reference", "differs", "as ours with form = 3"),
        ("kl-reference:beta=0.02", "to_reference", "differs", "beta times 2"),
    ],
)
def test_a_difference_is_named(verify, loss, function, verdict, reason):
    code, found = verify(loss, function, "--micro-batch", "0")
    assert code == 1
    assert found["verdict"] == verdict
    assert reason in found["reason"]
    # The reason predicts the coefficients.
    assert found["rest"] <= 1e-10 < max(found["alpha"], found["gamma"])


def test_statistics_of_micro_batches_are_named(verify):
    code, found = verify("kl-cov:rho=0.1", "kl_cov_of_the_batch")
    assert code == 1
    assert found["reason"] == "statistics are of each micro-batch"
    assert found["rest"] <= 1e-10
    split = [name for name, x in found["batches"].items() if x > 1e-10]
    assert split == [name for name in found["batches"] if "micro-batches" in name]
    assert verify("kl-cov:rho=0.1", "kl_cov_of_the_batch", "--micro-batch", "0")[0] == 0


def test_the_tokens_that_differ_are_those_beyond_the_clip(verify):
    _, found = verify("dr-grpo", "wide")
    for token in found["tokens"]:
        assert token["A"] > 0
        assert 1.2 < 2.718281828459045 ** (token["S"] - token["S_old"]) < 1.28
        assert token["alpha"] == 0 < token["their_alpha"]


def test_a_normaliser_can_be_allowed(verify):
    flags = ["--micro-batch", "0", "--any-normaliser"]
    assert verify("dr-grpo", "response_mean", *flags)[0] == 0
    assert verify("dr-grpo", "wide", *flags)[0] == 1


def test_nan_is_a_difference(verify):
    code, found = verify("dr-grpo", "undefined")
    assert code == 1
    assert found["verdict"] == "differs"
    assert found["alpha"] is None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("typo", "got 'S_odl'; rename it, or give it a default. Did you mean 'S_old'?"),
        ("wid", "has no attribute 'wid'"),
        ("wid", "Did you mean 'wide'?"),
        ("of_no_tensor", "got float; return a tensor"),
        ("without_gradient", "got shape (), no gradient"),
        ("raises", "got ZeroDivisionError: no tokens; it is called with S"),
    ],
)
def test_a_mistake_in_the_loss_is_one_line(verify, function, message):
    code, error = verify("dr-grpo", function)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dr-grpo"], "either --against file.py:function or --framework NAME, got nei"),
        (["--against", "a.py:b", "--framework", "verl"], "got both"),
        (["dr-grpo", "--against", "absent.py:loss"], "no file absent.py"),
        (["dr-grpo", "--against", "nothing"], "expected a loss as module:function"),
        (["--against", "absent.py:loss"], "expected one loss of ours"),
        (["dr-grp", "--framework", "verl"], "Did you mean 'dr-grpo'?"),
        (["dr-grpo", "--framework", "verll"], "Did you mean 'verl'?"),
        (["dr-grpo", "--framework", "verl", "--seeds", "0"], "at least one seed"),
        (["dr-grpo", "--againts", "a.py:b"], "Did you mean '--against'?"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, message, capsys):
    assert main(["verify", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_text_has_the_reason_and_the_tokens(tmp_path, capsys):
    (tmp_path / "own_losses.py").write_text(LOSSES)
    where = f"{tmp_path / 'own_losses.py'}:wide"
    assert main(["verify", "dr-grpo", "--against", where]) == 1
    out = capsys.readouterr().out
    assert "dr-grpo and" in out
    assert "why: a gradient where A > 0" in out
    assert "α theirs" in out


def test_a_module_beside_the_scripts_is_found(tmp_path, capsys, monkeypatch):
    (tmp_path / "losses_of_a_module.py").write_text(LOSSES)
    monkeypatch.chdir(tmp_path)
    assert main(["verify", "dr-grpo", "--against", "losses_of_a_module:right"]) == 0
    capsys.readouterr()
