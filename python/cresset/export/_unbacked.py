"""Numbers and sizes that depend on elements, in exported programs: symbols u0, u1, ...

The recording of a module has a symbol in the place of each such number.  While the module is traced, the symbol has an example
as its value, for which the conditions of torch._check() hold; where they do not, the module is traced again with another one.
A comparison that facts and bounds do not decide is a Truth; Python cannot branch by it.

The recording gets a call of an operator that has the right sizes (`fake`), which the exported graph replaces by the
program's operator.
"""
import collections
import contextlib
import functools
import itertools
import math
import operator
import sys
import weakref

from .. import SymBool, Tensor, _C
from .._size_expr import Size
from .._subclasses import fake_tensor
from .._subclasses.fake_tensor import DynamicOutputShapeException
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..library import Library
from ..utils._python_dispatch import _disable_current_modes
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only
from ._constraints import Condition, symbol_name
from ._graph import _base_name, number_expressions, value_sizes

_NAMESPACE = "cresset_export"
OPERATOR = f"{_NAMESPACE}::values"
_HOME = __file__.removesuffix("export/_unbacked.py")
_count = itertools.count()
_sites = weakref.WeakValueDictionary()  # number -> Site of a call that is traced now
_kept = []                              # the Library of the operator
_NOT = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TESTS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "<=": operator.le}
_NAMES = {"==": "eq", "!=": "ne", "<": "lt", ">=": "ge", ">": "gt", "<=": "le"}


class OtherExamples(BaseException):
    """The trace is made again with other values of symbols."""


class Truth(SymBool):
    """A condition on numbers that depend on elements; `number` is that of the recording for an element itself."""

    def __init__(self, values, condition, number=None, text=None):
        super().__init__(self)
        self.values, self.condition, self.number = values, condition, number
        self.text = text or str(condition)

    def __bool__(self):
        known = self.values.answer(self.condition) if self.condition is not None else None
        if known is None:
            raise GuardOnDataDependentSymNode(self.values.refusal(self.text))
        return known

    def __repr__(self):
        return self.text

    def assume(self, error, message):
        self.values.assume(self, error, message)

    def tensor(self):
        """The condition as a tensor, for torch.cond."""
        if self.condition is None:
            raise GuardOnDataDependentSymNode(self.values.refusal(self.text))
        return self.values.flag(self.condition)


class Site:
    """A call whose result is a number, or has sizes, that depend on elements."""

    def __init__(self, kind, tensors, made, func=None, args=None, kwargs=None, symbols=()):
        self.kind, self.tensors, self.made = kind, tensors, made  # made: (dtype, device, dims) of each result
        self.func, self.args, self.kwargs, self.symbols = func, args, kwargs, symbols
        self.number = next(_count)
        _sites[self.number] = self


def _fake_results(operands, sizes, site):
    left, out = list(sizes), []
    for dtype, device, dims in _sites[site].made:
        out.append(_C.empty(left[:dims], dtype=dtype, device=device))
        del left[:dims]
    return out


@functools.cache
def _operator():
    """The operator that stands for each call of a Site while it is traced."""
    from .. import ops
    library = Library(_NAMESPACE, "FRAGMENT")
    library.define("values(Tensor[] operands, SymInt[] sizes, int site) -> Tensor[]")
    library._register_fake("values", _fake_results)
    _kept.append(library)
    return getattr(ops, _NAMESPACE).values


class Element:
    """A number that depends on elements.  lower and upper: bounds, or None."""

    def __init__(self, name, number, hint, lower, upper, kind, recorder):
        self.name, self.number, self.hint, self.kind, self.recorder = name, number, hint, kind, recorder
        self.lower, self.upper, self.at = lower, upper, None  # at: a tensor that the number depends on

    @property
    def expr(self):
        return Size.symbol(self.name)


