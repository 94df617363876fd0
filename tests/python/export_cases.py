"""Programs for torch.export, and the texts of what they export to.

`python export_cases.py record MODULE FILE` writes the texts of a module, `files MODULE FOLDER` its files.  The test imports this file, which then uses
cresset, and compares.  Texts have no paths, addresses or package names.
"""
import importlib
import json
import re
import sys
import warnings

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
export_module = importlib.import_module(f"{torch.__name__}.export")
export, Dim = export_module.export, export_module.Dim
nn = torch.nn
F = torch.nn.functional
CASES = {}
A_CONSTANT = torch.full((3,), 2.0)


def case(function):
    assert function.__name__ not in CASES, function.__name__
    CASES[function.__name__] = function
    return function


def plain(text):
    """Removes the lines of source files and names of the package."""
    text = "\n".join(line for line in text.split("\n") if "# File" not in line and "# No stacktrace" not in line)
    text = re.sub(r"\n\s*\n", "\n", text.replace("cresset", "torch").replace("torch._dynamo.exc.Con", "Con"))
    return re.sub(r"torch\.fx\.experimental\.symbolic_shapes\.|torch\._dynamo\.exc\.", "", text)


def run(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            out = CASES[name]()
        except Exception as error:
            return plain(f"{type(error).__name__}: {error}")
    return plain(out if isinstance(out, str) else "\n".join([str(out), out.module().code, str(out._guards_code)]))


def calls(program, *calls):
    """What the program's module does with arguments: errors and shapes of results."""
    lines = []
    for args, kwargs in calls:
        try:
            out = program.module()(*args, **kwargs)
            lines.append(f"result {tuple(out.shape)}")
        except Exception as error:
            lines.append(f"{type(error).__name__}: {error}")
    return "\n".join(lines)


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y=None):
        return self.f(x) if y is None else self.f(x, y)


def of(f, *args, dynamic=None):
    names = ["x", "y"][:len(args)]
    shapes = None if dynamic is None else dict(zip(names, dynamic))
    return export(Function(f), args, dynamic_shapes=shapes)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(F.relu(self.first(x))).log_softmax(-1)


class Counting(nn.Module):
    """Writes to a buffer and to its argument."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        x.mul_(2)
        return self.norm(x) + self.calls


class Everywhere(nn.Module):
    """Parameters that are shared, buffers that are not saved, constants of modules, of globals and of literals."""

    def __init__(self):
        super().__init__()
        self.Enc = nn.Linear(3, 3)
        self.dec = nn.Linear(3, 3)
        self.dec.weight = self.Enc.weight
        self.register_buffer("Mask", torch.ones(3), persistent=False)
        self.k = torch.zeros(3)
        self.unused = nn.Parameter(torch.zeros(1))
        self.list = nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, x, *args, flag=True, **kw):
        y = self.dec(self.Enc(x)) * self.Mask + self.k + torch.tensor([1.0, 2.0, 3.0]) + A_CONSTANT + self.list[0](x)
        if flag:
            y = y + args[0]["q"] + args[1][0]
        return {"y": y, "more": (kw["Zed"], None, 3)}, x


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, stride=2)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

    def forward(self, x):
        return self.out(self.drop(self.pool(F.gelu(self.conv(x)))))


class Block(nn.Module):
    """Attention of two heads without a function of the library that has it."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, n, 8))


@case
def perceptron():
    return export(Perceptron(), (torch.ones(5, 4),))


@case
def counting():
    return export(Counting(), (torch.ones(5, 3),))


@case
def state_of_all_kinds():
    return export(Everywhere(), (torch.ones(2, 3), {"q": torch.ones(3)}, [torch.ones(3), 5]), {"flag": True, "Zed": torch.ones(2)})


@case
def picture_in_evaluation():
    return export(Picture().eval(), (torch.ones(2, 1, 8, 8),))


@case
def picture_in_training():
    return export(Picture(), (torch.ones(2, 1, 8, 8),))


@case
def attention():
    return export(Block(), (torch.ones(2, 3, 8),))


@case
def attention_of_any_batch():
    return export(Block(), (torch.ones(2, 3, 8),), dynamic_shapes={"x": {0: Dim("batch", max=64)}})


@case
def embedding_and_recurrent_layers():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.cell = nn.Embedding(10, 4, padding_idx=0), nn.LSTM(4, 3, bidirectional=True)

        def forward(self, words):
            out, (h, c) = self.cell(self.table(words))
            return out[:, -1], h, c
    return export(Words(), (torch.tensor([[1, 2, 3], [4, 5, 0]]),))


@case
def new_tensors():
    def f(x):
        return (torch.zeros_like(x), torch.arange(3), torch.ones(2, dtype=torch.int64), torch.full((2, 2), 1.5), torch.linspace(0, 1, 3),
                torch.eye(3), x.new_zeros(2), x.new_full((2,), 3), torch.full_like(x, 2), torch.arange(0, 6, 2, dtype=torch.float32))
    return of(f, torch.ones(2, 3))


