"""Explicit tangent rules set on a loaded model."""

from entrometer.policy.carrier.carrier import Carrier, carrying
from entrometer.policy.carrier.linear import adapter, adapter_parameters, is_adapted
from entrometer.policy.carrier.merged import merged_adapters

__all__ = [
    "Carrier",
    "adapter",
    "adapter_parameters",
    "carrying",
    "is_adapted",
    "merged_adapters",
]
