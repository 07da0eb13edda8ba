"""BAPO: the clip widens or narrows until both signs of the advantage balance."""

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "bapo",
    on_policy=False,
    strength="share",
    strengths=(0.4, 0.5, 0.6),
    source="arXiv 2510.18927",
    shares=("share", "lower_start", "lower_end"),
    positive=("lower_step", "upper_step"),
)
def bapo(
    tables: TokenTables,
    *,
    share: float = 0.5,
    lower_start: float = 0.6,
    lower_end: float = 0.9,
    lower_step: float = 0.05,
    upper_start: float = 1.2,
    upper_end: float = 3.0,
    upper_step: float = 0.05,
) -> PerToken:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r, c_{low}, c_{high})A)$, bounds by the batch.

    Both bounds begin at their start. While the positive share
    $P/(P + N)$ is less than `share`, $c_{low}$ rises by its step up to its end, then
    $c_{high}$ does. $P = \sum_{A\ge0}\min(r, c_{high})A$ and
    $N = \sum_{A<0}\max(r, c_{low})|A|$ over the counted tokens.

    The ranges are the paper's; the steps, and that the lower bound moves first, are
    those of the authors' code. A clipped token counts in $P$ and $N$ at the bound.
    Where every ratio is 1 the gradient is plain Dr-GRPO's.
    """
    r, A = tables.ratio.detach(), tables.A.where(tables.mask, 0.0)

    def balanced(lower: float, upper: float) -> bool:
        gains = float((r.clamp(max=upper) * A.clamp(min=0.0)).sum())
        losses = float((r.clamp(min=lower) * -A.clamp(max=0.0)).sum())
        return gains >= share * (gains + losses)

    lower, upper = lower_start, upper_start
    while lower < lower_end and not balanced(lower, upper):
        lower = min(lower + lower_step, lower_end)
    while upper < upper_end and not balanced(lower, upper):
        upper = min(upper + upper_step, upper_end)
    return clipped_surrogate(
        tables.ratio, tables.A, clip_low=1.0 - lower, clip_high=upper - 1.0
    )
