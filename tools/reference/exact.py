"""Running transformers in double precision.

`model.double()` alone does not do it: the models cast to fp32 inside norms, softmax and rotary angles, whatever the
dtype of their weights. Here those casts are turned into casts to fp64 while a context is open.
"""

import contextlib
import sys
import unittest.mock

import torch


class TorchInDouble:
    """Stands for the name `torch` inside a modelling file: fp32 reads as fp64, all else passes through."""

    float32 = torch.float64
    float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def exact(model_class: type):
    """Within it, models of this class are built and run in fp64 throughout."""
    modelling = [sys.modules[model_class.__module__], sys.modules["transformers.modeling_rope_utils"]]
    with contextlib.ExitStack() as stack:
        for module in modelling:
            stack.enter_context(unittest.mock.patch.object(module, "torch", TorchInDouble()))
        stack.enter_context(unittest.mock.patch.object(torch.Tensor, "float", torch.Tensor.double))
        yield


def assert_exact(model: torch.nn.Module) -> None:
    """Every parameter and buffer of the model is fp64, rotary frequencies among them."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point():
            assert tensor.dtype == torch.float64, f"{name} is {tensor.dtype}"
