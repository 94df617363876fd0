"""Derivatives of functions: vjp, grad, jvp, Jacobians.

A derivative runs the function on aliases of its inputs and differentiates by the tape.  The aliases of one
derivative are separate from those of another, so derivatives nest; a result keeps its history only if it
depends on tensors other than these aliases.  jvp sends tangents along the recorded graph.
"""
import functools

from .. import _C
from .._C import Tensor
from ..autograd import grad as tape_gradients
from ..autograd.function import Transforms, _forward_modes
from ..autograd.graph import get_gradient_edge as gradient_edge
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from .vmap import _Batched, fresh, plain, vmap


# --- inputs and results ---

def _can_require_grad(x):
    return x.is_floating_point() or x.is_complex()


def differentiable(x):
    """Returns x, which requires gradients from now on (requires_grad_() is refused inside of transforms)."""
    x.requires_grad = True
    return x


def _alias(x):
    """Returns an alias of x to differentiate by."""
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    if not _can_require_grad(x):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    x = plain(x)
    return x.view_as(x) if x.requires_grad else differentiable(fresh(x))


def writable(x):
    """Returns x, or where x is a leaf a tensor with its memory and history that may be written in place."""
    if not x.is_leaf:
        return x
    made = x.detach()
    _C._continue_history(made, x)
    return made


def finish(own):
    """Marks the aliases of a derivative whose function has run: derivatives around it do not depend on them."""
    for x in own:
        x._is_finished_alias = True


def leads(node, is_end, known):
    """Returns whether an edge in the history of a node, given as (node, index), is an end.  `known` has the answers
    for nodes, and gets those that are found."""
    path = [] if node in known else [(node, iter(node.next_functions))]
    while path:
        at, rest = path[-1]
        for edge in rest:
            if edge[0] is None:
                continue
            answer = is_end(edge) or known.get(edge[0])
            if answer is None:
                path.append((edge[0], iter(edge[0].next_functions)))
                break
            if answer:
                known.update((passed, True) for passed, _ in path)
                return True
        else:
            known[at] = False
            path.pop()
    return known[node]


def _depends_on_others(x, own, known):
    """Returns whether the history of x reaches a leaf whose id is not among `own` and which is not an alias of a
    derivative inside of this one."""
    def is_other(edge):
        variable = getattr(edge[0], "variable", None)
        other = variable is not None and id(variable) not in own and not hasattr(variable, "_is_finished_alias")
        return other or None
    return x.grad_fn is not None and leads(x.grad_fn, is_other, known)


def _ending(own):
    """Returns the function that gives x, without its history if it only reaches the aliases.  So does the batch that x
    wraps.  The answers for nodes are kept between its calls."""
    return functools.partial(ended_by, own={id(y) for y in own}, known={})


def ended_by(x, own, known):
    """Does so for the ids of aliases, with the answers that are known for nodes."""
    if not isinstance(x, Tensor) or x.requires_grad and _depends_on_others(x, own, known):
        return x
    if isinstance(x, _Batched):
        inner = ended_by(x.inner, own, known)
        return x if inner is x.inner and not x.requires_grad else _Batched(inner, x.level)
    return x.detach() if x.requires_grad else x


def reaches(node, nodes):
    """Returns whether the history of a node contains one of `nodes`."""
    seen, stack = set(), [node]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if node in nodes:
            return True
        seen.add(node)
        stack += [following for following, _ in node.next_functions]
    return False


def _gradients(outs, inputs, cotangents):
    """Returns a gradient for each input, zeros if no output depends on it."""
    pairs = [(y, v) for y, v in zip(outs, cotangents) if y.requires_grad]
    if not pairs:
        return [_C.zeros_like(x) for x in inputs]
    found = tape_gradients([y for y, _ in pairs], inputs, [v for _, v in pairs], create_graph=True, allow_unused=True)
    return [_C.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


def _under(recorded, tree):
    """Returns tensors as the caller's mode has them: under no_grad() nothing depends on tensors outside."""
    return tree if recorded else tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)


