"""AdamW's update against the step that torch.optim.AdamW takes from the same state."""

import copy

import pytest
import torch

from entrometer.calculus import (
    AdamWHyperparameters,
    AdamWState,
    adamw_update,
    add,
    dot,
    norm,
    scale,
    vjp,
)
from entrometer.errors import InvalidValue, MissingKey

BETAS, EPSILON, DECAY, STEPS = (0.9, 0.95), 1e-8, 0.1, 10
DECAYED = ("embed.weight", "mix.weight")
BOUND = {torch.float64: 1e-12, torch.float32: 1e-6}


def hyperparameters(params):
    decay = {name: DECAY if name in DECAYED else 0.0 for name in params}
    return AdamWHyperparameters(BETAS, EPSILON, decay)


def token_gradients(policy, params, step):
    """Gradient of a loss by token: the part of each, which sum to the whole."""
    S, _ = policy.tables(params)
    generator = torch.Generator().manual_seed(100 + step)
    weights = torch.randn(S.shape, generator=generator, dtype=S.dtype)
    unit = torch.eye(S.numel(), dtype=S.dtype).reshape(-1, *S.shape)

    def loss_tables(theta):
        return (policy.tables(theta)[0],)

    return [vjp(loss_tables, params, (weights * e,)).gradient for e in unit]


def total(vectors):
    first, *others = vectors
    for other in others:
        first = add(first, other)
    return first


def distance(got, expected):
    return (norm(add(got, expected, scale=-1.0)) / norm(expected)).item()


class Trajectory:
    """Ten steps of torch.optim.AdamW, and ours from the same states beside it.

    The update does not depend on the learning rate, so the yardstick is the step of a
    deep copy with learning rate 1: at a usual rate the difference of two parameters
    has lost most of its digits. The trajectory itself advances at a usual rate.
    """

    def __init__(self, policy, *, max_norm, foreach):
        self.names = list(policy.params)
        leaves = {n: p.clone().requires_grad_() for n, p in policy.params.items()}
        decayed = [leaves[n] for n in self.names if n in DECAYED]
        others = [leaves[n] for n in self.names if n not in DECAYED]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": DECAY},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=1e-3,
            betas=BETAS,
            eps=EPSILON,
            foreach=foreach,
        )
        self.order = [n for n in self.names if n in DECAYED]
        self.order += [n for n in self.names if n not in DECAYED]
        state = AdamWState.fresh(policy.params)
        hyper = hyperparameters(policy.params)
        self.updates, self.yardsticks, self.parts, self.clipped = [], [], [], []
        for step in range(STEPS):
            before = self.params(self.optimizer)
            parts = token_gradients(policy, before, step)
            gradient = total(parts)
            update, state = adamw_update(
                before, gradient, state, hyper, max_norm=max_norm
            )
            self.updates.append(update)
            self.parts.append(parts)
            leaves = self.leaves(self.optimizer)
            for name, leaf in leaves.items():
                leaf.grad = gradient[name].clone()
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(list(leaves.values()), max_norm)
            self.clipped.append({n: leaf.grad.clone() for n, leaf in leaves.items()})
            unit = copy.deepcopy(self.optimizer)
            for group in unit.param_groups:
                group["lr"] = 1.0
            unit.step()
            self.yardsticks.append(add(self.params(unit), before, scale=-1.0))
            self.optimizer.step()
        self.state = state

    def leaves(self, optimizer):
        tensors = [p for group in optimizer.param_groups for p in group["params"]]
        return dict(zip(self.order, tensors, strict=True))

    def params(self, optimizer):
        leaves = self.leaves(optimizer)
        return {name: leaves[name].detach().clone() for name in self.names}


@pytest.fixture(params=["float32", "float64"])
def policy_of_either_precision(request, policy, policy32):
    return policy if request.param == "float64" else policy32


