"""Programs in NumPy: what people compile.  Each has a function and its arguments for a size; bench/numpy_functions.py
times the same programs."""
import numpy as np


def rng():
    return np.random.default_rng(0)


def kmeans_nearest(points, centres):
    distance = np.linalg.norm(points - centres[:, None], axis=2)
    return np.argmin(distance, axis=0)


def kmeans_step(points, centres):
    nearest = np.argmin(((points[:, None] - centres) ** 2).sum(-1), axis=1)
    ones = (nearest[:, None] == np.arange(len(centres))).astype(points.dtype)
    return (ones.T @ points) / np.maximum(ones.sum(0), 1)[:, None]


def mandelbrot(c):
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int32)
    for _ in range(12):
        inside = np.abs(z) <= 2
        z = np.where(inside, z * z + c, z)
        count = count + inside
    return count


def life(board):
    neighbours = sum(np.roll(board, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(board.dtype)


def nbody(position, velocity, mass):
    for _ in range(3):
        apart = position[None] - position[:, None]
        cube = ((apart ** 2).sum(-1) + 1e-3) ** 1.5
        velocity = velocity + 0.01 * (apart * (mass[None] / cube)[..., None]).sum(1)
        position = position + 0.01 * velocity
    return position, velocity


def fft_convolution(signal, kernel):
    n = signal.shape[0] + kernel.shape[0] - 1
    return np.fft.irfft(np.fft.rfft(signal, n) * np.fft.rfft(kernel, n), n)[:signal.shape[0]]


def monte_carlo_pi(x, y):
    return 4 * np.mean(x * x + y * y <= 1)


def logistic_regression(X, y, w):
    for _ in range(10):
        p = 1 / (1 + np.exp(-(X @ w)))
        w = w - 0.1 * (X.T @ (p - y)) / y.size
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return w, loss


def sobel(image):
    x = image.astype(np.float32) / 255
    p = np.pad(x, 1, mode="edge")
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return (np.clip(np.hypot(gx, gy), 0, 1) * 255).astype(np.uint8)


def gaussian_blur(image):
    k = np.array([1, 4, 6, 4, 1], dtype=np.float64) / 16
    p = np.pad(image, ((2, 2), (0, 0)), mode="reflect")
    rows = sum(k[i] * p[i:i + image.shape[0]] for i in range(5))
    p = np.pad(rows, ((0, 0), (2, 2)), mode="reflect")
    return sum(k[i] * p[:, i:i + image.shape[1]] for i in range(5))


def grey_and_threshold(image):
    grey = image @ np.array([0.299, 0.587, 0.114])
    return np.where(grey > grey.mean(), np.uint8(255), np.uint8(0))


def pca(X):
    centred = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / (len(X) - 1))
    return values[::-1], np.abs(centred @ vectors[:, ::-1][:, :2])


def black_scholes(spot, strike, years):
    rate, sigma = 0.05, 0.2
    root = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + sigma ** 2 / 2) * years) / root
    d2 = d1 - root

    def normal(x):  # the logistic approximation
        return 1 / (1 + np.exp(-1.5976 * x - 0.07056 * x ** 3))
    return spot * normal(d1) - strike * np.exp(-rate * years) * normal(d2)


