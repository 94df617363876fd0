"""Methods of storages: bytes, conversions, parts that share memory."""
import copy
import sys
import threading
import weakref

import cresset as torch
import pytest


def bytes_of(*values):
    return torch.tensor(values, dtype=torch.uint8).untyped_storage()


def test_a_part_shares_memory():
    storage = bytes_of(0, 1, 2, 3)
    part = storage[1:3]
    part[0] = 9
    assert storage.tolist() == [0, 9, 2, 3]
    storage[-1:] = 7
    assert storage[3] == storage[-1] == 7
    del storage
    assert part.tolist() == [9, 2]
    with pytest.raises(RuntimeError, match="only a step of 1 is supported"):
        part[::2]


def test_bad_assignments_write_nothing():
    storage = bytes_of(1, 2)
    with pytest.raises(RuntimeError, match="int types, but got float"):
        storage[0] = 1.5
    with pytest.raises(RuntimeError, match="out of bounds"):
        storage[2] = 1
    assert storage.tolist() == [1, 2]


def test_conversions_are_of_each_byte():
    storage = bytes_of(1, 255)
    assert storage.float().tolist() == [1.0, 255.0]
    assert storage.float().dtype == torch.float32
    assert storage.complex_double().tolist() == [1, 255]
    assert torch.FloatStorage([1.5, 2]).long().tolist() == [1, 2]
    assert torch.FloatStorage([1.5, 2]).type() == "torch.FloatStorage"


def test_from_buffer_reads_either_byte_order():
    read = torch.UntypedStorage.from_buffer
    assert read(b"abcd", dtype=torch.uint8).tolist() == list(b"abcd")
    assert read(b"abcdef", "big", 2, 2, dtype=torch.int16).tolist() == list(b"dcfe")
    assert torch.IntStorage.from_buffer(b"abcdefgh", "little", offset=4).tolist() == [1751606885]
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        read(b"abc", "little", dtype=torch.int16)
    with pytest.raises(RuntimeError, match="'dtype' cannot be None"):
        read(b"abcd", "little")


def test_byteswap_swaps_within_elements():
    storage = bytes_of(*range(6))
    storage.byteswap(torch.int16)
    assert storage.tolist() == [1, 0, 3, 2, 5, 4]


def test_an_untyped_storage_is_its_untyped_storage():
    storage = bytes_of(1)
    assert storage.untyped() is storage is storage.cpu() is storage.to(device="cpu")
    assert storage.element_size() == 1 and not storage.is_cuda and storage.get_device() is None
    assert torch.zeros(2).share_memory_().untyped_storage().is_shared() and not storage.is_shared()
    assert copy.copy(storage).tolist() == [1] and copy.copy(storage) is not storage
    assert weakref.ref(storage)() is storage
    assert repr(storage) == " 1\n[torch.storage.UntypedStorage(device=cpu) of size 1]"
    assert torch.UntypedStorage([1, 300]).tolist() == [1, 44]


def test_typed_storages_take_single_indices():
    storage = torch.FloatStorage([1, 2])
    assert issubclass(torch.FloatStorage, torch.storage.TypedStorage) and storage[-1] == 2
    with pytest.raises(RuntimeError, match="slices are only supported"):
        storage[:1]
    with pytest.raises(IndexError, match="index 5 out of range for storage of size 2"):
        storage[5]


# Ways by which a storage becomes smaller, or a tensor leaves it, while `y` has all of its elements.
def shrink_data(y):
    y.data.untyped_storage().resize_(4)


def shrink_itself(y):
    y.untyped_storage().resize_(4)


def shrink_by_another_tensor(y):
    torch.empty(0).set_(y.data.untyped_storage(), 0, (y.numel(),)).untyped_storage().resize_(4)


def shrink_typed(y):
    y.data.storage().resize_(1)


def shrink_view(y):
    y.detach()[5:].data.untyped_storage().resize_(0)


SHRINK = [shrink_data, shrink_itself, shrink_by_another_tensor, shrink_typed, shrink_view]


@pytest.mark.parametrize("shrink", SHRINK)
@pytest.mark.parametrize("n", [3, 300, 81000])
def test_a_tensor_keeps_its_elements_when_its_storage_shrinks(shrink, n):
    y = torch.ones(n)
    shrink(y)
    assert y.untyped_storage().nbytes() <= 4
    assert y.fill_(3).sum().item() == 3 * n
    y.data.untyped_storage().resize_(8)
    y.untyped_storage().resize_(4 * n)
    assert y.untyped_storage().nbytes() == y.data.untyped_storage().nbytes() == 4 * n
    assert y.view(-1).mul_(2).sum().item() == 6 * n
    y.data.untyped_storage().resize_(40 * n)
    assert torch.empty(0).set_(y.untyped_storage(), 0, (10 * n,)).fill_(1).sum().item() == 10 * n


@pytest.mark.parametrize("shrink", SHRINK)
def test_another_thread_resizes_the_storage_of_a_call_in_progress(shrink):
    y, others, done = torch.ones(200000), [], threading.Event()

    def resize():
        while not done.is_set():
            shrink(y)
            y.data.untyped_storage().resize_(800000)
            y.data.untyped_storage().resize_(1600000)
            others.append(torch.empty(50000))

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(50):
            y.fill_(2).add_(1)
    finally:
        done.set()
        thread.join()
    assert y.fill_(3).sum().item() == 600000


def test_a_call_in_progress_keeps_the_bytes_that_its_tensor_leaves():
    y, done = torch.ones(200000), threading.Event()

    def replace():
        while not done.is_set():
            y.set_(torch.zeros(200000))
            y.resize_(400000).resize_(200000)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(200):
            y.add_(1)
    finally:
        done.set()
        thread.join()
    assert y.fill_(3).sum().item() == 600000


def test_bytes_that_a_buffer_shows_stay_when_the_storage_grows():
    storage = torch.UntypedStorage(5000)
    shown = memoryview(storage)
    storage.resize_(1000000)
    shown[4999] = 7
    assert shown.nbytes == 5000 and shown[4999] == 7 and storage.nbytes() == 1000000


def test_a_part_cannot_be_resized():
    part = torch.UntypedStorage(16)[4:12]
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        part.resize_(4)
    assert part.nbytes() == 8


def test_the_size_of_a_storage_counts_its_elements():
    small, large = (torch.zeros(n, dtype=torch.float64) for n in (1, 1001))
    assert sys.getsizeof(large.untyped_storage()) - sys.getsizeof(small.untyped_storage()) == 8000
    assert sys.getsizeof(large.storage()) - sys.getsizeof(small.storage()) == 8000