@case
def views_and_reductions():
    def f(x):
        return [x.sum(), x.sum(0, keepdim=True), x.mean(-1), x.max(1), x.argmax(-1), x.unsqueeze(0).squeeze(0), x.permute(1, 0),
                x.transpose(0, 1), x.flatten(), x.reshape(3, 2), x.expand(4, 2, 3), x.chunk(3, 1), x.unbind(0), torch.stack([x, x]),
                torch.cat([x, x], dim=1), x[0], x[:, 1:3], x[..., -1], x[None], x.topk(2), x.sort(), x.cumsum(0), x.repeat(2, 1),
                x.roll(1, 0), x.flip(0), F.pad(x, (1, 1)), x.std(), x.var(1, unbiased=False), torch.logsumexp(x, 0), x.all()]
    return of(f, torch.arange(6.0).view(2, 3))


@case
def arithmetic():
    def f(x, y):
        return [x + y, x - 1, 1 - x, x * y, x / y, x ** 2, 2 ** x, -x, abs(x), x == 1, x > y, torch.where(x > 0, x, 0.0), 
                torch.matmul(x, y.transpose(0, 1)), torch.einsum("ij,kj->ik", x, y), x.clamp(0, 1), x.masked_fill(x > 0, 0.0),
                x.clone(), torch.bmm(x[None], y[None].transpose(1, 2))]
    return of(f, torch.ones(2, 3), torch.ones(2, 3))


@case
def numbers_and_texts():
    class M(nn.Module):
        def forward(self, x, n: int, f: float, b: bool, s: str, none: None):
            return x * n + f, n, f, b, none
    return export(M(), (torch.ones(2), 3, 2.5, True, "text", None))


@case
def names_of_arguments_that_are_names_of_operators():
    class M(nn.Module):
        def forward(self, add, mul):
            return (add + mul) * mul, add
    return export(M(), (torch.ones(2), torch.ones(2)))


@case
def a_size_that_varies():
    return of(lambda x: x.view(x.shape[0] * 2, -1) + 1, torch.ones(8, 6), dynamic=[{0: Dim.DYNAMIC}])


@case
def two_sizes_that_are_equal():
    return of(lambda x, y: x + y, torch.ones(8, 6), torch.ones(8, 6), dynamic=[{0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}])


@case
def a_size_that_cannot_vary():
    return of(lambda x, y: x + y, torch.ones(8, 6), torch.ones(8, 6), dynamic=[{0: Dim.DYNAMIC}, None])


@case
def a_size_that_need_not_vary():
    return of(lambda x, y: x + y, torch.ones(8, 6), torch.ones(8, 6), dynamic=[{0: Dim.AUTO}, None])


@case
def two_dims_that_are_equal():
    return of(lambda x, y: x + y, torch.ones(8, 6), torch.ones(8, 6), dynamic=[{0: Dim("a")}, {0: Dim("b")}])


@case
def bounds_of_one_dim_hold_for_the_other():
    return of(lambda x, y: x + y, torch.ones(8, 6), torch.ones(8, 6), dynamic=[{0: Dim("a", min=3, max=64)}, {0: Dim.AUTO}])


def branch(x):
    return x * x.shape[0] if x.shape[0] > 5 else x


@case
def a_branch_by_a_size():
    return of(branch, torch.ones(8, 6), dynamic=[{0: Dim.DYNAMIC}])


@case
def a_branch_that_a_dim_does_not_state():
    return of(branch, torch.ones(8, 6), dynamic=[{0: Dim("b", max=100)}])


@case
def a_branch_that_a_dim_states():
    return of(branch, torch.ones(8, 6), dynamic=[{0: Dim("b", min=6, max=100)}])


@case
def an_example_outside_of_its_dim():
    return of(branch, torch.ones(8, 6), dynamic=[{0: Dim("b", min=10, max=100)}])


def pinned(x):
    assert x.shape[0] == 8
    return x * 2


@case
def a_dim_that_the_program_fixes():
    return of(pinned, torch.ones(8, 6), dynamic=[{0: Dim("b")}])


@case
def a_dynamic_size_that_the_program_fixes():
    return of(pinned, torch.ones(8, 6), dynamic=[{0: Dim.DYNAMIC}])


@case
def an_automatic_size_that_the_program_fixes():
    return of(pinned, torch.ones(8, 6), dynamic=[{0: Dim.AUTO}])


@case
def a_dim_of_size_one():
    return of(branch, torch.ones(1, 6), dynamic=[{0: Dim("b")}])


@case
def a_dynamic_size_of_one():
    return of(branch, torch.ones(1, 6), dynamic=[{0: Dim.DYNAMIC}])


@case
def a_static_size_that_differs():
    return of(branch, torch.ones(8, 6), dynamic=[{0: 9}])


