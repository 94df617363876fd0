"""CR_LOG: the log lines of compile()."""
import os
import subprocess
import sys

import pytest

PROGRAM = """
import cresset as torch
import cresset.nn.functional as F

def f(x, w):
    h = F.silu(x @ w) * 1.5
    return (h + h.tanh()).sigmoid()

torch._dynamo.config.deferred_calls = 0
g = torch.compile(f)
w = torch.randn(6, 6, requires_grad=True)
for n in (4, 4, 5):
    g(torch.randn(n, 6), w).sum().backward()
torch._C._jit_wait(60.0)
"""


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    (folder / "program.py").write_text(PROGRAM)

    def run(topics):
        env = {**os.environ, "CR_LOG": topics, "CR_CACHE": str(folder / "cache")}
        done = subprocess.run([sys.executable, "program.py"], cwd=folder, env=env, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stderr
    return run


def test_a_recorded_graph_names_its_lines(logged):
    text = logged("graph")
    assert text.startswith("[graph] recorded:\ngraph(")
    lines = [line for line in text.splitlines() if line.startswith("  %") and "  # " in line]
    assert lines and all(line.split("  # ")[1].startswith("program.py:") for line in lines)
    assert any("= silu(" in line and line.endswith("# program.py:6") for line in lines)
    assert any("= sigmoid(" in line and line.endswith("# program.py:7") for line in lines)


def test_the_parts_of_a_training_call(logged):
    text = logged("aot")
    assert [word for word in ("joint", "forward", "backward") if f"[aot] {word}:\n" in text] == ["joint", "forward", "backward"]
    assert "= silu_backward(" in text and "# backward" in text


def test_groups_and_their_code_name_the_lines(logged):
    assert "= group {" in logged("fusion")
    text = logged("code")
    assert "_silu" in text and "cv_tanh_f32(" in text
    assert " = silu, program.py:6\n" in text and " = tanh, program.py:7\n" in text


def test_cache_jit_memory_and_recompile(logged):
    logged("")
    assert "is on disk" in logged("cache")
    assert "[jit] instruction set" in logged("jit")
    assert "[memory] program(" in logged("memory")
    assert logged("recompile").count("is recorded again") == 1


def test_no_lines_without_cr_log(logged):
    assert logged("") == ""
    assert logged("cache:0") == ""


def test_an_unknown_topic_is_reported_once_with_the_list(logged):
    text = logged("aott,fusion:0,loops:2")
    assert text.startswith("CR_LOG: there is no topic 'aott'\nCR_LOG: there is no topic 'loops'\nCR_LOG takes")
    for topic in ("graph", "aot", "fusion", "code", "cache", "recompile", "memory", "all"):
        assert text.count(f"\n  {topic} ") == 1


def test_set_logs_selects_topics(logged, monkeypatch):
    import logging

    import cresset as torch
    monkeypatch.setenv("CR_LOG", "")
    torch._logging.set_logs(recompiles=True, graph_code=True, dynamo=logging.DEBUG, inductor=logging.WARNING)
    assert os.environ["CR_LOG"] == "recompile:3,graph:3,capture:3"
    torch._logging.set_logs(modules={"torch._inductor.scheduler": logging.INFO}, aot_graphs=True)
    assert os.environ["CR_LOG"] == "fusion:2,code:2,cache:2,jit:2,aot:1"
    assert logging.getLogger("torch._inductor.scheduler").level == logging.INFO
    torch._logging.set_logs()
    assert os.environ["CR_LOG"] == ""
    for given, error, text in (({"graph": 3}, ValueError, "Expected bool to enable artifact graph, received 3"),
                               ({"dynamo": True}, ValueError, "Unrecognized log level for log dynamo: True, valid level values "
                                                              "are: 50,40,30,20,10,0"),
                               ({"foo": 1}, TypeError, "unexpected keyword argument 'foo'")):
        with pytest.raises(error, match=text):
            torch._logging.set_logs(**given)
    monkeypatch.setenv("CR_LOG", "graph")
    with pytest.warns(UserWarning, match="ignoring call to set_logs"):
        torch._logging.set_logs(aot=logging.DEBUG)
    assert os.environ["CR_LOG"] == "graph"


def test_set_logs_acts_in_the_process(tmp_path):
    program = "import torch\ntorch._logging.set_logs(graph=True)\n" + PROGRAM.replace("import cresset as torch\n", "")
    (tmp_path / "p.py").write_text(program.replace("cresset.", "torch."))
    env = {**os.environ, "CR_CACHE": str(tmp_path / "cache")}
    env.pop("CR_LOG", None)
    done = subprocess.run([sys.executable, "-m", "cresset", "run", "p.py"], cwd=tmp_path, env=env, text=True, capture_output=True,
                          timeout=120)
    assert done.returncode == 0 and "[graph] recorded:" in done.stderr, done.stderr
