"""Settings of torch._functorch, with torch's names and defaults.

fake_tensor_propagate_real_tensors: fakes made of tensors with elements keep a copy of them, and results of operators have theirs.
torch.export then answers questions about elements by these, and asserts the answers in the program.
"""
import sys

from .._dynamo.config import Patch

fake_tensor_propagate_real_tensors = False


def _owner(name):
    if name.startswith("_") or name not in globals():
        raise AttributeError(f"{__name__}.{name} does not exist")
    return sys.modules[__name__], name


class patch(Patch):
    """patch("name", value), patch({name: value}) or patch(name=value): a context manager and a decorator."""

    _owner = staticmethod(_owner)