@pytest.mark.parametrize("max_norm", [None, 1.0])
@pytest.mark.parametrize("foreach", [False, True])
def test_update_is_the_step_of_torch(policy_of_either_precision, max_norm, foreach):
    policy = policy_of_either_precision
    trajectory = Trajectory(policy, max_norm=max_norm, foreach=foreach)
    dtype = policy.params["up.bias"].dtype
    for update, yardstick in zip(
        trajectory.updates, trajectory.yardsticks, strict=True
    ):
        assert distance(update.direction, yardstick) <= BOUND[dtype]
        assert update.direction["up.bias"].dtype == dtype
        assert (update.clip < 1) == (max_norm is not None)
    for name, leaf in trajectory.leaves(trajectory.optimizer).items():
        theirs = trajectory.optimizer.state[leaf]
        assert trajectory.state.step == theirs["step"].item() == STEPS
        for ours, key in (
            (trajectory.state.first_moment, "exp_avg"),
            (trajectory.state.second_moment, "exp_avg_sq"),
        ):
            error = (ours[name] - theirs[key]).norm() / theirs[key].norm()
            assert error <= BOUND[dtype]


def test_update_is_the_sum_of_decay_history_and_every_token(policy):
    trajectory = Trajectory(policy, max_norm=1.0, foreach=False)
    for update, parts in zip(trajectory.updates, trajectory.parts, strict=True):
        vectors = [update.decay, update.history, *map(update.part, parts)]
        assert distance(total(vectors), update.direction) <= 1e-12
    assert norm(trajectory.updates[0].history) == 0
    assert norm(trajectory.updates[-1].history) > 0
    assert not trajectory.updates[-1].decay["up.bias"].any()
    assert trajectory.updates[-1].decay["mix.weight"].any()


def test_adjoint_gives_the_effect_of_every_part_without_moving_along_it(policy):
    trajectory = Trajectory(policy, max_norm=1.0, foreach=False)
    update, parts = trajectory.updates[-1], trajectory.parts[-1]
    gradient_of_h = policy.direction(9)
    u = update.adjoint(gradient_of_h)
    for part in parts:
        effect = dot(gradient_of_h, update.part(part)).item()
        assert effect == pytest.approx(-dot(u, part).item(), rel=1e-10)


def test_history_splits_over_past_batches_with_nothing_left_over(policy):
    trajectory = Trajectory(policy, max_norm=1.0, foreach=False)
    update = trajectory.updates[-1]
    newest_first = trajectory.clipped[-2::-1]
    parts, remainder = update.history_split(newest_first)
    assert len(parts) == STEPS - 1
    assert norm(remainder) <= 1e-13 * norm(update.history)

    # With only some of the batches saved, the remainder is what the others carry.
    few = update.history_split(newest_first[:3])
    assert distance(total([*few.parts, few.remainder]), update.history) <= 1e-14
    assert distance(few.remainder, total(parts[3:])) <= 1e-12


def test_history_of_a_batch_is_what_its_absence_changes(policy):
    # The first moment is linear in past gradients: drop one from it and the history
    # changes by the part of that batch, the second moment being what it was.
    hyper = hyperparameters(policy.params)
    g = [policy.direction(seed) for seed in range(3)]
    state = AdamWState.fresh(policy.params)
    for gradient in g[:2]:
        state = adamw_update(policy.params, gradient, state, hyper).state
    without = AdamWState(
        state.step,
        scale(g[1], 1 - BETAS[0]),
        state.second_moment,
    )
    full = adamw_update(policy.params, g[2], state, hyper).update
    less = adamw_update(policy.params, g[2], without, hyper).update
    expected = add(full.direction, less.direction, scale=-1.0)
    assert distance(full.past_part(g[0], age=2), expected) <= 1e-12


def test_wrong_hyperparameters_raise(policy):
    decay = dict.fromkeys(policy.params, 0.0)
    with pytest.raises(InvalidValue, match=r"betas in \[0, 1\)"):
        AdamWHyperparameters((0.9, 1.0), EPSILON, decay)
    with pytest.raises(InvalidValue, match="epsilon > 0"):
        AdamWHyperparameters(BETAS, 0.0, decay)
    with pytest.raises(InvalidValue, match="weight decay >= 0"):
        AdamWHyperparameters(BETAS, EPSILON, {**decay, "up.bias": -0.1})


def test_parameter_without_a_stated_decay_raises(policy):
    hyper = AdamWHyperparameters(BETAS, EPSILON, {"mix.weight": 0.1})
    state = AdamWState.fresh(policy.params)
    with pytest.raises(MissingKey, match=r"missing 'embed.weight'"):
        adamw_update(policy.params, policy.direction(1), state, hyper)
