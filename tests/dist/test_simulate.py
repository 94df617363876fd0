"""crc simulate: times of small steps computed by hand, schedules, pictures, and what it refuses."""
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import cresset as torch
import ranks
from cresset import nn
from cresset.distributed.pipelining._actions import Action, interleaved_order, one_f_one_b_order, v_order
from cresset.distributed.simulation import record, units_of

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_simulate.py")
STEP = """step four   # units of 1 ms forward, 2 ms backward, and a million parameters
states 2
element 4
unit a parameters 1e6 flops 1e9 moved 0 saved 1e6 output 1e6
unit b parameters 1e6 flops 1e9 moved 0 saved 1e6 output 1e6
unit c parameters 1e6 flops 1e9 moved 0 saved 1e6 output 1e6
unit d parameters 1e6 flops 1e9 moved 0 saved 1e6 output 1e6
"""
MACHINE = """machine m
flops 1e12
memory 1e15
bucket 4e6
first_bucket 4e6
blocking 0
link ranks 8 latency 0 bandwidth 8e9
link ranks 65536 latency 0 bandwidth 4e9
"""


@pytest.fixture
def simulate(tmp_path):
    def run(*options, step=STEP, machine=MACHINE, fails=None):
        (tmp_path / "step.txt").write_text(step)
        (tmp_path / "machine.txt").write_text(machine)
        out = subprocess.run([sys.executable, "-m", "cresset", "crc", "simulate", str(tmp_path / "step.txt"),
                              str(tmp_path / "machine.txt"), *map(str, options)], capture_output=True, text=True)
        if fails is not None:
            assert out.returncode == 1 and fails in out.stderr, out
            return None
        assert out.returncode == 0, out
        return [dict(zip(("ranks", "data", "tensor", "pipeline", "step", "compute", "exposed", "percent", "host", "idle", "memory", "speed"),
                         (float(w.rstrip("!")) for w in line.split()))) for line in out.stdout.splitlines()[1:]]
    return run


def test_data_parallel(simulate):
    one, two, many = simulate("--ranks", "1,2,16")
    assert one["step"] == one["compute"] == 12 and one["memory"] == round(4 * 4e6 * 4 / 1e9 + 0.004, 3)
    # backward is d, c, b, a; a call of 2 ranks takes 4e6 / 8e9 s, and that of the last unit is not hidden
    assert two["step"] == 12.5 and two["exposed"] == .5 and two["memory"] == round(4 * 4e6 * 5 / 1e9 + 0.004, 3)
    # rings of 8 ranks, then of 2 groups with an eighth of the bytes
    assert many["exposed"] == pytest.approx(2 * 7 / 8 * .5 + 2 * 1 / 2 * .5 / 8 * 2, abs=1e-3) and many["speed"] < 100


def test_sharded(simulate):
    one, two = simulate("--ranks", "1,2", "--data", "fsdp")
    # 4 gathers before forward, the first gather of backward is ahead by a unit, the last reduction remains; each 0.25 ms
    assert one["step"] == 12 and two["step"] == 13.25 and two["exposed"] == 1.25
    assert two["memory"] == round((4 * 4e6 / 2 * 4 + 2 * 2 * 4e6 + 4e6) / 1e9, 3)
    held, = simulate("--ranks", 2, "--data", "fsdp", machine=MACHINE.replace("blocking 0", "blocking 1"))
    assert held["step"] > two["step"]
    slow, = simulate("--ranks", 2, "--data", "fsdp", machine=MACHINE + "host fsdp forward unit 1e-3\nhost fsdp backward unit 1e-3\n")
    assert slow["step"] == pytest.approx(two["step"] + 8, abs=.6)
    assert simulate("--ranks", 2, machine=MACHINE + "share 0.5\n")[0]["step"] > 12.5
    assert simulate("--ranks", 2, machine=MACHINE + "call all_reduce ranks 2 bytes 1e6 seconds 1e-3\n"
                    "call all_reduce ranks 2 bytes 9e6 seconds 2e-3\n")[0]["exposed"] == 1.375


def test_the_host_of_a_device(simulate):
    device = MACHINE + "device 1\n"
    assert simulate("--ranks", 1, machine=device)[0]["step"] == 12
    # forward: 2 ms of the host for each unit, of 1 ms; backward: 1 ms for 2 ms, so the device is the slower one
    row, = simulate("--ranks", 1, machine=device, step=STEP + "host forward 0.008 backward 0.004 update 0\n")
    assert row["step"] == 16 and row["host"] == 4 and row["compute"] == 12
    # commands of 1 ms, two in forward and twice as many in backward: the host is always the slower one
    many = STEP.replace("output 1e6", "output 1e6 tensors 1 commands 2")
    row, = simulate("--ranks", 1, machine=device + "command 1e-3\n", step=many)
    assert row["step"] == 24 and row["host"] == 12
    # a call starts when the host has issued it: the four of forward at 1, 2, 3 and 4 ms
    row, = simulate("--ranks", 2, "--data", "fsdp", machine=device + "host fsdp forward unit 1e-3\n")
    assert row["step"] == simulate("--ranks", 2, "--data", "fsdp", machine=device)[0]["step"] + 1
    row, = simulate("--ranks", 2, "--data", "fsdp", machine=device + "host fsdp update tensor 5e-3\n", step=many)
    assert row["step"] == 20 and row["host"] > 6


