"""Objects and modules with `__getstate__` and `__setstate__`: archives have the state that the first returns."""
import copy
import io
from typing import Any, Dict, List, Tuple

import pytest

import cresset as torch
from cresset import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Stated(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.n = nn.Parameter(torch.ones(3)), 3

    @torch.jit.export
    def __getstate__(self) -> Tuple[torch.Tensor, bool]:
        return self.w * 2, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):
        self.w, self.training, self.n = state[0] + 1, state[1], 9

    def forward(self, x):
        return self.w * x + self.n


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Stated(), Stated()

    def forward(self, x):
        return self.a(x) + self.b(x)


class Half(nn.Module):
    """A state that nothing takes."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    @torch.jit.export
    def __getstate__(self):
        return self.w * 2, self.training

    def forward(self, x):
        return self.w * x


@torch.jit.script
class Counter:
    def __init__(self, x: int):
        self.x = x

    def __getstate__(self) -> int:
        return self.x * 2

    def __setstate__(self, state: int):
        self.x = state + 1


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = Counter(3)

    def forward(self, x):
        return x * self.c.x


def again(m):
    buffer = io.BytesIO()
    torch.jit.save(m, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def test_archives_have_the_states_of_modules():
    m = torch.jit.script(Stated().eval())
    loaded = again(m)
    assert loaded(torch.ones(3)).tolist() == [12, 12, 12] and loaded.n == 9 and not loaded.training
    assert m(torch.ones(3)).tolist() == [4, 4, 4]
    twice = again(loaded)
    assert twice(torch.ones(3)).tolist() == [16, 16, 16]


def test_archives_have_the_states_of_modules_inside():
    assert again(torch.jit.script(Holding()))(torch.ones(3)).tolist() == [24, 24, 24]


def test_a_state_that_nothing_takes_is_not_saved():
    assert again(torch.jit.script(Half()))(torch.ones(3)).tolist() == [1, 1, 1]


def test_archives_have_the_states_of_objects():
    assert again(torch.jit.script(Counting()))(torch.ones(1)).tolist() == [7]


class Failing(nn.Module):
    @torch.jit.export
    def __getstate__(self) -> int:
        if self.training:
            raise ValueError("no state")
        return 1

    @torch.jit.export
    def __setstate__(self, state: int):
        self.training = state == 2

    def forward(self, x):
        return x


def test_an_error_of_a_state_is_the_error_of_save():
    with pytest.raises((torch.jit.Error, RuntimeError), match="no state"):
        again(torch.jit.script(Failing()))
    assert not again(torch.jit.script(Failing().eval())).training


class Anything(nn.Module):
    """A state of objects that its type does not name."""

    def __init__(self):
        super().__init__()
        self.c, self.seen = Counter(3), 0

    @torch.jit.export
    def __getstate__(self) -> List[Any]:
        return [self.c, self.seen + 1]

    @torch.jit.export
    def __setstate__(self, state: List[Any]):
        c, seen = state[0], state[1]
        assert isinstance(c, Counter) and isinstance(seen, int)
        self.c, self.seen = c, seen
        self.training = True

    def forward(self, x):
        return x * self.c.x + self.seen


def test_states_may_hold_objects_of_any_class():
    assert again(torch.jit.script(Anything()))(torch.ones(1)).tolist() == [8]


def module_with_state(get, set):
    """A module whose attribute `a` is kept by these two methods."""
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = 3

        def forward(self, x: int):
            return x + self.a

    Kept.__getstate__, Kept.__setstate__ = torch.jit.export(get), torch.jit.export(set)
    return torch.jit.script(Kept())


def get_tuple(self):
    return self.a, self.training


def get_annotated_tuple(self) -> Tuple[int, bool]:
    return self.a, self.training


def get_list(self):
    return [self.a]


def get_dict(self):
    return {"a": self.a}


def get_none(self):
    return None


def set_tuple(self, state):
    self.a, self.training = state[0] + 1, state[1]


def set_annotated_tuple(self, state: Tuple[int, bool]):
    self.a, self.training = state[0] + 1, state[1]


def set_list(self, state):
    self.a, self.training = state[0] + 1, True


def set_annotated_list(self, state: List[int]):
    self.a, self.training = state[0] + 1, True


def set_dict(self, state):
    self.a, self.training = state["a"] + 1, True


def set_annotated_dict(self, state: Dict[str, int]):
    self.a, self.training = state["a"] + 1, True


def set_none(self, state):
    self.a, self.training = 4, True


def set_annotated_none(self, state: None):
    self.a, self.training = 4, True


@pytest.mark.parametrize("get, set", [
    (get_tuple, set_tuple), (get_annotated_tuple, set_tuple), (get_tuple, set_annotated_tuple),
    (get_list, set_list), (get_list, set_annotated_list), (get_dict, set_dict), (get_dict, set_annotated_dict),
    (get_none, set_none), (get_none, set_annotated_none)], ids=lambda f: f.__name__)
def test_a_state_without_annotation_has_the_type_that_getstate_returns(get, set):
    m = module_with_state(get, set)
    loaded = again(m)
    assert loaded.a == 4 and loaded(5) == 9 and m(5) == 8


def test_methods_call_setstate_with_the_type_that_getstate_returns():
    class Called(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = 3

        def forward(self, x: int):
            self.__setstate__((x, True))
            return self.a

        @torch.jit.export
        def __setstate__(self, state):
            self.a, self.training = state[0] + 1, state[1]

        @torch.jit.export
        def __getstate__(self):
            return self.a, self.training

    assert torch.jit.script(Called())(5) == 6


@torch.jit.script
class Pair:
    def __init__(self, x: int):
        self.x = x

    def __setstate__(self, state):
        self.x = state[0] + state[1]

    def __getstate__(self):
        return self.x, 1


class Paired(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = Pair(3)

    def forward(self, x: int):
        return x + self.p.x


def test_states_of_objects_need_no_annotation():
    assert again(torch.jit.script(Paired()))(5) == 9


def set_nothing(self):
    self.training = True


def set_two(self, a, b):
    self.training = True


@pytest.mark.parametrize("set, count", [(set_nothing, 1), (set_two, 3)])
def test_setstate_without_annotations_takes_one_state(set, count):
    with pytest.raises(RuntimeError, match=f"Expected 2 arguments for `__setstate__`, got: {count}"):
        module_with_state(get_list, set)


def test_setstate_without_annotations_needs_getstate():
    class Alone(nn.Module):
        @torch.jit.export
        def __setstate__(self, state):
            self.training = True

        def forward(self, x):
            return x

    with pytest.raises(RuntimeError, match="`__setstate__` defined but not `__getstate__`. You must have both"):
        torch.jit.script(Alone())


# --- copies ---

class Copied(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.seen, self.w = 3, [1], nn.Parameter(torch.ones(2))

    @torch.jit.export
    def __getstate__(self) -> Tuple[int, List[int], torch.Tensor, bool]:
        return self.n, self.seen, self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, List[int], torch.Tensor, bool]):
        assert state[0] < 6, "too many copies"
        self.n, self.seen, self.w, self.training = state[0] + 1, state[1], state[2], state[3]

    def forward(self, x: int) -> int:
        return x + self.n

    @torch.jit.export
    def see(self, x: int):
        self.seen.append(x)


class HoldsCopied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Copied()
        self.b = self.a

    def forward(self, x: int) -> int:
        return self.a(x) * 100 + self.b(x)


def test_deep_copies_are_made_by_the_state_which_they_share():
    m = torch.jit.script(Copied())
    made = copy.deepcopy(m)
    assert (m.n, made.n, copy.deepcopy(made).n) == (3, 4, 5)
    assert made.w.data_ptr() == m.w.data_ptr()
    m.see(7)
    assert made.seen == [1, 7]


def test_modules_inside_are_copied_by_their_states():
    m = torch.jit.script(HoldsCopied())
    assert m(0) == 303 and copy.deepcopy(m)(0) == 404 and copy.deepcopy(copy.deepcopy(m))(0) == 505


def test_a_state_that_is_refused_makes_no_copy():
    m = torch.jit.script(HoldsCopied())
    for _ in range(3):
        m = copy.deepcopy(m)
    with pytest.raises(torch.jit.Error, match="AssertionError: too many copies"):
        copy.deepcopy(m)


def test_methods_of_states_are_those_of_the_program():
    m = torch.jit.script(Copied())
    assert m.__getstate__.schema.name == "__getstate__" and len(m.__setstate__.schema.arguments) == 2
    assert m.__getstate__() == (3, [1], m.w, True)


class Sized(nn.Module):
    def forward(self, x: int) -> int:
        return x

    @torch.jit.export
    def __len__(self) -> int:
        return 7

    @torch.jit.export
    def __contains__(self, x: int) -> bool:
        return x == 7

    @torch.jit.export
    def __getitem__(self, x: int) -> int:
        return x + 1


def test_python_calls_methods_of_containers_that_a_program_has():
    m = torch.jit.script(Sized())
    assert (len(m), 7 in m, 8 in m, m[3]) == (7, True, False, 4)


# --- tensors without bytes ---

class OnMeta(nn.Module):
    def __init__(self):
        super().__init__()
        self.far = nn.Linear(2, 3, device="meta")
        self.near = nn.Linear(3, 4)
        self.register_buffer("part", torch.randn(4, device="meta", dtype=torch.float64)[1:3])

    def forward(self, x):
        return self.near(self.far(x))


@pytest.mark.parametrize("place", [None, "cpu"])
def test_archives_keep_tensors_on_meta(place):
    made = torch.jit.load(io.BytesIO(torch.jit.script(OnMeta()).save_to_buffer()), map_location=place)
    known = {n: (p.device.type, tuple(p.shape), p.dtype) for n, p in [*made.named_parameters(), *made.named_buffers()]}
    assert known == {"far.weight": ("meta", (3, 2), torch.float32), "far.bias": ("meta", (3,), torch.float32),
                     "near.weight": ("cpu", (4, 3), torch.float32), "near.bias": ("cpu", (4,), torch.float32),
                     "part": ("meta", (2,), torch.float64)}
    assert made.far.weight.requires_grad and made.part.stride() == (1,)


def scaled(x: torch.Tensor, n: int = 3):
    for i in range(n):
        x = x * 2 + i
    return x


def test_a_saved_function_is_a_module_with_its_body():
    """As in torch, `forward` does not call the function."""
    x = torch.tensor([1., 2.])
    for f, calls in ((torch.jit.script(scaled), [(x,), (x, 2)]), (torch.jit.trace(lambda x: (x * x + 3, x), (x,)), [(x,)])):
        file = io.BytesIO()
        torch.jit.save(f, file)
        file.seek(0)
        loaded = torch.jit.load(file)
        assert loaded.code.partition("self,\n    ")[2] == f.code.partition("(")[2]
        for args in calls:
            for got, want in zip(loaded(*args), f(*args)):
                assert got.equal(want)
