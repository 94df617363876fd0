"""`raises_by_values` and `sized_by_values`: every entry is called with arguments of the same sizes and dtypes
and other values. An entry that raises, or returns other sizes, only for other values must have the word, and an entry
with the word must do so."""
import numpy
import pytest

import cresset as torch

from table import BY_KEY, ENTRIES, INTS, Draw, leaves

SQUARE = "self = t(3, 3)"
PACKED = ("data = t(3, 3); batch_sizes = torch.tensor([2, 1]); has_biases = True; num_layers = 1; dropout = 0.0; "
          "train = False; bidirectional = False; ")
# Entries that are not drawn elsewhere: their derivatives or references want other arguments.
SAMPLES = {
    "_embedding_bag": "weight = t(5, 4); indices = i(5, 6); offsets = torch.tensor([0, 3])",
    "embedding_dense_backward": "grad_output = t(3, 4); indices = i(5, 3); num_weights = 5",
    "_embedding_bag_dense_backward": "grad = t(2, 4); indices = i(5, 6); offset2bag = i(2, 6); bag_size = i(4, 2); "
                                     "maximum_indices = i(5, 2, 4); num_weights = 5; scale_grad_by_freq = False; mode = 0; "
                                     "per_sample_weights = None",
    "_embedding_bag_samples_backward": "grad = t(2, 4); weight = t(5, 4); indices = i(5, 6); offset2bag = i(2, 6)",
    "one_hot": "self = i(4, 3) | self = i(4, 3); num_classes = 4", "bincount": "self = i(4, 5)", "_unique2": "self = i(4, 5)",
    "unique_dim": "self = i(2, 5); dim = 0", "unique_consecutive": "self = i(2, 9)",
    "_refused_where": "self = torch.rand(3); refused = torch.zeros(3, dtype=torch.bool); message = 'x'",
    "_ctc_loss": "log_probs = t(4, 2, 3).log_softmax(2); targets = torch.ones(2, 2, dtype=int64); "
                 "input_lengths = [4, 4]; target_lengths = [2, 2]",
    "_ctc_loss_backward": "grad = t(2); log_probs = t(4, 2, 3).log_softmax(2); "
                          "targets = torch.ones(2, 2, dtype=int64); input_lengths = [4, 4]; "
                          "target_lengths = [2, 2]; neg_log_likelihood = t(2); log_alpha = t(2, 4, 5)",
    "ctc_loss.IntList": "log_probs = t(4, 2, 3).log_softmax(2); targets = torch.ones(2, 2, dtype=int64); "
                        "input_lengths = [4, 4]; target_lengths = [2, 2]",
    "ctc_loss.Tensor": "log_probs = t(4, 2, 3).log_softmax(2); targets = torch.ones(2, 2, dtype=int64); "
                       "input_lengths = torch.tensor([4, 4]); target_lengths = torch.tensor([2, 2])",
    "cross_entropy_loss": "self = t(3, 4); target = i(4, 3)",
    "_pool_scatter": "self = t(1, 1, 2, 2); indices = i(4, 1, 1, 2, 2); size = [1, 1, 4, 4]; dims = 2",
    "_pool_gather": "self = t(1, 1, 4, 4); indices = i(4, 1, 1, 2, 2); dims = 2",
    "_max_unpool": "self = t(1, 1, 2, 2); indices = i(4, 1, 1, 2, 2); output_size = [4, 4]; dims = 2",
    "max_unpool2d": "self = t(1, 1, 2, 2); indices = i(4, 1, 1, 2, 2); output_size = [4, 4]",
    "max_pool2d_with_indices_backward": "grad_output = t(1, 1, 2, 2); self = t(1, 1, 4, 4); "
                                        "kernel_size = [2, 2]; indices = i(4, 1, 1, 2, 2)",
    "value_selecting_reduction_backward": "grad = t(3); dim = 1; indices = i(4, 3); sizes = [3, 4]; keepdim = False",
    "masked_scatter": "mask = torch.tensor([[True, False, False, False]] * 3); source = t(5)",
    "multinomial": "self = torch.rand(3, 4); num_samples = 2", "poisson": "self = torch.rand(3)",
    "bernoulli": "self = torch.rand(3, 4)", "bernoulli_.Tensor": "p = torch.rand(3, 4)",
    "normal.Tensor_Tensor": "std = torch.rand(3, 4)", "normal.float_Tensor": "std = torch.rand(3, 4)",
    "histc": "", "histogram.bin_ct": "self = t(9); bins = 4", "_histogram_edges": "self = t(9); bins = 4; axis = 0",
    "quantile": "self = t(9); q = torch.tensor([0.5])", "where.condition": "condition = b(3, 4)",
    "nonzero_static": "size = 4", "searchsorted.Tensor": "sorted_sequence = t(5); self = t(3)",
    "_la_cholesky": "self = torch.eye(3); check = True; name = 'x'", "_la_lu": "A = t(3, 3); check = True; name = 'x'",
    "_la_permutation": "pivots = torch.tensor([1, 2, 3], dtype=int32); m = 3; dtype = float32",
    "_la_lu_solve": "LU = torch.eye(3); pivots = torch.tensor([1, 2, 3], dtype=int32); B = t(3, 2)",
    "_la_solve": "A = t(3, 3); B = t(3, 2); left = True; check = True; name = 'x'",
    "_la_inv": "A = t(3, 3); check = True; name = 'x'", "_la_svd": "A = t(3, 3); name = 'x'",
    "_la_eigh": "A = t(3, 3); UPLO = 'L'; name = 'x'", "_la_eig": "A = t(3, 3); name = 'x'",
    "_la_lstsq": "A = t(3, 3); B = t(3, 2); driver = 'gelsy'",
    "_la_ldl": "self = torch.eye(3); check = True; name = 'x'",
    "linalg_ldl_solve": "LD = torch.eye(3); pivots = torch.tensor([1, 2, 3], dtype=int32); B = t(3, 2)",
    "linalg_cholesky_ex": SQUARE, "linalg_qr": "A = t(3, 3)", "linalg_svd": "A = t(3, 3)",
    "linalg_eigh": "self = torch.eye(3)", "linalg_pinv": SQUARE,
    "lstm.data": PACKED + "hx = [t(1, 2, 2), t(1, 2, 2)]; params = [t(8, 3), t(8, 2), t(8), t(8)]",
    "gru.data": PACKED + "hx = t(1, 2, 2); params = [t(6, 3), t(6, 2), t(6), t(6)]",
    "rnn_tanh.data": PACKED + "hx = t(1, 2, 2); params = [t(2, 3), t(2, 2), t(2), t(2)]",
    "rnn_relu.data": PACKED + "hx = t(1, 2, 2); params = [t(2, 3), t(2, 2), t(2), t(2)]",
    "linalg_lu_factor": "A = t(3, 3)", "linalg_cond": SQUARE, "linalg_slogdet": "A = t(3, 3)",
}
WAYS = ("zero", "large", "small", "nan", "inf")


