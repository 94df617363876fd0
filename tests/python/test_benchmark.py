"""torch.utils.benchmark: measurements, their statistics, tables."""
import cresset as torch
import pytest
from cresset.utils import benchmark


def measured(times, number=10, **spec):
    return benchmark.Measurement(number, [t * number for t in times], benchmark.TaskSpec(stmt="f(x)", setup="pass", **spec))


def test_a_timer_measures_calls():
    calls = []
    timer = benchmark.Timer("calls.append(1)", globals={"calls": calls}, label="L", sub_label="S", description="D")
    m = timer.timeit(100)
    assert len(calls) == 102 and m.number_per_run == 100 and len(m.raw_times) == 1
    assert 0 < m.median < 1 and m.times == [m.raw_times[0] / 100]
    lines = repr(m).split("\n")
    assert lines[1:3] == ["L: S", "D"] and lines[4] == "  1 measurement, 100 runs , 1 thread"


def test_autorange_runs_for_the_time():
    import time
    start = time.perf_counter()
    m = benchmark.Timer("x + 1", globals={"x": torch.ones(4)}).blocked_autorange(min_run_time=0.05)
    assert sum(m.raw_times) >= 0.05 and time.perf_counter() - start >= 0.05
    assert m.number_per_run >= 10 and m.median < 1e-3
    adaptive = benchmark.Timer("pass").adaptive_autorange(threshold=10.0, min_run_time=0.001)
    assert len(adaptive.times) > 3 and adaptive.meets_confidence(10.0)


def test_threads_are_restored():
    before = torch.get_num_threads()
    seen = []
    benchmark.Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=before + 1).timeit(1)
    assert set(seen) == {before + 1} and torch.get_num_threads() == before


def test_statistics():
    m = measured([1e-6, 2e-6, 3e-6, 4e-6, 5e-6])
    assert m.median == pytest.approx(3e-6) and m.mean == pytest.approx(3e-6) and m.iqr == pytest.approx(2e-6)
    assert m.significant_figures == 1 and m.has_warnings and not m.meets_confidence()
    assert "Interquartile range is 66.7% of the median" in repr(m) and "IQR:    2.00 us (2.00 to 4.00)" in repr(m)
    assert not measured([1e-3] * 8).has_warnings


def test_equal_tasks_are_merged():
    merged = benchmark.Measurement.merge([measured([1.0], 2), measured([3.0], 5), measured([5.0], label="other")])
    assert [m.times for m in merged] == [[1.0, 3.0], [5.0]]


def test_units_and_rounding():
    assert benchmark.select_unit(2e-5) == ("us", 1e-6) and benchmark.select_unit(3) == ("s", 1.0)
    assert benchmark.unit_to_english("ns") == "nanosecond"
    assert benchmark.trim_sigfig(1234.5, 2) == 1200 and benchmark.ordered_unique([2, 1, 2]) == [2, 1]


def test_a_table_has_rows_and_columns():
    results = [measured([t * 1e-6], label="add", sub_label=f"n={n}", description=d)
               for n, row in ((1, (2.04, 3.0)), (1000, (4.0, 50.26))) for d, t in zip("ab", row)]
    assert str(benchmark.Compare(results)).split("\n") == [
        "[----------- add -----------]",
        "              |   a   |   b  ",
        "1 threads: ------------------",
        "      n=1     |  2.0  |   3.0",
        "      n=1000  |  4.0  |  50.3", "", "Times are in microseconds (us).", ""]
    table = benchmark.Compare(results)
    table.colorize(rowwise=True)
    assert str(table).count("\033[92m") == 2
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([3])


def test_statements_in_cpp_are_refused():
    with pytest.raises(ValueError, match="only those in Python"):
        benchmark.Timer("x", language="c++")
