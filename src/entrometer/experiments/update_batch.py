"""An update batch: its responses, and the weight that a loss gives each token."""

# Axes: K tokens that the policy wrote in all responses, N responses, B responses,
# T tokens of a response.

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.estimators import GradientWeights, Responses, Tables
from entrometer.experiments.trained_loss import TrainedLoss
from entrometer.interventions import PLAIN, Intervention, TokenTables, intervention
from entrometer.runs import Rollouts, Sampler, UpdateBatch
from entrometer.runs.rollouts import RECORDED

_ROUNDING = 1e-3
"""Largest advantage that rounding can make of equal rewards."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Responses of an update, with columns over the K tokens that the policy wrote.

    `alpha` and `gamma` are the weights that the loss gives S and H of a token.
    """

    rollouts: Rollouts
    """Each prompt group has a prompt id that no other group has."""
    advantage: Float[np.ndarray, " K"]
    log_ratio: Float[np.ndarray, " K"]
    """Log of the ratio to the policy that sampled, when the batch was formed."""
    counted: Bool[np.ndarray, " K"]
    """Tokens that the loss counts."""
    alpha: Float[np.ndarray, " K"]
    r"""$\alpha_k = -\partial L/\partial S_k$."""

    gamma: Float[np.ndarray, " K"]
    r"""$\gamma_k = -\partial L/\partial H_k$."""

    padding_row: int | None = None
    """Row of the embedding whose gradient as an input the training dropped."""
    trained: TrainedLoss | None = None
    """Loss that the training recorded, to which interventions apply; None for plain
    Dr-GRPO."""
    importance: Float[np.ndarray, " N"] | None = None
    """Weight of each response of a batch that another policy sampled; else None."""
    log_mismatch: Float[np.ndarray, " K"] | None = None
    r"""$S_\text{old} - S_e$ as the training recorded both; None if it did not."""
    S_ref: Float[np.ndarray, " K"] | None = None
    """Log-prob of each token by the training's reference model; None without one."""

    @property
    def weights(self) -> GradientWeights:
        r"""Token weights whose vector-Jacobian product is $-\nabla L$."""
        return GradientWeights(S=self.alpha, H=self.gamma)

    @property
    def weighed_rows(self) -> Bool[np.ndarray, " N"]:
        """Whether the loss weighs a token of each response: others have no gradient."""
        starts = np.cumsum(self.rollouts.length) - self.rollouts.length
        weighed = (self.alpha != 0) | (self.gamma != 0)
        found: np.ndarray = np.logical_or.reduceat(weighed, starts)
        return found

    def tables(
        self,
        here: Tables,
        old: Float[np.ndarray, " K"],
        *,
        concentration: Float[np.ndarray, " K"] | None = None,
        influence: tuple[np.ndarray, np.ndarray] | None = None,
        seed: int = 0,
    ) -> TokenTables:
        """Return what an intervention reads of the batch, one row per response.

        `here` is under the policy that is updated; `old` is S under the policy for
        which the batch was formed; `influence` is on entropy and on reward.
        """
        place = _places(self.rollouts)

        def padded(column: np.ndarray) -> Tensor:
            # float64 whatever the pass computed in: ratios near 1 would round to 1.
            wide = column if column.dtype == bool else column.astype(np.float64)
            values = torch.tensor(wide)
            return values.new_zeros(place.shape).masked_scatter(place, values)

        _, group = np.unique(self.rollouts.prompt, return_inverse=True)
        S_old = old.astype(np.float64) - self.log_ratio
        S_engine = self.engine_logprobs(S_old)
        return TokenTables(
            S=padded(here.S),
            H=padded(here.H),
            S_old=padded(S_old),
            A=padded(self.advantage),
            mask=padded(self.counted),
            group=torch.from_numpy(group),
            length_limit=self.rollouts.sampler.max_tokens,
            concentration=None if concentration is None else padded(concentration),
            S_engine=None if S_engine is None else padded(S_engine),
            S_ref=None if self.S_ref is None else padded(self.S_ref),
            influence=influence and (padded(influence[0]), padded(influence[1])),
            seed=seed,
        )

    def engine_logprobs(
        self, S_old: Float[np.ndarray, " K"]
    ) -> Float[np.ndarray, " K"] | None:
        """Return log-probs by the engine that sampled; None if they are not known."""
        # As a difference: the training's S_old and the one computed here have their own
        # roundings, and only the training's is the one its loss compares.
        if self.log_mismatch is not None:
            return np.asarray(S_old - self.log_mismatch)
        drawn = self.rollouts.engine_logprobs
        return None if drawn is None else np.concatenate(drawn)

    def treated(self, chosen: Intervention, tables: TokenTables) -> "Batch":
        """Return the batch with the token weights of its loss under an intervention."""
        place = _places(self.rollouts)
        # Indexing by the mask reads row by row, which is the order of the columns.
        alpha, gamma = (x[place].numpy() for x in chosen.coefficients(tables))
        # A loss of its own replaces the training's; others change it.
        if self.trained is not None and not chosen.remedy.whole:
            alpha, gamma = self.trained.treated(alpha, gamma)
        if self.importance is not None:
            w = np.repeat(self.importance, self.rollouts.length)
            alpha, gamma = w * alpha, w * gamma
        return replace(self, alpha=alpha, gamma=gamma)

    def reweighted(self, log_weight: Float[np.ndarray, " N"]) -> "Batch":
        r"""Return the batch as if the policy that is updated had sampled it.

        Each response has the weight $w_i = N e^{x_i}/\sum_j e^{x_j}$, where $x$ is the
        log of its probability by this policy over that by the one that sampled it.
        """
        # The largest is subtracted against overflow.
        u = np.exp(log_weight - log_weight.max())
        w = u * (u.size / u.sum())
        at = np.repeat(w, self.rollouts.length)
        return replace(
            self,
            alpha=at * self.alpha,
            gamma=at * self.gamma,
            log_ratio=np.zeros_like(self.log_ratio),
            importance=w,
        )

    @property
    def effective_share(self) -> float:
        r"""$(\sum w)^2/(N\sum w^2)$ over responses; 1 if this policy sampled them."""
        w = self.importance
        return 1.0 if w is None else float(w.sum() ** 2 / (w.size * (w @ w)))

    def differing(self, other: "Batch") -> Bool[np.ndarray, " K"]:
        """Return which tokens have another weight in another loss of the same batch."""
        # Relative: losses that are equal in exact arithmetic round differently.
        limit = 1e-6 * max(np.abs(self.alpha).max(), np.abs(other.alpha).max())
        differs = np.abs(self.alpha - other.alpha) > limit
        return np.asarray(differs | (self.gamma != other.gamma))

    @property
    def groups_with_signal(self) -> tuple[int, int]:
        """Number of prompt groups whose advantages are not all 0, and of all groups.

        Tokens without weight in the loss are left out. If all rewards of a group are
        equal, an advantage up to 1e-3 is the rounding of their mean, which dividing by
        a standard deviation of about 0 can enlarge: such a group has no signal.
        """
        prompts, group = np.unique(self.rollouts.prompt, return_inverse=True)
        largest, lowest = np.zeros(prompts.size), np.full(prompts.size, np.inf)
        highest = np.full(prompts.size, -np.inf)
        of_token = np.repeat(group, self.rollouts.length)
        # An advantage without a weight, as of a clipped token, is no signal.
        weighed = self.counted & ((self.alpha != 0) | (self.gamma != 0))
        np.maximum.at(largest, of_token, np.abs(self.advantage) * weighed)
        # An unscored response (NaN) makes both ends NaN, which are not equal.
        np.minimum.at(lowest, group, self.rollouts.reward)
        np.maximum.at(highest, group, self.rollouts.reward)
        rounding = np.where(lowest == highest, _ROUNDING, 0.0)
        return int((largest > rounding).sum()), prompts.size

    def minibatch(self, part: int, parts: int) -> "Batch":
        """Return one of `parts` minibatches, split by prompt group; the first is 1."""
        rows = minibatch_rows(self.rollouts.prompt, part, parts)
        batch = self.at(rows)
        # The loss is a mean over responses, here over fewer of them.
        larger = self.rollouts.count / rows.size
        trained = batch.trained and batch.trained.rows(slice(None), larger)
        alpha, gamma = larger * batch.alpha, larger * batch.gamma
        return replace(batch, alpha=alpha, gamma=gamma, trained=trained)

    def some(self, rows: slice) -> "Batch":
        """Return some responses, with the weights they have in the whole batch."""
        if rows == slice(None) or rows == slice(0, self.rollouts.count):
            return self
        return self.at(np.arange(self.rollouts.count)[rows])

    def at(self, rows: Int[np.ndarray, " M"]) -> "Batch":
        """Return the responses of these rows, with their weights of the whole batch."""
        responses = Responses.from_lengths(self.rollouts.prompt, self.rollouts.length)
        at = responses.columns(rows)
        columns = ("advantage", "log_ratio", "counted", "alpha", "gamma")
        chosen: dict[str, Any] = {name: getattr(self, name)[at] for name in columns}
        chosen["trained"] = self.trained and self.trained.rows(at)
        for name in ("log_mismatch", "S_ref"):
            column = getattr(self, name)
            chosen[name] = None if column is None else column[at]
        if self.importance is not None:
            chosen["importance"] = self.importance[rows]
        return replace(self, rollouts=self.rollouts.select(rows), **chosen)


