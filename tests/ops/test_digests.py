"""A part of the table of digests; the whole is `make test-digests`."""
import digests


def columns():
    return len(digests.workers()) * len(digests.THREADS)


def test_columns_of_the_table_agree():
    table = digests.gather(parts=40)
    assert len(table) > 100
    wrong, _ = digests.compare(table, columns())
    assert not wrong


def test_only_entries_that_call_convolutions_may_differ():
    listed = digests.may_differ("threads")
    assert {"convolution", "conv2d", "_convolution_weight_grad"} <= listed
    assert not {"sum", "softmax", "layer_norm", "index_add", "cumsum", "mm"} & listed


def test_between_machines_only_entries_that_call_products_factorizations_and_ffts_may_differ():
    listed = digests.may_differ("library")
    assert {"mm", "einsum", "linear", "conv2d", "linalg_svd", "linalg_pinv", "fft_rfft"} <= listed
    assert not {"sum", "softmax", "layer_norm", "index_add", "cumsum", "sort", "exp", "pow", "triu"} & listed


def test_a_row_that_differs_is_an_error_unless_the_table_lists_it():
    same = dict.fromkeys("abcdef", "1")
    other = dict(same, f="2")
    table = {"sum float32 0 results": other, "exp float32 0 results": same, "conv1d float32 0 gradients": other,
             "cos float32 0 results": {"a": "1"}}
    wrong, known = digests.compare(table, len(same))
    assert [row for row, _ in wrong] == ["cos float32 0 results", "sum float32 0 results"] and known == 1


def test_rows_may_differ_between_machines_but_not_within_one():
    columns = [f"{m} {t} {n}" for m in digests.MACHINES for t in digests.TIERS for n in digests.THREADS]
    first = next(iter(digests.MACHINES))
    machines = {c: "1" if c.startswith(first + " ") else "2" for c in columns}
    threads = {c: c[-1] for c in columns}
    rows = {"mm float32 0": True, "asin complex64 0": True, "asin float32 0": False, "exp float64 0": False,
            "fft_rfft float32 0": True, "softmax float32 0": False, "sum.dim_IntList complex64 large": False}
    for row, allowed in rows.items():
        row += " results"
        assert digests.compare({row: machines}, len(columns)) == ([] if allowed else [(row, machines)], int(allowed)), row
        assert digests.compare({row: threads}, len(columns)) == ([(row, threads)], 0), row