class Values:
    """The symbols of one trace, and what the program says of them.  hints: {name: value}, kept between traces."""

    def __init__(self, trace, hints):
        self.trace, self.hints = trace, hints
        self.symbols, self.facts, self.sites = {}, [], {}
        self.inside = self.is_paused = False
        self.taken = None  # a number whose value in the example was needed
        self.known_dims, self.bounds = {}, {}  # of dims: {number: Size}, {symbol: (least, greatest)}
        self.dim_hints = {}
        self.unsized = []  # recorders of branches with operands whose sizes vary
        self._sized = None

    @contextlib.contextmanager
    def paused(self):
        """Inside, calls are not recorded."""
        recorder = None if self.is_paused else self.trace.running
        if recorder is not None:
            recorder.stop()
            self.is_paused = True
        try:
            yield
        finally:
            if recorder is not None:
                self.is_paused = False
                recorder.start()

    # --- symbols ---

    def name_dims(self):
        """Gives the sizes that vary the names that they will have in the program."""
        numbers = {(id(leaf), d): None for leaf in self.trace.leaves for d in range(64) if getattr(leaf, "mask", 0) >> d & 1}
        at = dict(zip(numbers, itertools.count()))
        for d in self.trace.dims:
            if d.varies:
                name = symbol_name(d.source, self.dim_hints)
                self.dim_hints[name], d.symbol_name = d.hint, name
                self.known_dims[at[id(d.leaf), d.dim]] = Size.symbol(name)
                low, high = d.bounds
                self.bounds[name] = max(low, 2) if d.is_hint else low, high

    def all_hints(self):
        return {**self.dim_hints, **{s.name: s.hint for s in self.symbols.values()}}

    def new(self, kind, lower=None, upper=None, most=None, real=None):
        """A symbol of the recording, and its Element.  most: the greatest value that an example may have."""
        self.trace.running.decides(self.decide)
        count = sum(s.kind is float for s in self.symbols.values()) if kind is float else \
            sum(s.kind is not float for s in self.symbols.values())
        name = f"zuf{count}" if kind is float else f"u{count}"
        if real is not None:
            self.hints[name] = real
        hint = self.hints.setdefault(name, 1.5 if kind is float else 1 if kind is bool else self._example(most))
        made = self.trace.running.number(hint)
        self.symbols[name] = Element(name, _C._symbol_of(made), hint, lower, upper, kind, self.trace.running)
        self.symbols[name].is_real = real is not None
        self._sized = None
        return made, self.symbols[name]

    def _example(self, most):
        used = set(self.dim_hints.values())
        if most is not None and most < 2:
            return most
        return next((n for n in range(3, 64) if n not in used and (most is None or n <= most)), 2)

    def numbers(self, recorder):
        """{number of a recording: Size} of the symbols that it has."""
        return {s.number: s.expr for s in self.symbols.values() if s.kind is not float and s.recorder is recorder}

    def resume(self, recorder):
        """Decides the questions of a recording again, after those of a branch."""
        if any(s.recorder is recorder for s in self.symbols.values()):
            recorder.decides(self.decide)

    # --- expressions ---

    def expr(self, x):
        """The Size of an int or of a symbol of the recording; None where it has none."""
        if type(x) is not _C.Symbol:
            return Size.of(x) if isinstance(x, int) else None
        k = _C._symbol_of(x)
        if k < 0:
            return None
        recorder = self.trace.running
        numbers = recorder.numbers
        known = {**(self.known_dims if recorder is self.trace.recorder else {}), **self.numbers(recorder)}
        if any(how == "size" and j not in known for j, (how, *_) in enumerate(numbers[:k + 1])):
            self._find_sizes(recorder, known, len(numbers))
        found = number_expressions(numbers, known, self._sized[1] if self._sized else {})
        return found[k]

    def _find_sizes(self, recorder, known, count):
        if any(recorder is x for x in self.unsized):
            self._sized = None
            return
        if self._sized is not None and self._sized[0] == (id(recorder), count):
            return
        try:
            with self.paused():
                self._sized = (id(recorder), count), value_sizes(recorder, known, self.all_hints(), self.all_bounds(), self.facts)
        except ValueError:
            self._sized = (id(recorder), count), {}

    def all_bounds(self):
        return {**self.bounds, **{s.name: (s.lower or 0, s.upper) for s in self.symbols.values()}}

    def text_of(self, x):
        """The text of a symbol in a text that the program makes: s77, 2*s77, u0."""
        found = self.expr(x)
        return NotImplemented if found is None or found.is_number else found.text()

    def _depends(self, x):
        """Whether a symbol of the recording is computed of an element."""
        if type(x) is not _C.Symbol:
            return False
        return self.is_element(self.trace.running.numbers, _C._symbol_of(x))

    def is_element(self, numbers, k):
        """Whether the k-th number of a recording is computed of an element."""
        found = []
        for how, *of in numbers[:k + 1]:
            found.append(how == "input" or how not in ("size", "const") and any(found[i] for i in of))
        return bool(found and found[-1])

    # --- questions ---

    def decide(self, test, a, b):
        """The answer to `a test b`: a Truth, or NotImplemented where no element decides.  test None: a's value is needed."""
        if test == "tensor":
            return self.tensor_of(a, b)
        if test == "fixed":  # an example's value was taken where no code could be told
            left = self.expr(a)
            if left is not None and self._are_real(left):
                self._take_value(left)
                return NotImplemented
            self.taken = self.taken or (self._text(a) if left is None else left.text())
            return NotImplemented
        left, right = self.expr(a), self.expr(b) if test is not None else Size.of(0)
        if left is None or right is None:
            if self._depends(a) or self._depends(b):
                text = f"{self._text(a)} {test} {self._text(b)}"
                if test is None:
                    raise GuardOnDataDependentSymNode(self.refusal(self._text(a)))
                return Truth(self, None, text=text)
            return NotImplemented
        names = {*left.free_symbols, *right.free_symbols}
        if not names & self.symbols.keys():
            if self.trace.draft is not None and test is not None and names:
                self.trace.draft.compared(self.trace, Condition(left, test, right))
            return NotImplemented
        if test is None:
            if self._fixed(left) is None and self._are_real(left) and not self._asks_library():
                self._take_value(left)
                return NotImplemented
            fixed = self._fixed(left)
            if fixed is None and not self._asks_library():
                raise GuardOnDataDependentSymNode(self.refusal(left.text(), "Could not extract specialized integer from data-dependent "
                                                               "expression"))
            return NotImplemented
        condition = Condition(left, test, right)
        known = self.known(condition)
        if known is not None:
            return known
        return self._taken(condition) if self._asks_library() else Truth(self, condition)

    def _taken(self, condition):
        """What holds for the example, which the program asserts."""
        holds = condition.holds(self.all_hints())
        fact = condition if holds else Condition(condition.left, _NOT[condition.test], condition.right)
        self.facts.append(fact)
        self._bound(fact)
        self._sized = None
        return holds

    def _text(self, x):
        if type(x) is not _C.Symbol:
            return str(x)
        of = next((s.name for s in self.symbols.values() if s.number == _C._symbol_of(x) and s.recorder is self.trace.running), None)
        return of or "expr"

    def _asks_library(self):
        """Whether code of this package asks, which takes sizes for those of the example."""
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in (__file__, fake_tensor.__file__):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(_HOME) and \
            not frame.f_code.co_filename.startswith(f"{_HOME}_checks.py")

    def _fixed(self, e):
        low, high = self.range(e)
        return low if low is not None and low == high else None

    def range(self, e):
        """The least and the greatest value of an expression, None where there is none."""
        bounds = {**self.bounds, **{s.name: (s.lower, s.upper) for s in self.symbols.values()}}
        low = high = 0
        for atoms, c in e.terms.items():
            a, b = self._product(atoms, bounds)
            if c < 0:
                a, b = b, a
            low = None if low is None or a is None else low + c * a
            high = None if high is None or b is None else high + c * b
        return low, high

    def _product(self, atoms, bounds):
        low = high = 1
        for atom in atoms:
            if isinstance(atom, str):
                a, b = bounds.get(atom, (None, None))
            elif atom[0] == "mod" and atom[1][1].is_number and atom[1][1].value > 0:
                a, b = 0, atom[1][1].value - 1
            else:
                return None, None
            if len(atoms) > 1 and (a is None or a < 0):
                return None, None
            low, high = (None if low is None or a is None else low * a), (None if high is None or b is None else high * b)
        return low, high

    def known(self, condition):
        """Whether a condition holds for all values that facts and bounds allow; None if that is not known."""
        for fact in self.facts:
            if fact.left - fact.right == condition.left - condition.right:
                same, other = fact.test, condition.test
            elif fact.left - fact.right == condition.right - condition.left:
                same, other = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(fact.test, fact.test), condition.test
            else:
                continue
            if same == other or (same, other) in ((">", ">="), ("<", "<="), (">", "!="), ("<", "!="), ("==", "<="), ("==", ">=")):
                return True
            if _NOT[same] == other or (same, other) in (("==", "<"), ("==", ">"), ("<", ">"), (">", "<"), ("<", "=="), (">", "==")):
                return False
        low, high = self.range(condition.left - condition.right)
        always = {"==": low is not None and low == high == 0, "!=": low is not None and low > 0 or high is not None and high < 0,
                  ">": low is not None and low > 0, ">=": low is not None and low >= 0,
                  "<": high is not None and high < 0, "<=": high is not None and high <= 0}
        return True if always[condition.test] else False if always[_NOT[condition.test]] else None

    def answer(self, condition):
        """known(), and where the elements are there, what is so for them, which becomes a fact."""
        known = self.known(condition)
        if known is None and self._are_real(condition.left - condition.right):
            known = condition.holds(self.all_hints())
            self._note_taken(str(condition), known, condition.left - condition.right)
            fact = condition if known else Condition(condition.left, _NOT[condition.test], condition.right)
            self.facts.append(fact)
            self._bound(fact)
        return known

    def _are_real(self, e):
        """Whether the elements are there that an expression depends on, and it depends on some."""
        names = [n for n in e.free_symbols if n in self.symbols]
        return bool(names) and all(self.symbols[n].is_real for n in names)

    def _take_value(self, e):
        """Makes the value of an expression that of the example, as a fact."""
        fact = Condition(e, "==", Size.of(e.at(self.all_hints())))
        if self.known(fact) is None:
            self._note_taken(e.text(), fact.right.value, e)
            self.facts.append(fact)
            self._bound(fact)
            self._sized = None

    def _note_taken(self, text, value, e):
        if self.trace.draft is not None:
            self.trace.draft.value(self.trace, text, value, e.free_symbols)

    # --- facts ---

    def assume(self, truth, error, message):
        """What torch._check() says of numbers."""
        condition = truth.condition
        if condition is None:
            if any(self.trace.running is x for x in self.unsized):
                raise GuardOnDataDependentSymNode(self.refusal(truth.text))
            return
        known = self.known(condition)
        if known is False:
            raise error(str(message()) if callable(message) else "Expected cond to be True, but got False. (Could this error message "
                        "be improved? If so, please report an enhancement request to PyTorch.)")
        if known is None:
            self.facts.append(condition)
            self._bound(condition)
            self._bound_by_others()
            self._sized = None
        self._check_examples()

    def _bound(self, condition):
        e = condition.left - condition.right
        if len(e.free_symbols) != 1 or e.free_symbols[0] not in self.symbols:
            return
        symbol = self.symbols[e.free_symbols[0]]
        c = e.terms.get((symbol.name,), 0)
        if abs(c) != 1 or len(e.terms) > 2 or (len(e.terms) == 2 and () not in e.terms):
            return
        n = -e.terms.get((), 0) * c
        test = condition.test if c > 0 else {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(condition.test, condition.test)
        if test in (">", ">=", "=="):
            least = n + (test == ">")
            symbol.lower = least if symbol.lower is None else max(symbol.lower, least)
        if test in ("<", "<=", "=="):
            most = n - (test == "<")
            symbol.upper = most if symbol.upper is None else min(symbol.upper, most)

    def _bound_by_others(self):
        """Bounds that follow from facts about sums and the bounds of the other terms: u0 + u1 <= 6 and u1 >= 0 bound u0."""
        for fact in [f for f in self.facts if f.test != "!="] * 2:
            e = fact.left - fact.right
            for name in e.free_symbols:
                if name not in self.symbols or abs(e.terms.get((name,), 0)) != 1:
                    continue
                rest = e - Size.symbol(name) * e.terms[(name,)]
                low, high = self.range(rest) if name not in rest.free_symbols else (None, None)
                for test, most in ((fact.test, low if fact.test[0] == "<" else high), *([("<=", low)] if fact.test == "==" else [])):
                    if most is not None:
                        test = ">=" if test == "==" else test
                        self._bound(Condition(Size.symbol(name) * e.terms[(name,)] + Size.of(most), test, Size.of(0)))

    def _check_examples(self):
        """Traces again, with examples for which the facts hold."""
        hints = self.all_hints()

        def fits(values):
            return all(f.holds(values) for f in self.facts) and all(
                (s.lower is None or values[s.name] >= s.lower) and (s.upper is None or values[s.name] <= s.upper)
                for s in self.symbols.values() if s.kind is int)
        if fits(hints):
            return
        free = [s for s in self.symbols.values() if s.kind is int]
        for some in [*([s] for s in free), *itertools.combinations(free, 2)]:
            for choice in itertools.product(*(self._examples(s, 400 if len(some) == 1 else 24) for s in some)):
                values = {**hints, **{s.name: n for s, n in zip(some, choice)}}
                if fits(values):
                    self.hints.update({s.name: values[s.name] for s in free})
                    raise OtherExamples

    def _examples(self, s, count):
        low, high = s.lower, s.upper
        start = max(low, 2) if low is not None and (high is None or high >= 2) else low if low is not None else 2
        near = [start + i for i in range(count)]
        if high is not None:
            near += [high - i for i in range(8)]
        near += [0, 1, *self.dim_hints.values(), *(-i for i in range(1, 9))]
        return [n for n in dict.fromkeys(near) if (low is None or n >= low) and (high is None or n <= high)]

    def check_guard(self, condition):
        """Refuses a condition that an operator needs, unless it holds for all elements."""
        if not self.known(condition):
            raise GuardOnDataDependentSymNode(self.refusal(str(condition)))

    def check_taken(self):
        """Refuses a program that needs the value of a number that depends on elements."""
        if self.taken is not None:
            raise GuardOnDataDependentSymNode(self.refusal(self.taken))

    def refusal(self, text, what="Could not guard on data-dependent expression"):
        note = self.trace.sources.notes[-1] if self.trace.sources.notes else None
        path, line, name = note.line() if note is not None else ("?", 0, "?")
        frame = sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename.startswith(_HOME) or frame.f_code.co_name != "forward"):
            frame = frame.f_back
        if frame is not None:
            path, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        sizes = ", ".join(s.name for s in self.symbols.values() if s.lower is not None and s.lower >= 0) or "none"
        return (f"{what} {text} (unhinted: {text}).  (Size-like symbols: {sizes})\n\nconsider using data-dependent friendly APIs such as "
                f"guard_or_false, guard_or_true and statically_known_true.\nCaused by: ({path}:{line} in {name})\n"
                'For more information, run with TORCH_LOGS="dynamic"')

    # --- calls ---

    def tensor_of(self, data, dtype):
        """The tensor of nested lists in which numbers of the recording stand."""
        from .. import get_default_dtype, scalar_tensor, stack
        leaves = tree_leaves(data)
        if dtype is None:
            kinds = {x.dtype if isinstance(x, Tensor) else bool if isinstance(x, (bool, SymBool)) else
                     complex if isinstance(x, complex) else float if isinstance(x, float) else int for x in leaves}
            dtype = _C.bool if kinds == {bool} else _C.int64 if kinds <= {bool, int} else get_default_dtype()
            if not kinds <= {bool, int, float}:
                raise GuardOnDataDependentSymNode(self.refusal("elements of a tensor with numbers of the program and others"))

        def made(x):
            if isinstance(x, (list, tuple)):
                return stack([made(item) for item in x])
            if isinstance(x, Truth):
                return x.tensor().to(dtype)
            return x.to(dtype).reshape(()) if isinstance(x, Tensor) else scalar_tensor(x, dtype=dtype)
        return made(data)

    def item(self, tensor):
        """The element of a tensor, as a symbol."""
        if tensor.numel() != 1:
            raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
        if tensor.is_complex():
            raise GuardOnDataDependentSymNode(self.refusal("item of a complex tensor"))
        kind = bool if tensor.dtype == _C.bool else float if tensor.is_floating_point() else int
        bounds = (0, 1) if kind is bool else (None, None)
        with _disable_current_modes(), self.paused():
            real = None if tensor.real_tensor is None else kind(tensor.real_tensor.item())
        made, symbol = self.new(kind, *bounds, real=None if real is None else real + 0)
        self._call(Site("item", [tensor], [(_C.bool, tensor.device, 0)], symbols=[symbol]), [])
        if kind is bool:
            return Truth(self, Condition(symbol.expr, "==", Size.of(1)), number=symbol.number)
        return made

    def flag(self, condition):
        at = [s.at for s in self.symbols.values() if s.name in condition.left.free_symbols + condition.right.free_symbols]
        out, = self._call(Site("condition", at[:1], [(_C.bool, _C.device("cpu"), 0)], func=condition), [])
        return out

    def _call(self, site, sizes):
        self.sites[site.number] = site
        for symbol in site.symbols:
            (symbol if site.kind == "item" else symbol[0]).at = site.tensors[0]
        return _operator()(site.tensors, sizes, site.number)

    def dispatch(self, func, args, kwargs):
        """The results of an operator whose sizes may depend on elements, which the recorder left out."""
        recorder, mode = self.trace.running, self.trace.mode
        try:
            with self.paused(), self._direct():
                mode.dispatch(func, args, kwargs)
            depends = False
        except DynamicOutputShapeException:
            depends = True
        with mode, _C._ReentrantDispatch():
            if depends:
                return self._sized_call(func, args, kwargs)
            recorder.apart(False)
            try:
                with self._direct():
                    return func(*args, **kwargs)
            finally:
                recorder.apart(True)

    @contextlib.contextmanager
    def _direct(self):
        self.inside, was = True, self.inside
        try:
            yield
        finally:
            self.inside = was

    def _sized_call(self, func, args, kwargs):
        leaves, _ = tree_flatten((args, kwargs))
        tensors = list({id(x): x for x in leaves if isinstance(x, Tensor)}.values())
        self.plain = {id(x): self._plain_sizes(x) for x in tensors}
        shapes, spec_of = self._probe(func, args, kwargs, tensors)
        sizes, symbols, known = [], [], {}
        reals = self._real_results(func, args, kwargs, tensors)
        grown = self._grown(func, args, kwargs, tensors, spec_of) if self.known_dims or self.symbols else {}
        for r, dims in enumerate(spec_of[0]):
            for d, n in enumerate(dims[2]):
                seen = tuple(s[r][d] for s in shapes)
                if len(set(seen)) == 1:
                    sizes.append(grown.get((r, d), n))
                    continue
                if seen not in known:
                    most, upper = self._most(seen, tensors)
                    real = None if reals is None else reals[r].shape[d]
                    known[seen], symbol = self.new(int, 0, upper, most, real)
                    symbols.append((symbol, r, d))
                sizes.append(known[seen])
        made = [(dtype, device, len(dims)) for dtype, device, dims in spec_of[0]]
        site = Site("call", tensors, made, func, args, kwargs, symbols)
        out = self._call(site, sizes)
        if tensors and all(x.real_tensor is not None for x in tensors):
            self.trace.mode.set_real(func, args, kwargs, out)
        return out[0] if spec_of[1] == "one" else tuple(out) if spec_of[1] == "tuple" else list(out)

    def custom_call(self, func, args, kwargs):
        """The results of a custom operator without a fake kernel, or with a wrong one, whose sizes are symbols; else
        NotImplemented."""
        func = _overload_called(func, args, kwargs)
        if func is None or not _is_custom(func):
            return NotImplemented
        args, kwargs = tree_map_only(Tensor, lambda x: self.trace.mode.from_tensor(x) if not isinstance(x, fake_tensor.FakeTensor) else x,
                                     (args, kwargs))
        tensors = list({id(x): x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}.values())
        reals = self._real_results(func, args, kwargs, tensors)
        if not reals or not all(isinstance(x, Tensor) for x in reals):
            return NotImplemented
        try:
            with self.paused():
                fakes = tree_leaves(func(*args, **kwargs))
        except (RuntimeError, NotImplementedError) as error:
            if "no fake impl registered" not in str(error):
                raise
            reason = None
        else:
            reason = _difference(fakes, reals, tensors)
            if reason is None:
                return NotImplemented
        self.trace.draft.kernel(func, reason)
        self._profile(func, tensors, reals)
        return self._call_with_results(func, args, kwargs, tensors, reals)

    def _profile(self, func, tensors, reals):
        one = tuple(_ProfileOf(x.dim(), x.dtype, x.device, x.layout) for x in tensors), \
            tuple(_ProfileOf(x.dim(), x.dtype, x.device, x.layout) for x in reals)
        self.trace.draft.op_profiles.setdefault(str(func), set()).add(one)

    def _call_with_results(self, func, args, kwargs, tensors, reals):
        """Records a call whose results have symbols as their sizes."""
        with self.paused(), _disable_current_modes(), _C.no_grad():
            sizes = [list(x.shape) for x in reals]
        numbers, symbols = [], []
        for r, of in enumerate(sizes):
            for d, n in enumerate(of):
                made, symbol = self.new(int, 0, real=n)
                numbers.append(made)
                symbols.append((symbol, r, d))
        site = Site("call", tensors, [(x.dtype, x.device, x.dim()) for x in reals], func, args, kwargs, symbols)
        out = self._call(site, numbers)
        for x, real in zip(out, reals):
            x.real_tensor = real
        returns = func._schema.returns
        return tuple(out) if len(returns) > 1 else list(out) if returns[0].type.startswith("List") else out[0]

    def _real_results(self, func, args, kwargs, tensors):
        """The results of a call on tensors that have elements, or None."""
        if not tensors or any(x.real_tensor is None for x in tensors):
            return None
        with self.paused(), _disable_current_modes(), _C.no_grad():
            args, kwargs = tree_map_only(Tensor, lambda x: x.real_tensor.clone(), (args, kwargs))
            return tree_leaves(func(*args, **kwargs))

    def _plain_sizes(self, x):
        with self.paused():
            return list(Tensor.size(x))

    def _filled(self, x, how, more=()):
        size = [n + ((id(x), d) in more) for d, n in enumerate(self.plain[id(x)])]
        count = math.prod(size)
        with _disable_current_modes():
            line = _C.arange(count)
            line = {"zeros": line * 0, "ones": line * 0 + 1, "twos": line * 0 + 2, "steps": line, "far": line * 5}[how]
            return line.to(x.dtype if x.dtype != _C.bool else _C.bool).reshape(size)

    def _run(self, func, args, kwargs, how, more=()):
        try:
            with self.paused(), _disable_current_modes(), _C.no_grad():
                args, kwargs = tree_map_only(Tensor, lambda x: self._filled(x, how, more), (args, kwargs))
                return func(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError):
            return None

    def _probe(self, func, args, kwargs, tensors):
        """The sizes of the results for several fillings; and (dtype, device, sizes) of each result with their structure."""
        runs = [out for out in (self._run(func, args, kwargs, how) for how in ("ones", "zeros", "steps", "twos", "far")) if out is not None]
        if not runs:
            raise DynamicOutputShapeException(func)
        first = runs[0]
        structure = "one" if isinstance(first, Tensor) else "tuple" if isinstance(first, tuple) else "list"
        of = [[tuple(x.shape) for x in tree_leaves(out)] for out in runs]
        device = next((x.device for x in tensors), _C.device("cpu"))
        return of, ([(x.dtype, device, tuple(x.shape)) for x in tree_leaves(first)], structure)

    def _grown(self, func, args, kwargs, tensors, spec_of):
        """{(result, dim): symbol} for sizes that follow one of an argument."""
        out = {}
        for x in tensors:
            for d, n in enumerate(x.shape):
                if type(n) is not _C.Symbol:
                    continue
                more = {(id(y), e) for y in tensors for e, m in enumerate(y.shape) if type(m) is _C.Symbol and self.expr(m) == self.expr(n)}
                run = self._run(func, args, kwargs, "ones", more)
                for r, y in enumerate(tree_leaves(run) if run is not None else ()):
                    for e, m in enumerate(y.shape):
                        if m == spec_of[0][r][2][e] + 1 and spec_of[0][r][2][e] == self.plain[id(x)][d]:
                            out.setdefault((r, e), n)
        return out

    def _most(self, seen, tensors):
        """The greatest size for the sizes of the example, and for all sizes; None: not known."""
        for x in tensors:
            count = math.prod(self.plain[id(x)])
            if max(seen) == count:
                expr = Size.of(1)
                for n, plain in zip(x.shape, self.plain[id(x)]):
                    e = self.expr(n)
                    expr = expr * (Size.of(plain) if e is None else e)
                return count, self.range(expr)[1]
        return None, None