def minibatch_rows(
    group: Int[np.ndarray, " N"], part: int, parts: int
) -> Int[np.ndarray, " M"]:
    """Return the rows of one of `parts` minibatches, split by prompt group."""
    # By first appearance, not sorted: the order in which training visits the groups.
    names = list(dict.fromkeys(group.tolist()))
    if len(names) < parts:
        raise InvalidValue(
            f"expected at least {parts} prompts, one per minibatch, got "
            f"{len(names)}; use fewer minibatches, or a larger update"
        )
    chosen = np.array_split(np.array(names), parts)[part - 1]
    rows: np.ndarray = np.flatnonzero(np.isin(group, chosen))
    return rows


def recorded_batch(batch: UpdateBatch, text: str = PLAIN) -> Batch:
    """Return the batch that a training recorded, with the weights of its loss.

    A file without weights gets those of the loss `text`, at the recorded policy. Groups
    stay apart even if two have the same prompt.
    """
    counted = np.concatenate(batch.of_policy("counted"))
    rollouts = recorded_rollouts(batch)
    # float64: S and S_old are nearly equal, and their difference is what counts.
    S, S_old, H, A = (
        np.concatenate(batch.of_policy(name)).astype(np.float64)
        for name in ("S", "S_old", "H", "advantage")
    )
    # The training's own advantages: rewards centred here would be wrong for a group
    # whose other responses are in another update.
    columns = {"advantage": A, "log_ratio": S - S_old, "counted": counted}
    columns |= _optional_columns(batch, S_old, counted)
    if batch.alpha is not None and batch.gamma is not None:
        plain = _formed(intervention(PLAIN), rollouts, columns, Tables(S=S, H=H))
        alpha, gamma = (
            np.concatenate(batch.of_policy(name)).astype(np.float64)
            for name in ("alpha", "gamma")
        )
        return replace(
            plain,
            alpha=alpha,
            gamma=gamma,
            padding_row=batch.settings.padding_row,
            trained=TrainedLoss.of(alpha, gamma, plain),
        )
    chosen = intervention(text)
    remedy = chosen.remedy
    if remedy.adapt is not None or remedy.scheduled or remedy.needs:
        raise InvalidValue(
            f"expected a loss that recorded rows determine, got {text!r}, which has a "
            "state or reads what was not recorded; give --updates sampled-1, with "
            "plain Dr-GRPO"
        )
    if np.isnan(H).all():
        if chosen != intervention(PLAIN):
            raise InvalidValue(
                f"expected recorded entropies for the loss {text!r}, got an update of "
                "another framework without them; give --updates sampled-1, or measure "
                "it as plain Dr-GRPO"
            )
        H = np.zeros_like(H)  # Plain Dr-GRPO does not read it.
    here, seed = Tables(S=S, H=H), batch.settings.step
    return _formed(chosen, rollouts, columns, here, seed=seed)


