"""Docstrings: modules state sizes, and every example in them and in the table gives what it states."""
import doctest
import inspect

import pytest

import cresset as torch
from cresset import _C, nn
from cresset.optim import lr_scheduler
from cresset.utils import data

CONTAINERS = ("Module", "Container", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
MODULES = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
OTHERS = [(m, n) for m in (torch.optim, lr_scheduler, data) for n in sorted(getattr(m, "__all__", dir(m)))
          if isinstance(getattr(m, n), type) and n[0] != "_" and getattr(m, n).__module__.startswith(m.__name__)]
NO_EXAMPLE = {"ChainDataset", "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe",
              "guaranteed_datapipes_determinism", "non_deterministic"}
FUNCTIONS = [torch.compiler.wrap_numpy, torch.cond, torch.while_loop, *(getattr(torch._higher_order_ops, n) for n in (
    "associative_scan", "foreach_map", "map", "scan"))]


def run(thing):
    """Runs the examples of a docstring and returns how many there are."""
    torch.manual_seed(0)
    names = {"torch": torch, "nn": nn}
    parsed = doctest.DocTestParser().get_doctest(inspect.getdoc(thing).replace("from cresset", f"from {torch.__name__}"), names,
                                                 thing.__name__, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    out = []
    failed = runner.run(parsed, out=out.append)
    assert not failed.failed, "".join(out)
    return len(parsed.examples)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_modules_state_sizes_and_have_an_example(name):
    module = getattr(nn, name)
    assert "Shape:" in module.__doc__ or name in CONTAINERS
    assert run(module) > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module, name", OTHERS)
def test_optimizers_schedulers_and_data_have_an_example(module, name):
    assert run(getattr(module, name)) > 0 or name in NO_EXAMPLE


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_in_python(function):
    assert run(function) > 0


EXAMPLES = [(r["name"], r["example"]) for r in _C._records() if r["example"]]


def test_the_most_used_functions_have_examples():
    assert len(EXAMPLES) >= 250
    for name in ("add", "matmul", "cat", "sum", "softmax", "where", "gather", "reshape", "zeros", "linalg_norm", "fft_fft"):
        assert name in dict(EXAMPLES)


@pytest.mark.parametrize("name, text", EXAMPLES)
def test_examples_of_the_table(name, text):
    expression, _, result = text.partition(" -> ")
    torch.manual_seed(0)
    assert repr(eval(expression, {"torch": torch})) == result


def test_help_shows_schema_sizes_and_example():
    assert torch.add.__doc__ == torch.Tensor.add.__doc__ == (
        "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n    self + alpha * other.\n"
        "    Sizes: those of the tensors, broadcast.\n\n"
        "    >>> torch.add(torch.tensor([1., 4.]), torch.tensor([2., 3.]))\n    tensor([3., 7.])\n")
    assert "without the reduced dims; 1 there with keepdim" in torch.sum.__doc__
