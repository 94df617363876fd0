"""Random arguments for measurements."""
import functools
import itertools
import random

from ... import _C

__all__ = ["Fuzzer", "FuzzedParameter", "ParameterAlias", "FuzzedTensor"]

_DISTRIBUTIONS = ("loguniform", "uniform")


class ParameterAlias:
    """A choice of a FuzzedParameter that is the value of another parameter."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return f"ParameterAlias[alias_to: {self.alias_to}]"


def dtype_size(dtype):
    """Bytes of an element."""
    return dtype.itemsize


class FuzzedParameter:
    """A random number between bounds, or a choice of {value: probability}."""

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        if isinstance(distribution, str) and distribution not in _DISTRIBUTIONS:
            raise AssertionError(f"Unknown distribution: {distribution}")
        self._distribution = self._choices(distribution)

    def _choices(self, distribution):
        if distribution is None or isinstance(distribution, str):
            return distribution or "uniform"
        if not isinstance(distribution, dict):
            distribution = {value: 1 / len(distribution) for value in distribution}
        total = sum(distribution.values())
        if abs(total - 1) > 1e-3:
            raise AssertionError(f"Distribution sums to {total}")
        return distribution

    @property
    def name(self):
        return self._name

    def sample(self, state):
        """A value, drawn by a random.Random."""
        if isinstance(self._distribution, dict):
            return state.choices(list(self._distribution), list(self._distribution.values()))[0]
        low, high = self._minval, self._maxval
        if self._distribution == "uniform":
            return state.randint(low, high) if isinstance(low, int) else state.uniform(low, high)
        import math
        drawn = math.exp(state.uniform(math.log(low), math.log(high)))
        return int(round(drawn)) if isinstance(low, int) else drawn


class FuzzedTensor:
    """A tensor whose sizes and steps are numbers or names of parameters."""

    def __init__(self, name, size, steps=None, probability_contiguous=0.5, min_elements=None, max_elements=None,
                 max_allocation_bytes=None, dim_parameter=None, roll_parameter=None, dtype=None, cuda=False,
                 tensor_constructor=None):
        self._name, self._size, self._steps, self._contiguous = name, size, steps, probability_contiguous
        self._min, self._max, self._bytes = min_elements, max_elements, max_allocation_bytes
        self._dim, self._roll = dim_parameter, roll_parameter
        self._dtype, self._cuda = dtype or _C.float32, cuda
        self._constructor = tensor_constructor or self.default_tensor_constructor

    @property
    def name(self):
        return self._name

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        """Normal numbers, or integers below 127."""
        if dtype.is_floating_point or dtype.is_complex:
            return _C.rand(size, dtype=dtype, device="cpu")
        return _C.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def _sizes(self, params):
        dims = params[self._dim] if self._dim else len(self._size)

        def numbers(of):
            given = [1] * dims if of is None else [params[x] if isinstance(x, str) else x for x in of]
            return tuple([*given, *[1] * (dims - len(given))][:dims])
        size, steps = numbers(self._size), numbers(self._steps)
        return size, steps, tuple(a * b for a, b in zip(size, steps))

    def satisfies_constraints(self, params):
        """Whether the numbers of elements and bytes are within the bounds."""
        size, _, allocated = self._sizes(params)
        count, room = functools.reduce(int.__mul__, size, 1), functools.reduce(int.__mul__, allocated, 1)
        return not ((self._max is not None and count > self._max) or (self._min is not None and count < self._min) or
                    (self._bytes is not None and room * dtype_size(self._dtype) > self._bytes))

    def _make_tensor(self, params, state):
        size, steps, allocated = self._sizes(params)
        tensor = self._constructor(size=allocated, dtype=self._dtype, **params)
        if self._cuda:
            tensor = tensor.cuda()
        order = list(range(len(size)))
        if state.random() > self._contiguous:
            state.shuffle(order)
            tensor = tensor.permute(order).contiguous().permute([order.index(i) for i in range(len(order))])
        tensor = tensor[tuple(slice(0, s * step, step) for s, step in zip(size, steps))]
        return tensor, {"numel": tensor.numel(), "order": order, "steps": steps, "is_contiguous": tensor.is_contiguous(),
                        "dtype": str(self._dtype)}


class Fuzzer:
    """Draws parameters until constraints hold, and makes tensors of them."""

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        self._parameters = list(itertools.chain(*(p if isinstance(p, (list, tuple)) else [p] for p in parameters)))
        self._tensors = list(itertools.chain(*(t if isinstance(t, (list, tuple)) else [t] for t in tensors)))
        self._constraints, self._seed = constraints or (), random.getrandbits(31) if seed is None else seed
        names = [x.name for x in [*self._parameters, *self._tensors]]
        if len(set(names)) != len(names):
            raise ValueError(f"Duplicate names: {sorted(n for n in set(names) if names.count(n) > 1)}")
        self._rejections = self._draws = 0

    @property
    def rejection_rate(self):
        """The part of draws that constraints refused."""
        return self._rejections / self._draws if self._draws else 0.0

    def _generate(self, state):
        for _ in range(1000):
            self._draws += 1
            params = {p.name: p.sample(state) for p in self._parameters}
            for name, value in params.items():
                while isinstance(value, ParameterAlias):
                    value = params[value.alias_to]
                params[name] = value
            if all(f(params) for f in self._constraints) and all(t.satisfies_constraints(params) for t in self._tensors):
                return params
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")

    def take(self, n):
        """n times (tensors by name, their properties, parameters)."""
        state = random.Random(self._seed)
        for _ in range(n):
            params = self._generate(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            yield ({name: tensor for name, (tensor, _) in made.items()},
                   {name: facts for name, (_, facts) in made.items()}, dict(params))