def recorded_tables(batch: UpdateBatch) -> frozenset[str]:
    """Return which of `S_engine` and `S_ref` a training recorded for every token."""
    counted = np.concatenate(batch.of_policy("counted"))
    return frozenset(
        name
        for name in ("S_engine", "S_ref")
        if getattr(batch, name) is not None
        and np.isfinite(np.concatenate(batch.of_policy(name))[counted]).all()
    )


def _optional_columns(
    batch: UpdateBatch,
    S_old: Float[np.ndarray, " K"],
    counted: Bool[np.ndarray, " K"],
) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    for name in recorded_tables(batch):
        # Tokens that the loss leaves out may have no log-prob.
        x = np.where(counted, np.concatenate(batch.of_policy(name)), S_old)
        columns |= {"S_ref": x} if name == "S_ref" else {"log_mismatch": S_old - x}
    return columns


def recorded_rollouts(batch: UpdateBatch) -> Rollouts:
    """Return the responses that a training recorded, with one prompt id per group."""
    T, limit = batch.settings.temperature, batch.settings.max_tokens
    # A training records neither seeds nor texts; passes read the tokens alone.
    return Rollouts(
        prompt=batch.group,
        prompt_tokens=batch.prompt_tokens,
        response_tokens=batch.response_tokens,
        seed=np.zeros(batch.count, np.int64),
        text=("",) * batch.count,
        reward=batch.reward,
        sampler=Sampler(
            name=RECORDED, temperature=T, max_tokens=limit, model="", version=""
        ),
        written=batch.written,
    )


