"""An update batch: its responses, and how a loss pulls on each of their tokens."""

# Axes: K tokens of all responses, N responses, B responses, T tokens of a response.

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.estimators import GradientWeights, Responses, Tables
from entrometer.interventions import PLAIN, Intervention, TokenTables, intervention
from entrometer.runs import Rollouts, Sampler, UpdateBatch

_ROUNDING = 1e-3
"""Largest advantage that rounding can make out of equal rewards."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Responses of an update, and how its loss pulls on each of their tokens."""

    rollouts: Rollouts
    """A prompt group has one prompt id."""

    advantage: Float[np.ndarray, " K"]
    log_ratio: Float[np.ndarray, " K"]
    """Log of the ratio to the policy that sampled, where the batch was formed."""

    counted: Bool[np.ndarray, " K"]
    """Tokens that the loss counts."""

    alpha: Float[np.ndarray, " K"]
    r"""$\alpha_k = -\partial L/\partial S_k$."""

    gamma: Float[np.ndarray, " K"]
    r"""$\gamma_k = -\partial L/\partial H_k$."""

    @property
    def weights(self) -> GradientWeights:
        r"""With which one way back gives $-\nabla L$."""
        return GradientWeights(S=self.alpha, H=self.gamma)

    def tables(
        self,
        here: Tables,
        old: Float[np.ndarray, " K"],
        *,
        concentration: Float[np.ndarray, " K"] | None = None,
        influence: tuple[np.ndarray, np.ndarray] | None = None,
        seed: int = 0,
    ) -> TokenTables:
        """What an intervention sees of the batch.

        Args:
            here: S and H by the policy that is updated.
            old: S by the policy that the batch was formed at, whose ratio to the one
                that sampled is `log_ratio`.
            concentration: As in `TokenTables`.
            influence: On entropy and on reward, as in `TokenTables`.
            seed: Of what is drawn by lot.
        """
        place = _places(self.rollouts)

        def padded(column: np.ndarray) -> Tensor:
            values = torch.tensor(column)
            table = values.new_zeros(place.shape)
            table[place] = values
            return table

        def optional(column: np.ndarray | None) -> Tensor | None:
            return None if column is None else padded(np.asarray(column, np.float64))

        _, group = np.unique(self.rollouts.prompt, return_inverse=True)
        both = influence
        return TokenTables(
            S=padded(np.asarray(here.S, np.float64)),
            H=padded(np.asarray(here.H, np.float64)),
            S_old=padded(np.asarray(old, np.float64) - self.log_ratio),
            A=padded(self.advantage),
            mask=padded(self.counted),
            group=torch.from_numpy(group),
            length_limit=self.rollouts.sampler.max_tokens,
            concentration=optional(concentration),
            influence=None if both is None else (padded(both[0]), padded(both[1])),
            seed=seed,
        )

    def treated(self, chosen: Intervention, tables: TokenTables) -> "Batch":
        """The batch with the pull of another loss."""
        place = _places(self.rollouts)
        alpha, gamma = chosen.coefficients(tables)
        return replace(self, alpha=alpha[place].numpy(), gamma=gamma[place].numpy())

    @property
    def groups_with_signal(self) -> tuple[int, int]:
        """Number of prompt groups whose advantages are not all 0, and of all groups.

        Tokens that the loss does not count are left out. If all rewards of a group are
        equal, an advantage up to 1e-3 is the rounding of their mean, which dividing by
        a standard deviation of about 0 can enlarge: such a group has no signal.
        """
        prompts, group = np.unique(self.rollouts.prompt, return_inverse=True)
        size, lowest = np.zeros(prompts.size), np.full(prompts.size, np.inf)
        highest = np.full(prompts.size, -np.inf)
        of_token = np.repeat(group, self.rollouts.length)
        np.maximum.at(size, of_token, np.abs(self.advantage) * self.counted)
        # An unscored response (NaN) makes both ends NaN, which are not equal.
        np.minimum.at(lowest, group, self.rollouts.reward)
        np.maximum.at(highest, group, self.rollouts.reward)
        smallest = np.where(lowest == highest, _ROUNDING, 0.0)
        return int((size > smallest).sum()), prompts.size

    def minibatch(self, part: int, parts: int) -> "Batch":
        """One of so many parts, by prompt group, as a batch of its own; from 1."""
        rows = minibatch_rows(self.rollouts.prompt, part, parts)
        own = self._rows(rows)
        # A mean over fewer responses.
        larger = self.rollouts.count / rows.size
        return replace(own, alpha=larger * own.alpha, gamma=larger * own.gamma)

    def some(self, rows: slice) -> "Batch":
        """Some responses, with the pull that they have in the whole."""
        if rows == slice(None) or rows == slice(0, self.rollouts.count):
            return self
        return self._rows(np.arange(self.rollouts.count)[rows])

    def _rows(self, rows: np.ndarray) -> "Batch":
        responses = Responses.from_lengths(self.rollouts.prompt, self.rollouts.length)
        at = responses.columns(rows)
        return Batch(
            rollouts=self.rollouts.select(rows),
            advantage=self.advantage[at],
            log_ratio=self.log_ratio[at],
            counted=self.counted[at],
            alpha=self.alpha[at],
            gamma=self.gamma[at],
        )


