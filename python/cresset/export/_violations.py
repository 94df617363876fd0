"""Errors of sizes that cannot vary as dynamic_shapes says, in torch's words."""
from .._dynamo.exc import UserError
from .._size_expr import Size
from ._constraints import _MORE, _SPECIALIZED, Condition


class _Violations:
    def __init__(self, constraints):
        self.c = constraints
        self.names, self.lines, self.fixes, self.found = [], [], [], []

    def add(self, names, line, *fixes, found=()):
        self.found += found
        self.names += [n for n in names if n not in self.names]
        if line not in self.lines:
            self.lines.append(line)
        self.fixes += [f for f in fixes if f not in self.fixes]

    def specialized(self):
        for d in self.c.dims:
            if d.wanted and self.c.expr(d).is_number:
                self.add([d.name], _SPECIALIZED.format(d.name, d.hint),
                         *([] if d.is_hint else [f"  {d.name} = {d.hint}"]),
                         found=[Condition(Size.symbol(d.symbol), "==", Size.of(d.hint))])

    def equal(self):
        named = [d for d in self.c.dims if not d.is_hint and d.spec.root is None]
        for i, d in enumerate(named):
            for other in named[:i]:
                e = self.c.expr(d)
                if e == self.c.expr(other) and not e.is_number and d.name != other.name and d.name not in self.names:
                    self.add([d.name], f"  - The values of {d.name} = {d.source} and {other.name} = {other.source} must always be "
                                       "equal.", f"  {d.name} = {other.name}",
                             found=[Condition(Size.symbol(other.symbol), "==", Size.symbol(d.symbol))])

    def related(self):
        """Sizes that another size gives: dy = 2*dx + 1."""
        for d in self.c.dims:
            e = self.c.expr(d)
            if d.symbol not in self.c.related or e.is_number or len(e.free_symbols) != 1 or not d.wanted:
                continue
            root = next((o for o in self.c.dims if self.c.expr(o) == Size.symbol(e.free_symbols[0])), None)
            if root is None or d.is_hint and root.is_hint:
                continue
            relation = f"{d.name} = {e.text(lambda s, root=root: root.name)}"
            self.add([d.name], f"  - The values of {d.name} = {d.source} must always be related to the values of {root.name} = "
                               f"{root.source} by {relation}.", f"  {relation}", found=[Condition(Size.symbol(d.symbol), "==", e)])

    def ranges(self):
        for d in self.c.dims:
            e = self.c.expr(d)
            if d.is_hint or d.spec.root is not None or not e.is_symbol or d.name in self.names:
                continue
            low, high = d.bounds
            found = self.c.lower[e.name], self.c.upper[e.name]
            if max(low, 2) >= found[0] and (found[1] is None or found[1] == high):
                continue
            bounds = [Condition(e, test, Size.of(n)) for test, n in ((">=", found[0] if found[0] > 2 else None), ("<=", found[1])) if n is not None]
            self.add([d.name], self._range_line(d, low, high, found), f"  {d.name} = {_dim_text(d.name, found, high)}", found=bounds)

    @staticmethod
    def _range_line(d, low, high, found):
        given = f" {low} <= {d.name} <= {high}" if low > 2 and high is not None else \
            f" {d.name} <= {high}" if high is not None else f" {low} <= {d.name}" if low > 2 else ""
        most = "IntInfinity()" if found[1] is None else found[1]
        return (f"  - Not all values of {d.name} = {d.source} in the specified range{given} satisfy the generated guard "
                f"{max(found[0], 2)} <= {d.source} and {d.source} <= {most}")

    def conditions(self):
        by_symbol = {}
        for d in self.c.dims:
            for s in self.c.expr(d).free_symbols:
                by_symbol.setdefault(s, d)
        for condition in self.c.conditions:
            plain = self.c._plain(condition)
            symbols = list(dict.fromkeys(plain.left.free_symbols + plain.right.free_symbols))
            of = [by_symbol[s] for s in symbols if s in by_symbol]
            named = [d for d in of if not d.is_hint]
            if not named or plain.left == plain.right or self._always(plain) or self.c._implied(condition) or \
               condition.test in ("<", "<=", ">", ">=") or len(symbols) > 1 and not _is_linear(plain):
                continue  # bounds are in ranges(); as in torch, the call checks comparisons of several sizes
            source = {s: d.source for s, d in by_symbol.items()}
            d = named[0]
            fixes = self._fix(d, plain) if len(symbols) == 1 else []
            self.add([d.name], f"  - Not all values of {d.name} = {d.source} in the specified range satisfy the generated guard "
                               f"{plain.text(lambda s: source.get(s, s))}.", *fixes, found=[plain])

    def _always(self, condition):
        """Whether a condition holds at some hundred values within the bounds: an identity."""
        symbols = list(dict.fromkeys(condition.left.free_symbols + condition.right.free_symbols))
        if len(symbols) != 1:
            return False
        low, high = self.c.lower[symbols[0]], self.c.upper[symbols[0]]
        if condition.test == "!=" and condition.left.is_symbol and condition.right.is_number:
            n = condition.right.value
            return n < max(low, 2) or high is not None and n > high
        values = range(max(low, 2), min(max(low, 2) + 300, 10 ** 9 if high is None else high + 1))
        return all(condition.holds({symbols[0]: n}) for n in values)

    @staticmethod
    def _fix(d, plain):
        for m, _ in plain.left.terms.items():
            for atom in m:
                if not isinstance(atom, str) and atom[0] == "mod" and atom[1][1].is_number and plain.test == "==" and \
                   plain.right == 0 and atom[1][0].is_symbol:
                    n = atom[1][1].value
                    return [f"  _{d.name} = Dim('_{d.name}', min=1, max=oo)", f"  {d.name} = {n}*_{d.name}"]
        return []

    def check(self):
        self.specialized()
        self.equal()
        self.related()
        self.ranges()
        self.conditions()
        if not self.lines:
            return
        fixes = "\nSuggested fixes:\n" + "\n".join(self.fixes) if self.fixes else ""
        error = UserError(f"Constraints violated ({', '.join(self.names)})! {_MORE}\n" + "\n".join(self.lines) + fixes)
        error.conditions, error.sources = self.found, {d.symbol: d.source for d in self.c.dims}
        raise error


def _is_linear(condition):
    """Whether a condition is an equality of sums of symbols."""
    return condition.test == "==" and all(len(m) <= 1 and all(isinstance(a, str) for a in m) for m in (condition.left - condition.right).terms)


def _dim_text(name, found, high):
    low = f", min={found[0]}" if found[0] > 2 else ""
    top = found[1] if found[1] is not None else high
    return f"Dim('{name}'{low}{'' if top is None else f', max={top}'})"


def check(constraints):
    """Raises for sizes that must vary and cannot, and for Dims with values that the program does not take."""
    _Violations(constraints).check()