@case
def shapes_with_an_unknown_argument():
    return export(Perceptron(), (torch.ones(5, 4),), dynamic_shapes={"z": {0: Dim.DYNAMIC}})


@case
def shapes_of_too_many_arguments():
    return export(Perceptron(), (torch.ones(5, 4),), dynamic_shapes=({0: Dim.DYNAMIC}, None))


@case
def a_shape_that_is_a_text():
    return export(Perceptron(), (torch.ones(5, 4),), dynamic_shapes=("a",))


@case
def a_shape_of_another_length():
    return export(Perceptron(), (torch.ones(5, 4),), dynamic_shapes=([Dim.DYNAMIC, None, None],))


@case
def a_function_instead_of_a_module():
    return export(branch, (torch.ones(2),))


@case
def arguments_that_are_no_tuple():
    return export(Perceptron(), torch.ones(5, 4)).replace("cresset.Tensor", "torch.Tensor")


@case
def call_of_the_program_itself():
    return export(Perceptron(), (torch.ones(5, 4),))(torch.ones(5, 4))


@case
def attributes_of_the_program_are_read_only():
    export(Perceptron(), (torch.ones(5, 4),)).graph = None


@case
def calls_with_other_arguments():
    class M(nn.Module):
        def forward(self, x, y, n, d, *, k=None):
            if x.shape[0] > 5:
                return x * 2 + y[0] * n + d["q"]
            return x
    x, y, d, k = torch.ones(8, 6), [torch.ones(6)], {"q": torch.ones(6)}, torch.ones(2)
    shapes = {"x": {0: Dim.DYNAMIC(max=64)}, "y": [None], "n": None, "d": {"q": None}, "k": {0: Dim.DYNAMIC}}
    program = export(M(), (x, y, 3, d), {"k": k}, dynamic_shapes=shapes)
    k = {"k": k}
    return calls(program, ((x, y, 3, d), k), ((x, y, 4, d), k), ((torch.ones(4, 6), y, 3, d), k), ((torch.ones(65, 6), y, 3, d), k),
                 ((torch.ones(8, 5), y, 3, d), k), ((x, [torch.ones(5)], 3, d), k), ((x, y, 3, d), {"k": torch.ones(7)}),
                 ((x, y, 3, d), {}), ((x, y, 3, {"z": d["q"]}), k), ((x, tuple(y), 3, d), k), ((x, y, "s", d), k))


@case
def texts_of_dims():
    b = Dim("b")
    return "\n".join(map(repr, [b, 2 * b, b + 1, b * 3 - 1, Dim.AUTO, Dim.DYNAMIC(min=3), Dim.STATIC, Dim("q", min=3, max=9)]))


@case
def a_product_of_dims():
    return Dim("b") * Dim("c")


@case
def a_dim_without_values():
    return Dim("q", min=5, max=3)


@case
def shapes_of_a_collection():
    shapes, x = export_module.ShapesCollection(), torch.ones(4, 2)
    shapes[x] = {0: Dim("b")}
    return f"{len(shapes)} {shapes[x]} {shapes.dynamic_shapes(nn.Linear(2, 2), (x,))}"


@case
def a_collection_of_another_call():
    shapes, x = export_module.ShapesCollection(), torch.ones(4, 2)
    shapes[x] = {0: Dim("b")}
    return str(shapes.dynamic_shapes(nn.Linear(2, 2), (torch.ones(3, 2),)))


# Cases that are saved in tests/data/export.
FILES = ["perceptron", "counting", "state_of_all_kinds", "picture_in_training", "attention_of_any_batch",
         "embedding_and_recurrent_layers", "arithmetic", "new_tensors", "numbers_and_texts", "a_size_that_varies",
         "two_sizes_that_are_equal", "a_branch_by_a_size"]


def program(name):
    """The program of a case, without lines of files; parameters have the numbers of seed 0."""
    torch.manual_seed(0)
    made = CASES[name]()
    for node in made.graph.nodes:
        node.meta.pop("stack_trace", None)
    return made


def outputs(program):
    """Results of the example inputs as lists, by name."""
    torch.manual_seed(1)
    args, kwargs = program.example_inputs
    out = program.module()(*args, **kwargs)
    pytree = importlib.import_module(f"{torch.__name__}.utils._pytree")
    return [x.tolist() if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves(out)]


def record_files(folder):
    """Saves the programs of FILES, and what they give."""
    found = {}
    for name in FILES:
        export_module.save(program(name), f"{folder}/{name}.pt2")
        found[name] = outputs(program(name))
    with open(f"{folder}/outputs.json", "w") as file:
        json.dump(found, file)
        file.write("\n")


def record(path):
    with open(path, "w") as file:
        json.dump({name: run(name) for name in CASES}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    (record_files if sys.argv[1] == "files" else record)(sys.argv[3])
