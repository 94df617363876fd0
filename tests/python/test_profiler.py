"""Profiles: events of calls, backward passes and named ranges; sums, tables, traces, schedules."""
import gzip
import json
import time

import cresset as torch
import pytest
from cresset.autograd.profiler import profile as old_profile
from cresset.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def model():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def names(prof):
    return [event.name for event in prof.events()]


def test_calls_and_ranges_are_nested_events():
    net, x = model(), torch.ones(3, 8)
    with profile(record_shapes=True) as prof:
        with record_function("forward"):
            net(x)
    outer = prof.events()[0]
    assert outer.name == "forward" and outer.cpu_parent is None
    assert [child.name for child in outer.cpu_children] == ["aten::linear", "aten::relu", "aten::linear"]
    assert [child.input_shapes for child in outer.cpu_children] == [
        [[3, 8], [16, 8], [16]], [[3, 16]], [[3, 16], [4, 16], [4]]]
    for event in prof.events():
        assert event.time_range.start <= event.time_range.end
        assert event.self_cpu_time_total >= 0
        parent = event.cpu_parent
        assert parent is None or parent.time_range.start <= event.time_range.start <= parent.time_range.end


def test_backward_nodes_have_torchs_names():
    net = model()
    loss = net(torch.ones(3, 8)).sum()
    with profile() as prof:
        loss.backward()
    found = names(prof)
    assert "autograd::engine::evaluate_function: SumBackward0" in found
    assert "torch::autograd::AccumulateGrad" in found and found.count("AddmmBackward0") == 2
    at = {event.name: event for event in prof.events()}
    assert at["AddmmBackward0"].cpu_parent.name == "autograd::engine::evaluate_function: AddmmBackward0"
    assert at["aten::mm"].cpu_parent.name == "AddmmBackward0"


def test_sums_add_calls_and_times():
    x = torch.ones(10)
    with profile() as prof:
        for _ in range(5):
            x.exp()
        x.sum()
    sums = {average.key: average for average in prof.key_averages()}
    events = [e for e in prof.events() if e.name == "aten::exp"]
    assert sums["aten::exp"].count == 5 and sums["aten::sum"].count == 1
    assert sums["aten::exp"].cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in events))
    total = prof.key_averages().self_cpu_time_total
    assert total == pytest.approx(sum(e.cpu_time_total for e in prof.events() if e.cpu_parent is None))


def test_sums_by_shapes_are_apart():
    with profile(record_shapes=True) as prof:
        torch.ones(3).exp(), torch.ones(4).exp(), torch.ones(4).exp()
    sums = [a for a in prof.key_averages(group_by_input_shape=True) if a.key == "aten::exp"]
    assert [(a.input_shapes, a.count) for a in sums] == [([[3]], 1), ([[4]], 2)]


def test_memory_is_counted_where_it_is_taken_and_freed():
    with profile(profile_memory=True) as prof:
        x = torch.empty(1 << 20)
        y = x.exp()
        del x, y
    sums = {average.key: average for average in prof.key_averages()}
    size = 4 << 20
    assert size <= sums["aten::exp"].cpu_memory_usage < size + 4096
    assert size <= sums["aten::empty"].self_cpu_memory_usage < size + 4096
    assert -2 * size - 8192 < sums["[memory]"].cpu_memory_usage <= -2 * size
    assert "4.00 MB" in prof.key_averages().table()


def test_a_slow_range_takes_its_time():
    with profile() as prof:
        with record_function("slow"):
            time.sleep(0.02)
    assert 20e3 <= prof.events()[0].cpu_time_total < 2e6


def test_a_table_has_torchs_columns_and_order():
    net, x = model(), torch.ones(3, 8)
    with profile(profile_memory=True, record_shapes=True) as prof:
        with record_function("a very long name of a range that does not fit into the column"):
            net(x)
    lines = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=2).split("\n")
    assert lines[1].split("  ")[-2].strip() == "Input Shapes"
    headings = [text.strip() for text in lines[1].split("  ") if text.strip()]
    assert headings == ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "CPU Mem",
                        "Self CPU Mem", "# of Calls", "Input Shapes"]
    assert lines[0] == lines[2] == lines[5] and set(lines[0]) == {"-", " "}
    assert lines[3].startswith("a very long name of a range that does not fit into t...")
    assert lines[6].startswith("Self CPU time total: ") and lines[6].endswith("s") and len(lines) == 8


