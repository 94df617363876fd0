"""Functions that tests of DTensor run in every rank (ranks.py)."""
import contextlib
import copy
import importlib.util
import io
import itertools
import os
import pickle
import warnings

import cresset as torch
import cresset.distributed as dist
from cresset import nn
from cresset.distributed._state_dict_utils import _distribute_tensors
from cresset.distributed.device_mesh import DeviceMesh, init_device_mesh
from cresset.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, empty, full, ones, rand,
                                        randn, zeros)
from cresset.distributed.tensor.debug import CommDebugMode, visualize_sharding
from cresset.distributed.tensor import _collective_utils, _dispatch, _StridedShard
from cresset.distributed.tensor.experimental import _attention, context_parallel, implicit_replication, local_map, register_sharding
from cresset.distributed.tensor.experimental._attention import context_parallel_unshard, set_rotate_method
from cresset.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel,
                                                 SequenceParallel, loss_parallel, parallelize_module)
from cresset.distributed.tensor.parallel.input_reshard import input_reshard
from cresset.nn.attention.flex_attention import flex_attention
from cresset.nn.functional import scaled_dot_product_attention as early_attention

SHORT = os.environ.get("RANKS_SHORT") == "1"  # fewer steps and kinds
STEPS = 6 if SHORT else 20


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def numbers(*size, dtype=torch.float32):
    return torch.arange(1, 1 + torch.Size(size).numel(), dtype=dtype).view(size) / 7


