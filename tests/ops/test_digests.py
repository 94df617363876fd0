"""A part of the table of digests; the whole is `make test-digests`."""
import digests


def columns():
    return len(digests.workers()) * len(digests.THREADS)


def test_columns_of_the_table_agree():
    table = digests.gather(parts=40)
    assert len(table) > 100
    wrong, _ = digests.compare(table, columns())
    assert not wrong


def test_what_may_differ_is_what_calls_convolutions():
    listed = digests.may_differ()
    assert {"convolution", "conv2d", "_convolution_weight_grad"} <= listed
    assert not {"sum", "softmax", "layer_norm", "index_add", "cumsum", "mm"} & listed


def test_a_row_that_differs_is_an_error_unless_the_table_lists_it():
    same = dict.fromkeys("abcdef", "1")
    other = dict(same, f="2")
    table = {"sum float32 0 results": other, "exp float32 0 results": same, "conv1d float32 0 gradients": other,
             "cos float32 0 results": {"a": "1"}}
    wrong, known = digests.compare(table, len(same))
    assert [row for row, _ in wrong] == ["cos float32 0 results", "sum float32 0 results"] and known == 1
