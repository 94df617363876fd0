"""What each rank does in test_checkpoint.py: functions of (rank, size)."""
import os
import signal
import warnings

import cresset as torch
import cresset.distributed as dist
import cresset.distributed.checkpoint as dcp
from cresset.distributed._shard.sharded_tensor import Shard, init_from_local_shards
from cresset.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
from cresset.distributed.checkpoint.staging import DefaultStager
from cresset.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

FOLDER = os.environ.get("CHECKPOINT", "")
ROWS, COLUMNS = 23, 10


def whole(dtype):
    return (torch.arange(ROWS * COLUMNS) % 113).view(ROWS, COLUMNS).to(dtype)


def cuts(n, parts):
    return [n * i // parts for i in range(parts + 1)]


def boxed(value, rank, size, how):
    """A tensor in boxes: of rows, of columns, or of both in turn, two of which each rank has."""
    rows, columns = value.shape
    if how == "rows":
        r = cuts(rows, size)
        places = [(r[rank], 0, r[rank + 1], columns)]
    elif how == "columns":
        c = cuts(columns, size)
        places = [(0, c[rank], rows, c[rank + 1])]
    else:
        r = cuts(rows, 2 * size)
        places = [(r[i], 0, r[i + 1], columns) for i in (rank, 2 * size - 1 - rank)]
    shards = [Shard.from_tensor_and_offsets(value[a:c, b:d].clone(), [a, b], rank) for a, b, c, d in places]
    return init_from_local_shards(shards, rows, columns)


HOWS = [("rows", torch.float32), ("columns", torch.bfloat16), ("both", torch.int64)]


def state(rank, size, empty, turn=0):
    """Boxes in each manner and dtype; `turn` exchanges the manners."""
    made = {}
    for i, (name, dtype) in enumerate(HOWS):
        value = whole(dtype)
        made[name] = boxed(torch.zeros_like(value) if empty else value, rank, size, HOWS[(i + turn) % 3][0])
    made["plain"] = {"copy": torch.zeros(3) if empty else torch.arange(3.0)}
    made["epoch"] = 0 if empty else 5
    return made


def check(loaded, rank, size):
    for name, dtype in HOWS:
        out = torch.zeros(ROWS, COLUMNS, dtype=dtype)
        loaded[name].gather(0, out)
        assert rank or torch.equal(out, whole(dtype)), name
    assert loaded["plain"]["copy"].tolist() == [0, 1, 2] and loaded["epoch"] == 5


def save_boxes_of_safetensors(rank, size):
    """Each rank writes its boxes, two of a tensor too; rank 0 joins them."""
    from cresset.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
    tensors = {name: value for name, value in state(rank, size, False).items() if name != "epoch"}
    dcp.save(tensors, storage_writer=HuggingFaceStorageWriter(FOLDER, {"rows": 1, "columns": 2, "both": 2, "plain.copy": 1},
                                                              save_distributed=True, enable_consolidation=True))
    dist.barrier()
    for folder in (FOLDER, os.path.join(FOLDER, "sharded")):
        loaded = {name: value for name, value in state(rank, size, True, turn=1).items() if name != "epoch"}
        dcp.load(loaded, storage_reader=HuggingFaceStorageReader(folder))
        check({**loaded, "epoch": 5}, rank, size)


def save(rank, size):
    dcp.save(state(rank, size, False), checkpoint_id=FOLDER)
    if rank == 0:  # copies are written once
        assert len([f for f in os.listdir(FOLDER) if f.endswith(".distcp")]) == size
    dist.barrier()
    load(rank, size)


def load(rank, size):
    for turn in range(3):
        loaded = state(rank, size, True, turn)
        dcp.load(loaded, checkpoint_id=FOLDER)
        check(loaded, rank, size)


def load_torchs(rank, size):
    """Four ranks of torch 2.13 wrote this folder."""
    value = torch.arange(70.0).view(7, 10)
    for how in ("rows", "columns", "both"):
        loaded = {"model": {"w": boxed(torch.zeros(7, 10), rank, size, how), "b": torch.zeros(3, dtype=torch.bfloat16)},
                  "optim": [{"lr": 0.0, "step": torch.tensor(0)}], "epoch": 0}
        dcp.load(loaded, checkpoint_id=FOLDER)
        out = torch.zeros(7, 10)
        loaded["model"]["w"].gather(0, out)
        assert rank or torch.equal(out, value)
        assert loaded["model"]["b"].tolist() == [1, 1, 1] and loaded["epoch"] == 7
        assert loaded["optim"][0]["lr"] == 0.5 and loaded["optim"][0]["step"].item() == 3


def asynchronous(rank, size):
    """The copy is saved, not what the tensors become; the program's calls go on meanwhile."""
    values = torch.full((1000,), 1.0)
    future = dcp.async_save({"x": values, "rank": rank}, checkpoint_id=FOLDER)
    values.fill_(2.0)
    for _ in range(20):
        dist.all_reduce(torch.ones(10))
    assert isinstance(future.result(), dcp.Metadata)
    loaded = {"x": torch.zeros(1000)}
    dcp.load(loaded, checkpoint_id=FOLDER)
    assert loaded["x"].tolist() == [1.0] * 1000
    stager = DefaultStager()
    response = dcp.async_save({"x": values}, checkpoint_id=FOLDER, async_stager=stager)
    response.staging_completion.result()
    values.fill_(3.0)
    response.upload_completion.result()
    dcp.load(loaded, checkpoint_id=FOLDER)
    assert loaded["x"].tolist() == [2.0] * 1000


def by_processes(rank, size):
    """Processes of their own write what the tensors were; a failure is that of its save alone."""
    from cresset.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
    from cresset.distributed.tensor import Shard, distribute_tensor
    mesh = dist.init_device_mesh("cpu", (size,))
    values, whole = torch.zeros(1000), torch.arange(70.0).view(7, 10)

    def save(n, place):
        values.fill_(n)
        part = distribute_tensor(whole * n, mesh, [Shard(0)])
        return dcp.async_save({"x": values, "part": part, "n": n}, checkpoint_id=os.path.join(FOLDER, place),
                              async_checkpointer_type=AsyncCheckpointerType.PROCESS)
    futures = [save(n, str(n)) for n in (1, 2)]
    if rank == 0:
        open(os.path.join(FOLDER, "file"), "w").close()
    dist.barrier()
    failed, last = save(7, "file/inside"), save(3, "3")
    values.fill_(9)
    dist.all_reduce(values)
    for n, future in zip((1, 2, 3), (*futures, last)):
        assert isinstance(future.result(), dcp.Metadata)
        loaded = {"x": torch.zeros(1000), "part": distribute_tensor(torch.zeros(7, 10), mesh, [Shard(0)]), "n": 0}
        dcp.load(loaded, checkpoint_id=os.path.join(FOLDER, str(n)))
        assert loaded["x"].unique().tolist() == [n] and loaded["n"] == n and torch.equal(loaded["part"].full_tensor(), whole * n)
    try:
        failed.result()
    except (dcp.CheckpointException, OSError) as error:
        assert "file" in str(error), error
    else:
        raise AssertionError("a folder inside a file")


def errors(rank, size):
    """A failure of one rank is the error of all, which names the rank."""
    class Fails(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            if rank == 1:
                raise ValueError("no plan today")
            return super().create_local_plan()

    class Breaks(dcp.FileSystemWriter):
        def write_data(self, plan, planner):
            if rank == size - 1:
                raise OSError("no space")
            return super().write_data(plan, planner)
    for call, at, words in (
            (lambda: dcp.save({"x": torch.ones(2)}, checkpoint_id=FOLDER, planner=Fails()), 1, "no plan today"),
            (lambda: dcp.save({"x": torch.ones(2)}, storage_writer=Breaks(FOLDER)), size - 1, "no space"),
            (lambda: dcp.load({"x": torch.ones(2)}, checkpoint_id=FOLDER + ".none"), 0, "No such file")):
        try:
            call()
        except dcp.CheckpointException as error:
            assert at in error.failures and words in str(error), error
        else:
            raise AssertionError(words)
    assert not os.path.exists(os.path.join(FOLDER, ".metadata"))
    dcp.save({"x": torch.ones(2), "y": 3}, checkpoint_id=FOLDER)
    for wrong, words in (({"z": torch.ones(2)}, "Missing key in checkpoint state_dict: z."),
                         ({"x": torch.ones(3)}, "Size mismatch between saved"),
                         ({"x": 3}, "Invalid checkpoint metadata for x")):
        try:
            dcp.load(wrong, checkpoint_id=FOLDER)
        except dcp.CheckpointException as error:
            assert sorted(error.failures) == list(range(size)) and words in str(error), error
        else:
            raise AssertionError(words)
    overlapping = boxed(torch.ones(4, 4), rank, size, "rows")
    overlapping._metadata.size = torch.Size([5, 4])
    try:
        dcp.save({"x": overlapping}, checkpoint_id=FOLDER)
    except dcp.CheckpointException as error:
        assert "Failed to validate global plan" in str(error), error
    else:
        raise AssertionError("no error")


class Counter:
    """A program's object with a state."""

    def __init__(self, n):
        self.n = n

    def state_dict(self):
        return {"n": self.n, "t": torch.tensor([self.n])}

    def load_state_dict(self, state):
        assert state["t"].tolist() == [state["n"]]
        self.n = state["n"]


def training(rank, size):
    """A model, its optimizer and other objects are restored: training goes on with the same losses."""
    nn, F = torch.nn, torch.nn.functional

    def make(seed):
        torch.manual_seed(seed)
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def steps(model, optimizer, n):
        losses = []
        for i in range(n):
            optimizer.zero_grad()
            loss = F.mse_loss(model(torch.arange(8.0).view(2, 4) / 8 + i), torch.ones(2, 2))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
    model, optimizer = make(1)
    steps(model, optimizer, 3)
    states = get_state_dict(model, optimizer)
    assert list(states[0]) == ["0.weight", "0.bias", "2.weight", "2.bias"] and "exp_avg" in states[1]["state"]["0.weight"]
    dcp.save({"model": states[0], "optim": states[1], "counter": Counter(7)}, checkpoint_id=FOLDER)
    expected = steps(model, optimizer, 3)
    model, optimizer = make(2)
    states, counter = get_state_dict(model, optimizer), Counter(0)
    dcp.load({"model": states[0], "optim": states[1], "counter": counter}, checkpoint_id=FOLDER)
    set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    assert steps(model, optimizer, 3) == expected and counter.n == 7


def broadcast_file(rank, size):
    """Ranks fill boxes and whole tensors from a file that rank 0 reads; other objects are refused."""
    def load(state_dict, path=FOLDER):
        dcp.load(state_dict, storage_reader=BroadcastingTorchSaveReader(path), planner=DynamicMetaLoadPlanner())
    value = torch.arange(24.0).view(6, 4).t()
    states = {"model": {"w": boxed(torch.zeros(4, 6), rank, size, "columns"), "n": torch.tensor(0)}}
    load(states)
    out = torch.zeros(4, 6)
    states["model"]["w"].gather(0, out)
    assert states["model"]["n"].item() == 3
    assert rank or torch.equal(out, value), out
    plain = {"model": {"w": torch.zeros(4, 6), "n": torch.tensor(0)}}
    load(plain)
    assert torch.equal(plain["model"]["w"], value)
    try:
        load({"other": 1})
    except dcp.CheckpointException as error:
        assert "Non-tensor value identified at other" in str(error), error
    else:
        raise AssertionError("an object was loaded")


def killed_while_saving(rank, size):
    """One rank is killed in its n-th save; the checkpoint before stands."""
    class Dies(dcp.FileSystemWriter):
        def write_data(self, plan, planner):
            super().write_data(plan, planner)
            os.kill(os.getpid(), signal.SIGKILL)
    for n in range(4):
        writer = (Dies if rank == 1 and n == 3 else dcp.FileSystemWriter)(FOLDER)
        try:
            dcp.save({"x": boxed(torch.full((50, 20), float(n)), rank, size, "rows"), "n": n}, storage_writer=writer)
        except dist.DistBackendError as error:
            assert n == 3 and "rank 1" in str(error), error
        else:
            assert n < 3
    os._exit(0)


warnings.simplefilter("ignore", UserWarning)
