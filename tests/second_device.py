"""A second device for machines that have none: its tensors do not mix with the CPU's.

While `SecondDevice` is open, tensors may be put on `cuda`. Their numbers stay in the
memory of the CPU and its kernels compute with them, so results have the same bits. But
the storage of such a tensor is marked, and an operation that CUDA would refuse because
its inputs are on two devices is refused here with the same words.
"""

from contextlib import ExitStack

import torch
from torch import Tensor
from torch._C import _functorch
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
ANY = torch.device("cuda", 1)
"""Of zeros that autograd makes by itself, on the device that it differentiates on."""

# CUDA kernels copy from the CPU, and take indices from there.
_COPIES = {torch.ops.aten.copy_.default}
_INDEXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._index_put_impl_.default,
}
_ZEROS = {torch.ops.aten._efficientzerotensor.default, torch.ops.aten.zeros.default}
_TO_NUMPY = {Tensor.numpy, Tensor.__array__}


class SecondDevice:
    """Context in which `cuda` is a device of this machine."""

    def __init__(self):
        self.moved = 0
        """Bytes that were copied from the CPU to the device."""
        self.calling = None
        """The function of torch that Python has called."""

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.enter_context(_Kernels(self))
        self._stack.enter_context(_Functions(self))
        return self

    def __exit__(self, *error):
        self._stack.close()

    def functions(self):
        """Return a context that sees what Python asks of a device.

        For code that runs in a backward pass, which leaves that part of this context.
        """
        return _Functions(self)


def where(x):
    """Device of a tensor, as a user would be told."""
    if isinstance(x, DTensor):
        return where(x._local_tensor)
    # Inside jvp and vmap the storage is that of the innermost tensor.
    while _functorch.is_functorch_wrapped_tensor(x):
        x = _functorch.get_unwrapped(x)
    real = _real_device(x)
    if real.type != "cpu":
        return real
    return getattr(x.untyped_storage(), "pretended", CPU)


def _real_device(x):
    with torch._C.DisableTorchFunction():
        return x.device


def placed(x, device):
    """Return a new tensor of the CPU as one of a device."""
    if device.type == DEVICE.type:
        _place(x, DEVICE)
    return x


def _place(x, device):
    if isinstance(x, DTensor):
        x = x._local_tensor
    while _functorch.is_functorch_wrapped_tensor(x):
        x = _functorch.get_unwrapped(x)
    x.untyped_storage().pretended = device


class _Kernels(TorchDispatchMode):
    """Sees every kernel, those of backward passes and inside of jvp as well."""

    def __init__(self, device):
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = [x for x in tree_iter((args, kwargs)) if isinstance(x, Tensor)]
        devices = {where(x) for x in inputs}
        if len(devices) > 1 and func not in _COPIES:
            _require_one_device(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in _ZEROS and self._device.calling is not torch.zeros:
            _place(result, ANY)
        elif devices & {ANY, DEVICE}:
            ours = {x.untyped_storage()._cdata for x in inputs}
            for x in tree_iter(result):
                # What shares memory with an input is where the input is.
                if isinstance(x, Tensor) and x.untyped_storage()._cdata not in ours:
                    _place(x, DEVICE if DEVICE in devices else ANY)
        return result


def _require_one_device(func, args, kwargs):
    found = set()
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        # A kernel takes numbers and indices from the CPU, but writes to its device.
        index = func in _INDEXING and argument.name == "indices"
        for x in tree_iter(value):
            if isinstance(x, Tensor) and where(x) != ANY:
                free = index or (x.ndim == 0 and not written)
                if where(x) == DEVICE or not free:
                    found.add(str(where(x)))
    if len(found) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two "
            f"devices, {' and '.join(sorted(found))}! ({func})"
        )


class _Functions(TorchFunctionMode):
    """Sees the calls that ask for a device, or for the memory behind a tensor."""

    def __init__(self, device):
        self._device = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return where(args[0])
        if func == Tensor.is_cuda.__get__:
            return where(args[0]) == DEVICE
        if func == Tensor.is_cpu.__get__:
            return where(args[0]) == CPU
        if func in _TO_NUMPY and where(args[0]) == DEVICE:
            raise TypeError(
                f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() "
                "to copy the tensor to host memory first."
            )
        if func == Tensor.cpu:
            return self._to(args[0], CPU, None, copy=False)
        if func == Tensor.to:
            return self._parsed(*args, **kwargs)
        if kwargs.get("device") is None:
            return self._call(func, args, kwargs)
        device = torch.device(kwargs["device"])
        if device.type == DEVICE.type:
            kwargs["device"] = CPU
        result = self._call(func, args, kwargs)
        if device.type in ("cpu", DEVICE.type) and isinstance(result, Tensor):
            return self._to(result, device, None, copy=False)
        return result

    def _call(self, func, args, kwargs):
        before, self._device.calling = self._device.calling, func
        try:
            return func(*args, **kwargs)
        finally:
            self._device.calling = before

    def _parsed(self, x, *args, device=None, dtype=None, copy=False, **settings):
        for value in args:
            if isinstance(value, Tensor):
                device, dtype = where(value), value.dtype
            elif isinstance(value, torch.device | str):
                device = torch.device(value)
            elif isinstance(value, torch.dtype):
                dtype = value
        device = where(x) if device is None else torch.device(device)
        if device.type not in ("cpu", DEVICE.type) or _real_device(x).type != "cpu":
            return x.to(device=device, dtype=dtype, copy=copy, **settings)
        return self._to(x, device, dtype, copy=copy)

    def _to(self, x, device, dtype, *, copy):
        before = where(x)
        result = x if dtype is None else x.to(dtype)
        if copy or device.type != before.type:
            result = result.clone() if result is x else result
            if device.type != before.type:
                _place(result, DEVICE if device.type == DEVICE.type else device)
                self._device.moved += x.nbytes if before == CPU else 0
        return result
