import pytest
import torch

from entrometer.calculus import per_sequence_gradients


@pytest.mark.parametrize("at_once", [None, 1, 2])
def test_rows_are_the_gradients_of_one_sequence_after_another(policy, at_once):
    rows = per_sequence_gradients(policy.scores, policy.params, at_once=at_once)
    for i in range(5):
        leaves = {n: p.clone().requires_grad_() for n, p in policy.params.items()}
        policy.scores(leaves)[i].backward()
        for name, leaf in leaves.items():
            assert rows[name].shape == (5, *leaf.shape)
            error = (rows[name][i] - leaf.grad).norm() / leaf.grad.norm()
            assert error < 1e-13


def test_no_graph_is_kept_for_parameters_that_the_module_holds(policy):
    part = {"mix.weight": policy.params["mix.weight"]}
    rows = per_sequence_gradients(policy.scores, part)
    assert not rows["mix.weight"].requires_grad


def test_float32_agrees_with_float64(policy, policy32):
    exact = per_sequence_gradients(policy.scores, policy.params)
    single = per_sequence_gradients(policy32.scores, policy32.params)
    for name, rows in exact.items():
        assert single[name].dtype == torch.float32
        assert (single[name].double() - rows).norm() / rows.norm() < 1e-5