def test_hosts_that_compute(simulate):
    named = STEP.replace("output 1e6", "output 1e6 tensors 2")
    row, = simulate("--ranks", 2, machine=MACHINE + "host ddp backward tensor 5e-4\n", step=named)
    assert row["step"] == 16.5 and row["host"] == 4 and row["exposed"] == .5
    row, = simulate("--ranks", 2, machine=MACHINE + "host ddp forward unit 1e-3\n", step=named)
    assert row["step"] == 13.5
    row, = simulate("--ranks", 2, machine=MACHINE + "host ddp forward byte 1e-9\n", step=named)
    assert row["step"] == 12.5 + 4 * 4
    row, = simulate("--ranks", 2, machine=MACHINE + "host ddp forward buffer 1e-3\n", step=named.replace("tensors 2", "buffers 3"))
    assert row["step"] == 12.5 + 4 * 3
    assert simulate("--ranks", 1, machine=MACHINE + "host ddp forward unit 1\nhost fsdp forward unit 1\n")[0]["step"] == 12


def test_buffers_are_sent_before_forward(simulate):
    named = STEP.replace("tensors 2", "").replace("output 1e6\n", "output 1e6 buffers 3\n")
    sends = MACHINE + "device 1\ncommand 0\nbuffers seconds 1e-3 each 5e-4\n"
    alone, = simulate("--ranks", 2, machine=sends, step=STEP)
    row, = simulate("--ranks", 2, machine=sends, step=named)
    assert row["step"] == alone["step"] + 1 + 12 * .5 and row["exposed"] == alone["exposed"] + 7
    row, = simulate("--ranks", 2, machine=sends + "host ddp forward buffer 1e-3\n", step=named)
    assert row["step"] == alone["step"] + 12 + 7
    assert simulate("--ranks", 2, "--data", "fsdp", machine=sends, step=named) == simulate("--ranks", 2, "--data", "fsdp", machine=sends, step=STEP)
    assert simulate("--ranks", 1, machine=sends, step=named)[0]["step"] == 12


def test_times_that_were_measured(simulate):
    two, = simulate("--ranks", 1, step=STEP + "measured forward 0.01 backward 0.05 update 0.002\n")
    assert two["step"] == 62


def test_tensor_parallel(simulate):
    row, = simulate("--ranks", 2, "--tensor", 2)
    # each unit adds its results twice in forward and twice in backward
    assert row["compute"] == 6 and row["exposed"] == pytest.approx(8 * 2 * 1e6 / 8e9 * 1e3, abs=1e-3)


def test_pipelines(simulate, tmp_path):
    fast = MACHINE.replace("8e9", "8e15").replace("4e9", "4e15")
    for name in ("gpipe", "1f1b"):
        row, = simulate("--ranks", 4, "--pipeline", 4, "--parts", 8, "--schedule", name, machine=fast)
        # the known bubble: (stages - 1) parts of forward and of backward
        assert row["step"] == pytest.approx(3 / 8 * (8 + 3), abs=2e-3) and row["idle"] == pytest.approx(3 / 8 * 3, abs=2e-3)
    gpipe, = simulate("--ranks", 4, "--pipeline", 4, "--parts", 8, "--schedule", "gpipe", step=STEP.replace("saved 1e6", "saved 8e9"))
    row, = simulate("--ranks", 4, "--pipeline", 4, "--parts", 8, "--schedule", "1f1b", step=STEP.replace("saved 1e6", "saved 8e9"))
    assert gpipe["memory"] == pytest.approx(8, abs=.1) and row["memory"] == pytest.approx(4, abs=.1)
    more, = simulate("--ranks", 2, "--pipeline", 2, "--chunks", 2, "--parts", 4, "--schedule", "interleaved", machine=fast)
    plain, = simulate("--ranks", 2, "--pipeline", 2, "--parts", 4, machine=fast)
    assert more["idle"] < plain["idle"]
    whole, = simulate("--ranks", 16, "--pipeline", 2, "--tensor", 2, "--parts", 4, "--data", "fsdp")
    assert whole["data"] == 4 and whole["exposed"] > 0


@pytest.mark.parametrize("name, ranks_, order", [
    ("1f1b", 4, one_f_one_b_order(4, 8)), ("interleaved", 2, interleaved_order(2, 2, 4)), ("ZBV", 2, v_order(2, 4, True))])
