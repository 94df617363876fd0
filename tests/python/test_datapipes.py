"""Pipes in loaders with workers: shares, order, persistent workers."""
import cresset as torch
import pytest
from cresset.utils.data import DataLoader, IterDataPipe
from cresset.utils.data.datapipes.iter import FileLister, FileOpener, IterableWrapper


def values(loader):
    return [x for batch in loader for x in batch.tolist()]


@pytest.mark.parametrize("method", ["multiprocessing", "thread"])
def test_workers_read_their_shares(method):
    pipe = IterableWrapper(range(11)).sharding_filter()
    loader = DataLoader(pipe, batch_size=2, num_workers=3, worker_method=method)
    assert sorted(values(loader)) == list(range(11))
    assert sorted(values(DataLoader(IterableWrapper(range(4)), batch_size=2, num_workers=2,
                                    worker_method=method))) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("persistent", [False, True])
def test_all_workers_have_one_order_and_every_epoch_another(persistent):
    pipe = IterableWrapper(range(40)).shuffle().sharding_filter()
    torch.manual_seed(0)
    loader = DataLoader(pipe, batch_size=5, num_workers=2, shuffle=True, persistent_workers=persistent)
    first, second = values(loader), values(loader)
    assert sorted(first) == sorted(second) == list(range(40)) and first != second != list(range(40))
    torch.manual_seed(0)
    again = DataLoader(pipe, batch_size=5, num_workers=2, shuffle=True, persistent_workers=persistent)
    assert values(again) == first


def test_shuffle_false_keeps_the_order():
    loader = DataLoader(IterableWrapper(range(6)).shuffle(), batch_size=3, shuffle=False)
    assert values(loader) == list(range(6))


def test_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.bin"):
        (tmp_path / name).write_text(name * 2)
    names = FileLister(str(tmp_path), masks="*.txt")
    assert [n.rpartition("/")[2] for n in names] == ["a.txt", "b.txt"]
    pieces = list(FileOpener(names).read_from_stream(7))
    assert [(n.rpartition("/")[2], text) for n, text in pieces] == [
        ("a.txt", "a.txta."), ("a.txt", "txt"), ("b.txt", "b.txtb."), ("b.txt", "txt")]


def test_readers_of_a_fork_advance_alone_and_start_again():
    a, b = IterableWrapper(range(4)).fork(2)
    first = iter(a)
    assert [next(first), next(first)] == [0, 1] and list(b) == [0, 1, 2, 3] and list(first) == [2, 3]
    assert list(a) == list(b) == [0, 1, 2, 3]


def test_stages_of_programs_can_be_sent_to_workers():
    class Own(IterDataPipe):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            yield from range(self.n)
    assert values(DataLoader(Own(4).map(abs).batch(2).unbatch(), batch_size=2, num_workers=1,
                             multiprocessing_context="fork")) == [0, 1, 2, 3]
