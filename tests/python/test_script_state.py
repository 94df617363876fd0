"""Objects and modules with `__getstate__` and `__setstate__`: archives have the state that the first returns."""
import io
from typing import Any, List, Tuple

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
