"""Times benchmark cases in one process: worker.py MODULE [THREADS].

Reads case names from standard input and answers each with the nanoseconds of one call (the median
of several batches, less that of an empty call); run.py talks to one worker for each library."""
import importlib
import statistics
import sys
import time

module, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
torch = importlib.import_module(module)
nn = importlib.import_module(module + ".nn")
F = importlib.import_module(module + ".nn.functional")
torch.set_num_threads(threads)
torch.manual_seed(0)

SIZES = {"32K": (64, 512), "1M": (1024, 1024), "16M": (4096, 4096)}
CASES = {}


def case(name):
    def add(f):
        CASES[name] = f
        return f
    return add


@case("a + b, 4 floats")
def _():
    a, b = torch.randn(4), torch.randn(4)
    return lambda: a + b


@case("a + b, 4 floats, requires_grad")
def _():
    a, b = torch.randn(4, requires_grad=True), torch.randn(4)
    return lambda: a + b


@case("a[0]")
def _():
    a = torch.randn(4)
    return lambda: a[0]


@case("a.sum()")
def _():
    a = torch.randn(4)
    return lambda: a.sum()


@case("4-8-2 network, training step")
def _():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = importlib.import_module(module + ".optim").SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(16, 4), torch.randn(16, 2)

    def step():
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return step


def pointwise(name, f):
    for size, shape in SIZES.items():
        def make(shape=shape):
            a, b = torch.randn(shape), torch.randn(shape)
            return lambda: f(a, b)
        CASES[f"{name} {size}"] = make


pointwise("add", lambda a, b: a + b)
pointwise("mul scalar", lambda a, b: a * 1.5)
pointwise("exp", lambda a, b: torch.exp(a))
pointwise("tanh", lambda a, b: torch.tanh(a))
pointwise("sigmoid", lambda a, b: torch.sigmoid(a))
pointwise("gelu", lambda a, b: F.gelu(a))
pointwise("relu", lambda a, b: torch.relu(a))
pointwise("where", lambda a, b: torch.where(a > b, a, b))
pointwise("sum", lambda a, b: a.sum())
pointwise("sum dim 0", lambda a, b: a.sum(0))
pointwise("sum dim 1", lambda a, b: a.sum(1))
pointwise("argmax", lambda a, b: a.argmax())
pointwise("argmax dim 0", lambda a, b: a.argmax(0))
pointwise("argmax dim 1", lambda a, b: a.argmax(1))
pointwise("argmax strided", lambda a, b: a[:, ::2].argmax(1))
pointwise("min of rows of 16", lambda a, b: a.reshape(-1, 16).min(1))
pointwise("softmax", lambda a, b: F.softmax(a, -1))
pointwise("layer_norm", lambda a, b: F.layer_norm(a, (a.shape[-1],)))


def backward(name, f):
    for size, shape in SIZES.items():
        def make(shape=shape):
            a, g = torch.randn(shape, requires_grad=True), torch.randn(shape)
            w = torch.ones(shape[-1], requires_grad=True)
            b = torch.zeros(shape[-1], requires_grad=True)
            wanted = [a, w, b] if name == "layer_norm" else [a]

            def run():
                return torch.autograd.grad(f(a, w, b), wanted, g)
            return run
        CASES[f"{name} forward+backward {size}"] = make


backward("softmax", lambda a, w, b: F.softmax(a, -1))
backward("layer_norm", lambda a, w, b: F.layer_norm(a, (a.shape[-1],), w, b))
backward("gelu", lambda a, w, b: F.gelu(a))


def matmul(m, k, n):
    def make():
        a, b = torch.randn(m, k), torch.randn(k, n)
        return lambda: a @ b
    CASES[f"matmul {m}x{k}x{n}"] = make


for shape in ((512, 512, 512), (1024, 1024, 1024), (128, 768, 3072), (128, 3072, 768), (64, 1000, 100)):
    matmul(*shape)


def conv(n, c, hw, k, size):
    def make():
        x, w, b = torch.randn(n, c, hw, hw), torch.randn(k, c, size, size), torch.randn(k)
        return lambda: F.conv2d(x, w, b, padding=size // 2)
    CASES[f"conv2d {n}x{c}x{hw}x{hw} {k} of {size}x{size}"] = make


for shape in ((8, 64, 56, 64, 3), (8, 128, 28, 128, 3), (32, 16, 8, 32, 3), (8, 256, 14, 256, 1)):
    conv(*shape)


def seconds(f):
    """The median over batches of the time of one call of f."""
    f()
    start = time.perf_counter()
    f()
    once = max(time.perf_counter() - start, 1e-8)
    batch = max(1, min(200000, int(0.02 / once)))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(batch):
            f()
        times.append((time.perf_counter() - start) / batch)
    return statistics.median(times)


def measure(name):
    """Nanoseconds of the case, without those of calling a function that does nothing."""
    return (seconds(CASES[name]()) - seconds(lambda: None)) * 1e9


if __name__ == "__main__":
    print("\t".join(CASES), flush=True)
    for line in sys.stdin:
        print(measure(line.strip()), flush=True)
