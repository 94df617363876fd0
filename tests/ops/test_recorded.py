"""Entries without a `ref` clause, compared with results that torch gave (recorded.py)."""
import pytest

import recorded
import recorded_cases
from recorded import torch
from table import ENTRIES

RECORDING = recorded.read("opinfo.json.xz")
SAMPLES = RECORDING["calls"]
CASES = recorded.read("cases.json.xz")


def entry_name(operator):
    """linalg_det of linalg.det, relu of nn.functional.relu, so that --op finds them."""
    return operator.removeprefix("nn.functional.").replace(".", "_")


@pytest.mark.parametrize("key, operator", [(entry_name(o), o) for o in SAMPLES], ids=list(SAMPLES))
def test_recorded_calls(key, operator):
    for call in SAMPLES[operator]:
        recorded.replay(call)


@pytest.mark.parametrize("text", CASES)
def test_recorded_cases(text):
    want = CASES[text]
    recorded.compare(want, recorded_cases.evaluate(torch, text), True, text)


# Steps that C functions of other entries call, errors and lazy views; tests/python compares those, and the sparse
# operators and those of torchvision.
ELSEWHERE = {"_bags_of", "_largest_of_bags", "_underived", "_underived_named", "_refused_where", "_standard_gamma_grad", "_dirichlet_grad", "_batch_norm_eval", "_cross_entropy_probabilities", "_cross_entropy_smoothed", "_philox_dropout",
             "_conj", "_neg_view", "_scaled_mm", "_polynomial", "as_strided_backward", "lift_fresh", "_as_batch",
             "embedding_sparse_backward", "_embedding_bag_sparse_backward", "_gather_sparse_backward",
             # parts of compositions beside kernels (test_stated.py), and a call in traced archives (test_script.py)
             "_class_counts", "_class_scores", "_class_shares", "_class_weights", "_cosine_sum", "_kaiser_at", "_rows_added",
             "_convolution",
             # parts of nextafter (test_exact_values.py)
             "_nextafter", "_nextafter_half",
             # networks over sequences and packed data (test_recurrent_entries.py)
             *(f"{name}.{form}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")),
             # steps of these and of their derivatives (test_recurrent_layers.py)
             "_rnn_direction", "_rnn_direction_backward", "_rnn_previous", "_lstm_step", "_lstm_step_backward", "_lstm_step_gradient",
             "_gru_step", "_gru_step_backward", "_gru_step_gradient",
             # attention on a device, of half types on the host, and its derivatives (tests/python/test_attention.py, tests/fake_cuda)
             "_attention", "_attention_scores", "_attention_scores_backward", "_attention_backward", "_attention_second",
             "_attention_backward_joined",
             # batch norm and cross entropy of devices, and derivatives (tests/fake_cuda/test_norm.py, test_loss.py)
             "_batch_norm_channels", "_batch_norm_given", "_batch_norm_backward", "_layer_norm_parameters", "_batch_norm_second", "_class_entropy",
             "_class_entropy_backward", "_batch_norm_relu", "_batch_norm_relu_backward", "_batch_norm_masked_backward",
             # RMS norm of devices and its derivatives (tests/fake_cuda/test_layer_norm.py)
             "_fused_rms_norm", "_rms_norm_rows", "_rms_norm_backward_input", "_rms_norm_weight", "_rms_norm_second", "_rms_normalized",
             # a factor of second derivatives of norms (test_second_derivatives.py)
             "_rstd_following",
             # a copy in memory that only a CUDA device pins (tests/fake_cuda)
             "_pin_memory",
             # the answer of equal and allclose, which are recorded
             "_holds_everywhere",
             # the counts of histc (its own ref; tests/fake_cuda/test_loops.py)
             "_bin_counts",
             # steps of derivatives and checks (test_gradients_at_edges.py, test_refusals.py)
             "_la_regular", "_la_det_second", "_la_checked",
             # the memory of expanded tensors that are written (test_expanded.py)
             "_memory_of", "_places_of",
             # the memory format of a result (test_formats.py)
             "_in_format_of",
             # arguments that are integer tensors (test_more_names.py)
             "fake_quantize_per_channel_affine", "batch_norm_backward_elemt",
             # recurrent layers on a device (tests/fake_cuda/test_recurrent.py)
             "_rnn_steps", "_rnn_steps_backward",
             # derivatives of derivatives (test_table.py, test_missing_derivatives.py)
             "_logcumsumexp_tangent", "_grid_sampler_along", "_grid_sampler_along_input_grad", "_grid_sampler_along_grid_grad",
             # copy_ of numbers (test_wrong_arguments.py)
             "_number_tensor", "_copied",
             # rules of sizes that entries share, tested through these
             "_la_matrix", "_la_square", "_la_equation", "_la_product", "_scatter_sizes", "_index_sizes", "_adaptive_pool_sizes",
             "_batch_products", "_continued", "_convolved", "_edges_padded", "_expanded", "_matmul_sizes", "_multiplied", "_padded",
             "_pool_sizes", "_sliding_blocks", "_transformed", "_unfolded", "_vectors"}


def test_every_entry_is_compared_with_something():
    """A `ref`, a recorded call, a drawn derivative, the streams of random numbers or the own tests of optimizers, and of calls
    between ranks (tests/dist/test_functional.py)."""
    reached = set(RECORDING["reached"])
    bare = {e.key for e in ENTRIES if not e.ref and e.name not in reached and
            e.file not in ("optim.op", "vision.op", "sparse.op", "collective.op") and not {"random", "undefined"} & set(e.words)}
    assert bare == ELSEWHERE


def test_all_cases_are_recorded():
    assert list(CASES) == recorded_cases.CASES