# --- custom operators of drafts ---

_ProfileOf = collections.namedtuple("TensorMetadata", "rank dtype device layout")


def _overload_called(func, args, kwargs):
    """The overload of an operator that a call of torch.ops has, or None for other functions."""
    from .._ops import OpOverload, OpOverloadPacket
    if isinstance(func, OpOverloadPacket):
        names = func.overloads()
        return getattr(func, names[0]) if len(names) == 1 else None
    return func if isinstance(func, OpOverload) else None


def _is_custom(func):
    return func.namespace not in ("aten", "prims", "prim", "higher_order") and not func.namespace.startswith("cresset")


def _difference(fakes, reals, tensors):
    """How the results of a fake kernel differ from those of the kernel, in words, or None."""
    for fake, real in zip(fakes, reals):
        if fake.dtype != real.dtype:
            return f"Dtypes {real.dtype} and {fake.dtype} are not equal!"
        sizes = list(zip(fake.shape, real.shape))
        if fake.dim() != real.dim():
            return f"mismatch in number of dims: fake {fake.dim()} and real {real.dim()}"
        wrong = next(((a, b) for a, b in sizes if type(a) is int and a != b), None)
        if wrong is not None:
            return f"mismatch between fake value {wrong[0]} and real value {wrong[1]} "
    shared = [[_C._storage_key(x) == _C._storage_key(y) for x in tensors] for y in fakes]
    kept = [[_C._storage_key(x.real_tensor) == _C._storage_key(y) for x in tensors] for y in reals]
    if shared != kept:
        return ("Mismatched aliasing spec between fake kernel and real kernel: an argument is returned by one and not by the other")
    return None


