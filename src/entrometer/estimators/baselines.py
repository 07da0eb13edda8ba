"""Cross-fitted predictions of the entropy and the tokens to go after each token."""

# Axes: N responses, K tokens of all responses (layout: Responses), F features, Q folds,
# L positions, 2 targets (entropy to go, tokens to go).

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators.responses import Baseline, Responses, Tables


def fold_of(prompt: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """Return the fold of each prompt, from a hash of its id (SplitMix64).

    The fold depends on the id alone, so that shards on different machines agree
    without communication, and consecutive ids do not fall into a pattern.
    """
    if folds < 2:
        raise InvalidValue(
            f"expected at least 2 folds, got {folds}; use 2 or more, so that no prompt "
            "fits its own baseline"
        )
    z = np.asarray(prompt).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z % np.uint64(folds)).astype(np.int64)


def sum_of_other_folds(parts: Float[np.ndarray, "Q ..."]) -> Float[np.ndarray, "Q ..."]:
    """Return for each fold the sum over all other folds."""
    # Not the total minus the fold: its rounding error would remain, and a fold with
    # huge numbers would influence its own baseline through it.
    return np.stack(
        [np.delete(parts, q, axis=0).sum(axis=0) for q in range(len(parts))]
    )


def constant_features(responses: Responses) -> Float[np.ndarray, "K 1"]:
    """Return the single feature 1: the baseline is then the mean over other folds."""
    return np.ones((responses.tokens, 1))


def prefix_features(responses: Responses, here: Tables) -> Float[np.ndarray, "K 6"]:
    r"""Return cheap features of the prefix $t_{<k}$.

    1; position k; $\log k$; the entropy $H_k$; the mean entropy so far; the log-prob of
    the previous token. Neither $S_k$ nor anything that depends on T, such as $k/T$: a
    baseline may use the prefix alone.
    """
    k = responses.position.astype(np.float64)
    S_so_far = responses.before(here.S)
    S_previous = np.where(k > 1, np.diff(S_so_far, prepend=0.0), 0.0)
    H_so_far = responses.before(here.H) + here.H
    return np.stack(
        [np.ones_like(k), k, np.log(k), here.H, H_so_far / k, S_previous], axis=1
    )


@dataclass(frozen=True, eq=False)
class RidgeFit:
    r"""Normal equations of entropy and tokens to go, $(G_k, M_k)$, on the features.

    They add up over chunks and shards in any order.
    """

    gram: Float[np.ndarray, "Q F F"]
    r"""$X^\top X$ of each fold."""
    moment: Float[np.ndarray, "Q F 2"]
    r"""$X^\top(G, M)$ of each fold."""

    @classmethod
    def of(
        cls,
        responses: Responses,
        here: Tables,
        features: Float[np.ndarray, "K F"],
        *,
        folds: int = 5,
    ) -> "RidgeFit":
        """Return the normal equations of one chunk of responses, for each fold."""
        y, fold = _targets(responses, here, folds)
        parts = [(features[fold == q], y[fold == q]) for q in range(folds)]
        gram = np.stack([X.T @ X for X, _ in parts])
        return cls(gram, np.stack([X.T @ Y for X, Y in parts]))

    @classmethod
    def merge(cls, parts: Iterable["RidgeFit"]) -> "RidgeFit":
        """Return the normal equations of all parts together."""
        whole = list(parts)
        shapes = {part.gram.shape for part in whole}
        if len(shapes) != 1:
            raise InvalidValue(
                "expected at least one part, all of the same folds and features, got "
                f"normal equations of shapes {sorted(shapes)}; fit every part alike"
            )
        return cls(
            np.sum([part.gram for part in whole], axis=0),
            np.sum([part.moment for part in whole], axis=0),
        )

    def solve(self, *, penalty: float = 1e-3) -> "RidgeBaseline":
        r"""Return the coefficients for each fold, fitted on all *other* folds.

        $\beta_q = (A + \lambda\,\mathrm{diag}A)^{-1}X^\top y$ with $A = X^\top X$ over
        the other folds: the penalty is relative to the scale of each feature, and the
        first feature, the intercept, has none.
        """
        A, y = sum_of_other_folds(self.gram), sum_of_other_folds(self.moment)
        if (A[:, 0, 0] <= 0).any():
            raise InvalidValue(
                f"expected prompts outside each of the {len(A)} folds, got none for "
                f"fold {int(np.argmin(A[:, 0, 0]))}; use more prompts or fewer folds"
            )
        diagonal = np.einsum("qff->qf", A).copy()
        diagonal[:, 0] = 0.0
        damped = A + penalty * diagonal[:, :, None] * np.eye(A.shape[-1])
        solved = [
            np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(damped, y, strict=True)
        ]
        return RidgeBaseline(coefficients=np.stack(solved))


