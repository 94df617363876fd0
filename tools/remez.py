"""Computes the coefficients of the polynomials in src/emit/vec_f32.h and vec_f64.h.

    python tools/remez.py exp        prints the coefficients of one polynomial
    python tools/remez.py            prints all of them
    python tools/remez.py --check src/emit/vec_f32.h src/emit/vec_f64.h
                                     fails when a header has other coefficients

A polynomial p approximates a function g on an interval so that the largest value of |w(x) (p(x)
- g(x))| is least: the exchange algorithm of Remez, with 60 digits.  The weight w makes this
value the relative error of the final result.  The coefficients are then rounded to the target's
precision one after the other, lowest first.  The rest is fitted again each time, so that later
coefficients compensate the rounding of earlier ones.
"""

import struct
import sys

import mpmath as mp

mp.mp.dps = 60


def round32(x):
    """Returns the float32 nearest to x."""
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def round64(x):
    """Returns the float64 nearest to x."""
    return mp.mpf(float(x))


def nodes(a, b, n):
    """Returns n points of [a, b], dense at the ends."""
    tiny = (b - a) * mp.mpf(10) ** -8
    points = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    return [tiny if abs(x) < tiny else x for x in points]


def horner(coefficients, x):
    value = mp.mpf(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def level(g, w, count, points):
    """Returns coefficients whose weighted error alternates with equal size on the points."""
    rows, right = [], []
    for i, x in enumerate(points):
        rows.append([w(x) * x ** k for k in range(count)] + [(-1) ** i])
        right.append(w(x) * g(x))
    solution = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
    return [solution[k] for k in range(count)]


def extremes(error, a, b, n):
    """Returns the n points where the error is largest with alternating signs, or fewer."""
    grid = nodes(a, b, 40 * n)
    values = [error(x) for x in grid]
    found = []
    for i, v in enumerate(values):
        if found and (v > 0) == (values[found[-1]] > 0):
            if abs(v) > abs(values[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > n:
        found.pop(0 if abs(values[found[0]]) < abs(values[found[-1]]) else -1)
    return [grid[i] for i in found], max(abs(v) for v in values)


def exchange(g, w, a, b, points):
    """Returns the best polynomial that the exchange finds from these points, and its error."""
    best = None
    for _ in range(12):
        p = level(g, w, len(points) - 1, points)
        found, worst = extremes(lambda x: w(x) * (horner(p, x) - g(x)), a, b, len(points))
        if best is None or worst < best[1]:
            best = (p, worst)
        if len(found) < len(points) or found == points:
            break
        points = found
    return best


def remez(g, w, a, b, count):
    """Returns the best polynomial with `count` coefficients, and its error."""
    closed = nodes(a, b, count + 1)
    # Where the weight is zero the error cannot alternate, so the exchange also starts from
    # points in between.
    between = nodes(a, b, 2 * count + 3)[1::2]
    starts = []
    for points in (closed, between):
        shifted = (a + b) / 2 + (b - a) / 40
        starts.append([shifted if abs(x) < (b - a) / 99 and x != closed[0] else x
                       for x in points])
    return min((exchange(g, w, a, b, p) for p in starts), key=lambda found: found[1])


def rounded(g, w, a, b, count, rounding=round32):
    """As remez(), with coefficients that the target can represent."""
    done = []
    while len(done) < count:
        n = len(done)
        rest, _ = remez(lambda x: (g(x) - horner(done, x)) / x ** n,
                        lambda x: w(x) * abs(x) ** n, a, b, count - n)
        done.append(rounding(rest[0]))
    worst = max(abs(w(x) * (horner(done, x) - g(x))) for x in nodes(a, b, 999))
    return done, worst


LN2 = mp.log(2)
HALF = LN2 / 2 * mp.mpf("1.01")
ROOT = mp.sqrt(2)
EPS = mp.mpf(2) ** -40


def odd(f):
    """Returns (f(x) / x - 1) / x^2 as a function of u = x^2, for f(x) = x + O(x^3)."""
    def g(u):
        x = mp.sqrt(max(u, mp.mpf(10) ** -24))
        return (f(x) / x - 1) / x ** 2
    return g


def relative(f):
    """Returns the weight that makes an error of odd(f) relative to f."""
    def w(u):
        x = mp.sqrt(max(u, EPS))
        return max(u, EPS) * x / f(x)
    return w


def scaled_erfc(x):
    return mp.exp(x * x) * mp.erfc(x)


# name: (g, w, a, b, number of coefficients)
SETS = {
    # e^f = 1 + f + f^2 p(f)
    "exp": (lambda f: (mp.exp(f) - 1 - f) / f ** 2 if abs(f) > 1e-15 else mp.mpf(1) / 2,
            lambda f: max(f * f, EPS) / mp.exp(f), -HALF, HALF, 5),
    # e^f - 1 = f + f^2 p(f)
    "expm1": (lambda f: (mp.expm1(f) - f) / f ** 2 if abs(f) > 1e-20 else mp.mpf(1) / 2,
              lambda f: max(abs(f), EPS), -HALF, HALF, 6),
    # 2^f = 1 + f p(f)
    "exp2": (lambda f: mp.expm1(f * LN2) / f if abs(f) > 1e-20 else LN2,
             lambda f: max(abs(f), EPS) / 2 ** f, -mp.mpf("0.505"), mp.mpf("0.505"), 6),
    # log(1 + f) = f - f^2 / 2 + f^3 p(f)
    "log": (lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3 if abs(f) > 1e-15
            else mp.mpf(1) / 3,
            lambda f: max(abs(f ** 3 / mp.log1p(f)) if f else EPS, EPS),
            1 / ROOT - 1, ROOT - 1, 9),
    # sin r = r + r^3 p(r^2)
    "sin": (odd(mp.sin), relative(mp.sin), mp.mpf(0), mp.mpf("0.63"), 3),
    # cos r = 1 - r^2 / 2 + r^4 p(r^2)
    "cos": (lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u ** 2 if u > 1e-20
            else mp.mpf(1) / 24,
            lambda u: max(u * u, EPS), mp.mpf(0), mp.mpf("0.63"), 3),
    # tan r = r + r^3 p(r^2)
    "tan": (odd(mp.tan), relative(mp.tan), mp.mpf(0), mp.mpf("0.63"), 7),
    # tanh x = x + x^3 p(x^2), below 0.95
    "tanh": (odd(mp.tanh), relative(mp.tanh), mp.mpf(0),
             mp.mpf("0.91"), 7),
    # sinh x = x + x^3 p(x^2)
    "sinh": (odd(mp.sinh), relative(mp.sinh), mp.mpf(0), mp.mpf("1.01"),
             4),
    # atan z = z + z^3 p(z^2)
    "atan": (odd(mp.atan), relative(mp.atan), mp.mpf(0), mp.mpf(1), 9),
    # asin z = z + z^3 p(z^2)
    "asin": (odd(mp.asin), relative(mp.asin), mp.mpf(0), mp.mpf("0.25"), 6),
    # erf x = x + x p(x^2), below 0.82
    "erf": (lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1 if u > 1e-24
            else 2 / mp.sqrt(mp.pi) - 1,
            lambda u: mp.mpf(1), mp.mpf(0), mp.mpf("0.68"), 6),
    # log(1 - erf t) = -t - t p(t), above
    "erf_tail": (lambda t: -mp.log(mp.erfc(t)) / t - 1,
                 lambda t: t * mp.erfc(t) / mp.erf(t), mp.mpf("0.81"), mp.mpf("3.95"), 7),
    # 2 times the chance to be farther than a is 2^(-a p(a)); the weight makes an absolute error
    "ncdf": (lambda a: -mp.log(mp.erfc(a / ROOT), 2) / a if a > 1e-12
             else ROOT / mp.sqrt(mp.pi) / LN2,
             lambda a: max(a, EPS) * mp.erfc(a / ROOT) * LN2 / 2, mp.mpf(0), mp.mpf("5.6"), 8),
    # 2^-f / 2 = 1/2 + f p(f)
    "halves": (lambda f: mp.expm1(-f * LN2) / (2 * f) if abs(f) > 1e-20 else -LN2 / 2,
               lambda f: max(abs(f), EPS), -mp.mpf("0.505"), mp.mpf("0.505"), 6),
    # the same as exp, in float64
    "exp64": (lambda f: (mp.exp(f) - 1 - f) / f ** 2 if abs(f) > 1e-15 else mp.mpf(1) / 2,
              lambda f: max(f * f, EPS) / mp.exp(f), -HALF, HALF, 11, round64),
    # log((1 + s) / (1 - s)) = 2 s + s z p(z) with z = s^2, in float64
    "log64": (lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z
              if z > 1e-12 else mp.mpf(2) / 3 + 2 * z / 5,
              lambda z: max(z, EPS), mp.mpf(0), mp.mpf("0.0296"), 7, round64),
    # log((1 + s) / (1 - s)) = 2 s + s z (2/3 + z p(z)) with z = s^2, in float64
    "logpair64": (lambda z: ((mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z
                             - mp.mpf(2) / 3) / z if z > 1e-12
                  else mp.mpf(2) / 5 + 2 * z / 7 + 2 * z * z / 9,
                  lambda z: max(z, EPS) ** 2, mp.mpf(0), mp.mpf("0.0296"), 8, round64),
    # sin and cos as above, in float64 and up to pi / 4
    "sin64": (odd(mp.sin), relative(mp.sin), mp.mpf(0), mp.mpf("0.62"), 6, round64),
    "cos64": (lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u ** 2 if u > 1e-12
              else mp.mpf(1) / 24 - u / 720,
              lambda u: max(u * u, EPS), mp.mpf(0), mp.mpf("0.62"), 6, round64),
    # erf as above, in float64
    "erf64": (lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1 if u > 1e-24
              else 2 / mp.sqrt(mp.pi) - 1,
              lambda u: mp.mpf(1), mp.mpf(0), mp.mpf("0.706"), 12, round64),
    "erf_tail64": (lambda t: -mp.log(mp.erfc(t)) / t - 1,
                   lambda t: t * mp.erfc(t) / mp.erf(t), mp.mpf("0.839"), mp.mpf("5.93"), 20,
                   round64),
    # asin and atan as above, in float64
    "asin64": (odd(mp.asin), relative(mp.asin), mp.mpf(0), mp.mpf("0.25"), 13, round64),
    "atan64": (odd(mp.atan), relative(mp.atan), mp.mpf(0), mp.mpf(1), 20, round64),
    # erfc x = exp(-x^2) t p(t) with t = 1 / (x + 2): float32's, in float64
    "erfc": (lambda t: scaled_erfc(1 / t - 2) / t, lambda t: t / scaled_erfc(1 / t - 2),
             1 / mp.mpf("12.1"), mp.mpf("0.5"), 13, round64),
}


def fitted(name):
    """Returns the coefficients in the headers' notation, lowest first, and their error."""
    coefficients, worst = rounded(*SETS[name])
    if len(SETS[name]) == 6:
        return [repr(float(c)) for c in coefficients], worst
    return [mp.nstr(c, 9, strip_zeros=True) + "f" for c in coefficients], worst


def show(name):
    coefficients, worst = fitted(name)
    print(f"{name}: weighted error 2^{float(mp.log(worst, 2)):.1f}")
    for k, c in enumerate(coefficients):
        print(f"  {k}: {c}")


def check(paths):
    """Returns whether the headers contain every coefficient.  Prints missing ones."""
    text = "".join(open(path, encoding="utf-8").read() for path in paths)
    missing = [(name, c) for name in SETS for c in fitted(name)[0] if c not in text]
    for name, c in missing:
        print(f"{name}: {c} is not in {' '.join(paths)}")
    return not missing


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        sys.exit(0 if check(sys.argv[2:]) else 1)
    for wanted in sys.argv[1:] or SETS:
        show(wanted)
