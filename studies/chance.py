"""How many of several differences leave 0 out, and how many would by chance."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

LEVEL = 0.05

HEADS = (
    *("differences", "95% interval leaves 0 out", "expected by chance"),
    "kept by Benjamini–Hochberg at 5%",
)


class Difference(NamedTuple):
    """An estimate, its standard error, and the upper end of its 95% interval."""

    value: float
    se: float
    high: float

    @property
    def p_value(self) -> float:
        """Two-sided, of the t test whose interval this is."""
        reach = (self.high - self.value) / self.se
        # Tables keep the interval and not its degrees of freedom.
        freedom = brentq(lambda x: stats.t.ppf(1 - LEVEL / 2, x) - reach, 1, 1e6)
        return float(2 * stats.t.sf(abs(self.value) / self.se, freedom))


def chance(some: Iterable[Difference]) -> list[str]:
    """Cells below `HEADS`."""
    p = np.array([difference.p_value for difference in some])
    kept = stats.false_discovery_control(p) <= LEVEL
    cells = (p.size, (p < LEVEL).sum(), f"{LEVEL * p.size:.1f}", kept.sum())
    return [str(cell) for cell in cells]