def test_lists_of_python_schedules(simulate, tmp_path, name, ranks_, order):
    path, svg = tmp_path / "a.csv", tmp_path / "a.svg"
    path.write_text("\n".join(",".join(map(str, order[r])) for r in sorted(order)))
    row, = simulate("--ranks", ranks_, "--pipeline", ranks_, "--actions", path, "--svg", svg)
    if name != "ZBV":
        chunks, parts = (1, 8) if name == "1f1b" else (2, 4)
        assert simulate("--ranks", ranks_, "--pipeline", ranks_, "--schedule", name, "--chunks", chunks, "--parts", parts) == [row]
    drawn = ElementTree.parse(svg)
    texts = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}title")]
    for actions in order.values():
        assert all(any(t.startswith(f"{a}:") for t in texts) for a in actions if isinstance(a, Action))


def test_refusals(simulate, tmp_path):
    simulate("--ranks", 12, "--pipeline", 2, "--tensor", 4, fails="12 ranks are not a multiple of 8: 4 tensor parallel ranks for each of 2")
    simulate("--ranks", 2, "--pipeline", 65536, "--tensor", 65536, fails="2 ranks are not a multiple of 4294967296")
    again = MACHINE + 2 * "call all_reduce ranks 2 bytes 10 seconds 1\n"
    simulate(machine=again, fails="other bytes and the same ranks as before are expected for 'all_reduce'")
    simulate(machine=MACHINE + 13 * "share 0 " + "\n", fails="the line has more than 24 words: 'share'")
    simulate("--pipeline", 8, fails="the step has 4 units, fewer than the 8 stages")
    simulate("--pipeline", 2, "--schedule", "zigzag", fails="no schedule is called 'zigzag': gpipe, 1f1b or interleaved")
    simulate("--pipeline", 2, "--chunks", 2, fails="schedule 1f1b has one stage a rank, not 2")
    simulate("--pipeline", 2, "--schedule", "interleaved", "--chunks", 2, "--parts", 5,
             fails="requires the number of microbatches to be a multiple of the number of rounds (2), but got 5")
    for text, why in (("0F0,0B0\n1B0,1F0\n", "the schedule has a cycle: rank 0 waits at 0B0; rank 1 waits at 1B0"),
                      ("0F0,0B0\n1G0\n", "Invalid action string: 1G0"), ("0F0,0F0\n1F0\n", "Rank 0, step 1: 0F0 comes twice"),
                      ("0F0\n0B0\n", "Stage 0 is assigned to both rank 1 and rank 0"), ("0F0,0F1\n1F1\n", "stage 1 of the schedule has no 1F0"),
                      ("", "the schedule is empty")):
        (tmp_path / "a.csv").write_text(text)
        simulate("--pipeline", 2, "--ranks", 2, "--actions", tmp_path / "a.csv", fails=why)
    for step, why in ((STEP + "unit e parameters -1\n", "line 8 of the step file: a number that is not negative is expected, not '-1'"),
                      (STEP + "unit e colour 1\n", "there is no number called 'colour'"), ("step x\n", "the step file has no unit")):
        simulate(step=step, fails=why)
    for machine, why in ((MACHINE + "link ranks 4 latency 0 bandwidth 1\n", "joins no more ranks than the one before"),
                         (MACHINE + "call gather\n", "there is no call 'gather'"), (MACHINE + "share 1\n", "must be below 1"),
                         (MACHINE + "host zero forward unit 1\n", "ddp or fsdp is expected after host, not 'zero'"),
                         (MACHINE + "host ddp sideways unit 1\n", "forward, backward or update is expected, not 'sideways'"),
                         ("flops 1\n", "the machine file needs flops, memory and a link")):
        simulate(machine=machine, fails=why)


def test_a_recorded_step(simulate, tmp_path):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 4)))
    assert list(units_of(net)) == ["0", "1", "2.0"]
    text = record(net, lambda y: y.sum(), (torch.ones(2, 8),), tmp_path / "net.txt", repeats=0)
    assert text == (tmp_path / "net.txt").read_text()
    assert "unit 0 parameters 144 flops 512 " in text and "tensors 2 buffers 0 commands " in text and "unit 2.0 parameters 68 flops 256 " in text and "states 1\n" in text
    assert "measured" not in text and "measured forward" in record(net, lambda y: y.sum(), (torch.ones(2, 8),), repeats=1)
    assert simulate("--ranks", 2, step=text)[0]["exposed"] >= 0


def test_a_machine_is_measured(simulate, tmp_path):
    result = ranks.run(HERE, "calibrated", 2, "gloo" if torch.distributed.is_gloo_available() else "mpi", FILE=str(tmp_path / "m.txt"))
    assert result.codes == [0, 0], result
    text = (tmp_path / "m.txt").read_text()
    assert text.count("call all_reduce ranks 2 bytes") == 5 and "link ranks 2 " in text and text.count("\nhost ") == 6
    for call in ("all_reduce", "all_gather", "reduce_scatter"):
        times = [float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"call {call} ")]
        assert len(times) == 5 and times == sorted(times)
    row, = simulate("--ranks", 2, machine=text)
    assert row["exposed"] > 0
