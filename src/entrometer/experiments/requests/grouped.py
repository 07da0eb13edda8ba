"""Responses that belong to prompt groups."""

from abc import abstractmethod

import numpy as np

from entrometer.experiments.requests.request import Responses


class GroupedResponses(Responses):
    """Responses whose counts follow from the prompt group of each."""

    @property
    @abstractmethod
    def group(self) -> np.ndarray:
        """Prompt group of each response."""

    @property
    def count(self) -> int:
        """Number of responses."""
        return self.group.size

    @property
    def prompts(self) -> int:
        """Number of prompt groups."""
        return np.unique(self.group).size