class _WithoutHooks:
    """Hooks of saved tensors would see the tensors of all derivatives at once, so derivatives refuse them."""

    text = "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case."
    __enter__, __exit__ = _C._enter_hook_refusal, _C._exit_hook_refusal


def _leaves_of(inputs):
    return [x for x in inputs if x.is_leaf]


def _split_aux(name, out, has_aux):
    """Returns the result of a function and its further results, None without."""
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for x in tree_flatten(out[1])[0]:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return out


def _check_outputs(name, out, outs):
    if not outs or out is None:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {outs})")
    for x in outs:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(x)}")


def _check_real(name, kind, xs):
    for k, x in enumerate(xs):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(f"{name}: Expected all {kind} to be real but received complex tensor at flattened input "
                               f"idx: {k}")


class _Leaf:
    def __repr__(self):
        return "*"


def _shown(spec):
    """Returns the text of a structure, with * for each leaf."""
    return repr(tree_unflatten([_Leaf()] * spec.num_leaves, spec))


# --- reverse mode ---

def vjp(func, *primals, has_aux=False):
    """Returns (func(*primals), a function of cotangents that returns cotangents of the primals), and
    with has_aux the further results of func."""
    leaves, spec = tree_flatten(primals)
    recorded = _C.is_grad_enabled()
    with _C.enable_grad(), _WithoutHooks(), Transforms():
        inputs = list(map(_alias, leaves))
        out = func(*tree_unflatten(inputs, spec))
    out, aux = _split_aux("vjp(f, *primals)", out, has_aux)
    outs, out_spec = tree_flatten(out)
    _check_outputs("vjp(f, *primals)", out, outs)
    for y in outs:
        if not _can_require_grad(y):
            raise RuntimeError("vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor "
                               f"with dtype {y.dtype}")
    own = _leaves_of(inputs)

    def pull(cotangents, retain_graph=True, create_graph=None):
        given, given_spec = tree_flatten(cotangents)
        if given_spec != out_spec:
            raise RuntimeError(f"Expected pytree structure of cotangents to be the same as pytree structure of outputs "
                               f"to the function. cotangents: {_shown(given_spec)}, primal output: {_shown(out_spec)}")
        for k, (v, y) in enumerate(zip(given, outs)):
            if not isinstance(v, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(v).__name__}")
            if v.shape != y.shape:
                raise RuntimeError(f"Mismatch in shape: grad_output[{k}] has a shape of {v.shape} and output[{k}] has "
                                   f"a shape of {y.shape}.")
        pulled_under = _C.is_grad_enabled()
        with _C.enable_grad():
            found = list(map(_ending(own), _gradients(outs, inputs, given)))
        return _under(pulled_under, tree_unflatten(found, spec))
    finish(own)
    ended = _ending(own)
    shown = _under(recorded, tree_map(ended, tree_unflatten(outs, out_spec)))
    return (shown, pull, _under(recorded, tree_map(ended, aux))) if has_aux else (shown, pull)