def placements_of(rank, size):
    """Every redistribution on one dimension, also of dims that the ranks do not divide."""
    mesh = init_device_mesh("cpu", (size,))
    for sizes in ((4, 6, 8), (5, 3, 7), (1, 9, 2)):
        whole = numbers(*sizes, dtype=torch.float64)
        every = [Replicate(), Shard(0), Shard(1), Shard(-1)]
        for a in every:
            x = distribute_tensor(whole, mesh, [a])
            assert x.shape == whole.shape and torch.equal(x.full_tensor(), whole)
            for b in every:
                y = x.redistribute(placements=[b])
                assert torch.equal(y.full_tensor(), whole) and y.placements == (b if b != Shard(-1) else Shard(2),)
                parts = whole.chunk(size, b.dim) if isinstance(b, Shard) else [whole] * size
                want = parts[rank] if rank < len(parts) else whole.narrow(b.dim, 0, 0)
                assert torch.equal(y.to_local(), want), (a, b)
                for same in (y.detach(), y.clone(), torch.ops.aten.alias(y)):
                    assert same.placements == y.placements and same.shape == y.shape and same.stride() == y.stride()
                    assert same is not y and torch.equal(same.to_local(), want)
                assert y.detach().to_local().data_ptr() == y.to_local().data_ptr()
        for b in every:
            x = DTensor.from_local(whole * (rank + 1), mesh, [Partial()])
            assert torch.equal(x.redistribute(placements=[b]).full_tensor(), whole * (size * (size + 1) // 2))
        for name, want in (("max", whole * size), ("min", whole), ("avg", whole * (size + 1) / 2)):
            x = DTensor.from_local(whole * (rank + 1), mesh, [Partial(name)])
            torch.testing.assert_close(x.full_tensor(), want)
            torch.testing.assert_close(x.redistribute(placements=[Shard(1)]).full_tensor(), want) if name != "max" else None
    flags = torch.arange(6) % 2 == 0
    assert torch.equal(distribute_tensor(flags, mesh, [Shard(0)]).full_tensor(), flags)


def two_dims(rank, size):
    """Meshes of two dimensions; a dim that both divide."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    whole = numbers(6, 5, dtype=torch.float64)
    every = [Replicate(), Shard(0), Shard(1)]
    for a in every:
        for b in every:
            x = distribute_tensor(whole, mesh, [a, b])
            assert torch.equal(x.full_tensor(), whole), (a, b)
            for c in every:
                for d in every if not SHORT or c is not a else [Shard(1)]:
                    assert torch.equal(x.redistribute(placements=[c, d]).full_tensor(), whole), (a, b, c, d)
            y = (x @ distribute_tensor(whole.t().contiguous(), mesh, [b, a])).relu().sum(1)
            torch.testing.assert_close(y.full_tensor(), (whole @ whole.t()).relu().sum(1))


def gradients(rank, size):
    """Derivatives through redistributions, parts and operators equal those of one process."""
    mesh = init_device_mesh("cpu", (size,))
    x, w = numbers(5, 6, dtype=torch.float64), numbers(6, 3, dtype=torch.float64)
    a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
    loss = (torch.softmax(a @ b, 1) * a[:, :3]).pow(2).mean()
    loss.backward()
    for p in (Replicate(), Shard(0), Shard(1)):
        for q in (Replicate(), Shard(0), Shard(1)):
            da, db = distribute_tensor(x, mesh, [p]).requires_grad_(), distribute_tensor(w, mesh, [q]).requires_grad_()
            got = (torch.softmax(da @ db, 1) * da.redistribute(placements=[q])[:, :3]).pow(2).mean()
            torch.testing.assert_close(got.full_tensor(), loss.detach())
            got.backward()
            torch.testing.assert_close(da.grad.full_tensor(), a.grad)
            torch.testing.assert_close(db.grad.full_tensor(), b.grad)
    part = torch.ones(2, 3, requires_grad=True)
    y = DTensor.from_local(part, mesh, [Shard(0)])
    (y * 3).redistribute(placements=[Replicate()]).to_local().sum().backward()
    assert torch.equal(part.grad, torch.full((2, 3), 3.0))
    z = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    z.to_local().sum().backward()
    assert z.grad.placements == (Shard(0),) and torch.equal(z.grad.full_tensor(), torch.ones_like(x))


def values(rank, size):
    """Factories, random numbers, printing, copies, pickles, scalars, writes."""
    mesh = init_device_mesh("cpu", (size,))
    assert torch.equal(ones(5, 2, device_mesh=mesh, placements=[Shard(0)]).full_tensor(), torch.ones(5, 2))
    assert torch.equal(zeros((3, 2), device_mesh=mesh, placements=[Replicate()]).to_local(), torch.zeros(3, 2))
    assert torch.equal(full((4,), 2.5, device_mesh=mesh, placements=[Shard(0)]).full_tensor(), torch.full((4,), 2.5))
    assert empty(4, 3, device_mesh=mesh, placements=[Shard(1)], dtype=torch.int64).dtype == torch.int64
    torch.manual_seed(3)
    want = [torch.randn(5, 4), torch.rand(4), nn.functional.dropout(torch.ones(6, 4), 0.5)]
    torch.manual_seed(3)
    got = [randn(5, 4, device_mesh=mesh, placements=[Shard(0)]), rand(4, device_mesh=mesh, placements=[Replicate()]),
           nn.functional.dropout(ones(6, 4, device_mesh=mesh, placements=[Shard(0)]), 0.5)]
    for x, y in zip(got, want):
        assert torch.equal(x.full_tensor(), y)
    assert got[2].placements == (Shard(0),)
    x = distribute_tensor(numbers(4, 2), mesh, [Shard(0)])
    assert repr(x) == (f"DTensor(local_tensor={x.to_local()}, device_mesh={mesh}, placements=(Shard(dim=0),))"), repr(x)
    y = copy.deepcopy(x)
    assert y.placements == x.placements and torch.equal(y.to_local(), x.to_local()) and y.to_local() is not x.to_local()
    assert torch.equal(pickle.loads(pickle.dumps(x)).to_local(), x.to_local())
    assert abs(x.sum().item() - numbers(4, 2).sum().item()) < 1e-5
    assert bool((x > 0).all()) and x.argmax().item() == 7 and len(x) == 4
    x.mul_(2).add_(x)
    torch.testing.assert_close(x.full_tensor(), numbers(4, 2) * 4)
    p = nn.Parameter(x)
    assert isinstance(p, DTensor) and isinstance(p, nn.Parameter) and p.requires_grad
    net = nn.Linear(4, 3)
    distribute_module(net, mesh)
    assert all(isinstance(v, DTensor) for v in net.state_dict().values())


def filled_from_whole_tensors(rank, size):
    """_distribute_tensors of state dicts: parts of whole tensors, also in DTensors without elements."""
    mesh, key_of_other = init_device_mesh("cpu", (size,)), torch.ones(1)
    wholes = {"even": numbers(2 * size, 2), "uneven": numbers(size + 1, 3), "one": numbers(1, 2), "columns": numbers(3, size)}
    for meta in (False, True):
        places = {k: [Shard(1 if k == "columns" else 0)] for k in wholes}
        own = {k: distribute_tensor(torch.zeros_like(v), mesh, places[k]) for k, v in wholes.items()}
        own = {k: v.to("meta") for k, v in own.items()} if meta else own
        state = {"other": key_of_other, **{k: [own[k], whole] for k, whole in wholes.items()}}
        _distribute_tensors(state, [*wholes, "other", "absent"], "cpu")
        assert state["other"] is key_of_other and set(state) == {"other", *wholes}
        for k, whole in wholes.items():
            assert torch.equal(state[k].full_tensor(), whole) and state[k].placements == tuple(places[k]), k
            assert state[k].shape == whole.shape and state[k].stride() == whole.stride() and (meta or state[k] is own[k]), k


def clipped_gradients(rank, size):
    """clip_grad_norm_ of gradients with all placements equals that of one process, and reduces one number a mesh dimension."""
    mesh = init_device_mesh("cpu", (size,)) if size < 4 else init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    copy_ = Replicate()
    kinds = [(Shard(0),), (Shard(1),), (copy_,)]
    if mesh.ndim == 2:
        kinds = [(Shard(0), copy_), (copy_, Shard(1)), (Shard(0), Shard(1)), (Shard(0), Shard(0)), (copy_, copy_)]
    sizes = [(5, 3), (4, 6), (1, 2), (7, 1)]
    for norm in (2.0, float("inf"), 0.0) if SHORT else (2.0, 1.0, 3.5, -2.0, float("inf"), float("-inf"), 0.0):
        for kept in (kinds, kinds[:1], kinds[-1:]):
            plain, divided = [], []
            for k, s in enumerate(sizes[k % 4] for k in range(2 * len(kept))):
                x = nn.Parameter(torch.zeros(s))
                x.grad = numbers(*s) - 0.9 * k
                plain.append(x)
                y = nn.Parameter(distribute_tensor(x.detach(), mesh, kept[k % len(kept)]))
                y.grad = distribute_tensor(x.grad, mesh, kept[k % len(kept)])
                divided.append(y)
            calls, c10d = [], dist.distributed_c10d
            all_reduce, gather = c10d.all_reduce, c10d.all_gather_into_tensor
            c10d.all_reduce = lambda x, *more, **named: (calls.append(x.numel()), all_reduce(x, *more, **named))[1]
            c10d.all_gather_into_tensor = lambda *more, **named: (calls.append(None), gather(*more, **named))[1]
            try:
                got = nn.utils.clip_grad_norm_(divided, 0.5, norm)
            finally:
                c10d.all_reduce, c10d.all_gather_into_tensor = all_reduce, gather
            dims = {i for p in kept for i, q in enumerate(p) if isinstance(q, Shard)}
            assert not norm or calls == [1] * len(dims), (norm, calls)
            want = nn.utils.clip_grad_norm_(plain, 0.5, norm)
            torch.testing.assert_close(got.full_tensor(), want)
            for x, y in zip(plain, divided):
                torch.testing.assert_close(y.grad.full_tensor(), x.grad)
    x = DTensor.from_local(torch.full((2, 3), 1.0 + rank), init_device_mesh("cpu", (size,)), [Partial()])
    torch.testing.assert_close(nn.utils.get_total_norm([x]).full_tensor(), torch.tensor(6.0 ** 0.5 * size * (size + 1) / 2))


def refusals(rank, size):
    """Errors in torch's words."""
    mesh, x = init_device_mesh("cpu", (size,)), numbers(4, 2)
    d = distribute_tensor(x, mesh, [Shard(0)])
    raises(RuntimeError, "aten.add.Tensor got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
           "calling distributed operators!", lambda: d + x)
    raises(ValueError, "`placements` must have the same length as `device_mesh.ndim`! Found placements length: 2, and "
           "device_mesh.ndim: 1.", lambda: distribute_tensor(x, mesh, [Shard(0), Shard(1)]))
    raises(RuntimeError, "Can not redistribute from S(0) to P(sum), redistributing to Partial is for internal use only!",
           lambda: d.redistribute(placements=[Partial()]))
    raises(RuntimeError, "placements is needed for redistribute!", d.redistribute)
    raises(RuntimeError, "unsupported placements P(sum) on device mesh dimension 0!", lambda: distribute_tensor(x, mesh, [Partial()]))
    raises(RuntimeError, "the local_tensor argument only accepts torch.Tensor but got <class 'int'> value.",
           lambda: DTensor.from_local(3, mesh, [Replicate()]))
    raises(ValueError, "Cannot distribute a DTensor with placements (Shard(dim=0),) to a different placements",
           lambda: distribute_tensor(d, mesh, [Replicate()]))
    raises(RuntimeError, "in-place operations that require placement changes are not supported. The input has placement "
           "(Shard(dim=0),), but no valid strategy preserves this placement.", lambda: d.cumsum_(0))
    raises(NotImplementedError, "Cross device mesh comm not supported yet!",
           lambda: d.redistribute(init_device_mesh("cpu", (size,), mesh_dim_names=("z",)), [Replicate()]))
    raises(RuntimeError, "the local_tensor argument only accepts torch.Tensor but got", lambda: DTensor.from_local(d, mesh, [Shard(0)]))
    raises(RuntimeError, "Sharding dim 3 greater than tensor ndim 1 for placement number 0",
           lambda: DTensor.from_local(torch.ones(2), mesh, [Shard(3)]))
    raises(IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
           lambda: distribute_tensor(torch.ones(4), mesh, [Shard(1)]))
    raises(AssertionError, "Expected tensor.dim() > 0, got 0", lambda: distribute_tensor(torch.tensor(1.), mesh, [Shard(0)]))
    raises(ValueError, "Inconsistent tensor metadata (including shape and stride) across ranks.",
           lambda: DTensor.from_local(torch.ones(2 + rank, 3), mesh, [Shard(0)], run_check=True))
    # Parts of sizes that from_local does not allow: the product is refused on all ranks, and the group stays usable.
    net = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 4))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    raises(RuntimeError, "shapes cannot be multiplied (2x", lambda: net(torch.ones(2, 4)))
    assert torch.equal(d.full_tensor(), x)
    raises(RuntimeError, "distribute_module should only be called once on a module",
           lambda: distribute_module(distribute_module(nn.Linear(2, 2), mesh), mesh))
    raises(NotImplementedError, "ColwiseParallel currently only support nn.Linear and nn.Embedding!",
           lambda: parallelize_module(nn.ReLU(), mesh, ColwiseParallel()))
    raises(RuntimeError, "should be used to distribute leaf tensors", lambda: distribute_tensor(x.requires_grad_() * 2, mesh, [Shard(0)]))
    raises(RuntimeError, "Mesh should not be bigger than default world size", lambda: init_device_mesh("cpu", (size + 1,)))


