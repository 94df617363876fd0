"""Limited-memory BFGS."""
import cresset
from .optimizer import Optimizer, _check_lr, _to_scalar

__all__ = ["LBFGS"]


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """Returns the minimum, within bounds, of the cubic through two points with given slopes."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    d2_square = d1 ** 2 - g1 * g2
    if d2_square < 0:
        return (low + high) / 2.0
    d2 = d2_square.sqrt()
    if x1 <= x2:
        x = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        x = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(x, low), high)


class _Point:
    """A step length, and the loss, gradient and slope along the line there."""

    def __init__(self, t, f, g, slope):
        self.t, self.f, self.g, self.slope = t, f, g, slope


class _LineSearch:
    """Finds a step length that satisfies the strong Wolfe conditions.

    The step grows until an interval must contain such a point.  The interval then shrinks by
    cubic interpolation.
    """

    c1, c2 = 1e-4, 0.9

    def __init__(self, evaluate, x, d, f, g, slope, max_ls, tolerance_change=1e-9):
        self.evaluate, self.x, self.d = evaluate, x, d
        self.start = _Point(0, f, g.clone(memory_format=cresset.contiguous_format), slope)
        self.max_ls, self.tolerance_change = max_ls, tolerance_change
        self.evaluations = self.iterations = 0

    def point(self, t):
        f, g = self.evaluate(self.x, t, self.d)
        self.evaluations += 1
        return _Point(t, f, g.clone(memory_format=cresset.contiguous_format), g.dot(self.d))

    def too_high(self, p):
        return p.f > self.start.f + self.c1 * p.t * self.start.slope

    def flat(self, p):
        return abs(p.slope) <= -self.c2 * self.start.slope

    def run(self, t):
        """Returns (loss, gradient, step length, number of evaluations)."""
        bracket, done = self.bracket(t)
        best = bracket[0] if done else self.zoom(bracket)
        return best.f, best.g, best.t, self.evaluations

    def bracket(self, t):
        previous, p = self.start, self.point(t)
        while self.iterations < self.max_ls:
            if self.too_high(p) or (self.iterations > 1 and p.f >= previous.f):
                return [previous, p], False
            if self.flat(p):
                return [p], True
            if p.slope >= 0:
                return [previous, p], False
            bounds = (p.t + 0.01 * (p.t - previous.t), p.t * 10)
            t = _cubic_interpolate(previous.t, previous.f, previous.slope, p.t, p.f, p.slope,
                                   bounds=bounds)
            previous, p = p, self.point(t)
            self.iterations += 1
        return [self.start, p], False

    def zoom(self, bracket):
        length = self.d.abs().max()
        low = 0 if bracket[0].f <= bracket[1].f else 1
        stalled = False
        while self.iterations < self.max_ls:
            a, b = bracket
            if abs(b.t - a.t) * length < self.tolerance_change:
                break
            t = _cubic_interpolate(a.t, a.f, a.slope, b.t, b.f, b.slope)
            t, stalled = self.keep_inside(t, min(a.t, b.t), max(a.t, b.t), stalled)
            p = self.point(t)
            self.iterations += 1
            if self.too_high(p) or p.f >= bracket[low].f:
                bracket[1 - low] = p
                low = 0 if bracket[0].f <= bracket[1].f else 1
                continue
            flat = self.flat(p)
            if not flat and p.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
                bracket[1 - low] = bracket[low]
            bracket[low] = p
            if flat:
                break
        return bracket[low]

    @staticmethod
    def keep_inside(t, least, most, stalled):
        """Moves `t` away from an end of the interval when it is there twice in a row."""
        margin = 0.1 * (most - least)
        if min(most - t, t - least) >= margin:
            return t, False
        if stalled or t >= most or t <= least:
            near_most = abs(t - most) < abs(t - least)
            return (most - margin if near_most else least + margin), False
        return t, True


class LBFGS(Optimizer):
    """Quasi-Newton steps; the closure is called several times a step.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.LBFGS([w], lr=0.1)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = w.square().sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item()
        2.0
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7,
                 tolerance_change=1e-9, history_size=100, line_search_fn=None):
        _check_lr(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state):
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    def _gather_flat_grad(self):
        parts = []
        for p in self._params:
            if p.grad is None:
                part = cresset.zeros_like(p)
            else:
                part = p.grad.to_dense() if p.grad.is_sparse else p.grad
            part = cresset.view_as_real(part) if part.is_complex() else part
            parts.append(part.reshape(-1))
        return cresset.cat(parts, 0)

    def _add_grad(self, step_size, update):
        offset = 0
        for p in self._params:
            p = cresset.view_as_real(p) if p.is_complex() else p
            n = p.numel()
            p.add_(update[offset:offset + n].view_as(p), alpha=step_size)
            offset += n

    def _evaluate(self, closure, x, t, d):
        """Returns loss and gradient at x + t * d, and restores the parameters to x."""
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        for p, old in zip(self._params, x):
            p.copy_(old)
        return loss, grad

    def _direction(self, state, grad):
        """Returns the direction of descent from the stored changes of the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y = grad.sub(state["prev_flat_grad"])
        s = state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(dirs) == self.param_groups[0]["history_size"]:
                for history in (dirs, steps, ro):
                    history.pop(0)
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        al = state.setdefault("al", [None] * self.param_groups[0]["history_size"])
        q = grad.neg()
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = steps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-al[i])
        r = cresset.mul(q, state["H_diag"])
        for i in range(len(dirs)):
            r.add_(steps[i], alpha=al[i] - dirs[i].dot(r) * ro[i])
        return r

    def step(self, closure):
        """Calls `closure`, which computes loss and gradients, and updates."""
        def with_grad():
            with cresset.enable_grad():
                return closure()

        with cresset.no_grad():
            return self._minimize(with_grad)

    def _minimize(self, closure):
        group = self.param_groups[0]
        lr, state = _to_scalar(group["lr"]), self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad = float(first_loss), self._gather_flat_grad()
        evaluations, change = 1, group["tolerance_change"]
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = state["d"] = self._direction(state, grad)
            state["prev_flat_grad"] = grad.clone(memory_format=cresset.contiguous_format)
            state["prev_loss"] = previous_loss = loss
            t = state["t"] = (min(1.0, 1.0 / grad.abs().sum()) * lr if state["n_iter"] == 1
                              else lr)
            slope = grad.dot(d)
            if slope > -change:
                break
            last = i == group["max_iter"]
            loss, grad, t, used = self._advance(closure, loss, grad, t, d, slope, last,
                                                group["max_eval"] - evaluations)
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if (last or evaluations >= group["max_eval"]
                    or grad.abs().max() <= group["tolerance_grad"]
                    or d.mul(t).abs().max() <= change or abs(loss - previous_loss) < change):
                break
        return first_loss

    def _advance(self, closure, loss, grad, t, d, slope, last, max_ls):
        """Moves once along `d`.  Returns (loss, gradient, step length, evaluations)."""
        search = self.param_groups[0]["line_search_fn"]
        if search is None:
            self._add_grad(t, d)
            if last:
                return loss, grad, t, 0
            loss = float(closure())
            return loss, self._gather_flat_grad(), t, 1
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        x = [p.clone(memory_format=cresset.contiguous_format) for p in self._params]
        evaluate = lambda at, step, direction: self._evaluate(closure, at, step, direction)
        out = _LineSearch(evaluate, x, d, loss, grad, slope, max_ls).run(t)
        self._add_grad(out[2], d)
        return out