def _slice_argnums(args, argnums, as_tuple=True):
    """Returns the arguments of these numbers; for one number as a tuple, or alone."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    for n in argnums if isinstance(argnums, tuple) else (argnums,):
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    if isinstance(argnums, tuple):
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        if len({n % len(args) for n in argnums}) != len(argnums):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")
        return tuple(args[n] for n in argnums)
    return (args[argnums],) if as_tuple else args[argnums]


def _replaced(args, argnums, values):
    args = list(args)
    for n, x in zip(argnums, values) if isinstance(argnums, tuple) else [(argnums, values)]:
        args[n] = x
    return args


def grad_and_value(func, argnums=0, has_aux=False):
    """Returns a function that computes the gradient of `func` by some arguments, and its result."""
    @functools.wraps(func, assigned=("__name__", "__doc__"), updated=())
    def wrapped(*args, **kwargs):
        leaves, spec = tree_flatten(_slice_argnums(args, argnums, as_tuple=False))
        recorded = _C.is_grad_enabled()
        with _C.enable_grad(), _WithoutHooks(), Transforms():
            inputs = list(map(_alias, leaves))
            out = func(*_replaced(args, argnums, tree_unflatten(inputs, spec)), **kwargs)
            out, aux = _split_aux("grad_and_value(f)(*args)", out, has_aux)
            if not isinstance(out, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
            if out.dim():
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor "
                                   f"with {out.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            if out.is_complex():
                raise RuntimeError("grad can be implicitly created only for real scalar outputs but got "
                                   f"{out.dtype}")
            own = _leaves_of(inputs)
            ended = _ending(own)
            found = list(map(ended, _gradients([out], inputs, [_C.ones_like(out)])))
        finish(own)
        result, value = _under(recorded, (tree_unflatten(found, spec), ended(out)))
        return (result, (value, _under(recorded, tree_map(ended, aux)))) if has_aux else (result, value)
    return wrapped


def grad(func, argnums=0, has_aux=False):
    """Returns a function that computes the gradient of `func` by some arguments."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, assigned=("__name__", "__doc__"), updated=())
    def wrapped(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found
    return wrapped


# --- forward mode ---

def push_forward(outs, inputs, tangents):
    """Returns the tangents of outputs for tangents of inputs, which are aliases, and the leaves that
    were differentiated by."""
    found, leaves = _C._push_forward(tuple(outs), tuple(inputs), tuple(tangents))
    return [_C.zeros_like(y) if t is None else t for y, t in zip(outs, found)], leaves


def check_tangent(x, t):
    for name, y in ("primal", x), ("tangent", t):
        if not _can_require_grad(y):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {y.dtype}")
    if x.shape != t.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original "
                           f"Tensor, this is not supported. Tensor is of size {list(x.shape)} while the given forward "
                           f"gradient is of size {list(t.shape)}.")


def _check_jvp_input(name, x):
    if not isinstance(x, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to be a tuple. E.g. it should be valid to call "
                           "f(*primals).")
    leaves = tree_flatten(x)[0]
    if not leaves:
        raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(leaf)}")


def _check_dependent(outs, inputs):
    nodes = [gradient_edge(x).node for x in inputs]
    for y in outs:
        if not y.requires_grad or not reaches(y.grad_fn, nodes):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                               "This is not allowed with strict=True.")


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """Returns (func(*primals), the product of its Jacobian and the tangents), and with has_aux the
    further results of func."""
    recorded = _C.is_grad_enabled()
    _check_jvp_input("primals", primals)
    leaves, spec = tree_flatten(primals)
    pushed, pushed_spec = tree_flatten(tangents)
    if spec != pushed_spec:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. "
                           f"For example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
                           f"structure {spec} and tangents with structure {pushed_spec}")
    _check_jvp_input("tangents", tangents)
    for x, t in zip(leaves, pushed):
        check_tangent(x, t)
    with _C.enable_grad():
        inputs = list(map(_alias, leaves))
        before = len(_forward_modes)
        try:
            _forward_modes.append("jvp")
            _C._set_forward_mode(True)
            with Transforms():
                out = func(*tree_unflatten(list(map(writable, inputs)), spec))
        finally:
            del _forward_modes[before:]
            _C._set_forward_mode(bool(_forward_modes))
        out, aux = _split_aux("jvp(f, primals, tangents)", out, has_aux)
        outs, out_spec = tree_flatten(out)
        _check_outputs("jvp(f, primals, tangents)", out, outs)
        if strict:
            _check_dependent(outs, inputs)
        own = _leaves_of(inputs)
        found, vectors = push_forward(outs, inputs, [t if t.dtype == x.dtype else t.to(x.dtype)
                                                     for x, t in zip(leaves, pushed)])
    finish(own + vectors)
    ended = _ending(own)
    result = (tree_unflatten(list(map(ended, outs)), out_spec),
              tree_unflatten(list(map(_ending(own + vectors), found)), out_spec))
    result = _under(recorded, (*result, tree_map(ended, aux)))
    return result if has_aux else result[:2]