# --- the exported graph ---

def add_values(builder, site, names, arguments, source):
    """Adds the node of a call whose results depend on elements, and the assertions that have their symbols then."""
    from .. import ops
    nodes = dict(zip(map(id, site.tensors), (builder.value(x) for x in arguments["operands"])))
    meta = builder.sources.meta(source) if source else {}
    if site.kind == "condition":
        builder.env[names[0]] = condition_node(builder, site.func)
        return
    if site.kind == "item":
        symbol, = site.symbols
        node = builder.graph.call_function(ops.aten.item.default, (nodes[id(site.tensors[0])],), name="item")
        node.meta.update(meta)
        builder.number_nodes[symbol.number] = node
        if symbol.kind is int:
            builder.size_of[symbol.expr] = node
            builder.describe_number(node, symbol.expr)
        else:
            node.meta["val"] = symbol.kind(symbol.hint)
            node.meta["condition" if symbol.kind is bool else "expr"] = \
                Condition(symbol.expr, "==", Size.of(1)) if symbol.kind is bool else symbol.expr
            if symbol.kind is bool:
                _assert_truth(builder, symbol, node, meta)
        _assert_facts(builder, symbol.name, meta)
        return
    from .._ops import split_arguments
    args, kwargs = tree_map_only(Tensor, lambda x: nodes[id(x)], (site.args, site.kwargs))
    arguments = dict(zip((a.name for a in site.func._schema.arguments), args)) | kwargs
    arguments = {a.name: arguments.get(a.name, getattr(a, "default_value", None)) for a in site.func._schema.arguments}
    args, kwargs = split_arguments(site.func._schema, arguments)
    node = builder.graph.call_function(site.func, tuple(args), dict(kwargs), name=_base_name(site.func))
    node.meta.update(meta)
    builder.results(node, names, site.func)
    for symbol, r, d in site.symbols:
        size = builder.graph.call_function(ops.aten.sym_size.int, (builder.env[names[r]], d), name="sym_size_int")
        size.meta.update(meta)
        builder.number_nodes[symbol.number] = builder.size_of[symbol.expr] = size
        builder.describe_number(size, symbol.expr)
        _assert_facts(builder, symbol.name, meta)


