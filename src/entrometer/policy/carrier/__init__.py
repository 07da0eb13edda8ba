"""Explicit tangent rules set on a loaded model."""

from entrometer.policy.carrier.carrier import Carrier, carrying
from entrometer.policy.carrier.linear import adapter, is_adapted

__all__ = ["Carrier", "adapter", "carrying", "is_adapted"]