def sampled_batch(rollouts: Rollouts) -> Batch:
    """Return a batch sampled from the policy itself: ratio 1, plain Dr-GRPO."""
    A = np.repeat(centred_rewards(rollouts.reward, rollouts.prompt), rollouts.length)
    zeros = np.zeros_like(A)
    # Plain Dr-GRPO reads only the ratio, which zeros for S and S_old make exactly 1.
    counted, here = np.ones(A.size, bool), Tables(S=zeros, H=zeros)
    columns = {"advantage": A, "log_ratio": zeros, "counted": counted}
    return _formed(intervention(PLAIN), rollouts, columns, here)


def centred_rewards(
    reward: Float[np.ndarray, " N"], prompt: Int[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    r"""Return Dr-GRPO's advantage $A_i = r_i - \bar r$ over a prompt's responses."""
    _, place, count = np.unique(prompt, return_inverse=True, return_counts=True)
    A: np.ndarray = reward - (np.bincount(place, reward) / count)[place]
    return A


def _formed(
    chosen: Intervention,
    rollouts: Rollouts,
    columns: dict[str, Any],
    here: Tables,
    *,
    seed: int = 0,
) -> Batch:
    """Return a batch with a loss's weights at the policy for which it was formed."""
    zeros = np.zeros_like(columns["advantage"])
    batch = Batch(rollouts=rollouts, alpha=zeros, gamma=zeros, **columns)
    return batch.treated(chosen, batch.tables(here, here.S, seed=seed))


def _places(rollouts: Rollouts) -> Bool[Tensor, "B T"]:
    # True where a response has a token, in a table with one row per response.
    length = torch.as_tensor(rollouts.length)
    return torch.arange(int(length.max())) < length[:, None]