def lookups(rank, size):
    """Elements that indices name, of operands that are divided where the indices point: no rank sends its part."""
    mesh, calls = init_device_mesh("cpu", (size,)), CommDebugMode()
    for rows in (4 * size, 3 * size - 1):
        table, at = numbers(rows, 3, dtype=torch.float64), torch.arange(2 * rows).view(2, rows) * 7 % rows
        names, x = torch.arange(6) % rows, numbers(6, rows, dtype=torch.float64).log_softmax(1)
        whole = [distribute_tensor(i, mesh, [Replicate()]) for i in (at, at[:, :3].contiguous(), names, at.int())]
        for f, a, dim, i in ((nn.functional.embedding, at, 0, whole[0]), (nn.functional.embedding, at.int(), 0, whole[3]),
                             (lambda i, w: w.gather(0, i), at[:, :3].contiguous(), 0, whole[1]),
                             (lambda i, w: w.index_select(0, i), names, 0, whole[2]),
                             *((lambda i, w, how=how: nn.functional.nll_loss(w, i, reduction=how, ignore_index=2), names, 1, whole[2])
                               for how in ("sum", "mean", "none"))):
            w = (table if dim == 0 else x).clone().requires_grad_()
            d = distribute_tensor(w.detach(), mesh, [Shard(dim)]).requires_grad_()
            with calls:
                got = f(i, d)
            assert got.placements == (Partial(),) and not calls.get_total_counts(), (got.placements, calls.get_comm_counts())
            want = f(a, w)
            assert torch.equal(got.full_tensor(), want) or got.dim() == 0
            torch.testing.assert_close(got.full_tensor(), want)
            (got * got).sum().backward()
            (want * want).sum().backward()
            torch.testing.assert_close(d.grad.full_tensor(), w.grad)
        for wrong in (-1, rows):
            i = distribute_tensor(torch.tensor([wrong]), mesh, [Replicate()])
            d = distribute_tensor(table, mesh, [Shard(0)])
            raises(IndexError, "index out of range in self", lambda: nn.functional.embedding(i, d))
            raises(RuntimeError, f"index {wrong} is out of bounds for dimension 0 with size {rows}", lambda: d.gather(0, i.view(1, 1)))


def divided_tables(rank, size):
    """Bags of embeddings whose table is divided by rows or columns; the example's losses and tables are those of one process."""
    mesh, bag, calls = init_device_mesh("cpu", (size,)), nn.functional.embedding_bag, CommDebugMode()
    at, starts, weights = torch.arange(11) * 7 % 10, torch.tensor([0, 3, 3, 8]), numbers(11)
    one = [distribute_tensor(x, mesh, [Replicate()]) for x in (at, starts, weights)]
    for dim, rows in ((0, 10), (0, 13), (1, 10)):
        for options in ({"mode": "sum"}, {"mode": "mean"}, {"mode": "mean", "padding_idx": 4}, {"mode": "max"}, {"mode": "sum", "weighed": 1}):
            options = dict(options)
            weighed = options.pop("weighed", None)
            w = (numbers(rows, 4, dtype=torch.float64) * 3 % 1).requires_grad_()
            d = distribute_tensor(w.detach(), mesh, [Shard(dim)]).requires_grad_()
            with calls:
                got = bag(one[0], d, one[1], per_sample_weights=one[2].double() if weighed else None, **options)
            want = bag(at, w, starts, per_sample_weights=weights.double() if weighed else None, **options)
            if dim == 1 or options["mode"] != "max":
                assert not calls.get_total_counts() and got.placements == (Shard(1) if dim else Partial(),), (dim, options, got.placements)
            torch.testing.assert_close(got.full_tensor(), want)
            (got * got).sum().backward()
            (want * want).sum().backward()
            torch.testing.assert_close(d.grad.full_tensor(), w.grad)
    spec = importlib.util.spec_from_file_location("recommender", os.path.join(os.path.dirname(__file__), "..", "..", "examples", "recommender.py"))
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    losses, tables = example.train(6, log=False)
    want, whole = example.train(6, divided=False, log=False)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(want), rtol=1e-5, atol=1e-6)
    for name, table in tables.items():
        torch.testing.assert_close(table, whole[name], rtol=1e-4, atol=1e-5)


