"""How the loss of a training differs from plain Dr-GRPO."""

# Axes: K tokens of all responses.

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

if TYPE_CHECKING:
    from entrometer.experiments.update_batch import Batch


@dataclass(frozen=True, eq=False)
class TrainedLoss:
    r"""How the loss of a training differs from plain Dr-GRPO, token by token.

    Its weights are $\alpha = s\,\alpha_\text{plain} + \alpha_0$ and $\gamma_0$. The
    scale $s$ has its normaliser, its scaling of advantages and its masks; $\alpha_0$ is
    the weight of tokens that plain does not weigh, such as a penalty on the distance
    from a reference policy at an advantage of 0.
    """

    scale: Float[np.ndarray, " K"]
    alpha: Float[np.ndarray, " K"]
    gamma: Float[np.ndarray, " K"]
    clipped: Bool[np.ndarray, " K"]
    """Tokens that plain clips, and this loss does not."""

    @classmethod
    def of(cls, alpha: np.ndarray, gamma: np.ndarray, plain: "Batch") -> "TrainedLoss":
        """Return the difference of a loss with these weights from `plain`."""
        weighed = plain.alpha != 0
        # 0 where the loss masks a token that plain weighs: remedies leave it masked.
        scale = np.divide(alpha, plain.alpha, out=np.zeros_like(alpha), where=weighed)
        # Plain has no weight there: a remedy that gives one has the usual scale.
        if (both := weighed & (alpha != 0)).any():
            scale[~weighed] = np.median(scale[both])
        clipped = ~weighed & (alpha != 0) & (plain.advantage != 0)
        return cls(scale, np.where(weighed, 0.0, alpha), gamma, clipped)

    def treated(
        self, alpha: np.ndarray, gamma: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights under an intervention, given those it has over plain."""
        # A clipped token that the intervention weighs is not to be counted twice.
        kept = np.where(self.clipped & (alpha != 0), 0.0, self.alpha)
        return self.scale * alpha + kept, self.gamma + gamma

    def rows(self, at: np.ndarray | slice, larger: float = 1.0) -> "TrainedLoss":
        """Return the tokens at these places, of a batch that is smaller by `larger`."""
        alpha, gamma = larger * self.alpha[at], larger * self.gamma[at]
        return TrainedLoss(self.scale[at], alpha, gamma, self.clipped[at])
