"""Compilation: calls are deferred, and recorded where Python can be skipped.

The first call of a compiled function is deferred (`tensor/defer.h`): Python runs, operators wait, and
equal traces run as one program.  The next call runs eagerly while its operators are recorded; the
caller gets the eager result.  The recording becomes programs (`_C.RecordedGraph.call`) or is given to a
backend.  Later calls use it when all objects that the function can read are unchanged
(`guards.Walk`).  A call that fits no recording is recorded again, up to `config.recompile_limit`
times.  Where the walk refuses, or a recording fails, all calls are deferred.
"""
import builtins
import functools
import sys
import warnings
from _weakref import ref  # importing weakref takes a millisecond
from collections import Counter, defaultdict
from operator import itemgetter
from time import perf_counter

from .. import Size, Tensor, _C, _root, clear_autocast_cache, is_autocast_enabled, is_grad_enabled, \
    no_grad, set_autocast_enabled
from .._numpy.literals import Followed
from . import config
from .guards import NotYet, Refused, Walk, asks_for_types, may_vary

_INDUCTOR_CONFIG = f"{_root.NAME}._inductor.config"
# Code of this package and of the standard library is assumed to read only its arguments.
_TRUSTED = (__file__.removesuffix("_dynamo/capture.py"), functools.__file__.removesuffix("functools.py"))


def _is_trusted_file(path):
    package, library = _TRUSTED
    numpy = sys.modules.get("numpy")
    if numpy is not None and path.startswith(numpy.__file__.removesuffix("__init__.py")):
        return True
    return path.startswith((package, "<frozen ")) or path.startswith(library) and "/site-packages/" not in path and \
        "/dist-packages/" not in path


# What happened in this process, as torch counts it (torch._dynamo.utils.counters): "frames" (recorded calls: "total",
# "ok"), "stats" ("unique_graphs", "calls_captured"), "graph_break" and "unimplemented" (by reason).
counters = defaultdict(Counter)

# The builtins that code of this folder may use.  While the program has replaced one of them, no call is compiled.
_BUILTINS_NOW = itemgetter(*(name for name, x in builtins.__dict__.items() if callable(x) and name not in
                             ("print", "open", "input", "help", "exit", "quit", "breakpoint")))
_BUILTINS = _BUILTINS_NOW(builtins.__dict__)

_NEEDS = "its calls run in the middle ({}); what it does next may depend on their values"
_ATTEMPTS = 3  # attempts to record a function whose calls change objects that they read
_LEAVES = frozenset((int, float, complex, str, bytes, bool, type(None)))
_LEAF, _TUPLE, _LIST, _TREE = range(4)  # kinds of return values


