"""Functions of nn.functional called from scripts, each with each of its options, beside the same call in Python.

A script reads its own form of these functions (jit/_forms.py); an option that a form leaves out would be ignored.
"""
import importlib.util
import inspect
import warnings

import cresset as torch
import cresset.nn.functional as F
import pytest
from cresset import functional
from cresset.functional import broadcast_tensors, chain_matmul

torch.manual_seed(0)
M, M2, ROWS = torch.randn(3, 4), torch.rand(3, 4), torch.tensor([0, 2, 1])
L, I, V = torch.randn(2, 3, 8), torch.randn(2, 4, 8, 8), torch.randn(2, 2, 4, 4, 4)
TABLE, BAGS = torch.randn(5, 4), torch.tensor([[1, 2], [0, 3]])
SIGNS, GRID, PLANES = M.sign(), torch.rand(2, 3, 3, 2) * 2 - 1, torch.randn(2, 8, 9)

# The arguments of a call, and the tensors for its names.
CALLS = {
    "embedding": ("i, w", (ROWS, TABLE,)),
    "embedding_bag": ("i, w", (BAGS, TABLE.clone(),)),
    "mse_loss": ("a, b", (M, M2,)),
    "l1_loss": ("a, b", (M, M2,)),
    "smooth_l1_loss": ("a, b", (M, M2,)),
    "huber_loss": ("a, b", (M, M2,)),
    "kl_div": ("a, b", (M.log_softmax(1), M2,)),
    "cross_entropy": ("a, i", (M, ROWS,)),
    "nll_loss": ("a, i", (M.log_softmax(1), ROWS,)),
    "binary_cross_entropy": ("a, b", (M2, M2,)),
    "binary_cross_entropy_with_logits": ("a, b", (M, M2,)),
    "poisson_nll_loss": ("a, b", (M, M2,)),
    "gaussian_nll_loss": ("a, b, c", (M, M2, M2 + 1,)),
    "hinge_embedding_loss": ("a, b", (M, SIGNS,)),
    "multilabel_margin_loss": ("a, b", (M, torch.tensor([[0, 1, -1, 2]] * 3),)),
    "soft_margin_loss": ("a, b", (M, SIGNS,)),
    "multilabel_soft_margin_loss": ("a, b", (M, (M2 > .5).float(),)),
    "cosine_embedding_loss": ("a, b, c", (M, M2, torch.ones(3),)),
    "margin_ranking_loss": ("a, b, c", (M, M2, SIGNS,)),
    "multi_margin_loss": ("a, b", (M, ROWS,)),
    "triplet_margin_loss": ("a, b, c", (M, M2, M2 + 1,)),
    "triplet_margin_with_distance_loss": ("a, b, c", (M, M2, M2 + 1,)),
    "ctc_loss": ("a, b, c, d", (torch.randn(6, 2, 5).log_softmax(2), torch.tensor([[1, 2], [3, 4]]), torch.tensor([6, 6]), torch.tensor([2, 2]),)),
    "normalize": ("a", (M,)),
    "softmax": ("a", (M,)),
    "log_softmax": ("a", (M,)),
    "softmin": ("a", (M,)),
    "gelu": ("a", (M,)),
    "relu": ("a", (M,)),
    "relu6": ("a", (M,)),
    "elu": ("a", (M,)),
    "selu": ("a", (M,)),
    "celu": ("a", (M,)),
    "leaky_relu": ("a", (M,)),
    "hardtanh": ("a", (M,)),
    "hardswish": ("a", (M,)),
    "hardsigmoid": ("a", (M,)),
    "silu": ("a", (M,)),
    "mish": ("a", (M,)),
    "softplus": ("a", (M,)),
    "softshrink": ("a", (M,)),
    "hardshrink": ("a", (M,)),
    "tanhshrink": ("a", (M,)),
    "threshold": ("a, 0.1, 2.0", (M,)),
    "glu": ("a", (M,)),
    "logsigmoid": ("a", (M,)),
    "softsign": ("a", (M,)),
    "tanh": ("a", (M,)),
    "sigmoid": ("a", (M,)),
    "prelu": ("a, b", (M, torch.ones(1),)),
    "dropout": ("a, 0.5, False", (M,)),
    "alpha_dropout": ("a, 0.5", (M,)),
    "dropout2d": ("a, 0.5, False", (I,)),
    "feature_alpha_dropout": ("a, 0.5", (I,)),
    "max_pool1d": ("a, 2", (L,)),
    "max_pool2d": ("a, 2", (I,)),
    "max_pool3d": ("a, 2", (V,)),
    "avg_pool1d": ("a, 2", (L,)),
    "avg_pool2d": ("a, 2", (I,)),
    "avg_pool3d": ("a, 2", (V,)),
    "lp_pool1d": ("a, 2.0, 2", (L,)),
    "lp_pool2d": ("a, 2.0, 2", (I,)),
    "adaptive_max_pool1d": ("a, 2", (L,)),
    "adaptive_max_pool2d": ("a, 2", (I,)),
    "adaptive_max_pool3d": ("a, 2", (V,)),
    "adaptive_avg_pool1d": ("a, 2", (L,)),
    "adaptive_avg_pool2d": ("a, [2, 2]", (I,)),
    "adaptive_avg_pool3d": ("a, [2, 2, 2]", (V,)),
    "conv1d": ("a, b", (L, torch.randn(3, 3, 2),)),
    "conv2d": ("a, b", (I, torch.randn(4, 4, 2, 2),)),
    "conv_transpose2d": ("a, b", (I, torch.randn(4, 4, 2, 2),)),
    "linear": ("a, b", (M, TABLE,)),
    "bilinear": ("a, b, c", (M, M2, torch.randn(2, 4, 4),)),
    "layer_norm": ("a, [4]", (M,)),
    "group_norm": ("a, 2", (I,)),
    "instance_norm": ("a", (I,)),
    "batch_norm": ("a, b, c", (I, torch.zeros(4), torch.ones(4),)),
    "local_response_norm": ("a, 2", (I,)),
    "rms_norm": ("a, [4]", (M,)),
    "pad": ("a, [1, 1]", (L,)),
    "interpolate": ("a, scale_factor=2.0", (I,)),
    "upsample": ("a, scale_factor=2", (I,)),
    "grid_sample": ("a, b", (I, GRID,)),
    "affine_grid": ("a, [2, 1, 3, 3]", (torch.randn(2, 2, 3),)),
    "pixel_shuffle": ("a, 2", (I,)),
    "pixel_unshuffle": ("a, 2", (I,)),
    "channel_shuffle": ("a, 2", (I,)),
    "fold": ("a, [4, 4], [2, 2]", (PLANES,)),
    "unfold": ("a, 2", (I,)),
    "cosine_similarity": ("a, b", (M, M2,)),
    "pairwise_distance": ("a, b", (M, M2,)),
    "pdist": ("a", (M,)),
    "one_hot": ("i", (ROWS,)),
    "scaled_dot_product_attention": ("a, a, a", (I,)),
    "gumbel_softmax": ("a", (M,)),
    "rrelu": ("a", (M,)),
    "fractional_max_pool2d": ("a, 2, 2", (I,)),
    "fractional_max_pool3d": ("a, 2, 2", (V,)),
}
OPTIONS = {
    "reduction": ["'none'", "'sum'", "'mean'", "'batchmean'", "'bad'"],
    "size_average": ['True', 'False'],
    "reduce": ['True', 'False'],
    "max_norm": ['0.5'],
    "norm_type": ['1.0'],
    "scale_grad_by_freq": ['True'],
    "sparse": ['True'],
    "padding_idx": ['1', '-1', '9'],
    "mode": ["'sum'", "'mean'", "'max'", "'bilinear'", "'nearest'", "'bicubic'", "'area'", "'nearest-exact'", "'reflect'", "'replicate'", "'circular'", "'constant'", "'bad'"],
    "ceil_mode": ['True'],
    "stride": ['1', '[1,1]'],
    "padding": ['1', "'same'", "'valid'"],
    "dilation": ['2'],
    "dim": ['0', '-1', '7'],
    "p": ['1.0', '3.0'],
    "eps": ['0.1'],
    "dtype": ['torch.double'],
    "inplace": ['True'],
    "alpha": ['0.5'],
    "beta": ['2.0', '0.0'],
    "threshold": ['1.0'],
    "lambd": ['0.2'],
    "negative_slope": ['0.3'],
    "min_val": ['-0.5'],
    "max_val": ['0.5'],
    "label_smoothing": ['0.1'],
    "ignore_index": ['1'],
    "log_target": ['True'],
    "delta": ['0.5'],
    "margin": ['0.5'],
    "swap": ['True'],
    "log_input": ['False'],
    "full": ['True'],
    "approximate": ["'tanh'", "'bad'"],
    "count_include_pad": ['False'],
    "divisor_override": ['3'],
    "align_corners": ['True', 'False'],
    "padding_mode": ["'border'", "'reflection'"],
    "antialias": ['True'],
    "groups": ['1'],
    "keepdim": ['True'],
    "num_classes": ['5', '2'],
    "is_causal": ['True'],
    "scale": ['0.5'],
    "enable_gqa": ['True'],
    "zero_infinity": ['True'],
    "blank": ['1'],
    "use_input_stats": ['False'],
    "momentum": ['0.5'],
    "training": ['True'],
    "value": ['2.0'],
    "hard": ['True'],
    "tau": ['2.0'],
    "include_last_offset": ['True'],
    "dim_size": ['2'],
    "k": ['1.0'],
    "out": ['None'],
    "recompute_scale_factor": ['True'],
    "output_padding": ['0'],
    "kernel_size": ['2'],
    "dropout_p": ['0.0'],
    "lower": ['0.1'],
    "upper": ['0.3'],
    "return_indices": ['True', 'False'],
}

