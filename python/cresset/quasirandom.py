"""Sobol's sequences: points that fill a cube more evenly than random ones.

The direction numbers are those of Joe and Kuo (2008), for up to 21,201 dims; SciPy has them in a file.  A point is the
exclusive or of the direction numbers of the bits of its number in Gray code.
"""
from functools import lru_cache

from . import _C

__all__ = ["SobolEngine"]

_BITS = 30


@lru_cache(1)
def _numbers():
    """(polynomials, first direction numbers) of all dims, as arrays."""
    import importlib.util
    import os
    found = importlib.util.find_spec("scipy")
    path = found and os.path.join(os.path.dirname(found.origin), "stats", "_sobol_direction_numbers.npz")
    if not path or not os.path.exists(path):
        raise RuntimeError("SobolEngine needs SciPy, which has the direction numbers of Joe and Kuo")
    import numpy
    with numpy.load(path) as file:
        return file["poly"], file["vinit"]


def _directions(dimension):
    """The direction numbers, [dimension, 30]."""
    polynomials, first = _numbers()
    rows = [[1] * _BITS]
    for d in range(1, dimension):
        polynomial = int(polynomials[d])
        degree = polynomial.bit_length() - 1
        row = [int(v) for v in first[d][:degree]]
        for j in range(degree, _BITS):
            value = row[j - degree]
            for k in range(degree):
                if polynomial >> degree - 1 - k & 1:
                    value ^= row[j - k - 1] << k + 1
            row.append(value)
        rows.append(row)
    return _C.tensor(rows, dtype=_C.int64) << _C.arange(_BITS - 1, -1, -1)


def _scrambled(directions, matrices):
    """The direction numbers times a lower triangular matrix of bits for each dim."""
    powers = _C.ones(_BITS, dtype=_C.int64) << _C.arange(_BITS - 1, -1, -1)
    bits = directions[..., None].bitwise_and(powers).ne(0).long()  # [dims, numbers, bits]
    made = bits.matmul(matrices.transpose(-2, -1)) % 2
    return (made * powers).sum(-1)


def _gray(n):
    return n ^ n >> 1


class SobolEngine:
    """Draws the points of a Sobol sequence, scrambled or not, in dims up to 21,201.

    Example::

        >>> torch.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _directions(dimension)
        self.shift = _C.zeros(dimension, dtype=_C.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2 ** _BITS).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None if self.seed is None else _C.Generator()
        if generator is not None:
            generator.manual_seed(self.seed)
        bits = _C.randint(2, (self.dimension, _BITS), device="cpu", generator=generator)
        self.shift = (bits << _C.arange(_BITS)).sum(1)
        matrices = _C.randint(2, (self.dimension, _BITS, _BITS), device="cpu", generator=generator).tril()
        _C.diagonal(matrices, dim1=-2, dim2=-1).fill_(1)
        self.sobolstate = _scrambled(self.sobolstate, matrices)

    def _points(self, start, n):
        """The points after `start` points, as integers."""
        change = _gray(_C.arange(start + 1, start + n + 1)) ^ _gray(start)
        made = self.quasi.expand(n, -1).clone()
        for bit in range((start + n).bit_length()):
            made ^= (change >> bit & 1)[:, None] * self.sobolstate[:, bit]
        return made

    def draw(self, n=1, out=None, dtype=None):
        """The next n points, [n, dimension]."""
        dtype = dtype or _C.get_default_dtype()
        first = self.num_generated == 0
        points = self._points(0 if first else self.num_generated - 1, n - 1 if first else n)
        if len(points):
            self.quasi = points[-1].clone()
        result = points.to(dtype) * 2.0 ** -_BITS
        if first:
            result = _C.cat((self._first_point.to(dtype), result))
        self.num_generated += n
        if out is not None:
            out.resize_as_(result).copy_(result)
            return out
        return result

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2 ** m points; all points together must be a power of 2."""
        total = self.num_generated + 2 ** m
        if total & total - 1:
            raise ValueError("The balance properties of Sobol' points require n to be a power of 2. "
                             f"{self.num_generated} points have been previously generated, then: "
                             f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                             "'SobolEngine.draw()' instead.")
        return self.draw(2 ** m, out, dtype)

    def reset(self):
        """Begins with the first point again."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Leaves out the next n points."""
        start = max(self.num_generated - 1, 0)
        change = _gray(self.num_generated + n - 1) ^ _gray(start) if n else 0
        for bit in range(change.bit_length()):
            if change >> bit & 1:
                self.quasi = self.quasi ^ self.sobolstate[:, bit]
        self.num_generated += n
        return self

    def __repr__(self):
        scrambled = ", scramble=True" if self.scramble else ""
        seeded = f", seed={self.seed}" if self.seed is not None else ""
        return f"{type(self).__name__}(dimension={self.dimension}{scrambled}{seeded})"
