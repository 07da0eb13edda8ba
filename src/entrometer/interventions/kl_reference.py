"""KL penalty to a reference model, in its three usual estimators."""

from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.interventions.plain import TRL_DR_GRPO, dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "kl-reference",
    strength="beta",
    strengths=(0.001, 0.01, 0.04),
    needs=("S_ref",),
    trl=TRL_DR_GRPO + ", beta={beta}, use_bias_correction_kl=False",
    differs="TRL has only form 3",
    source="arXiv 2402.03300",
)
def kl_reference(
    tables: TokenTables,
    *,
    beta: float = 0.04,
    form: int = 3,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO} + \beta k$ with $d = S - S_\text{ref}$.

    $k$ is $d$ in `form` 1, $\frac12d^2$ in 2 and $e^{-d} + d - 1$ in 3. All have the
    KL divergence, or nearly, as their mean; their gradients differ: $\beta$ for any $d$
    in form 1, whose mean is 0, $\beta d$ in 2, which is the gradient of the divergence,
    and $\beta(1 - e^{-d})$ in 3.
    """
    S_ref: Tensor = tables.need("S_ref", "kl-reference")
    d = (tables.S - S_ref).where(tables.mask, 0.0)
    if form not in (1, 2, 3):
        raise InvalidValue(
            f"expected a form of 1, 2 or 3 for 'kl-reference', got {form}; take 3, "
            "GRPO's and TRL's"
        )
    k = {1: d, 2: 0.5 * d.square(), 3: (-d).exp() + d - 1.0}[form]
    return dr_grpo(tables, low=low, high=high) + beta * k