def compiled(rank, size):
    """Compiled modules that are data parallel, sharded, or tensor parallel have the losses of uncompiled ones."""
    from cresset.distributed.fsdp import fully_shard
    mesh, targets = init_device_mesh("cpu", (size,)), []

    def layers():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))

    def sharded():
        net = layers()
        fully_shard(net[0], mesh=mesh)
        return fully_shard(net, mesh=mesh)

    def parallel():
        return parallelize_module(layers(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})

    def losses(net, x):
        optimizer, found = torch.optim.SGD(net.parameters(), lr=0.1), []
        for _ in range(3):
            loss = (net(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    def keep(graph, examples):
        targets.append([str(n.target) for n in graph.graph.nodes])
        return graph.forward
    x = numbers(4, 6) + 1
    for make, own, whole in ((lambda: nn.parallel.DistributedDataParallel(layers()), x + rank, True), (sharded, x + rank, False),
                             (parallel, x, False)):
        want = losses(make(), own)
        fast = torch.compile(make(), fullgraph=whole)
        assert losses(fast, own) == want
        if make is not parallel:  # a sharded module inside of another one, and the module of DistributedDataParallel, are recorded
            assert "1 recording" in torch.compiler.report(fast), torch.compiler.report(fast)
            assert not any("forward" in m.__dict__ for m in fast._orig_mod.modules())
        torch.compiler.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        net = parallel()
        assert torch.equal(torch.compile(net, backend=keep)(x), net(x))
    names = [t for t in targets[0] if t.startswith(("aten", "_c10d"))]  # one graph: the products of parts, and the call between ranks
    assert len(targets) == 1 and names == ["aten.linear.default", "aten.relu.default", "aten.linear.default",
                                           "_c10d_functional.all_reduce.default", "_c10d_functional.wait_tensor.default",
                                           "aten.add.Tensor"], targets


def products_of_parts(rank, size):
    """Linears of parallel styles, called on plain tensors: values and derivatives of one process, second ones too; copies of modules."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    whole = nn.Sequential(nn.Linear(6, 4 * size), nn.Tanh(), nn.Linear(4 * size, 6)).double()
    net = parallelize_module(copy.deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x, results = torch.linspace(-1, 1, 24, dtype=torch.float64).view(2, 2, 6), []
    for model in (whole, net, copy.deepcopy(net)):
        for p in model.parameters():
            p.grad = None
        at = x.clone().requires_grad_()
        y = model(at)
        assert type(y) is torch.Tensor
        first, = torch.autograd.grad(y.square().sum(), at, create_graph=True)
        first.square().sum().backward()
        results.append([y, first, at.grad, *(p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for p in model.parameters())])
    assert all(p.grad.placements == p.placements for p in net.parameters())
    for other in results[1:]:
        for a, b in zip(results[0], other):
            torch.testing.assert_close(b, a)
    with CommDebugMode() as mode, torch.no_grad():
        torch.testing.assert_close(net(x), results[0][0].detach())
    assert mode.get_total_counts() == 1, mode.get_comm_counts()
    given = DTensor.from_local(x, mesh, [Replicate()])
    torch.testing.assert_close(net(given).detach(), results[0][0].detach())


def lookups_on_two_dims(rank, size):
    """Rows that are divided along both dims of a mesh, and along one of them beside a divided batch."""
    mesh = init_device_mesh("cpu", (2, size // 2))
    for rows in (4 * size, size + 1):
        table, at = numbers(rows, 3), torch.arange(8).view(4, 2) * 5 % rows
        for placements, of in (([Shard(0), Shard(0)], [Replicate()] * 2), ([Shard(0), Shard(1)], [Replicate()] * 2),
                               ([Replicate(), Shard(0)], [Shard(0), Replicate()])):
            d, i = distribute_tensor(table, mesh, placements), distribute_tensor(at, mesh, of)
            assert torch.equal(nn.functional.embedding(i, d).full_tensor(), table[at]), (placements, of)


def own_strategies(rank, size):
    """A program's strategies of an operator; calls along a dimension of a mesh; a module that keeps parts for backward."""
    from cresset.distributed._composable import checkpoint
    mesh, aten, calls = init_device_mesh("cpu", (size,)), torch.ops.aten, CommDebugMode()
    x, given = numbers(4 * size, 6), []

    @register_sharding([aten.cummax.default, aten.cumsum_.default])
    def along_rows(x, dim):
        given.append((x.ndim, x.shape, dim))
        return [([Replicate(), Replicate()], [Replicate(), None]), ([Shard(0), Shard(0)], [Shard(0), None])]
    d = distribute_tensor(x, mesh, [Shard(0)])
    with calls:
        y, places = torch.cummax(d, 1)
    assert y.placements == places.placements == (Shard(0),) and not calls.get_total_counts() and given == [(2, x.shape, 1)]
    assert torch.equal(y.full_tensor(), x.cummax(1)[0])
    moved = torch.cummax(distribute_tensor(x, mesh, [Shard(1)]), 1)[0]
    assert torch.equal(moved.full_tensor(), x.cummax(1)[0])
    raises(ValueError, "a strategy of 2 results and 1 tensors was registered for a call of 1 results and 1 tensors", lambda: d.cumsum_(1))
    for listed, kind, text in (([], RuntimeError, "placed as [Shard(dim=0)]"),
                               ([([Replicate()], [Shard(5), None])], ValueError, "Shard(dim=5)"),
                               ([([Shard(0)], [Shard(-3), None])], ValueError, "of 2 dims")):
        register_sharding(aten.triu.default)(lambda x, diagonal=0, listed=listed: listed)
        raises(kind, text, lambda: torch.triu(d))
    register_sharding(aten.triu.default)(lambda x, diagonal=0: [([Shard(-2)], [Shard(-2), None])])
    assert torch.triu(d).placements == (Shard(0),)
    raises(TypeError, "not 'triu'", lambda: register_sharding("triu"))
    for op in (aten.cummax.default, aten.cumsum_.default, aten.triu.default):
        del _dispatch.strategies[op]
    _dispatch.forget_plans()

    assert torch.equal(_collective_utils.shard_dim_alltoall(d.to_local(), 0, 1, mesh, 0),
                       distribute_tensor(x, mesh, [Shard(1)]).to_local())
    part = torch.zeros(4, 6)
    _collective_utils.mesh_scatter(part, list(x.chunk(size)) if rank == 0 else None, mesh)
    assert torch.equal(part, d.to_local())
    _collective_utils.mesh_broadcast(part, mesh, group_src=size - 1)
    assert torch.equal(part, x[-4:])
    padded = _collective_utils.pad_tensor(part, 1, 2)
    assert torch.equal(padded[:, :6], part) and not padded[:, 6:].any()
    assert torch.equal(_collective_utils.unpad_tensor(padded, 1, 2), part)

    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    other = copy.deepcopy(net)
    checkpoint(other[1])
    raises(AssertionError, "checkpoint has already been applied", lambda: checkpoint(other[1]))
    want = torch.autograd.grad(other(x).square().sum(), list(other.parameters()))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inner = []
    checkpoint(net)
    net[0].register_forward_pre_hook(lambda m, args: inner.append(torch.is_grad_enabled()))
    input_reshard(nn.Sequential(net), mesh, 0)(x).square().sum().backward()
    assert len(inner) == 2
    for p, g in zip(net.parameters(), want):
        torch.testing.assert_close(p.grad.full_tensor(), g)

    class Refuses(nn.Module):
        def forward(self, x):
            raise ValueError("refused")

    raises(ValueError, "refused", lambda: input_reshard(Refuses(), mesh, 0)(x))
    y = torch.ones(4, 4, requires_grad=True)
    made = (y * y).sum()
    with CommDebugMode() as mode:
        made.backward()
    assert mode.get_total_counts() == 0


def strided(rank, size, mesh):
    """A _StridedShard that no later Shard completes: parts are rows of several places."""
    rows = 2 * size + 3  # uneven groups and parts
    for sizes in ((rows, 3), (2 * size,), (3, rows), (1,)):
        whole = numbers(*sizes)
        dim = sizes.index(max(sizes))
        kinds = [Replicate(), Shard(dim), *(_StridedShard(dim, split_factor=n) for n in (2, 3, size))]
        for a in kinds:
            x = distribute_tensor(whole, mesh, [a])
            want = whole if a.is_replicate() else torch.cat([
                c.chunk(size, dim)[rank] if rank < len(c.chunk(size, dim)) else c.narrow(dim, 0, 0)
                for c in whole.chunk(getattr(a, "split_factor", 1), dim)], dim)
            assert torch.equal(x.to_local(), want) and torch.equal(x.full_tensor(), whole), (a, sizes)
            assert torch.equal(x.to_local(), zeros(sizes, device_mesh=mesh, placements=[a]).to_local() + x.to_local())
            for b in kinds:
                y = x.redistribute(placements=[b])
                assert torch.equal(y.full_tensor(), whole) and torch.equal(y.to_local(), distribute_tensor(whole, mesh, [b]).to_local())
                assert torch.equal((x + y).full_tensor(), whole + whole), (a, b)
    if size == 4:
        grid, whole = init_device_mesh("cpu", (2, 2)), numbers(11, 2)
        kinds = [Replicate(), Shard(0), Shard(1), *(_StridedShard(0, split_factor=n) for n in (2, 3))]
        for a, b in itertools.product(kinds, kinds):
            x = distribute_tensor(whole, grid, [a, b])
            assert torch.equal(x.full_tensor(), whole), (a, b)
            for c in (Shard(0), kinds[-1]):
                y = x.redistribute(placements=[c, a])
                assert torch.equal(y.to_local(), distribute_tensor(whole, grid, [c, a]).to_local()), (a, b, c)
    sums = DTensor.from_local(numbers(2 * size) * (rank + 1), mesh, [Partial()]).redistribute(placements=[_StridedShard(0, split_factor=2)])
    torch.testing.assert_close(sums.full_tensor(), numbers(2 * size) * (size * (size + 1) // 2))


def parts_of_placements(rank, size):
    """What placements say of parts; ranks outside of a mesh; derivatives whose constants are made inside."""
    mesh, x = init_device_mesh("cpu", (size,)), numbers(2 * size + 3, 3)
    for placement in (Shard(0), _StridedShard(0, split_factor=1), _StridedShard(0, split_factor=2)):
        parts, lacking = placement._split_tensor(x, size, with_padding=False)
        padded, lacking = placement._split_tensor(x, size)
        assert len({p.shape for p in padded}) == 1 and [len(p) - n for p, n in zip(padded, lacking)] == [len(p) for p in parts]
        assert torch.equal(torch.cat(parts).sort(0)[0], x)
        assert torch.equal(placement._to_replicate_tensor(parts[rank], mesh, 0, list(x.shape)), x)
    assert torch.equal(Shard(0)._split_tensor(x, size)[0][0], x.chunk(size)[0])
    even = torch.arange(2 * size)
    parts, _ = _StridedShard(0, split_factor=2)._split_tensor(even, size)
    assert torch.equal(torch.stack(parts), even.view(2, size).t())
    strided(rank, size, mesh)
    alone = DeviceMesh("cpu", [0])
    made = DTensor.from_local(torch.ones(3, 4), alone, [Shard(0)])
    assert made.shape == (3, 4) and made.to_local().shape == ((3, 4) if rank == 0 else (0,))
    assert (made + 2).redistribute(placements=[Replicate()]).to_local().shape == ((3, 4) if rank == 0 else (0,))
    assert made.sum().to_local().item() == (12 if rank == 0 else 0)
    given = torch.ones(2, 2, requires_grad=rank > 0)
    raises(ValueError, "Inconsistent tensor metadata", lambda: DTensor.from_local(given, mesh, [Shard(0)], run_check=True))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        DTensor(torch.ones(3, 4, requires_grad=True), made._spec)
    assert "To construct DTensor from torch.Tensor" in str(found[-1].message)
    for dim in (0, 1):
        w = numbers(2, 4, 6).requires_grad_()
        d = distribute_tensor(w.detach(), mesh, [Shard(dim)]).requires_grad_()
        (nn.functional.layer_norm(w, (6,)) * numbers(6)).sum().backward()
        (nn.functional.layer_norm(d, (6,)) * distribute_tensor(numbers(6), mesh, [Replicate()])).sum().backward()
        torch.testing.assert_close(d.grad.full_tensor(), w.grad)
    with loss_parallel():
        raises(ValueError, "loss_parallel() should be enabled only when the input tensor is sharded on dimension 1.",
               lambda: nn.functional.cross_entropy(distribute_tensor(numbers(4, 6), mesh, [Shard(0)]), torch.tensor([0, 1, 2, 3])))


def small_dims(rank, size):
    """A divided dim of 1 element stays divided: the first rank has it."""
    mesh, x = init_device_mesh("cpu", (size,)), numbers(1, 3)
    d = distribute_tensor(x, mesh, [Shard(0)])
    assert d.to_local().shape == (1 if rank == 0 else 0, 3)
    for call in (nn.Parameter, lambda y: y.detach(), lambda y: y.clone(), lambda y: y * 2, lambda y: y + y, lambda y: y.double(),
                 torch.zeros_like, lambda y: y.relu(), lambda y: y.softmax(1), lambda y: y.sum(1), lambda y: y[:, 1:],
                 lambda y: y.view(1, 3, 1), lambda y: y.reshape(1, 1, 3), lambda y: y.unsqueeze(1), lambda y: y @ y.t()):
        got, want = call(d), call(x)
        assert got.placements == (Shard(0),), got
        torch.testing.assert_close(got.full_tensor(), want)
    assert d.t().placements == (Shard(1),) and torch.equal(d.t().full_tensor(), x.t())
    assert torch.equal(d.unsqueeze(0).full_tensor(), x.unsqueeze(0)) and torch.equal(d[0].full_tensor(), x[0])
    torch.testing.assert_close(d.sum(0).full_tensor(), x.sum(0))
    y = d.clone()
    y.mul_(2)
    torch.testing.assert_close(y.full_tensor(), x * 2)
    assert y.zero_().placements == (Shard(0),) and not y.full_tensor().any()
    torch.manual_seed(0)
    one = nn.Linear(8, 1)
    net = copy.deepcopy(one)
    parallelize_module(net, mesh, ColwiseParallel(output_layouts=Replicate()))
    assert net.weight.placements == (Shard(0),)
    for model in (one, net):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(3):
            model(numbers(2, 8)).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(net.weight.full_tensor(), one.weight)
    torch.testing.assert_close(net.bias.full_tensor(), one.bias)


def written_views(rank, size):
    """What is written through a view is in the base, or the call is refused: nothing is lost."""
    mesh, x = init_device_mesh("cpu", (size,)), numbers(4, 6)
    writes = [lambda y: y.view(24).zero_(), lambda y: y.flatten().mul_(2), lambda y: y[:, 0].zero_(), lambda y: y[0].zero_(),
              lambda y: y[0:2].mul_(0), lambda y: y.narrow(0, 1, 2).add_(100), lambda y: y.__setitem__(1, 0.), lambda y: y.t().zero_(),
              lambda y: y.view(8, 3).zero_(), lambda y: y.view(2, 2, 6).zero_(), lambda y: y.split(2)[0].zero_(),
              lambda y: y.chunk(2)[1].zero_(), lambda y: y.split(2, 1)[0].zero_(), lambda y: y.diagonal().zero_(),
              lambda y: y.unbind(1)[0].zero_(), lambda y: y.__setitem__((slice(None), 2), 0.), lambda y: y[::2][0].zero_()]
    refused = []
    for k, write in enumerate(writes):
        want = x.clone()
        write(want)
        for p in (Shard(0), Shard(1), Replicate()):
            d = distribute_tensor(x, mesh, [p])
            try:
                write(d)
            except RuntimeError as error:
                assert "in-place operations that require placement changes are not supported" in str(error), error
                assert torch.equal(d.full_tensor(), x), k
                refused.append((k, p))
            else:
                assert torch.equal(d.full_tensor(), want), (k, p)
    assert (0, Shard(1)) in refused and (3, Shard(0)) in refused
    assert not {(0, Shard(0)), (2, Shard(0)), (3, Shard(1)), (7, Shard(0)), (7, Shard(1))} & set(refused)
    assert not any(p == Replicate() for _, p in refused)
    got = distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
    got.view(24).mul(2).sum().backward()  # derivatives of views that moved are values
    got.grad.mul_(2)
    assert torch.equal(got.grad.full_tensor(), torch.full((4, 6), 4.0))


def own_gradients(rank, size):
    """First gradients have the leaf's strides and memory of their own; attributes and gradients are copied."""
    mesh = init_device_mesh("cpu", (size,))
    d = distribute_tensor(numbers(4, 2), mesh, [Shard(0)]).requires_grad_()
    d.sum().backward()
    assert d.grad.to_local().stride() == (2, 1)
    d.sum().backward()
    d.grad.mul_(2)
    assert torch.equal(d.grad.full_tensor(), torch.full((4, 2), 4.0))
    a, b = (distribute_tensor(numbers(3), mesh, [Replicate()]).requires_grad_() for _ in range(2))
    (a + b).sum().backward()
    a.grad.to_local().mul_(5)
    assert torch.equal(b.grad.full_tensor(), torch.ones(3)) and torch.equal(a.grad.full_tensor(), torch.full((3,), 5.0))
    p = nn.Parameter(distribute_tensor(numbers(4, 2), mesh, [Shard(0)]))
    p.kind, p.grad = [3], distribute_tensor(numbers(4, 2), mesh, [Shard(0)])
    q = copy.deepcopy(p)
    assert isinstance(q, nn.Parameter) and q.kind == [3] and q.kind is not p.kind and q.grad is not p.grad
    assert torch.equal(q.grad.full_tensor(), numbers(4, 2))
    raises(RuntimeError, "Only Tensors created explicitly by the user (graph leaves)", lambda: copy.deepcopy(p * 2))
    file = io.BytesIO()
    torch.save({"p": p, "d": d.detach()}, file)
    file.seek(0)
    made = torch.load(file, weights_only=True)
    assert isinstance(made["p"], nn.Parameter) and made["p"].placements == (Shard(0),) and made["p"].device_mesh == mesh
    assert torch.equal(made["d"].to_local(), d.detach().to_local())
    e = distribute_tensor(numbers(4, 2), mesh, [Shard(0)]).requires_grad_()
    r = e.redistribute(placements=[Replicate()], forward_dtype=torch.float64, backward_dtype=torch.bfloat16)
    assert r.dtype == torch.float64
    (r * 1.001).sum().backward()
    assert e.grad.dtype == torch.float32 and torch.equal(e.grad.full_tensor(), torch.ones(4, 2))  # 1.001 as bfloat16
    moved = d.detach().t().redistribute(placements=[Replicate()])
    assert moved.stride() == moved.to_local().stride() == (4, 1)
    assert torch.equal(moved.view(-1).full_tensor(), numbers(4, 2).t().reshape(-1))
    q = distribute_tensor(numbers(2, 6, size, 4), mesh, [Shard(2)]).transpose(1, 2).redistribute(placements=[Replicate()]).requires_grad_()
    attention = nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    attention.transpose(1, 2).contiguous().view(2, 6, -1).sum().backward()
    assert q.grad.shape == q.shape
    t = DTensor.from_local(numbers(3, 2).t(), mesh, [Shard(0)])
    assert t.stride() == (1, 2 * size) and not t.is_contiguous() and t.contiguous().to_local().stride() == (3, 1)
    raises(RuntimeError, "view size is not compatible", lambda: t.view(-1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal((d.detach() * torch.ones(1)).full_tensor(), numbers(4, 2))
    assert any("numel=1 and ndim!=0" in str(w.message) for w in caught)
    spec = distribute_tensor(numbers(5, 3), mesh, [Shard(0)])._spec
    assert str(spec) == "Spec(f32[5, 3](S(0)))" and spec.dim_map == [0, -1] and spec.num_shards_map == [size, 1] and spec.sums == []


class Block(nn.Module):
    """A transformer's layer over tokens."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(32, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, 32)

    def forward(self, ids):
        x = self.tokens(ids)
        y = self.norm1(x)
        q, k, v = (f(y) for f in (self.q, self.k, self.v))
        q, k, v = (t.view(t.shape[0], t.shape[1], -1, 4).transpose(1, 2) for t in (q, k, v))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(a.shape[0], a.shape[2], -1))
        x = x + self.down(torch.relu(self.up(self.norm2(x))))
        return self.head(x)


def steps(model, prepare=lambda x: x, lr=0.05):
    """Returns the losses of STEPS steps."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=lr), []
    for k in range(STEPS):
        torch.manual_seed(k)
        ids = torch.randint(0, 32, (4, 9))
        out = model(prepare(ids[:, :-1]))
        loss = nn.functional.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def close(got, want):
    assert max(abs(a - b) for a, b in zip(got, want)) < 2e-4 and len(got) == len(want) == STEPS, (got, want)
    assert SHORT or want[-1] < want[0]


def tensor_parallel(rank, size):
    """Steps with divided products have the losses of one process."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    model = Block()
    want = steps(copy.deepcopy(model))
    column, row = ColwiseParallel, RowwiseParallel
    parallelize_module(model, mesh, {"[qkv]": column(), "o": row(), "up": column(), "down": row(),
                                     "head": column(output_layouts=Replicate())})
    assert model.q.weight.placements == (Shard(0),) and model.o.weight.placements == (Shard(1),)
    close(steps(model), want)


def parallelize_sequence(model, mesh):
    """Divides products, and the sequence between them."""
    parallelize_module(model, mesh, {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
        "norm1": SequenceParallel(), "norm2": SequenceParallel(),
        "q": ColwiseParallel(input_layouts=Shard(1)), "k": ColwiseParallel(input_layouts=Shard(1)),
        "v": ColwiseParallel(input_layouts=Shard(1)), "o": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})


def sequence_parallel(rank, size):
    """The same where norms compute on parts of the sequence."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    model = Block()
    want = steps(copy.deepcopy(model))
    parallelize_sequence(model, mesh)
    close(steps(model), want)


def prepared_inputs(rank, size):
    """Inputs and outputs of modules that know no DTensors."""
    mesh, x = init_device_mesh("cpu", (size,)), numbers(4, 6)

    class Sees(nn.Module):
        def forward(self, x, scale=None):
            self.seen = x.placements
            return x * 2
    module = parallelize_module(Sees(), mesh, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0)))
    assert torch.equal(module(x).full_tensor(), x * 2) and module.seen == (Shard(0),)
    out = parallelize_module(module, mesh, PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate()))(x)
    assert type(out) is torch.Tensor and torch.equal(out, x * 2)
    raises(ValueError, "module inputs and input_layouts should have same length!", lambda: module(x, x))


def loss_in_parts(rank, size):
    """Cross entropy of scores divided along the classes: values and gradients of one process, calls of one number a row."""
    mesh, F = init_device_mesh("cpu", (size,)), nn.functional
    torch.manual_seed(0)
    for shape, classes in (((6, 7), 1), ((2, 5, 3), 1), ((6, 1), 1), ((4, 8), 1)):
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": torch.rand(shape[classes])}, {"ignore_index": 0}):
            x = torch.randn(shape, dtype=torch.float64).requires_grad_()
            options = {k: v.double() if k == "weight" else v for k, v in options.items()}
            y = torch.randint(0, shape[1], (shape[0], *shape[2:]))
            y[0] = options.get("ignore_index", -100)
            want = F.cross_entropy(x, y, **options)
            want.sum().backward()
            d = distribute_tensor(x.detach(), mesh, [Shard(classes)]).requires_grad_()
            calls = CommDebugMode()
            with loss_parallel(), calls:
                got = F.cross_entropy(d, y, **options)
                got.sum().backward()
            torch.testing.assert_close(got.full_tensor(), want, equal_nan=True)
            torch.testing.assert_close(d.grad.full_tensor(), x.grad, equal_nan=True)
            assert d.grad.placements == (Shard(classes),)
            if len(shape) == 2:
                assert dict(calls.get_comm_counts()) == {torch.ops._c10d_functional.all_reduce: 3}, calls.get_comm_counts()
    net = nn.Linear(5, 8)
    plain = copy.deepcopy(net)
    parallelize_module(net, mesh, ColwiseParallel(use_local_output=False))
    x, y = torch.randn(6, 5), torch.randint(0, 8, (6,))
    with loss_parallel():
        F.cross_entropy(net(x), y, label_smoothing=0.0).backward()
    F.cross_entropy(plain(x), y).backward()
    torch.testing.assert_close(net.weight.grad.full_tensor(), plain.weight.grad)


class Causal(nn.Module):
    """Attention over tokens with learned places; a head of keys serves two of queries."""

    def __init__(self, causal=True):
        super().__init__()
        self.tokens, self.out, self.causal = nn.Embedding(32, 16), nn.Linear(16, 32), causal
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, ids, places):
        x = self.tokens(ids) + places
        q = self.q(x).unflatten(-1, (4, 4)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, 2, 4)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)
        return self.out(x + y.transpose(1, 2).flatten(2))


def context_layers(rank, size):
    """Layers that have attention inside see the keys of all ranks: outputs and gradients of one process; or they are refused."""
    mesh, options, length = init_device_mesh("cpu", (size,)), _attention._cp_options, 2 * size
    torch.manual_seed(0)
    attention, encoder = nn.MultiheadAttention(8, 2, batch_first=True), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)

    def mask(x):
        return nn.Transformer.generate_square_subsequent_mask(x.size(1))
    plain = (lambda x: attention(x, x, x, need_weights=False)[0], encoder, lambda x: decoder(x, x),
             lambda x: early_attention(*[x.unflatten(-1, (2, 4)).transpose(1, 2)] * 3).transpose(1, 2).flatten(2),
             lambda x: torch.ops.aten.scaled_dot_product_attention(*[x.unsqueeze(1)] * 3).squeeze(1))
    causal = (lambda x: attention(x, x, x, need_weights=False, attn_mask=mask(x), is_causal=True)[0],
              lambda x: encoder(x, src_mask=mask(x), is_causal=True))
    params = [p for net in (attention, encoder, decoder) for p in net.parameters()]
    for balance, calls in ((False, plain), (False, causal), (True, causal)):
        options.enable_load_balance = balance
        for number, call in enumerate(calls):
            for trains in (True, False):
                x, found = torch.randn(2, length, 8), []
                for net in (attention, encoder, decoder):
                    net.train(trains)
                for over in (False, True):
                    for p in params:
                        p.grad = None
                    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]) if over else contextlib.nullcontext():
                        with torch.set_grad_enabled(trains):
                            y = call(x)
                        if trains and y.requires_grad:
                            y.pow(2).sum().backward()
                        found.append([context_parallel_unshard(mesh, [y], [1])[0] if over else y.detach()])
                    grads = [p.grad for p in params if p.grad is not None]
                    for grad in grads if over else ():
                        dist.all_reduce(grad)
                    found[-1] += grads
                assert len(found[0]) == len(found[1])
                for a, b in zip(*found):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=lambda text: f"{balance} {number} {trains}: {text}")
    options.enable_load_balance = False
    x = torch.randn(2, length, 8)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        raises(NotImplementedError, "attention weights in context_parallel", lambda: attention(x, x, x))
        raises(NotImplementedError, "bias_k, bias_v and add_zero_attn in context_parallel", lambda: nn.MultiheadAttention(
            8, 2, batch_first=True, add_zero_attn=True)(x, x, x, need_weights=False))
        raises(NotImplementedError, "attn_bias is not supported yet", lambda: attention(
            x, x, x, need_weights=False, key_padding_mask=torch.zeros(2, x.size(1), dtype=torch.bool)))
        raises(NotImplementedError, "flex_attention in context_parallel", lambda: flex_attention(*[x.unsqueeze(1)] * 3))
    assert attention(x, x, x)[1].shape == (2, length, length) and flex_attention(*[x.unsqueeze(1)] * 3).shape == (2, 1, length, 8)
    options.enable_load_balance = True