# torch refuses to compile these, too: a comprehension with `if`, an argument that is a function, a
# deprecated function, a float for an int.
REFUSED = {"gaussian_nll_loss", "triplet_margin_with_distance_loss", "upsample", ("multi_margin_loss", ", p=1.0")}


def options(fn):
    """Texts of further arguments: none, each option alone, and torch's two old arguments together."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:  # a function in C
        return [""]
    found = [""] + [f", {p.name}={value}" for p in parameters if p.default is not p.empty for value in OPTIONS.get(p.name, ())]
    if "size_average" in [p.name for p in parameters]:
        found += [f", size_average={a}, reduce={b}" for a in (True, False) for b in (True, False)]
        found.append(", size_average=False, reduction='none'")
    return found


def result(f, args):
    """What a call returns and its arguments after it; (True, None) if it raises."""
    args = [x.clone() for x in args]
    torch.manual_seed(1)
    try:
        return f(*args), args
    except Exception:
        return True, None


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b


@pytest.mark.parametrize("name", CALLS)
def test_options_act_in_scripts(name, tmp_path):
    call, args = CALLS[name]
    names = [n for n in dict.fromkeys(call.split(", ")) if n.isalpha() and len(n) == 1]
    further = options(getattr(F, name))
    source = "import cresset.nn.functional as F\n" + "".join(
        f"def f{k}({', '.join(names)}):\n    return F.{name}({call}{more})\n" for k, more in enumerate(further))
    path = tmp_path / f"calls_of_{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, more in enumerate(further):
            f = getattr(module, f"f{k}")
            eager = result(f, args)
            try:
                script = torch.jit.script(f)
            except Exception:
                assert eager[1] is None or {name, (name, more)} & REFUSED, f"{name}({call}{more}) runs, its script is refused"
                continue
            assert same(eager, result(script, args)), f"{name}({call}{more})"


def twice(x, both: bool = False):
    return x * 2


def twice_with_input(x, both: bool = False):
    return x * 2, x


chosen = torch._jit_internal.boolean_dispatch("both", 1, False, twice_with_input, twice, __name__, "chosen")


def test_a_constant_argument_chooses_the_function():
    def indices(x):
        return F.max_pool2d(x, 2, return_indices=True)

    def values(x):
        return F.max_pool2d(x, 2, None, 0, 1, False, False)

    def own(x):
        return chosen(x), chosen(x, True), chosen(x, both=True)
    # the text that torch 2.13 gives
    assert torch.jit.script(indices).code == (
        "def indices(x: Tensor) -> Tuple[Tensor, Tensor]:\n  _0 = __torch__.torch.nn.functional.max_pool2d_with_indices\n"
        "  _1 = _0(x, [2, 2], None, [0, 0], [1, 1], False, True, )\n  return _1\n")
    assert "_0 = __torch__.torch.nn.functional._max_pool2d\n" in torch.jit.script(values).code
    assert same(own(M), torch.jit.script(own)(M))


def test_an_argument_that_chooses_must_be_constant():
    def named(x, flag: bool):
        return F.max_pool2d(x, 2, return_indices=flag)

    def placed(x, flag: bool):
        return F.adaptive_max_pool1d(x, 2, flag)

    def number(x):
        return F.max_pool1d(x, 2, return_indices=1)
    with pytest.raises(RuntimeError, match="Keyword argument 'return_indices' for boolean dispatch at position was not constant:"):
        torch.jit.script(named)
    with pytest.raises(RuntimeError, match="Argument for boolean dispatch at position 2 was not constant:"):
        torch.jit.script(placed)
    with pytest.raises(RuntimeError, match="Expected a value of type 'bool' for argument 'return_indices'"):
        torch.jit.script(number)


FEW = torch.tensor([[1.0, 2.0, 1.0], [3.0, 3.0, 1.0], [1.0, 2.0, 1.0]])
DISTINCT = [f"torch.{name}(x{dim}{inverse}{counts})" for name in ("unique", "unique_consecutive")
            for dim in ("", ", dim=0") for inverse in ("", ", return_inverse=True") for counts in ("", ", return_counts=True")]


@pytest.mark.parametrize("call", [
    *DISTINCT, "torch.unique(x, True, True)", "torch.unique(x, True, False, True)", "torch.unique_consecutive(x, True, True, 1)",
    "torch.unique_consecutive(x, True)", "torch.lu(x)", "torch.lu(x, get_infos=True)", "torch.lu(x, True, True)",
    "torch.lu(x, out=(torch.empty(0), torch.empty(0, dtype=torch.int)))"])
def test_constants_choose_the_number_of_results(call, tmp_path):
    path = tmp_path / "one_call.py"
    path.write_text(f"import cresset as torch\n\n\ndef f(x):\n    return {call}\n")
    spec = importlib.util.spec_from_file_location("one_call", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = FEW + torch.eye(3) if ".lu(" in call else FEW
    assert same(module.f(x), torch.jit.script(module.f)(x))


INDICES = ["(Ellipsis, slice(None, 1, None))", "Ellipsis, slice(1, None, None)", "(slice(None, None, None), 0)", "(0,)", "0,",
           "(0, None, slice(0, 2))", "(i, 1)", "(i,)", "(..., i - 1)", "slice(2)", "()", "(slice(None), i)"]


@pytest.mark.parametrize("index", INDICES)
def test_an_index_in_parentheses_and_slices_by_name(index, tmp_path):
    """What FX writes into its modules."""
    path = tmp_path / "one_index.py"
    path.write_text("import cresset as torch\n\n\ndef read(x, i):\n    return x[%s]\n\n\ndef write(x, i):\n"
                    "    y = x.clone()\n    y[%s] = 7.\n    return y\n" % (index, index))
    spec = importlib.util.spec_from_file_location("one_index", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, i = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 1])
    if "..." in index:
        with pytest.raises(RuntimeError, match="Ellipses followed by tensor indexing is currently not supported"):
            torch.jit.script(module.read)
        return
    assert same(module.read(x, i), torch.jit.script(module.read)(x, i))
    assert same(module.write(x, i), torch.jit.script(module.write)(x, i))


@pytest.mark.parametrize("call, code", [
    ("functional.split(x, 2)", "torch.split(x, 2)"),
    ("functional.einsum('ij->', x)", 'torch.einsum("ij->", [x])'),
    ("functional.block_diag(x, y)", "torch.block_diag([x, y])"),
    ("functional.meshgrid(x, y, indexing='ij')", 'torch.meshgrid([x, y], indexing="ij")'),
    ("functional.atleast_2d(x)", "torch.atleast_2d(x)"),
    ("functional.istft(x, n_fft=10)", "torch.istft(x, 10)"),
    ("broadcast_tensors(x, y)", "torch.broadcast_tensors([x, y])"),
    ("chain_matmul(x, y)", "torch.chain_matmul([x, y])"),
])
def test_functions_of_the_package_are_operators_under_any_name(call, code):
    """Code as torch prints it."""
    assert (broadcast_tensors, chain_matmul) == (functional.broadcast_tensors, functional.chain_matmul)
    f = torch.jit.CompilationUnit(f"def f(x: Tensor, y: Tensor):\n    return {call}\n").f
    assert f.code.endswith(f":\n  return {code}\n")


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_layers_that_put_maxima_back(dims):
    pool, unpool = getattr(torch.nn, f"MaxPool{dims}d"), getattr(torch.nn, f"MaxUnpool{dims}d")((2,) * dims)
    x = torch.randn(1, 2, *(6,) * dims)
    maxima, places = pool((2,) * dims, return_indices=True)(x)
    scripted = torch.jit.script(unpool)
    for size in ([], [x.size()], [[7] * dims]):
        assert scripted(maxima, places, *size).equal(unpool(maxima, places, *size))
    with pytest.raises(torch.jit.Error, match=r"must be between 4 and 8\)"):
        scripted(maxima, places, [9] * dims)
    f = torch.jit.CompilationUnit(f"def f(x: Tensor, i: Tensor):\n    return torch.nn.functional.max_unpool{dims}d(x, i, 2)\n").f
    assert f(maxima, places).equal(unpool(maxima, places))