def other(v, way):
    """A tensor of the same sizes and dtype full of one value; other arguments as they are."""
    if isinstance(v, (list, tuple)):
        return [other(x, way) for x in v]
    if not isinstance(v, torch.Tensor):
        return v
    dtype = str(v.dtype)[6:]
    if dtype in INTS:
        wide = dtype in ("int32", "int64")
        large, small = (10 ** 6, -10 ** 6) if wide else (100, 1)
        value = {"zero": 0, "large": large, "small": small, "nan": 7, "inf": 9}[way]
    else:
        value = {"zero": 0.0, "large": 1e30, "small": -1e30, "nan": numpy.nan, "inf": numpy.inf}[way]
        value = bool(value) if dtype == "bool" else value
    return torch.full(v.shape, value, dtype=v.dtype)


def again(v):
    return v.clone() if isinstance(v, torch.Tensor) else v


def sizes(made):
    return [tuple(t.shape) for t in leaves(made)]


def calls(entry):
    """(sizes of a sample's results, arguments with other values in all tensors or in one)."""
    text = SAMPLES.get(entry.key)
    for case in entry.cases() if text is None else text.split("|"):
        for dtype in ("float32", "complex64", "int64", "bool"):
            if dtype not in entry.dtypes:
                continue
            try:
                draw = Draw(entry, case, dtype)
                plain = sizes(draw.run({k: again(v) for k, v in draw.values.items()}))
            except (RuntimeError, NotImplementedError, ValueError, TypeError):
                continue
            for way in WAYS:
                for only in [None] + [p["name"] for p in entry.tensor_params]:
                    yield plain, draw, {k: other(v, way) if only in (None, k) else again(v)
                                        for k, v in draw.values.items()}