@dataclass(frozen=True, eq=False)
class RidgeBaseline:
    """Coefficients that predict entropy and tokens to go, fitted on the other folds."""

    coefficients: Float[np.ndarray, "Q F 2"]

    def predict(
        self, responses: Responses, features: Float[np.ndarray, "K F"]
    ) -> Baseline:
        """Return entropy and tokens to go of every token, as predicted for its fold."""
        folds, F, _ = self.coefficients.shape
        if features.shape[1] != F:
            raise ShapeMismatch(
                f"expected the {F} features of the fit, got {features.shape[1]}; "
                "predict with the same feature function"
            )
        fold = responses.spread(fold_of(responses.prompt, folds))
        predicted = np.empty((responses.tokens, 2))
        for q, coefficients in enumerate(self.coefficients):
            predicted[fold == q] = features[fold == q] @ coefficients
        return Baseline(b=predicted[:, 0].copy(), c=predicted[:, 1].copy())


@dataclass(frozen=True, eq=False)
class PositionFit:
    r"""Sums of $(G_k, M_k)$, entropy and tokens to go, by batch, fold and position.

    Batches are numbered and averaged in that order, so parts merge in any order.
    Positions are absolute: $k/T$ would depend on the length and bias the estimate.
    """

    batches: Mapping[int, tuple[Float[np.ndarray, "Q L 2"], Float[np.ndarray, "Q L"]]]
    """Batch number to the sums and the number of tokens in them."""

    @classmethod
    def of(
        cls,
        responses: Responses,
        here: Tables,
        *,
        batch: int,
        positions: int,
        folds: int = 5,
    ) -> "PositionFit":
        """Return the sums of one batch; tokens past `positions` share the last bin."""
        y, fold = _targets(responses, here, folds)
        position = _bin(responses, positions)
        sums = np.zeros((folds, positions, 2))
        count = np.zeros((folds, positions))
        np.add.at(sums, (fold, position), y)
        np.add.at(count, (fold, position), 1.0)
        return cls({batch: (sums, count)})

    @classmethod
    def merge(cls, parts: Iterable["PositionFit"]) -> "PositionFit":
        """Return the sums of all parts together; parts of the same batch add up."""
        merged: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        shape: tuple[int, ...] | None = None
        for part in parts:
            for batch, (sums, count) in part.batches.items():
                shape = shape or count.shape
                if count.shape != shape:
                    raise InvalidValue(
                        f"expected parts with {shape[0]} folds and {shape[1]} "
                        f"positions, got {count.shape[0]} and {count.shape[1]}; fit "
                        "every part with the same folds and positions"
                    )
                if batch in merged:
                    sums, count = merged[batch][0] + sums, merged[batch][1] + count
                merged[batch] = (sums, count)
        return cls(merged)

    def solve(self, *, decay: float = 0.95) -> "PositionBaseline":
        r"""Return running means $\mu_k \leftarrow \beta\mu_k + (1-\beta)\bar y_k$.

        $\bar y_k$ is a batch's mean at position k over all folds but one, $\beta$ is
        `decay`. The first batch that reaches a position initialises it. A position
        that no batch reaches predicts 0.
        """
        if not 0 <= decay < 1:
            raise InvalidValue(f"expected 0 <= decay < 1, got {decay}; 0.95 is usual")
        mean: np.ndarray | None = None
        for batch in sorted(self.batches):
            sums, count = self.batches[batch]
            others = sum_of_other_folds(count)
            y = sum_of_other_folds(sums) / np.maximum(others, 1)[..., None]
            reached = (others > 0)[..., None]
            if mean is None:
                mean, started = np.zeros_like(y), np.zeros_like(reached)
            update = np.where(started, decay * mean + (1 - decay) * y, y)
            mean = np.where(reached, update, mean)
            started = started | reached
        if mean is None:
            raise InvalidValue(
                "expected at least one batch to average, got none; merge at least one"
            )
        return PositionBaseline(mean=mean)


@dataclass(frozen=True, eq=False)
class PositionBaseline:
    """Mean entropy and tokens to go at each position, from the other folds."""

    mean: Float[np.ndarray, "Q L 2"]

    def predict(self, responses: Responses) -> Baseline:
        """Return entropy and tokens to go of every token, predicted by its position."""
        folds, positions, _ = self.mean.shape
        fold = responses.spread(fold_of(responses.prompt, folds))
        predicted = self.mean[fold, _bin(responses, positions)]
        return Baseline(b=predicted[:, 0].copy(), c=predicted[:, 1].copy())


def _targets(
    responses: Responses, here: Tables, folds: int
) -> tuple[np.ndarray, np.ndarray]:
    y = np.stack([responses.after(here.H), responses.remaining], axis=1)
    return y, responses.spread(fold_of(responses.prompt, folds))


def _bin(responses: Responses, positions: int) -> np.ndarray:
    return np.asarray(np.minimum(responses.position - 1, positions - 1))
