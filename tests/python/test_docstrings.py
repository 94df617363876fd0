"""Docstrings: modules and functions state sizes, and every example in them and in the table gives what it states."""
import ast
import doctest
import inspect
import re

import pytest

import cresset as torch
from cresset import _C, nn
from cresset.optim import lr_scheduler
from cresset.utils import data

CONTAINERS = ("Module", "Container", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
MODULES = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
OTHERS = [(m, n) for m in (torch.optim, lr_scheduler, data) for n in sorted(getattr(m, "__all__", dir(m)))
          if isinstance(getattr(m, n), type) and n[0] != "_" and getattr(m, n).__module__.startswith(m.__name__)]
NO_EXAMPLE = {"DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe",
              "guaranteed_datapipes_determinism", "non_deterministic"}
FUNCTIONS = [torch.compiler.wrap_numpy, torch.cond, torch.while_loop, *(getattr(torch._higher_order_ops, n) for n in (
    "associative_scan", "foreach_map", "map", "scan")), *(getattr(nn.init, n) for n in (
        "uniform_", "normal_", "constant_", "ones_", "zeros_", "trunc_normal_", "dirac_", "xavier_uniform_",
        "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "_calculate_fan_in_and_fan_out")),
    torch.autograd.grad, nn.Parameter, nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_, nn.utils.rnn.pad_sequence,
    torch.utils._pytree.tree_unflatten, torch.compiler.is_compiling]


def run(thing):
    """Runs the examples of a docstring and returns how many there are."""
    torch.manual_seed(0)
    names = {"torch": torch, "nn": nn, "F": nn.functional}
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


def listed(text):
    return text.split()


LAYERS = sorted(n for n in dir(nn.functional) if n[0] != "_" and inspect.isroutine(getattr(nn.functional, n))
                and getattr(nn.functional, n).__module__.startswith(torch.__name__))
NOT_LAYERS = listed("bind boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary "
                    "has_torch_function_variadic")
# The functions and methods that the libraries of tests/libraries call most.
USED = {torch: listed("""
    cat arange tensor zeros no_grad stack matmul where ones zeros_like empty exp randn full split abs rand sum sqrt clamp
    device linspace finfo sigmoid log max from_numpy einsum as_tensor sin cos ones_like repeat_interleave tanh randint
    is_tensor min topk is_grad_enabled any argmax equal mul meshgrid concat gather eye mean pow div chunk cumsum full_like
    bmm empty_like add load inference_mode norm all manual_seed maximum compile view_as_real softmax mm get_default_dtype
    reshape is_floating_point round argsort unique broadcast_shapes save randperm transpose isnan tril logsumexp flatten
    minimum cumprod nonzero randn_like flip outer sort index_select allclose sign log1p floor multinomial diag unsqueeze
    enable_grad histc roll is_autocast_enabled isfinite is_complex nan_to_num clip unbind quantile concatenate triu
    autocast clone rand_like view_as_complex cartesian_prod tile hann_window bucketize normal isin diag_embed broadcast_to
    polar searchsorted use_deterministic_algorithms prod permute stft diagonal isclose take_along_dim randint_like cdist
    get_device_module bernoulli set_default_dtype var square get_default_device unique_consecutive baddbmm std squeeze
    movedim get_rng_state logdet numel set_rng_state bincount set_grad_enabled are_deterministic_algorithms_enabled
    sparse_coo_tensor block_diag cummax cosine_similarity tensor_split swapaxes kaiser_window hstack broadcast_tensors
    get_autocast_dtype scalar_tensor std_mean inverse"""), torch.Tensor: listed("""
    to view unsqueeze reshape transpose size permute float expand contiguous flatten repeat squeeze sum max min matmul
    clamp norm mean normal_ softmax item repeat_interleave clone copy_ chunk dim tolist numel detach resize cpu pow exp
    gather long numpy bool abs all any log cumsum unflatten type_as new_zeros prod topk unbind uniform_ nonzero
    masked_scatter type add_ equal mul_ requires_grad_ flip to_dense t clip int is_floating_point backward mode expand_as
    trace masked_fill index_select bmm std new_ones masked_fill_ clamp_ tile ndimension logsumexp scatter_ argsort mm
    unique unfold div_ index_add_ diagonal allclose tril new_empty scatter_add_ outer sub_ fill_ zero_ broadcast_to roll
    var isclose diag movedim cuda new_full square put data_ptr cumprod double unsqueeze_ cholesky as_subclass new
    multinomial log_softmax triu is_complex nan_to_num narrow histc reshape_as register_hook diff svd index_copy_
    addcmul_ quantile masked_select diag_embed scatter inverse element_size dequantize neg_ new_tensor addcdiv_ lerp_
    select stride detach_ half masked_scatter_ is_contiguous view_as median sqrt_ logdet split_with_sizes stft byte
    squeeze_ split""")}
NO_RESULT_HERE = {"cuda"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in LAYERS if n not in NOT_LAYERS])
def test_functions_of_networks_state_sizes_and_have_an_example(name):
    function = getattr(nn.functional, name)
    assert re.search("Shape: |Sizes: |Dtypes: ", function.__doc__) or name == "assert_int_or_pair"
    assert (function.__doc__.count(">>>") if "    Sizes: " in function.__doc__ else run(function)) > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", USED, ids=lambda of: of.__name__)
def test_most_used_names_have_an_example(of):
    for name in USED[of]:
        thing = getattr(of, name)
        assert (run(thing) or name in NO_RESULT_HERE), name


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


def test_entries_with_an_example_state_sizes():
    for r in _C._records():
        assert not r["example"] or r["sizes"] or r["does"] in ("body", "fold"), r["name"]


PATTERN = re.compile(r"((?:\([^()]*\)(?:, )?)*) ?-> ((?:\([^()]*\)(?:, )?)+)")
ITEM = re.compile(r"[*@]|[a-zA-Z]|\d+")


def bind(pattern, sizes, env):
    """Returns whether sizes are those of a pattern, "*, n, m"; `env` has the sizes of its letters."""
    parts = [part for part in pattern.split(", ") if part]
    for k, part in enumerate(parts):
        if part in "*@":
            rest = max(len(sizes) - len(parts) + 1, 0)
            sizes = [*sizes[:k], tuple(sizes[k:k + rest]), *sizes[k + rest:]]
    return len(parts) == len(sizes) and all(
        int(part) == n if part.isdigit() else env.setdefault(part, n) == n for part, n in zip(parts, sizes))


def recorded_sizes(expression, name):
    """Returns the sizes of the tensors that the call of an operator in an example takes and gives."""
    call = next(node for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute) and name.endswith(node.func.attr))
    of = call.func.value
    nodes = [*([of] if any(isinstance(node, ast.Call) for node in ast.walk(of)) else []), *call.args]
    values = [eval(ast.unparse(node), {"torch": torch}) for node in [*nodes, call]]
    made = values.pop()
    return [[list(x.shape) for x in xs if isinstance(x, torch.Tensor)]
            for xs in (values, made if isinstance(made, tuple) else [made])]


def test_sizes_that_are_patterns_are_those_of_the_example():
    compared = 0
    for r in _C._records():
        found = PATTERN.fullmatch(r["sizes"])
        sides = [re.findall(r"\(([^()]*)\)", side) for side in found.groups()] if found else []
        if r["example"] and all(ITEM.fullmatch(item) for side in sides for x in side for item in x.split(", ") if item):
            given = recorded_sizes(r["example"].partition(" -> ")[0], r["name"]) if sides else []
            env = {}
            for patterns, sizes in zip(sides, given):
                for pattern, size in zip(patterns, sizes):
                    assert bind(pattern, size, env), (r["name"], pattern, size, env)
                    compared += 1
    assert compared > 150


CLASSES = {"bool": ["bool"], "integer": ["uint8", "int8", "int16", "int32", "int64"],
           "floating": ["float16", "bfloat16", "float32", "float64"], "complex": ["complex64", "complex128"],
           "unsigned": ["uint16", "uint32", "uint64"], "float8": ["float8_e4m3fn", "float8_e5m2"]}
DOCUMENTED = (torch, torch.Tensor, nn.functional, torch.linalg, torch.fft, torch.special)


class Converted(ast.NodeTransformer):
    """Puts convert() around the tensors that an example makes."""

    def visit_Call(self, node):
        self.generic_visit(node)
        made = ast.unparse(node.func) in ("torch.tensor", "torch.ones", "torch.zeros", "torch.eye", "torch.arange")
        return ast.Call(ast.Name("convert", ast.Load()), [node], []) if made else node


def stated_dtypes(r):
    """Returns the dtypes that help() of an entry states."""
    name = r["name"].rpartition("linalg_")[2].rpartition("fft_")[2].rpartition("special_")[2]
    doc = next((inspect.getdoc(getattr(of, name)) for of in DOCUMENTED if hasattr(of, name)), "")
    found = re.search(r"Dtypes: ([^;.]*)(; others)?", doc)
    words = found[1].split(", ") + (["bool", "integer"] if found[2] else []) if found else []
    return [dtype for word in words for dtype in CLASSES.get(word, [word])]


def test_examples_take_the_dtypes_that_help_states():
    calls = 0
    for r in _C._records():
        tree = ast.parse(r["example"].partition(" -> ")[0] or "0", mode="eval")
        code = compile(ast.fix_missing_locations(Converted().visit(tree)), r["name"], "eval")
        for dtype in stated_dtypes(r) if "convert" in code.co_names else ():
            eval(code, {"torch": torch, "convert": lambda x: x.to(getattr(torch, dtype)) if x.dtype == torch.float32 else x})
            calls += 1
    assert calls > 1000


def test_help_shows_schema_sizes_dtypes_and_example():
    assert torch.add.__doc__ == torch.Tensor.add.__doc__ == (
        "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\n    self + alpha * other.\n"
        "    Sizes: those of the tensors, broadcast.\n    Dtypes: bool, integer, floating, complex, complex32.\n\n"
        "    >>> torch.add(torch.tensor([1., 4.]), torch.tensor([2., 3.]))\n    tensor([3., 7.])\n")
    assert "without the reduced dims; 1 there with keepdim" in torch.sum.__doc__
    assert "(n, k), (k, m) -> (n, m)" in torch.mm.__doc__