def contexts(rank, size):
    """20 steps on parts of the sequence have the losses of one process, however keys are sent."""
    mesh = init_device_mesh("cpu", (size,))
    options = _attention._cp_options
    for causal, balance, method, length, count in ((True, True, "allgather", 4 * size, 20), (True, False, "alltoall", 2 * size, 3),
                                                   (True, True, "alltoall", 2 * size, 3), (False, False, "alltoall", size, 3),
                                                   (True, True, "allgather", 3 * size, 3)):
        options.enable_load_balance = balance
        set_rotate_method(method)
        torch.manual_seed(0)
        plain = Causal(causal)
        model, found = copy.deepcopy(plain), []
        for net in (plain, model):
            optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
            found.append([])
            for k in range(count):
                torch.manual_seed(k)
                ids, places = torch.randint(0, 32, (2, length + 1)), torch.randn(1, length, 16)
                x, y = ids[:, :-1].clone(), ids[:, 1:].clone()
                optimizer.zero_grad()
                if net is plain:
                    loss = nn.functional.cross_entropy(net(x, places).flatten(0, 1), y.flatten())
                    loss.backward()
                else:
                    want = x.clone()
                    with context_parallel(mesh, buffers=[x, y, places], buffer_seq_dims=[1, 1, 1], no_restore_buffers={y}):
                        assert x.shape == (2, length // size) and places.shape == (1, length // size, 16)
                        back, = context_parallel_unshard(mesh, [x], [1])
                        loss = nn.functional.cross_entropy(net(x, places).flatten(0, 1), y.flatten()) / size
                        loss.backward()
                    assert torch.equal(x, want) and torch.equal(back, want) and y.shape == (2, length // size)
                    for value in (loss.detach_(), *(p.grad for p in net.parameters())):
                        dist.all_reduce(value)
                optimizer.step()
                found[-1].append(loss.item())
        assert max(abs(a - b) for a, b in zip(*found)) < 2e-4, (causal, balance, method, found)
    options.enable_load_balance = True
    x = torch.ones(1, 1, 2 * size, 4)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        raises(RuntimeError, "Load balancing requires `is_causal=True`.", lambda: nn.functional.scaled_dot_product_attention(x, x, x))
        raises(NotImplementedError, "attn_bias is not supported yet", lambda: nn.functional.scaled_dot_product_attention(
            x, x, x, torch.ones(2, 2), is_causal=True))
    assert nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape

    def refused(**options):
        with context_parallel(mesh, **options):
            raise AssertionError("not refused")
    raises(ValueError, "`seq_dims` must have the same number of elements as `buffers`.", lambda: refused(buffers=[x]))
    raises(ValueError, "`no_restore_buffers` must be a subset of `buffers`.", lambda: refused(no_restore_buffers={x}))
    raises(ValueError, "cannot be divided by", lambda: refused(buffers=[torch.ones(2 * size + 1)], buffer_seq_dims=[0]))
    raises(NotImplementedError, "Context Parallel does not support using ring for kv shards rotation", lambda: set_rotate_method("ring"))


def experimental(rank, size):
    """Functions of parts, plain tensors as replicated ones, counts of calls, pictures."""
    mesh, x, w = init_device_mesh("cpu", (size,)), numbers(4, 6), numbers(6, 2)
    d = distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
    e = distribute_tensor(w, mesh, [Shard(0)])

    @local_map(out_placements=[Partial()], in_placements=([Shard(1)], [Shard(0)], None))
    def product(a, b, scale):
        assert type(a) is torch.Tensor
        return a @ b * scale
    made = product(d, e, 2)
    torch.testing.assert_close(made.full_tensor(), x @ w * 2)
    made.sum().backward()
    torch.testing.assert_close(d.grad.full_tensor(), (w * 2).sum(1).expand(4, 6))
    raises(ValueError, "in local_map has a mismatched placements", lambda: product(d, d, 2))
    moved = local_map(lambda a: a * 2, [Shard(0)], ([Shard(0)],), redistribute_inputs=True)
    assert torch.equal(moved(d).full_tensor(), x * 2) and moved(d).placements == (Shard(0),)
    raises(AssertionError, "in_placements length 1 does not match the number of input args 2!", lambda: moved(d, d))
    with implicit_replication():
        assert torch.equal((d + x).full_tensor(), x * 2)
    raises(RuntimeError, "got mixed torch.Tensor and DTensor", lambda: d + x)
    net, calls, ops = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 6)), CommDebugMode(), torch.ops.c10d_functional
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    with calls:
        net(x)
    assert calls.get_total_counts() == 1 and calls.get_comm_counts()[ops.all_reduce] == 1
    assert calls.get_sharding_info()["Sequential.1.weight"] == (Shard(1),)
    assert list(calls.get_parameter_info()["Sequential.0"]) == ["weight", "bias"]
    assert calls.generate_comm_debug_tracing_table().splitlines()[:2] == ["Global", "  _c10d_functional.all_reduce: 1"]
    with calls:
        d.redistribute(placements=[Shard(0)]).redistribute(placements=[Replicate()])
    assert dict(calls.get_comm_counts()) == {ops.all_to_all_single: 1, ops.all_gather_into_tensor: 1}
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        visualize_sharding(d)
    lines = text.getvalue().splitlines()
    assert not lines if rank else lines[0].split()[:2] == ["Col", f"0-{6 // size - 1}"] and lines[2].split()[2] == "cpu:0", lines