def _assert_facts(builder, name, meta):
    """Adds assertions of the bounds of a symbol, and of the facts whose last symbol it is."""
    values = builder.trace.values
    symbol = values.symbols[name]
    ready = {s.name for s in values.symbols.values() if s.expr in builder.size_of}
    conditions = []
    if symbol.kind is int:
        conditions += [Condition(symbol.expr, ">=", Size.of(symbol.lower))] if symbol.lower is not None else []
        conditions += [Condition(symbol.expr, "<=", Size.of(symbol.upper))] if symbol.upper is not None else []
    for fact in values.facts:
        names = {n for n in [*fact.left.free_symbols, *fact.right.free_symbols] if n in values.symbols}
        bound = len({*fact.left.free_symbols, *fact.right.free_symbols}) == 1 and fact.test != "!=" and \
            fact.left.is_symbol and fact.right.is_number
        if name in names and names <= ready and not bound:
            conditions.append(fact)
    for condition in conditions:
        _assert(builder, condition, meta)


def _assert_truth(builder, symbol, node, meta):
    """Adds an assertion of the facts that say whether an element is true."""
    from .. import ops, sym_not
    fact = next((f for f in builder.trace.values.facts if f.left == symbol.expr and f.right.is_number and f.test in ("==", "!=")), None)
    if fact is None:
        return
    holds = (fact.test == "==") == bool(fact.right.value)
    if not holds:
        node = builder.graph.call_function(sym_not, (node,), name="sym_not")
        node.meta.update(meta, val=True, condition=fact)
    text = f"Runtime assertion failed for expression {str(fact)} on node '{node.name}'"
    check = builder.graph.call_function(ops.aten._assert_scalar.default, (node, text), name="_assert_scalar_default")
    check.meta.update(meta, val=None)


def condition_node(builder, condition):
    """The node of a condition."""
    left, right = builder.expression(condition.left), builder.expression(condition.right)
    node = builder.graph.call_function(_TESTS[condition.test], (left, right), name=_NAMES[condition.test])
    node.meta["val"], node.meta["condition"] = condition.holds(builder.hints), condition
    return node


def _assert(builder, condition, meta):
    from .. import ops
    node = condition_node(builder, condition)
    text = f"Runtime assertion failed for expression {str(condition)} on node '{node.name}'"
    check = builder.graph.call_function(ops.aten._assert_scalar.default, (node, text), name="_assert_scalar_default")
    for x in (node, check):
        x.meta.update(meta)
    check.meta["val"] = None
