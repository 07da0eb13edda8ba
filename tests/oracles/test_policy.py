import pytest
import torch

from entrometer.oracles import EOS, EnumerablePolicy


def test_three_tokens_and_length_four_have_31_sequences():
    policy = EnumerablePolicy(vocabulary=3, length=4)
    rows = policy.sequences().tolist()
    assert len(rows) == 31
    assert len({tuple(row) for row in rows}) == 31


@pytest.mark.parametrize(("V", "L"), [(2, 1), (2, 5), (3, 3), (4, 2)])
def test_every_sequence_ends_at_its_first_eos_or_at_the_limit(V, L):
    policy = EnumerablePolicy(vocabulary=V, length=L)
    open_counts = [(V - 1) ** k for k in range(L)]
    assert len(policy.sequences()) == sum(open_counts) + (V - 1) ** L
    for row, T in zip(
        policy.sequences().tolist(), policy.lengths().tolist(), strict=True
    ):
        expected = row.index(EOS) + 1 if EOS in row else L
        assert expected == T
        assert all(token == EOS for token in row[T:])


def test_probabilities_of_all_sequences_add_up_to_one_by_hand():
    """A product of softmaxes, prefix by prefix, that shares nothing with truths."""
    policy = EnumerablePolicy()
    theta = policy.parameters(0)
    for p in range(policy.prompts):
        total = 0.0
        for row, T in zip(policy.sequences(), policy.lengths().tolist(), strict=True):
            z = policy.logits(theta, torch.tensor([p]), row[None])[0]
            steps = [z[k].softmax(dim=0)[row[k]].item() for k in range(T)]
            total += torch.tensor(steps, dtype=torch.float64).prod().item()
        assert total == pytest.approx(1.0, abs=1e-14)


def test_logits_see_the_prompt_and_every_earlier_token_but_not_their_own():
    policy = EnumerablePolicy()
    theta = policy.parameters(0)
    rows = torch.tensor([[1, 1, 1, 1], [2, 1, 1, 1], [1, 1, 1, 2], [1, 1, 1, 1]])
    base, first, last, prompt = policy.logits(theta, torch.tensor([0, 0, 0, 1]), rows)
    assert torch.equal(base, last)
    assert torch.equal(base[0], first[0])
    assert all(not torch.equal(base[k], first[k]) for k in (1, 2, 3))
    assert all(not torch.equal(base[k], prompt[k]) for k in range(4))


def test_parameters_are_float64_and_those_of_the_seed():
    policy = EnumerablePolicy()
    a, b, c = policy.parameters(0), policy.parameters(0), policy.parameters(1)
    assert all(p.dtype == torch.float64 for p in a.values())
    assert all(torch.equal(a[n], b[n]) for n in a)
    assert not torch.equal(a["head"], c["head"])


def test_a_lower_eos_logit_makes_long_responses_common():
    policy = EnumerablePolicy()
    high, low = policy.parameters(0), policy.parameters(0, eos_logit=-3.0)
    assert (high["bias"] - low["bias"]).tolist() == pytest.approx([3.0, 0.0, 0.0])