def minibatch_rows(
    group: Int[np.ndarray, " N"], part: int, parts: int
) -> Int[np.ndarray, " M"]:
    """Rows of one of so many parts of a batch, by prompt group; from 1."""
    names = list(dict.fromkeys(group.tolist()))
    if len(names) < parts:
        raise InvalidValue(
            f"expected at least {parts} prompts, one a minibatch, got "
            f"{len(names)}; take fewer minibatches, or a larger update"
        )
    own = np.array_split(np.array(names), parts)[part - 1]
    rows: np.ndarray = np.flatnonzero(np.isin(group, own))
    return rows


def recorded_batch(batch: UpdateBatch, text: str = PLAIN) -> Batch:
    """The batch that a training recorded, with its loss on what it recorded.

    Groups are told apart even where two have the same prompt.

    Args:
        batch: The rows.
        text: The intervention that the training had.
    """
    chosen = intervention(text)
    remedy = chosen.remedy
    if remedy.adapt is not None or remedy.scheduled or remedy.needs:
        raise InvalidValue(
            f"expected a loss that rows alone tell, got {text!r}, which has a state or "
            "reads what was not recorded; give --updates sampled-1, with plain Dr-GRPO"
        )
    S, S_old, H, A = (
        np.concatenate(column).astype(np.float64)
        for column in (batch.S, batch.S_old, batch.H, batch.advantage)
    )
    counted = np.concatenate(batch.counted)
    found = _untreated(recorded_rollouts(batch), A, S - S_old, counted)
    tables = found.tables(Tables(S=S, H=H), S, seed=batch.settings.step)
    return found.treated(chosen, tables)


def recorded_rollouts(batch: UpdateBatch) -> Rollouts:
    """The responses that a training recorded; a prompt id for each group."""
    return Rollouts(
        prompt=batch.group,
        prompt_tokens=batch.prompt_tokens,
        response_tokens=batch.response_tokens,
        seed=np.zeros(batch.count, np.int64),
        text=("",) * batch.count,
        reward=batch.reward,
        sampler=Sampler(
            name="recorded",
            temperature=batch.settings.temperature,
            max_tokens=batch.settings.max_tokens,
            model="",
            version="",
        ),
    )


def sampled_batch(rollouts: Rollouts) -> Batch:
    """A batch drawn from the policy itself: ratio 1, advantages within each group."""
    A = np.repeat(centred_rewards(rollouts.reward, rollouts.prompt), rollouts.length)
    zeros = np.zeros_like(A)
    found = _untreated(rollouts, A, zeros, np.ones(A.size, bool))
    # Plain Dr-GRPO asks for ratios alone.
    return found.treated(intervention(PLAIN), found.tables(Tables(zeros, zeros), zeros))


def centred_rewards(
    reward: Float[np.ndarray, " N"], prompt: Int[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    r"""$A_i = r_i - \bar r$ over the responses to a prompt: what Dr-GRPO asks."""
    _, place, count = np.unique(prompt, return_inverse=True, return_counts=True)
    A: np.ndarray = reward - (np.bincount(place, reward) / count)[place]
    return A


def _untreated(
    rollouts: Rollouts, A: np.ndarray, log_ratio: np.ndarray, counted: np.ndarray
) -> Batch:
    zeros = np.zeros_like(A)
    return Batch(
        rollouts=rollouts,
        advantage=A,
        log_ratio=log_ratio,
        counted=counted,
        alpha=zeros,
        gamma=zeros,
    )


def _places(rollouts: Rollouts) -> Bool[Tensor, "B T"]:
    """Where the tokens lie in a table of a response a row."""
    length = torch.as_tensor(rollouts.length)
    return torch.arange(int(length.max())) < length[:, None]
