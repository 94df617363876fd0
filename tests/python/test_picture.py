"""Pictures of fused graphs: every box once, no overlap, edges downwards."""
import random
import re
import xml.etree.ElementTree as ET

import pytest

import cresset as torch
import cresset.nn.functional as F

SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("group", "call", "view", "input", "result", "constant")


def parts(text):
    """Returns for each drawing: boxes as (kind, x, y, width, height), words, edges as (x1, y1, x2,
    y2)."""
    root = ET.fromstring(text)
    assert root.tag == SVG + "svg"
    for g in root.iter(SVG + "g"):
        boxes = [(r.get("class"), *(float(r.get(k)) for k in ("x", "y", "width", "height")))
                 for r in g.iter(SVG + "rect") if r.get("class") in KINDS]
        words = [t.text for t in g.iter(SVG + "text")]
        edges = []
        for path in g.iter(SVG + "path"):
            n = [float(v) for v in re.findall(r"-?[\d.]+", path.get("d"))]
            edges.append((*n[:2], *n[7:9]))
        yield boxes, words, edges


def check(text):
    for boxes, _, edges in parts(text):
        for i, (_, x, y, w, h) in enumerate(boxes):
            assert x >= 0 and y >= 0
            for _, x2, y2, w2, h2 in boxes[i + 1:]:
                assert x + w <= x2 + 0.2 or x2 + w2 <= x + 0.2 or y + h <= y2 + 0.2 or y2 + h2 <= y + 0.2
        assert all(y2 >= y1 for _, y1, _, y2 in edges)
    return list(parts(text))


def picture(f, *args, calls=3):
    g = torch.compile(f)
    for _ in range(calls):
        g(*args)
    return torch.compiler.picture(g)


def test_groups_calls_and_sizes():
    def f(x, w):
        h = (x * 2 + 1).sigmoid() @ w
        return (h.tanh() * h).exp(), h

    (boxes, words, edges), = check(picture(f, torch.randn(8, 16), torch.randn(16, 4)))
    kinds = sorted(b[0] for b in boxes)
    assert kinds == ["call", "group", "group", "input", "input", "result", "result"]
    assert {"mul", "add", "sigmoid", "matmul", "tanh", "exp"} <= set(words)
    assert "8\u00d716 f32" in words and "8\u00d74 f32" in words
    assert sum(re.fullmatch(r"test_picture\.py:\d+", w) is not None for w in words) == 7
    assert len(edges) == 6


@pytest.mark.deferred_calls(0)
def test_forward_and_backward_are_two_drawings(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 2))
    compiled = torch.compile(model)
    for _ in range(2):
        compiled(torch.randn(3, 4)).sum().backward()
    torch.compiler.picture(compiled, tmp_path / "model.svg")
    text = (tmp_path / "model.svg").read_text()
    assert ">forward<" in text and ">backward<" in text
    assert len(check(text)) == 2


def test_a_training_step():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, t):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss

    (boxes, words, _), = check(picture(step, torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0]), calls=5))
    assert len(boxes) > 15 and "tanh" in words


def test_long_groups_are_cut_short():
    def f(x):
        for i in range(30):
            x = (x * 0.5).sin()
        return x

    (boxes, words, _), = check(picture(f, torch.randn(9)))
    assert [w for w in words if w.startswith("and ")] == ["and 47 more"]


def test_random_graphs():
    r = random.Random(5)
    binary = [torch.add, torch.mul, torch.maximum, lambda a, b: a @ b]
    unary = [torch.tanh, torch.exp, lambda x: x.t(), lambda x: x.sum(0, keepdim=True).expand(4, 4), torch.relu]
    for _ in range(15):
        plan = [(r.choice(binary), r.randrange(9), r.randrange(30)) if r.random() < 0.5 else (r.choice(unary), r.randrange(9))
                for _ in range(r.randrange(1, 40))]

        def f(*inputs):
            values = list(inputs)
            for fn, *at in plan:
                values.append(fn(*(values[-1 - i % len(values)] for i in at)))
            return values[-1], values[-1 - len(plan) // 2]
        check(picture(f, torch.randn(4, 4), torch.randn(4, 4)))


def test_nothing_to_draw():
    with pytest.raises(RuntimeError, match="nothing to draw"):
        torch.compiler.picture(torch.compile(lambda x: x + 1))
