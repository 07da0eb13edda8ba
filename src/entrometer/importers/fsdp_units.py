"""Which parameters FSDP1 flattens into one, and in which order it numbers them."""

from collections.abc import Callable, Mapping

from torch import Size, nn


def units(model: nn.Module) -> list[dict[str, Size]]:
    """Names and shapes of the parameters of each flat one, in the optimizer's order.

    verl wraps the layers that a model names as not to be split, the parts of an adapter
    each by itself, and the rest as a whole. A unit comes before those inside of it.

    Args:
        model: As it was wrapped; on the meta device it needs no memory.
    """
    wrapped = _wrapped(model)
    found: dict[str, dict[str, Size]] = {
        name: {}
        for name, module in model.named_modules()
        if not name or wrapped(module)
    }
    for name, p in model.named_parameters():
        home = name.rpartition(".")[0]
        while home not in found:
            home = home.rpartition(".")[0]
        found[home][name] = p.shape
    return [unit for unit in found.values() if unit]


def _wrapped(model: nn.Module) -> Callable[[nn.Module], bool]:
    layers = set(getattr(model, "_no_split_modules", None) or ())
    adapted = any(not p.requires_grad for p in model.parameters())

    def wrapped(module: nn.Module) -> bool:
        if type(module).__name__ in layers:
            return True
        weight = getattr(module, "weight", None)
        leaf = next(module.children(), None) is None
        return adapted and leaf and weight is not None and weight.requires_grad

    return wrapped


def fits(unit: Mapping[str, Size], numel: int, processes: int) -> bool:
    """Whether a flat parameter of so many elements, padded, holds a unit."""
    own = sum(shape.numel() for shape in unit.values())
    return own <= numel < own + processes
