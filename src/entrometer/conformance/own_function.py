"""A user's own loss function, called with the tables that its parameters name."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from entrometer.conformance.scenarios import Scenario
from entrometer.errors import InvalidValue, nearest_name
from entrometer.interventions import TokenTables
from entrometer.runs.user_function import user_function
from entrometer.tokens import LossCoefficients, dr_grpo_mean, loss_coefficients

TABLES = ("S", "H", "S_old", "A", "mask", "group", "S_engine", "S_ref")
"""Tables that a loss may have as parameters, besides `length_limit` and `tables`."""

Loss = Callable[..., Tensor]
"""Returns the loss of the batch, or the loss of each token (B, T)."""


def loss_function(text: str) -> Loss:
    """Return the loss that `module:function` or `file.py:function` names."""
    function: Loss = user_function(
        text,
        what="loss",
        example="--against losses.py:mine for `def mine(S, S_old, A)`",
    )
    _arguments(function)
    return function


def _arguments(function: Loss) -> list[str]:
    """Return the parameters that tables are passed for; raise if one has no table."""
    known = (*TABLES, "length_limit", "tables")
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in known:
            names.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            raise InvalidValue(
                f"expected parameters of {function.__name__} of {list(known)}, got "
                f"{parameter.name!r}; rename it, or give it a default."
                f"{nearest_name(parameter.name, known)}"
            )
    return names


def coefficients(function: Loss, scenario: Scenario) -> LossCoefficients:
    r"""Return the $\alpha$ and $\gamma$ of a user's loss.

    A loss per token gets the mean of Dr-GRPO. In a scenario of micro-batches a loss of
    the batch is called once for each and their mean is taken, by responses.
    """
    names = _arguments(function)

    def total(S: Tensor, H: Tensor) -> Tensor:
        tables = replace(scenario.tables, S=S, H=H)
        size = scenario.micro_batch or tables.count
        found = S.new_zeros(())
        for first in range(0, tables.count, size):
            part = tables.rows(slice(first, first + size))
            found = found + _loss(function, names, part) * (part.count / tables.count)
        return found

    return loss_coefficients(total, scenario.tables.S, scenario.tables.H)


def _loss(function: Loss, names: list[str], tables: TokenTables) -> Tensor:
    values: dict[str, Any] = {
        n: tables if n == "tables" else getattr(tables, n) for n in names
    }
    try:
        found: Any = function(**values)
    # A user's function may raise anything.
    except Exception as error:
        raise InvalidValue(
            f"expected a loss from {function.__name__}, got {type(error).__name__}: "
            f"{error}; it is called with {', '.join(names)}"
        ) from error
    if isinstance(found, Tensor) and found.shape == tables.S.shape:
        return dr_grpo_mean(found, tables.mask, length_limit=tables.length_limit)
    if isinstance(found, Tensor) and not found.shape and found.requires_grad:
        return found
    got = (
        f"shape {tuple(found.shape)}" + ("" if found.requires_grad else ", no gradient")
        if isinstance(found, Tensor)
        else type(found).__name__
    )
    raise InvalidValue(
        f"expected from {function.__name__} a loss with a gradient, of shape () or "
        f"{tuple(tables.S.shape)}, got {got}; return a tensor computed from S"
    )