def test_a_trace_is_json_that_viewers_read(tmp_path):
    net = model()
    with profile(record_shapes=True) as prof:
        with record_function("step"):
            net(torch.ones(3, 8)).sum().backward()
    prof.add_metadata("note", "text")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz") as file:
        assert len(json.load(file)["traceEvents"]) == len(trace["traceEvents"])
    ranges = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(ranges) == len(prof.events()) and trace["note"] == "text"
    assert {e["cat"] for e in ranges} == {"cpu_op", "user_annotation"}
    linear = next(e for e in ranges if e["name"] == "aten::linear")
    assert linear["args"]["Input Dims"] == [[3, 8], [16, 8], [16]] and linear["dur"] > 0
    step = next(e for e in ranges if e["name"] == "step")
    assert step["ts"] <= linear["ts"] and linear["ts"] + linear["dur"] <= step["ts"] + step["dur"] + 1e-3


def test_a_schedule_records_its_steps_only():
    ready = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                 on_trace_ready=lambda p: ready.append(names(p))) as prof:
        for i in range(10):
            torch.ones(i + 1).exp()
            prof.step()
    assert len(ready) == 2
    steps = [[name for name in one if name.startswith("ProfilerStep")] for one in ready]
    assert steps == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    assert [one.count("aten::exp") for one in ready] == [2, 2]


def test_a_compiled_function_shows_its_kernels():
    f = torch.compile(lambda x: torch.relu(x) * 2 + 1)
    x = torch.ones(64)
    for _ in range(3):
        f(x)
    for _ in range(20):  # none measures calls of the nodes, or the plain function
        with profile() as prof:
            f(x)
        assert names(prof) == ["cresset::fused"]


def test_nothing_is_recorded_outside_and_after_an_exception():
    with pytest.raises(ZeroDivisionError):
        with profile() as prof:
            torch.ones(2).exp()
            1 / 0
    assert names(prof) == ["aten::ones", "aten::exp"]
    torch.ones(2).exp()
    assert not torch.autograd._profiler_enabled()
    with record_function("outside"):
        torch.ones(2).exp()
    assert names(prof) == ["aten::ones", "aten::exp"]


def test_a_second_profile_is_refused_while_one_runs():
    with profile():
        with pytest.raises(RuntimeError, match="already running"):
            old_profile().__enter__()
        assert torch.autograd._profiler_enabled()
    assert not torch.autograd._profiler_enabled()


def test_record_function_decorates():
    @record_function("decorated")
    def f(x):
        return x.exp()
    with profile() as prof:
        f(torch.ones(2))
        f(torch.ones(2))
    assert names(prof).count("decorated") == 2


def test_flops_of_products():
    with profile(with_flops=True) as prof:
        torch.ones(3, 4) @ torch.ones(4, 5)
        torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3), padding=1)
    flops = {e.name: e.flops for e in prof.events() if e.flops}
    assert flops == {"aten::matmul": 2 * 3 * 4 * 5, "aten::convolution": 2 * 2 * 8 * 8 * 4 * 3 * 9}
    assert "Total KFLOPs" in prof.key_averages().table()


def test_the_old_interface():
    with old_profile() as prof:
        torch.ones(2).exp()
    assert "aten::exp" in str(prof) and prof.total_average().count == 2
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        old_profile().table()
    assert old_profile(enabled=False).__enter__().function_events is None


def test_activities_and_actions():
    assert torch.profiler.supported_activities() == {ProfilerActivity.CPU}
    assert [a.name for a in ProfilerAction] == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "DEVICE_STOPPED"]
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[ProfilerActivity.CUDA])


def test_compositions_that_only_entries_call_are_shown_as_their_parts():
    x = torch.ones(3, 4, requires_grad=True)
    with profile() as prof:
        x.sum(0).sum().backward()
    parents = {event.name: event.cpu_parent and event.cpu_parent.name for event in prof.events()}
    assert "aten::_spread" not in parents
    assert parents["aten::expand"] in ("SumBackward0", "SumBackward1")