def softmax_rows(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def standard_scores(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-8)


def heat(u):
    for _ in range(8):
        inner = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        u = np.pad(inner, 1)
    return u


def heat_in_place(u):
    u = u.copy()
    for _ in range(4):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


def pairwise_cosine(a, b):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    return a @ b.T


def haversine(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
    a = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 6371 * 2 * np.arcsin(np.sqrt(a))


def running_mean(x):
    total = np.cumsum(np.concatenate(([0.], x)))
    return (total[20:] - total[:-20]) / 20


def julia(z):
    for _ in range(10):
        z = z * z + (-0.4 + 0.6j)
    return np.abs(z) < 2


def mlp(x, w1, b1, w2, b2):
    hidden = np.tanh(x @ w1 + b1)
    return softmax_rows(hidden @ w2 + b2)


def least_squares(x, y):
    A = np.stack([np.ones_like(x), x, x ** 2], axis=1)
    return np.linalg.solve(A.T @ A, A.T @ y)


def histogram_equalization(image):
    counts = np.bincount(image.reshape(-1), minlength=256)
    share = np.cumsum(counts) / image.size
    return (share[image] * 255).astype(np.uint8)


def smoothed_labels(labels):
    hot = np.eye(10)[labels]
    return hot * 0.9 + 0.01


def branches(x):
    return x - x.mean() if x.sum() > 0 else -x


def _points(n):
    r = rng()
    return np.repeat([[5., 5.], [10., 10.]], [n, n], axis=0) + r.standard_normal((2 * n, 2))


def _grid(n):
    return np.linspace(-2, 1, n) + 1j * np.linspace(-1.5, 1.5, n)[:, None]


# name: (function, arguments for a size)
PROGRAMS = {
    "k-means, nearest": (kmeans_nearest, lambda n: (_points(n * n), np.array([[5., 5.], [10., 10.]]))),
    "k-means, step": (kmeans_step, lambda n: (_points(n * n), np.array([[5., 5.], [10., 10.], [0., 0.]]))),
    "Mandelbrot": (mandelbrot, lambda n: (_grid(n),)),
    "Game of Life": (life, lambda n: (rng().integers(0, 2, (n, n)).astype(np.uint8),)),
    "N-body": (nbody, lambda n: (rng().standard_normal((n, 3)), rng().standard_normal((n, 3)), rng().random(n))),
    "convolution by FFT": (fft_convolution, lambda n: (rng().standard_normal(n * n), rng().standard_normal(64))),
    "Monte Carlo pi": (monte_carlo_pi, lambda n: (rng().random(n * n), np.random.default_rng(1).random(n * n))),
    "logistic regression": (logistic_regression, lambda n: (rng().standard_normal((n * 8, 16)), rng().integers(0, 2, n * 8),
                                                            np.zeros(16))),
    "Sobel filter": (sobel, lambda n: (rng().integers(0, 256, (n, n)).astype(np.uint8),)),
    "Gaussian blur": (gaussian_blur, lambda n: (rng().random((n, n)),)),
    "grey and threshold": (grey_and_threshold, lambda n: (rng().integers(0, 256, (n, n, 3)).astype(np.uint8),)),
    "PCA": (pca, lambda n: (rng().standard_normal((n * 4, 8)) * np.arange(1, 9),)),
    "Black-Scholes": (black_scholes, lambda n: (rng().uniform(50, 150, n * n), rng().uniform(60, 140, n * n), rng().uniform(.1, 2, n * n))),
    "softmax of rows": (softmax_rows, lambda n: (rng().standard_normal((n, n)).astype(np.float32),)),
    "standard scores": (standard_scores, lambda n: (rng().standard_normal((n * 8, 16)),)),
    "heat equation": (heat, lambda n: (rng().random((n, n)),)),
    "heat equation in place": (heat_in_place, lambda n: (rng().random((n, n)),)),
    "cosine similarity": (pairwise_cosine, lambda n: (rng().standard_normal((n, 32)), rng().standard_normal((n, 32)))),
    "haversine": (haversine, lambda n: tuple(rng().uniform(-80, 80, (4, n * n)))),
    "running mean": (running_mean, lambda n: (rng().standard_normal(n * n),)),
    "Julia set": (julia, lambda n: (_grid(n),)),
    "multilayer perceptron": (mlp, lambda n: (rng().standard_normal((n, 32)), rng().standard_normal((32, 64)), np.zeros(64),
                                              rng().standard_normal((64, 10)), np.zeros(10))),
    "least squares": (least_squares, lambda n: (np.linspace(0, 1, n * n), rng().standard_normal(n * n))),
    "histogram equalization": (histogram_equalization, lambda n: (rng().integers(0, 256, (n, n)).astype(np.uint8),)),
    "smoothed labels": (smoothed_labels, lambda n: (rng().integers(0, 10, n * n),)),
    "a branch on a value": (branches, lambda n: (rng().standard_normal((n, n)),)),
}