def observed(entry):
    """(calls, whether one raises, whether one has other sizes)"""
    count, raises, resized = 0, None, False
    for plain, draw, values in calls(entry):
        count += 1
        try:
            made = sizes(draw.run(values))
            resized = resized or made != plain
        except (RuntimeError, IndexError, ValueError) as error:
            raises = raises or error
    return count, raises, resized


DRAWN = [e for e in ENTRIES if e.key in SAMPLES or e.can_be_drawn()]


@pytest.mark.parametrize("file", sorted({e.file for e in DRAWN}))
def test_by_values(file):
    wrong = []
    for entry in (e for e in DRAWN if e.file == file and e.tensor_params):
        count, raises, resized = observed(entry)
        if raises and not entry.raises_by_values:
            wrong.append(f"{entry.key} raises by values and does not say so: {raises}")
        if resized and not entry.sized_by_values:
            wrong.append(f"{entry.key} is sized by values and does not say so")
        if "raises_by_values" in entry.words and not raises:
            wrong.append(f"{entry.key} says raises_by_values, and {count} calls did not raise")
        if "sized_by_values" in entry.words and not resized:
            wrong.append(f"{entry.key} says sized_by_values, and {count} calls had the same sizes")
    assert not wrong, "\n".join(wrong)


def test_entries_with_words_about_values_are_called():
    """No entry states a word that no sample holds it to; tests/python calls the sparse entries, torchvision's, two
    derivatives whose arguments are made by other entries, and the steps of embedding_bag and cholesky_inverse."""
    stated = [e.key for e in ENTRIES if {"raises_by_values", "sized_by_values"} & set(e.words) and
              e.file not in ("vision.op", "sparse.op") and e.key not in ("embedding_sparse_backward", "_class_entropy_backward", "_bags_of",
                                                                      "_largest_of_bags", "_la_checked")]
    assert len(stated) > 40
    assert not set(stated) - {e.key for e in DRAWN}


@pytest.mark.parametrize("call, good, bad", [
    (lambda x: torch.quantile(torch.arange(9.0), x), [0.25, 0.5], [0.25, 2.5]),
    (lambda x: torch.nanquantile(torch.arange(9.0), x), [0.25, 0.5], [0.25, float("nan")]),
    (lambda x: torch.nn.functional.binary_cross_entropy(x, torch.tensor([0.0, 1.0])), [0.25, 0.5], [0.5, 1.5]),
], ids=["quantile", "nanquantile", "binary_cross_entropy"])
def test_a_check_of_elements_stays_in_a_compiled_graph(call, good, bad):
    compiled = torch.compile(call)
    assert torch.equal(compiled(torch.tensor(good)), call(torch.tensor(good)))
    with pytest.raises(RuntimeError) as eager:
        call(torch.tensor(bad))
    with pytest.raises(RuntimeError) as refused:
        compiled(torch.tensor(bad))
    assert str(refused.value) == str(eager.value)