class Compiler:
    """The compilation of one function: its options and recordings, and why it was refused."""

    def __init__(self, fn, backend, backend_name, fullgraph, dynamic, settings):
        self.fn, self.backend, self.backend_name = fn, backend, backend_name
        self.fullgraph, self.dynamic, self.settings = fullgraph, dynamic, settings
        self.given_name = self.limit = None
        self.one_part = False  # under fullgraph, reads of values are errors even where torch's graph has them
        self.of_tensors = None  # the same function of tensors, compiled, once it was called with NumPy's arrays
        self.reset()

    def reset(self):
        """Forgets all recordings."""
        self.attempts = self.deferred = 0  # calls recorded in vain since the last recording; calls deferred before the first recording
        self.refusal, self.said_limit = None, False
        self.place = None  # the instruction that the refusal is about, a places.Place
        self.held = {None: False}  # by (part, code, instruction): whether one graph has the value that is read there
        self.flushes = {}  # by (code, instruction, whether only a call needed it): the first flush inside of a call
        self.records = []  # (Walk, CompiledEntry)
        self.parts, self.alike = {}, Counter()  # of calls that another backend compiles in parts (parts.py)
        self.recompilations = []  # why no recording fitted a call that was recorded again
        self.seconds = 0.  # time of recorded calls and of making their programs
        self.put_away = {}  # backend forced by a stance -> its entries and records
        # By path: the sizes and numbers that the last recording saw, and which of these vary.
        self.sizes, self.values = {}, {}
        self.unread = None  # a Walk not yet in these: computing paths is slow
        # Modules that observed calls imported, code that they ran, and names that they looked up, by the holder's id.
        self.imported, self.ran, self.library, self.asked = set(), None, {}, {}
        self.by_string = set()  # names of attributes that they computed
        self.plain_only = False  # an observed call ran code that may tell symbols from numbers
        self.varying_sizes, self.varying = {}, set()

    @property
    def name(self):
        return self.given_name or getattr(self.fn, "__qualname__", None) or type(self.fn).__name__

    @property
    def code(self):
        """The code object of the function or of a module's forward; None for C functions."""
        return getattr(getattr(self.fn, "forward", self.fn), "__code__", None)

    @property
    def most_records(self):
        return config.recompile_limit if self.limit is None else self.limit

    def catch_up(self):
        walk, self.unread = self.unread, None
        if walk is not None:
            self.note(walk)

    def note(self, walk):
        """Notes the sizes and numbers of a recording where none are known."""
        for path, x, _ in walk.numbers_found(walk.nodes):
            self.values.setdefault(path, x)
        for node, (source, _, _, check, expected, *_) in enumerate(walk.nodes):
            if check == "tensor" and source != "const":
                shape = expected.shape if isinstance(expected, Tensor) else expected[2]
                self.sizes.setdefault(walk.path(node), tuple(shape))

    # --- a call that fits no entry ---

    def miss(self, compiled, args, kwargs):
        if self.of_tensors is not None and self.of_tensors._off:
            from . import arrays
            if arrays.stay_numpys(args, kwargs) and not is_traced():
                return compiled._function(*args, **kwargs)
        try:
            replaced = _BUILTINS_NOW(builtins.__dict__) != _BUILTINS
        except KeyError:
            replaced = True
        if replaced:
            return compiled._function(*args, **kwargs)
        if is_traced():
            return compiled._function(*args, **kwargs)
        if "numpy" in sys.modules:
            from . import arrays
            if arrays.are_in(args, kwargs):
                if arrays.have_tensors(args, kwargs):
                    return self.in_parts(compiled, args, kwargs)
                return arrays.call(self, args, kwargs)
        if _stance != "default" and self.stays_eager(compiled, args, kwargs):
            return compiled._function(*args, **kwargs)
        if self.refusal is not None:
            return self.in_parts(compiled, args, kwargs)
        if self.deferred < config.deferred_calls and self.own_programs and not _has_marks(args, kwargs):
            self.deferred += 1
            return self.watched_call(compiled._deferred, args, kwargs)
        if self.fixes_sizes(compiled, args, kwargs):
            return self.in_parts(compiled, args, kwargs)
        full = len(self.records) >= self.most_records
        if self.records and (not full or config.error_on_recompile):
            self.note_recompilation(args, kwargs)
        if full:
            return self.over_limit(compiled, args, kwargs)
        start = perf_counter()
        try:
            return _Recording(self, compiled, args, kwargs).result()
        finally:
            self.seconds += perf_counter() - start

    def watched_call(self, function, args, kwargs):
        """Calls the function, observed, to know which code a recording will run."""
        seen = _observation([])
        if seen is None:
            return function(*args, **kwargs)
        modules = len(sys.modules)
        try:
            return function(*args, **kwargs)
        finally:
            seen.stop()
            self.learn(seen, _imports(seen.calls()), len(sys.modules) > modules)

    def learn(self, seen, imported, imports):
        """Notes what ran in an observed call.  `imports`: with code of imported modules, which later calls do not run."""
        self.imported |= imported
        self.ran = (self.ran or set()).union(code for code, _ in seen.codes)
        self.library.update(_of_library(seen.codes))
        self.asked = self.with_asked(seen)
        self.by_string |= seen.names
        self.plain_only = self.plain_only or not imports and asks_for_types(seen.codes)

    def with_asked(self, seen):
        """The names that observed calls looked up: {id of the holder: (weak reference, names)}."""
        both = {number: found for number, found in self.asked.items() if found[0]() is not None}
        for holder, names in seen.asked:
            if holder() is not None:
                number = id(holder())
                both[number] = holder, names | both[number][1] if number in both else names
        return both

    @property
    def other_backend(self):
        """The backend; None: this package's programs."""
        backend = self.backend if _forced_backend is None else _forced_backend
        return None if backend is OWN_PROGRAMS else backend

    @property
    def own_programs(self):
        return self.other_backend is None

    def in_parts(self, compiled, args, kwargs):
        """A call without a recording."""
        if self.own_programs:
            return compiled._deferred(*args, **kwargs)
        from .parts import call
        return call(self, self.other_backend, compiled._function, args, kwargs)

    def note_flushes(self, flushes):
        """Notes the flushes inside of a deferred call: [(calls, needed value, code, instruction, whether only a
        call needed it, whether breaks are errors, what one graph has of it)].  Others are errors under fullgraph=True."""
        from . import places
        for calls, why, code, at, by_call, error, part in flushes:
            place = code and places.Place(code, at)
            error = (error or self.fullgraph and not self.holds(part, place)) and not by_call
            if (code, at, by_call) not in self.flushes and len(self.flushes) < 64:
                self.flushes[code, at, by_call] = calls, why, place
                counters["graph_break"][why] += not error and not by_call
            if error:
                from .exc import Unsupported
                counters["unimplemented"][why] += 1
                where = f"\n  at {place}" if place else ""
                raise Unsupported(f"{self.name} cannot be one graph: {_NEEDS.format(why)}{where}")

    def holds(self, part, place):
        """Whether a function of one graph may read a value (one_graph.holds)."""
        if self.one_part:
            return False
        key = (part, place.code, place.at) if part and place else None
        if key not in self.held:
            from . import one_graph
            self.held[key] = one_graph.holds(part, place)
        return self.held[key]

    def fixes_sizes(self, compiled, args, kwargs):
        """Whether the call fits no recording because of its sizes, and sizes that vary were fixed: by a backward pass, or
        because code may tell symbols from numbers.  Deferred calls have one program for all sizes."""
        fixed = [record for record in self.records if record[0].fixed]
        if not fixed and not compiled._sizes_fixed:
            return False
        failed = [(walk, entry.fails(*args, **kwargs)) for walk, entry in self.records]
        if any(found and (found[0] < 0 or walk.nodes[found[0]][3] != "tensor") for walk, found in failed):
            return False
        compiled._sizes_fixed = True
        if fixed and len(self.records) > 1:
            self.records.remove(fixed[0])
            compiled._entries.remove(fixed[0][1])
        return True

    def stays_eager(self, compiled, args, kwargs):
        """Returns whether the stance (set_stance) forbids a recording.  Raises the stance's
        error."""
        if _stance == "fail_on_recompile":
            code = self.code
            where = (f" filename: '{code.co_filename}', function name: '{code.co_name}', "
                     f"line number: {code.co_firstlineno}") if code else f" function name: '{self.name}'"
            raise RuntimeError(f"Detected recompile when torch.compile stance is 'fail_on_recompile'.{where}")
        if _stance == "eager_on_recompile":
            return True
        if self.records or self.sizes or self.values:
            return False
        try:
            _Recording(self, compiled, args, kwargs).note()
        except Refused:
            return False  # the recording will state the reason
        return bool(self.sizes or self.values)

    def use_backend(self, compiled, before, after):
        """Replaces the recordings of one backend by those of another."""
        self.put_away[before] = compiled._entries[:], self.records
        compiled._entries[:], self.records = self.put_away.pop(after, ((), []))
        compiled._at_once = (self.backend if after is None else after) not in (None, OWN_PROGRAMS)

    def reasons(self, args, kwargs):
        """Returns why each recording does not fit a call, newest first."""
        from .reasons import failure
        failed = ((walk, entry.fails(*args, **kwargs)) for walk, entry in reversed(self.records))
        return [failure(walk, *found) for walk, found in failed if found is not None]

    def note_recompilation(self, args, kwargs):
        reasons = self.reasons(args, kwargs)
        self.recompilations.append(reasons[0] if reasons else "unknown")
        _C._log("recompile", 1, f"{self.name} is recorded again: {'; '.join(reasons[:2])}")
        if config.error_on_recompile:
            where = f" in {self.code.co_filename}:{self.code.co_firstlineno}" if self.code else ""
            from .exc import RecompileError
            raise RecompileError(f"Recompiling function {self.name}{where}\n    triggered by the following guard "
                                 f"failure(s):\n    - {reasons[0] if reasons else 'unknown'}")

    def over_limit(self, compiled, args, kwargs):
        fails = self.fullgraph or config.fail_on_recompile_limit_hit
        if fails or not self.said_limit:  # reasons take long
            text = (f"torch._dynamo hit config.recompile_limit ({self.most_records})\n   function: '{self.name}'\n"
                    f"   last reason: {(self.reasons(args, kwargs) or ['unknown'])[0]}")
            if fails:
                from .exc import FailOnRecompileLimitHit
                raise FailOnRecompileLimitHit(text)
            self.said_limit = True
            warnings.warn(text + "\nOther calls are deferred.", stacklevel=3)
        return compiled._deferred(*args, **kwargs)

    def refuse(self, compiled, why, place=None):
        """All calls are deferred from now on.  Other backends get their parts."""
        self.refusal, self.place = str(why), place
        how = "is deferred" if self.own_programs else "is compiled in parts"
        at = f"\n  at {place}" if place is not None else ""
        _C._log("graph", 1, f"{self.name} {how}: {why}")
        _C._log("capture", 1, f"{self.name} {how}: {why}{at}")
        compiled._off = self.own_programs
        if not self.own_programs:
            compiled._entries.clear()

    @staticmethod
    def place_of(frame):
        """The instruction of a frame, or None."""
        from .places import Place
        return frame and Place(frame.f_code, frame.f_lasti // 2)


def is_traced():
    """Whether fx records the call, so that the plain function runs; an error unless config.error_on_nested_fx_trace is
    false."""
    fx = sys.modules.get(f"{_root.NAME}.fx._symbolic_trace")
    asks = getattr(fx, "is_fx_tracing", None)  # another thread may be importing the module
    traced = asks is not None and asks()
    if traced and config.error_on_nested_fx_trace:
        raise RuntimeError("Detected that you are using FX to symbolically trace a dynamo-optimized function. "
                           "This is not supported at the moment.")
    return traced


def _observation(watched):
    """A started observation of this thread; None under a debugger, which has the hooks.  What the compiler itself runs in
    the middle of a call, and implementations of opaque operators, are no part of it."""
    operators, parts = (sys.modules.get(f"{_root.NAME}.{name}") for name in ("_library.operators", "_dynamo.parts"))
    hidden = [Compiler.note_flushes, *([operators.Operator._call_opaque] if operators else ()),
              *([parts.Parts.end] if parts else ())]
    seen = _C.Observation()
    seen.watch(watched, _TRUSTED, tuple(f.__code__ for f in hidden), __file__.removesuffix("capture.py"))
    return seen if seen.start() else None


def _of_library(codes):
    """Those (code object, globals) whose code is this package's or the standard library's.  Modules that were imported twice
    have equal code objects, so the globals' address is a part of the key."""
    return {(code, id(space)): (code, space) for code, space in codes if _is_trusted_file(code.co_filename)}


def _names_by_holder(asked):
    """The names by the ids of all objects in which Python looks for them: an attribute of an object is one of its class or
    of a base."""
    found = {}
    for ref, names in asked.values():
        holder = ref()
        for x in (*type(holder).__mro__, *holder.__mro__) if isinstance(holder, type) else (holder,):
            found.setdefault(id(x), set()).update(names)
    return found


def _imports(calls):
    """The modules that import statements of the program name."""
    return {_absolute(*what) for kind, what, _, place in calls
            if kind == "i" and not _is_trusted_file(place[0].co_filename)}


def _absolute(name, level, package):
    """The name of the module that an import statement names."""
    return ".".join([*(package or "").split(".")[:1 - level or None], *([name] if name else [])]) if level else name


def _has_marks(args, kwargs):
    """Whether a size of an argument is marked (marks.py), which only a recording checks."""
    return any(isinstance(x, Tensor) and x.__dict__ for x in (*args, *kwargs.values()))


class _Recording:
    """The recording of one call."""

    def __init__(self, compiler, compiled, args, kwargs):
        self.compiler, self.compiled, self.args, self.kwargs = compiler, compiled, args, kwargs
        # A value that the call needs is an error under fullgraph=True, which a region of deferred calls knows.
        self.fn = compiled._watched if compiler.fullgraph and compiler.own_programs else compiled._function
        self.observation = None
        self.walk = Walk(compiled._function, list(kwargs), compiler.varying,
                         None if compiler.ran is None else _names_by_holder(compiler.asked), compiler.by_string,
                         compiler.ran, compiler.plain_only)

    def result(self):
        """Returns the function's result and makes the entry."""
        try:
            self.look()
        except Refused as why:
            return self.refused(why.with_traceback(None))
        if self.walk_again():
            return _Recording(self.compiler, self.compiled, self.args, self.kwargs).result()
        _watch_messages()
        counters["frames"]["total"] += 1
        recorder = _C.Recorder(parts=bool(self.walk.wants_gradients), sources=True, borrow=True)
        self.mark_inputs(recorder)
        self.mark_sizes(recorder)
        self.let_gradients_go()
        if is_autocast_enabled("cpu"):
            clear_autocast_cache()  # earlier conversions would be missing in the graph
        parts, recorded = self.parts(recorder), len(self.compiler.records)
        modes = _C._recorded_modes()
        try:
            out = self.run(recorder)
        finally:
            if parts is not None and parts.recorder is not recorder:
                parts.finish()
        try:
            if parts is not None and parts.why is not None:
                raise Refused(parts.why)
            if _C._recorded_modes() != modes:
                raise Refused("it leaves another grad mode, autocast state or default dtype than it began with")
            self.finish(recorder, out)
        except NotYet as why:
            _C._log("graph", 1, f"{self.compiler.name}: this call ran eagerly: {why}")
        except Refused as why:
            self.compiler.refuse(self.compiled, why, self.place(why))
        except Exception as e:
            from .exc import ConstraintViolationError, InternalTorchDynamoError, TorchDynamoException
            if isinstance(e, (TorchDynamoException, ConstraintViolationError)):
                raise
            if not config.suppress_errors and self.compiler.fullgraph and self.compiler.own_programs:
                raise InternalTorchDynamoError(f"{type(e).__name__}: {e}") from e
            self.compiler.refuse(self.compiled, f"{type(e).__name__}: {e}")
        if parts is not None:
            if parts.recorder is recorder and len(self.compiler.records) == recorded:
                parts.close()
            parts.leave()
            parts.check()
        return out

    def parts(self, recorder):
        """The parts of the recorded call, for another backend."""
        c = self.compiler
        if c.own_programs or self.walk.numbers or self.dynamic:
            return None
        from .parts import Parts
        parts = Parts(c, c.other_backend, False)
        names = _input_names([self.walk.path(n) for _, n in self.walk.tensors])
        parts.named = [(name, t) for name, (t, _) in zip(names, self.walk.tensors)]
        parts.inputs = {id(t): (t, None) for t, _ in self.walk.tensors}
        parts.made = []
        parts.follow(recorder)
        return parts

    def refused(self, why):
        """Runs a call that the walk refused, without the walk's references to the program's objects."""
        self.walk = None
        if isinstance(why, NotYet):
            _C._log("graph", 1, f"{self.compiler.name}: this call is not recorded: {why}")
            return self.compiled._deferred(*self.args, **self.kwargs)
        self.compiler.refuse(self.compiled, why)
        return self.compiler.in_parts(self.compiled, self.args, self.kwargs)

    # --- the instruction that a refusal is about ---

    def call(self, args, kwargs):
        """Calls the function, observed."""
        if self.compiler.fullgraph:
            from . import places  # noqa: F401 - a flush imports it: no import of the program's
        self.modules = len(sys.modules)
        observation = _observation([x for x, _ in self.walk.deferred])
        if observation is None:
            return self.fn(*args, **kwargs)
        self.observation = observation
        try:
            return self.fn(*args, **kwargs)
        finally:
            observation.stop()

    def place(self, why):
        """The instruction that made a recorded call impossible, or None."""
        if self.observation is None:
            return None
        from . import places
        if why.place is not None:
            return places.Place(*why.place)
        failed = self.observation.failed
        return failed and places.Place(*failed)

    def run(self, recorder):
        """Calls the function.  Varying numbers are symbols during the call."""
        args, kwargs, replaced = list(self.args), dict(self.kwargs), []
        names = list(kwargs)
        recorder.start()
        try:
            for node, value in self.walk.numbers:
                symbol = recorder.number(value)
                source, _, key = self.walk.nodes[node][:3]
                if source == "arg":
                    args[key] = symbol
                elif source == "kwarg":
                    kwargs[names[key]] = symbol
                else:
                    self.walk.replace(node, symbol)
                    replaced.append((node, value, symbol))
            try:
                with Followed():
                    return self.call(args, kwargs)
            finally:
                self.put_back(replaced)
                symbol = args = kwargs = replaced = None  # only the program keeps symbols
                recorder.settle()
        finally:
            recorder.stop()

    def put_back(self, replaced):
        """Replaces symbols by their numbers.  Notes where the call stored something else."""
        for node, value, symbol in replaced:
            if self.walk.now(node) is symbol:
                self.walk.replace(node, value)
            else:
                self.walk.overwritten = node

    # --- before the call ---

    def mark_inputs(self, recorder):
        self.memories, self.versions = {}, {}  # by node, before the call
        for t, node in self.walk.tensors:
            recorder.input(t)
            self.memories[node] = _C._memory_key(t)
            self.versions[node] = _versions(t)

    def let_gradients_go(self):
        """Drops gradients that the call replaces; meta tensors represent them from now on."""
        w = self.walk
        self.let_go = []
        at = {node: i for i, (_, node) in enumerate(w.tensors)}
        for i, (leaf, node, before, own) in enumerate(self.grads):
            if own not in at or not self.compiler.own_programs or type(before) is not Tensor or \
               before.requires_grad or before.is_inference():
                self.grads[i] = (leaf, node, (lambda x: lambda: x)(before), own)
                continue
            w.nodes[own][4] = outline = _C._outline(before)
            w.tensors[at[own]] = (outline, own)
            self.let_go.append((id(before), ref(before)))
            self.grads[i] = (leaf, node, ref(before), own)

    def mark_sizes(self, recorder):
        """Makes sizes symbols: those that changed, those that are marked, or all with
        dynamic=True."""
        c, w = self.compiler, self.walk
        self.dynamic, self.marked = {}, []
        if w.plain_only:
            w.fixed = c.dynamic or c.dynamic is None and any(c.sizes.get(w.path(node), t.shape) != t.shape
                                                             for t, node in w.tensors if c.sizes)
            return
        for t, node in w.tensors:
            must, may, never = self.marks(t)
            if not must and not may and not c.sizes and not c.dynamic:
                continue  # Compiler.note() handles this size
            if not must and (c.dynamic is False or not config.dynamic_shapes or w.nodes[node][0] == "const"):
                continue
            path, shape = w.path(node), tuple(t.shape)
            if not config.automatic_dynamic_shapes and not c.dynamic and not must and not may:
                continue
            before = c.sizes.get(path)
            if before is None and not (must or may or c.dynamic):
                c.sizes[path] = shape
                continue
            dims = c.varying_sizes.setdefault(path, set())
            if before is not None and len(before) == len(shape):
                dims.update(d for d, (a, b) in enumerate(zip(before, shape)) if a != b)
            elif before is not None:
                dims.clear()
            c.sizes[path] = shape
            wanted = dims.union(must, may)
            if c.dynamic and type(t) is Tensor:  # sizes of parameters are not dynamic
                wanted |= set(range(len(shape)))
            wanted.difference_update(never)
            mask = sum(1 << d for d in wanted if shape[d] > 1)
            if mask and t.is_contiguous():
                recorder.dynamic(t, mask)
                w.nodes[node].append(mask)
                self.dynamic[id(t)] = mask
                self.marked += [(t, d, path) for d in must if mask >> d & 1]

    def marks(self, t):
        """Returns the dims that must be symbols, may be, and must not be."""
        if not t.__dict__:
            return (), (), ()
        from . import marks
        must, may, never = marks.of(t)
        marks.check_ranges(t, must)
        return must, may, never

    def note(self):
        """Notes the sizes and numbers of a call that is not recorded, to find later which vary."""
        self.look()
        self.compiler.note(self.walk)

    def walk_again(self):
        """Returns whether a number varies, which requires another walk."""
        c = self.compiler
        c.catch_up()
        if self.walk.plain_only:
            varied = bool(c.varying)
            c.varying.clear()
            return varied
        before = len(c.varying)
        if c.dynamic is not False and c.values:
            self.note_numbers()
        return len(c.varying) > before

    def note_numbers(self):
        """Makes numbers that changed since the last recording inputs of the next recording."""
        c = self.compiler
        for path, x, replaceable in self.walk.numbers_found(self.walk.nodes[:self.plain]):
            before = c.values.get(path, x)
            if type(before) is type(x) and before != x and may_vary(x) and replaceable:
                c.varying.add(path)
            c.values[path] = x

    def look(self):
        w = self.walk
        for i, x in enumerate(self.args):
            w.visit(x, "arg", -1, i)
        for i, x in enumerate(self.kwargs.values()):
            w.visit(x, "kwarg", -1, i)
        w.root(self.compiled._function)
        w.visit_imported(self.compiler.imported)
        w.close()
        self.plain = len(w.nodes)
        self.grads = w.gradients() if w.wants_gradients else []
        if w.deferred and w.has_hooks:
            raise Refused(w.deferred[0][1])
        for t, _ in w.tensors:
            if _C._is_meta_or_subclass(t):
                raise Refused("it reads a meta tensor or a tensor subclass")
            if t.layout != _C.strided or t.is_conj() or t.is_neg():
                why = ("an input is a sparse tensor" if t.layout != _C.strided
                       else "an input is a view with the bit conj or neg")
                raise Refused(why) if self.compiler.fullgraph else NotYet(why)
            if is_grad_enabled() and _has_gradient_by_base(t):
                raise NotYet("an input is a view made without gradients of a result with one")
        if _C._saved_hooks_active():
            raise Refused("saved-tensor hooks are active")
        w.snapshot()
        w.snapshot_library(self.compiler.library.values())

    # --- after the call ---

    def entry(self, nodes, runner, constants, origins, still, released, returns, leaves, places, unflatten, puts, heavy,
              graph):
        return _C.CompiledEntry(nodes, len(self.args), tuple(self.kwargs) or None, runner, constants, origins, still,
                                released, returns, leaves, places, unflatten, puts, heavy, len(self.walk.numbers),
                                graph)

    def check_unchanged(self):
        """Checks that the call did not change objects that it reads, except gradients."""
        probe = self.entry(self.walk.nodes[:self.plain], None, [], None, [], [], 0, [], [], None, [], False, None)
        failed = probe.fails(*self.args, **self.kwargs)
        if failed is None:
            return True
        self.compiler.attempts += 1
        if self.compiler.attempts < _ATTEMPTS:
            return False
        from .reasons import failure
        raise Refused(f"each call changes an object that it reads: {failure(self.walk, *failed)}")

    def check_reads(self):
        """Checks that the call read only objects that the guard has."""
        deferred, seen = self.walk.deferred, self.observation
        if seen is None:
            why = "under a debugger its instructions are not observed"
            if deferred and self.compiler.fullgraph:
                raise Refused(f"{deferred[0][1]}, and {why}")
            raise NotYet(why)
        calls = seen.calls()
        self.check_names(calls)
        if seen.watched is not None:
            index, place = seen.watched
            if self.walk.makes_state():
                self.try_again("the call makes state, for which it reads more than later calls")
            raise Refused(deferred[index][1], place=place)
        from .classified import is_classified, state_reads
        for kind, what, owner, place in calls:
            reads = state_reads(kind, what, owner)
            if reads is None or not is_classified(kind, what, owner) and not _is_trusted_file(place[0].co_filename):
                name = what if kind == "f" else what.__qualname__
                raise Refused(f"it calls {name}(), which may read what no guard has", place=place)
            for function, given in reads:
                self.walk.add("const", -1, function, "returns", (given, function(*given)))
        deferred.clear()

    def try_again(self, why):
        """Leaves the recording to the next call, a few times."""
        self.compiler.attempts += 1
        if self.compiler.attempts < _ATTEMPTS:
            raise NotYet(why)

    def check_names(self, calls):
        """Checks that the guard has the modules that the call imported, and the attributes whose names it computed."""
        c, seen = self.compiler, self.observation
        if seen.unnamed is not None:
            raise Refused(seen.unnamed[0], place=seen.unnamed[1])
        imported, imports = _imports(calls), len(sys.modules) > self.modules
        c.plain_only = c.plain_only or not imports and asks_for_types(seen.codes)
        unvisited = self.walk.unvisited(x for x, _ in seen.codes if not _is_trusted_file(x.co_filename))
        if imports:
            c.learn(seen, imported, imports)
            self.try_again("the call imports modules, whose code reads more than later calls")
        library = _of_library(seen.codes)
        if imported <= c.imported and not unvisited and not self.walk.keeps_more(library.values()) and \
           not self.walk.lacks(_names_by_holder(c.with_asked(seen)), seen.names):
            changed = self.walk.changes_library()
            if changed is not None:
                c.learn(seen, imported, imports)
                self.try_again(f"the call changes globals of {changed}, which later calls read")
                raise Refused(f"each call changes globals of {changed}")
            self.walk.guard_library(library.values())
            return
        c.learn(seen, imported, imports)
        self.try_again("the call runs code, computes names of attributes or imports modules that its guard lacks")
        if unvisited:
            raise Refused(f"it runs {unvisited[0].co_qualname}(), which it finds where no guard can look")
        raise Refused("each call reads attributes by other names")

    def finish(self, recorder, out):
        for number, before in self.let_go:
            if before() is None:  # the id may be that of another object now
                self.walk.known.pop(number, None)
        self.check_reads()
        self.walk.name_objects()
        if not self.check_unchanged():
            self.compiler.note(self.walk)
            return
        leaves, returns, unflatten = _flatten(out)
        if returns == _TREE:
            _check_containers(out)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        for x in leaves:
            if not isinstance(x, Tensor) and type(x) not in _LEAVES:
                raise Refused(f"it returns an object of type {type(x).__name__}")
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        puts = []
        for kind, node, key, x in self.new_gradients() + self.walk.stores():
            puts.append((kind, node, key, -1 if x is None else len(tensors)))
            if isinstance(x, Tensor):
                tensors.append(x)
                places.append(-1)
        if any(_C._is_meta_or_subclass(t) for t in tensors):
            raise Refused("it returns a meta tensor or a tensor subclass")
        differentiate = is_grad_enabled() and not recorder.backward
        if not differentiate and any(_C._can_go_back(t) for t in tensors if id(t) not in self.walk.known):
            differentiate = is_grad_enabled()
            if not differentiate:
                raise Refused("it returns a tensor with a grad_fn, although gradients are disabled")
        if differentiate and any(_has_gradient_by_base(t) for t in tensors if id(t) not in self.walk.known):
            raise Refused("it returns a view made without gradients of a result with one")
        self.backward, self.fixed_floats = recorder.backward, recorder.fixed_floats
        # Results whose histories the call's backward pass has used up, with the names of their nodes.
        self.released = [(k, t.grad_fn.name()) for k, t in enumerate(tensors) if self.backward and is_grad_enabled() and
                         id(t) not in self.walk.known and t.requires_grad and not t.is_leaf and not _C._can_go_back(t)]
        if self.backward:
            self.fix_sizes()
        try:
            graph = recorder.finish(tensors)
        except RuntimeError as why:
            raise Refused(str(why)) from None
        if recorder.foreign():
            raise Refused("it reads a tensor that is no argument, not made by the call and not guarded")
        self.compile(graph, tensors, leaves, places, returns, unflatten, puts, differentiate)

    def still(self, inputs):
        """The inputs that the call may have written, if so by `.data` alone, which leaves their version."""
        pairs = [(i, self.versions[found[1]], _versions(found[0])) for i, found in enumerate(inputs) if found]
        return [i for i, before, now in pairs if before[0] == now[0] is not None and (now[1] is None or before[1] != now[1])]

    def fix_sizes(self):
        """A backward pass is recorded by parts, whose numbers were computed of the sizes: n / (n - 1) in a batch norm."""
        for t, node in self.walk.tensors:
            if id(t) in self.dynamic:
                self.walk.nodes[node].pop()
                self.walk.fixed = True

    def new_gradients(self):
        """Returns .grad of leaves that the call set or removed, in the form of Walk.stores()."""
        return [(True, node, own, leaf.grad) for leaf, node, before, own in self.grads
                if leaf.grad is not before() or type(before) is ref and before() is None]

    def compile(self, graph, tensors, leaves, places, returns, unflatten, puts, differentiate):
        origins = graph.lift()
        inputs = [self.walk.tensors[o] if isinstance(o, int) else None for o in origins]
        constants = [None if isinstance(o, int) else o for o in origins]
        for slot, found in enumerate(inputs):
            if found:
                self.walk.nodes[found[1]][5] = slot
        given = [found[0] if found else c for found, c in zip(inputs, constants)]
        if differentiate and any(t.requires_grad for t in tensors) and not any(x.requires_grad for x in given):
            raise Refused("it returns a result of a leaf that it makes")
        if self.marked:
            from . import marks
            marks.check(graph, given, tuple(value for _, value in self.walk.numbers), self.dynamic, self.marked)
        firsts = _first_of_each([self.memories[found[1]] if found else (_C._memory_key(c),)
                                 for found, c in zip(inputs, constants)])
        # An entry that writes fits only calls with the same firsts.
        apart = graph.writes and firsts == list(range(len(firsts)))
        runner = self.runner(graph, given, tensors, differentiate, apart)
        plain = [None if isinstance(x, Tensor) else x for x in leaves]
        entry = self.entry(self.walk.nodes, runner, constants,
                           firsts if graph.writes else None, self.still(inputs) if graph.writes else [], self.released,
                           returns, plain, places, unflatten, puts,
                           _is_heavy(graph, given),
                           None if self.compiler.own_programs else graph)
        self.walk.operators, self.walk.backward = graph.size, self.backward
        self.walk.settle()
        self.compiler.attempts = 0
        counters["frames"]["ok"] += 1
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += graph.size
        entry.fixed_floats = self.fixed_floats
        self.compiled._entries.insert(0, entry)
        self.compiler.records.append((self.walk, entry))
        self.compiler.unread = self.walk

    def runner(self, graph, given, tensors, differentiate, apart):
        backend = self.compiler.backend if _forced_backend is None else _forced_backend
        if backend is None or backend is OWN_PROGRAMS:
            return self.programs(graph, differentiate, _C._HOW_APART if apart else 0)
        from ..fx.experimental.proxy_tensor import to_graph_module
        if not graph.numbers:
            from .parts import plan_of
            plan = plan_of(self.compiler, graph, given)
            if plan is not None:
                return _with_inputs(plan, given, tensors, 0)
        slots = sorted((self.walk.nodes[n][5], n) for _, n in self.walk.tensors if self.walk.nodes[n][5] >= 0)
        numbers = [value for _, value in self.walk.numbers]
        names = _input_names([self.walk.path(n) for n, _ in self.walk.numbers + [(n, s) for s, n in slots]])
        names += [f"constant_{i}" for i in range(len(numbers) + len(given) - len(names))]
        module = to_graph_module(graph, names, numbers=len(numbers), cuts=differentiate)
        try:
            run = without_autocast(backend(module, numbers + given))
            # A recorded backward pass leaves no history, as the engine does.
            return _with_inputs(run if differentiate else no_grad()(run), given, tensors, len(numbers))
        except Exception as e:
            if config.suppress_errors:
                raise Refused(f"the backend raised {type(e).__name__}: {e}") from e
            from .exc import BackendCompilerFailed
            raise BackendCompilerFailed(backend, e) from e

    def programs(self, graph, differentiate, how):
        """Makes this package's programs.  Settings other than the defaults are rare."""
        changes = self.compiler.settings
        if not changes and _INDUCTOR_CONFIG not in sys.modules:
            return self.call_of(graph, differentiate, how)
        from .._inductor import settings
        call = self.call_of(graph, differentiate, how | settings.how(changes))
        settings.write_trace(changes, self.compiler.name, graph, call)
        return call

    @staticmethod
    def call_of(graph, differentiate, how):
        """Refuses a graph of which no programs can be made, such as one whose gradient reads a copy that no call made."""
        try:
            return graph.call(differentiate, how)
        except RuntimeError as why:
            raise Refused(str(why)) from None


def _is_heavy(graph, given):
    """Whether calls of a program release the interpreter's lock, which takes 100 ns.  A call between ranks waits, perhaps
    for another thread."""
    return graph.once or graph.size * sum(x.numel() for x in given) > 30_000


def _versions(t):
    """The version of a tensor's memory, and what tells writes by `.data`, which do not change it."""
    return None if t.is_inference() else t._version, _C._storage_state(t)


def _watch_messages():
    """Makes a warning or a log line refuse the recording of the thread that issues it.  The wrappers
    stay installed, because other threads may record at the same time."""
    _refuse_in(warnings, "_showwarnmsg", "it warns")
    if "logging" in sys.modules:
        _refuse_in(sys.modules["logging"].Logger, "callHandlers", "it logs")


def _refuse_in(holder, name, why):
    function = getattr(holder, name)
    if getattr(function, "refuses_recording", False):
        return

    @functools.wraps(function)
    def refusing(*args, **kwargs):
        _C._refuse_recording(why)
        return function(*args, **kwargs)
    refusing.refuses_recording = True
    setattr(holder, name, refusing)


def _input_names(paths):
    """Returns unique Python names in torch's style, L_x_ and L_self_weight_."""
    names = {}
    for path in paths:
        name = wanted = f"L_{''.join(c if c.isalnum() else ' ' for c in path).strip().replace(' ', '_')}_"
        while name in names:
            name = f"{wanted}{len(names)}"
        names[name] = None
    return list(names)


def _first_of_each(keys):
    first = {}
    return [first.setdefault(key, i) for i, key in enumerate(keys)]


def _is_leaf(x):
    return isinstance(x, Tensor) or type(x) in _LEAVES


def _flatten(out):
    """Returns (leaves, kind of the return value, and for _TREE the function that rebuilds it).

    The pytree module is used only for nested results, because importing it takes as long as a
    small recording.
    """
    if _is_leaf(out):
        return [out], _LEAF, None
    if type(out) in (tuple, list) and all(map(_is_leaf, out)):
        return list(out), _TUPLE if type(out) is tuple else _LIST, None
    from ..utils._pytree import tree_flatten, tree_unflatten
    leaves, spec = tree_flatten(out, is_leaf=_is_size)
    return leaves, _TREE, lambda leaves: tree_unflatten(leaves, spec)


def _is_size(x):
    """A torch.Size, of which pytree makes a tuple."""
    return type(x) is Size


def _check_containers(out):
    """Refuses a nested result that has one container in two places: each call would make two of it."""
    from ..utils._pytree import tree_flatten
    met = set()

    def meet(x):
        if not _is_leaf(x) and not (type(x) is tuple and not x):
            if id(x) in met:
                raise Refused(f"it returns one {type(x).__name__} in two places")
            met.add(id(x))
        return _is_size(x)
    tree_flatten(out, is_leaf=meet)


def _has_gradient_by_base(t):
    """Whether a tensor requires a gradient and has no history: a view made without gradients.  Graphs do not know these."""
    base = t._base
    return base is not None and base.requires_grad and t.requires_grad and t.is_leaf


def without_autocast(run):
    """A backend's function of a graph, which has the conversions of autocast as calls."""
    @functools.wraps(run, ())
    def plainly(*inputs):
        on = [kind for kind in ("cpu", "cuda") if is_autocast_enabled(kind)]
        for kind in on:
            set_autocast_enabled(kind, False)
        try:
            return run(*inputs)
        finally:
            for kind in on:
                set_autocast_enabled(kind, True)
    return plainly


def _with_inputs(run, given, tensors, numbers):
    """A backend's function, but results that are inputs are these objects."""
    place = {id(x): numbers + i for i, x in enumerate(given)}
    same = [(k, place[id(t)]) for k, t in enumerate(tensors) if id(t) in place]
    if not same:
        return run

    @functools.wraps(run, ())
    def with_inputs(*inputs):
        results = list(run(*inputs))
        for k, i in same:
            results[k] = inputs[i]
        return results

    return with_inputs


def compile_function(fn, backend, backend_name, fullgraph, dynamic, settings=None):
    """Compiles a callable; `settings` are values of _inductor.config by name."""
    compiler = Compiler(fn, backend, backend_name, fullgraph, dynamic, settings or {})
    compiled = _C.CompiledFunction(fn, compiler.miss)
    compiled._compiler = compiler
    compiled._flushed = compiler.note_flushes
    compiled._at_once, compiled._strict = backend is not None, fullgraph
    if settings:
        from .._inductor.settings import how
        compiled._how = how(settings)
    _all.add(ref(compiled, _all.discard))
    return compiled


_all = set()  # weak references to all compiled functions

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
           "aot_eager_then_compile")
OWN_PROGRAMS = "cresset"  # as a forced backend: this package's programs
_stance, _forced_backend = "default", None


def set_stance(stance, backend):
    """Sets both and returns the earlier values."""
    global _stance, _forced_backend
    before = _stance, _forced_backend
    _C._force_eager(stance == "force_eager")
    for compiled in _alive():
        compiled._sizes_fixed = False
        if backend is not _forced_backend:
            compiled._compiler.use_backend(compiled, _forced_backend, backend)
    _stance, _forced_backend = stance, backend
    return before


def _alive():
    return [compiled for compiled in [r() for r in _all] if compiled is not None]


def reset():
    """Drops all recordings."""
    for compiled in _alive():
        compiled._compiler.reset()
        compiled._entries.clear()
        compiled._off = compiled._failed = compiled._sizes_fixed = False
