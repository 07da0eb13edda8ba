"""Ridge regression of what is still to come on features of the prefix, cross-fitted."""

# Axes: K tokens of all responses (layout: Responses), F features, Q folds.

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators.baselines.folds import fold_of, sum_of_other_folds
from entrometer.estimators.responses import Responses
from entrometer.estimators.tables import Baseline, Tables


@dataclass(frozen=True, eq=False)
class RidgeFit:
    r"""Normal equations of $(G_k, M_k)$ on the features, kept apart by fold of prompts.

    They add up over chunks and shards in any order. With `constant_features` the fit
    is the mean over the other folds.
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
        """Normal equations of one chunk."""
        y = np.stack([responses.after(here.H), responses.remaining], axis=1)
        fold = responses.spread(fold_of(responses.prompt, folds))
        parts = [(features[fold == q], y[fold == q]) for q in range(folds)]
        return cls(
            gram=np.stack([X.T @ X for X, _ in parts]),
            moment=np.stack([X.T @ Y for X, Y in parts]),
        )

    @classmethod
    def merge(cls, parts: Iterable["RidgeFit"]) -> "RidgeFit":
        """Normal equations of all parts together."""
        whole = list(parts)
        shapes = {part.gram.shape for part in whole}
        if len(shapes) != 1:
            raise InvalidValue(
                "expected parts with the same folds and features, got normal equations "
                f"of shapes {sorted(shapes)}; fit every part with the same function"
            )
        return cls(
            gram=np.sum([part.gram for part in whole], axis=0),
            moment=np.sum([part.moment for part in whole], axis=0),
        )

    def solve(self, *, penalty: float = 1e-3) -> "RidgeBaseline":
        r"""Coefficients for each fold, fitted on all the *others*.

        $\beta_q = (A + \lambda\,\mathrm{diag}A)^{-1}X^\top y$ with $A = X^\top X$ over
        the other folds: the penalty is relative to each feature's own size, and the
        first feature, the intercept, bears none.
        """
        A = sum_of_other_folds(self.gram)
        y = sum_of_other_folds(self.moment)
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
    """Fitted coefficients; a prompt's own fold never had a say in its own."""

    coefficients: Float[np.ndarray, "Q F 2"]

    def predict(
        self, responses: Responses, features: Float[np.ndarray, "K F"]
    ) -> Baseline:
        """Predictions for every token, with the coefficients of its prompt's fold."""
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
