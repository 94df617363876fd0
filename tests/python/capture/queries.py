"""State of the process and of generators that a call asks for, or sets: each way, with other states between the calls."""
import sys

import cresset as torch
from cresset.backends.mha import get_fastpath_enabled, set_fastpath_enabled

from .harness import attempt, program

FAMILY = "queries"
D = torch.utils.deterministic
HELD = []


def precision():
    return len(torch.get_float32_matmul_precision())


# name: (what a call asks for, what sets it to another value and back)
ASKED = {
    "threads": (torch.get_num_threads, torch.set_num_threads, (1, 2)),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, (True, False)),
    "debug_mode": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, (1, 0)),
    "precision": (precision, torch.set_float32_matmul_precision, ("high", "highest")),
    "device": (lambda: len(str(torch.get_default_device())), torch.set_default_device, ("meta", None)),
    "anomaly": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, (True, False)),
    "warnings": (torch.is_warn_always_enabled, torch.set_warn_always, (True, False)),
    "fastpath": (get_fastpath_enabled, set_fastpath_enabled, (False, True)),
    "fill": (lambda: D.fill_uninitialized_memory, lambda on: setattr(D, "fill_uninitialized_memory", on), (False, True)),
    "references": (lambda: sys.getrefcount(HELD), lambda n: HELD.extend([HELD] * n) if n else HELD.clear(), (3, 0)),
    "seed": (torch.initial_seed, torch.manual_seed, (5, 0)),
    "seed of the generator": (torch.default_generator.initial_seed, torch.manual_seed, (5, 0)),
    "state": (lambda: torch.get_rng_state().float().sum().item(), torch.manual_seed, (5, 0)),
}


def asks(name):
    ask, change, (other, usual) = ASKED[name]

    @program(FAMILY)
    def asks_for(compile):
        f = compile(lambda x: x * ask())
        x = torch.ones(2)
        try:
            for value in (other, other, other, usual, usual, other, usual):
                change(value)
                yield attempt(f, x)
        finally:
            change(usual)
    asks_for.__name__ = f"asks_for_{name.replace(' ', '_')}"


def sets(name):
    ask, change, (other, usual) = ASKED[name]

    @program(FAMILY)
    def sets_state(compile):
        def f(x):
            change(other)
            return x * 2
        f, x = compile(f), torch.ones(2)
        try:
            for _ in range(5):
                change(usual)
                yield attempt(f, x), ask()
        finally:
            change(usual)
    sets_state.__name__ = f"sets_{name.replace(' ', '_')}"


for each in ASKED:
    asks(each)
    sets(each)


@program(FAMILY)
def generator_of_the_program(compile):
    g = torch.Generator()
    read = compile(lambda x: x * g.initial_seed())
    write = compile(lambda x: (g.manual_seed(3), x * 2)[1])
    unbound = compile(lambda x: (torch.Generator.manual_seed(g, 4), x * 2)[1])
    drawn = compile(lambda x: (g.seed(), x * 2)[1])
    back = compile(lambda x: (g.set_state(state), x * 2)[1])
    state = torch.Generator().manual_seed(7).get_state()
    for n in (1, 1, 1, 2, 2, 1):
        for f in (read, write, unbound, back):
            g.manual_seed(n)
            yield f(torch.ones(2)), g.initial_seed()
        yield drawn(torch.ones(2)), g.initial_seed() == g.manual_seed(n).initial_seed()