def linearize(func, *primals):
    """Returns (func(*primals), a function that multiplies tangents by the Jacobian at the primals)."""
    out = func(*primals)

    def push(*tangents):
        return jvp(func, primals, tangents)[1]
    return out, push


# --- Jacobians ---

def _unit_vectors(leaves):
    """Returns for each leaf the parts of the unit vectors of the whole space."""
    total, at, found = sum(x.numel() for x in leaves), 0, []
    for x in leaves:
        part = _C.zeros(total, x.numel(), dtype=x.dtype, device=x.device)
        part[at:at + x.numel()] = _C.eye(x.numel(), dtype=x.dtype, device=x.device)
        found.append(part.reshape(total, *x.shape))
        at += x.numel()
    return found


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """Returns a function that computes the Jacobian of `func`, row by row (a batch of vjps)."""
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def wrapped(*args):
        def partial(*picked):
            return func(*_replaced(args, argnums, picked if isinstance(argnums, tuple) else picked[0]))
        picked = _slice_argnums(args, argnums)
        _check_real("jacrev", "inputs", tree_flatten(picked)[0])
        out, pull, *aux = vjp(partial, *picked, has_aux=has_aux)
        outs, out_spec = tree_flatten(out)
        _check_real("jacrev", "outputs", outs)

        def rows(*cotangents):
            return tuple(tree_flatten(pull(tree_unflatten(list(cotangents), out_spec)))[0])
        vectors = _unit_vectors(outs)
        if chunk_size == 1:  # without vmap, whose limits do not hold then
            found = [_C.stack(parts) for parts in zip(*(rows(*one) for one in zip(*vectors)))]
        else:
            found = vmap(rows, chunk_size=chunk_size)(*vectors)
        leaves, spec = tree_flatten(picked)
        split = [f.split([y.numel() for y in outs]) for f in found]
        result = []
        for k, y in enumerate(outs):
            parts = [split[i][k].reshape((*y.shape, *x.shape)) for i, x in enumerate(leaves)]
            whole = tree_unflatten(parts, spec)
            result.append(whole if isinstance(argnums, tuple) else whole[0])
        result = tree_unflatten(result, out_spec)
        return (result, aux[0]) if has_aux else result
    return functools.wraps(func, assigned=("__name__", "__doc__"), updated=())(wrapped)


def jacfwd(func, argnums=0, has_aux=False, *, chunk_size=None, randomness="error"):
    """Returns a function that computes the Jacobian of `func`, column by column (a batch of jvps)."""
    def wrapped(*args):
        picked = _slice_argnums(args, argnums)
        leaves, spec = tree_flatten(picked)
        _check_real("jacfwd", "inputs", leaves)

        def partial(*values):
            return func(*_replaced(args, argnums, values if isinstance(argnums, tuple) else values[0]))

        def column(*tangents):
            return jvp(partial, picked, tree_unflatten(list(tangents), spec), has_aux=has_aux)[1:]
        found = vmap(column, randomness=randomness, chunk_size=chunk_size)(*_unit_vectors(leaves))
        outs, out_spec = tree_flatten(found[0])
        _check_real("jacfwd", "outputs", outs)
        result = []
        for f in outs:
            parts, shape = f.split([x.numel() for x in leaves]), f.shape[1:]
            parts = [p.movedim(0, -1).reshape((*shape, *x.shape)) for p, x in zip(parts, leaves)]
            whole = tree_unflatten(parts, spec)
            result.append(whole if isinstance(argnums, tuple) else whole[0])
        result = tree_unflatten(result, out_spec)
        return (result, tree_map(lambda x: x[0], found[1])) if has_aux else result
    return functools.wraps(func, assigned=("__name__", "__doc__"), updated=())(wrapped)


def hessian(func, argnums=0):
    """Returns a function that computes the Hessian of `func`."""
    return jacfwd(jacrev(func, argnums), argnums)


def debug_unwrap(tensor, *, recurse=True):
    """Returns the batch that an example inside of vmap wraps; another tensor as it is."""
    while isinstance(tensor, _Batched):
        tensor = tensor.inner
        if not recurse:
            break
    return tensor
