"""Optimizers and schedulers on a small problem, as plain data."""
import warnings

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "fused": False}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "fused": False}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", {"fused": False}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("Rprop", {}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("ASGD", {"t0": 2, "foreach": True}),
    ("Adagrad", {"initial_accumulator_value": 0.1, "maximize": True}),
    ("Adagrad", {"fused": True, "lr": 0.1}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "maximize": True, "foreach": True}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.95), "foreach": True, "maximize": True}),
    ("AdamW", {"lr": 0.1, "fused": True, "weight_decay": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "fused": True}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.9, "lr": 0.05, "maximize": True, "foreach": True}),
    ("NAdam", {"foreach": True}),
    ("RAdam", {"foreach": True, "maximize": True}),
    ("Adamax", {"foreach": True}),
    ("Rprop", {"foreach": True, "maximize": True}),
    ("LBFGS", {"max_iter": 6}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 6}),
    ("LBFGS", {"lr": 0.5, "history_size": 3, "max_iter": 5}),
]

SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9]),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 7, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9 ** epoch),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 0.8]),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "CyclicLR triangular": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 4, 3),
    "CyclicLR triangular2": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 4, mode="triangular2"),
    "CyclicLR exp_range": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 4, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, 40),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(o, [1.0, 2.0], 40, three_phase=True,
                                                  anneal_strategy="linear"),
    "CosineAnnealingWarmRestarts 1": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 1, 0.02),
    "LinearLR whole": lambda s, o: s.LinearLR(o, 0.25, 0.75, 8),
    "LambdaLR two": lambda s, o: s.LambdaLR(o, [lambda e: 1 / (e + 1), lambda e: 0.5]),
    "CyclicLR scale": lambda s, o: s.CyclicLR(o, [0.1, 0.2], [1.0, 2.0], 3, 2, scale_fn=lambda x: 0.7 ** x,
                                              scale_mode="iterations", cycle_momentum=False),
    "OneCycleLR epochs": lambda s, o: s.OneCycleLR(o, 0.8, epochs=5, steps_per_epoch=5, pct_start=0.4,
                                                   div_factor=10, final_div_factor=100),
    "SequentialLR of three": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 6), s.StepLR(o, 2)], [3, 9]),
    "ChainedScheduler of three": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.5), s.ExponentialLR(o, 0.95), s.StepLR(o, 5, 0.5)], optimizer=o),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, cooldown=1),
    "ReduceLROnPlateau max": lambda s, o: s.ReduceLROnPlateau(o, mode="max", patience=1,
                                                              threshold_mode="abs"),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [4]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
}


def label(name, options):
    return f"{name} {options}"


def problem(t, complex_numbers=False, fixed=False):
    """Returns three parameters and a function that computes gradients.

    Unless `fixed`, the gradients change with every call, and in one call the third parameter
    has none.
    """
    def start(n):
        x = (t.arange(n, dtype=t.float32) * 0.9 + 0.2).sin()
        return t.view_as_complex(t.stack([x, x.cos()], -1)) if complex_numbers else x

    params = [t.nn.Parameter(start(12).reshape(3, 4)), t.nn.Parameter(start(5)),
              t.nn.Parameter(start(1).reshape(()))]
    step = 0

    def loss():
        nonlocal step
        for p in params:
            p.grad = None
        x = (t.arange(12, dtype=t.float32) * 0.3 + step).cos().reshape(3, 4)
        value = ((params[0].abs() * x - 1) ** 2).sum() + (params[1].abs() ** 3).sum()
        if step != 2:
            value = value + params[2].abs() ** 2
        value.backward()
        step += not fixed
        return value

    return params, loss


def make(t, name, options, params):
    groups = params
    if name != "LBFGS":
        groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.05}]
    return getattr(t.optim, name)(groups, **options)


def advance(name, optimizer, loss, steps):
    for _ in range(steps):
        if name == "LBFGS":
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()


def run_optimizer(t, name, options, complex_numbers=False):
    """Returns the parameters after seven steps, and the contents of the state."""
    params, loss = problem(t, complex_numbers, fixed=name == "LBFGS")
    optimizer = make(t, name, options, params)
    advance(name, optimizer, loss, 7 if name != "LBFGS" else 1)
    values = [v for p in params for v in _numbers(t, p.detach())]
    state = {str(k): sorted(v) for k, v in optimizer.state_dict()["state"].items()}
    return {"values": values, "state": state, "repr": repr(optimizer)}


def _numbers(t, tensor):
    if tensor.is_complex():
        tensor = t.view_as_real(tensor)
    return tensor.reshape(-1).tolist()


def freeze(t, value):
    """Converts a state dict to JSON data: tensors with dtype and sizes, keys in their order."""
    if isinstance(value, t.Tensor):
        return {"tensor": _numbers(t, value), "dtype": str(value.dtype).split(".")[1],
                "size": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": [[k, freeze(t, v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [freeze(t, v) for v in value]}
    return [freeze(t, v) for v in value] if isinstance(value, list) else value


def thaw(t, value):
    if isinstance(value, list):
        return [thaw(t, v) for v in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {k: thaw(t, v) for k, v in value["dict"]}
    if "tuple" in value:
        return tuple(thaw(t, v) for v in value["tuple"])
    return t.tensor(value["tensor"], dtype=getattr(t, value["dtype"])).reshape(value["size"])


def some_steps(name):
    return 3 if name != "LBFGS" else 1


def run_saved(t, name, options):
    """Returns state and parameters after some steps, and the parameters after as many more."""
    params, loss = problem(t, fixed=name == "LBFGS")
    optimizer = make(t, name, options, params)
    advance(name, optimizer, loss, some_steps(name))
    saved = freeze(t, optimizer.state_dict())
    start = [freeze(t, p.detach()) for p in params]
    advance(name, optimizer, loss, some_steps(name))
    return {"state": saved, "start": start, "values": [v for p in params for v in _numbers(t, p.detach())]}


def run_resumed(t, name, options, recorded):
    """Returns the parameters of a run that continues from a recorded state."""
    params, loss = problem(t, fixed=name == "LBFGS")
    with t.no_grad():
        for p, value in zip(params, recorded["start"]):
            p.copy_(thaw(t, value))
    optimizer = make(t, name, options, params)
    for _ in range(some_steps(name) if name != "LBFGS" else 0):
        loss()  # the problem counts its calls
    optimizer.load_state_dict(thaw(t, recorded["state"]))
    advance(name, optimizer, loss, some_steps(name))
    return [v for p in params for v in _numbers(t, p.detach())]


def run_schedule(t, name, steps=24):
    """Returns rates and momenta of both groups for all epochs."""
    p, q = (t.nn.Parameter(t.zeros(2)) for _ in range(2))
    optimizer = t.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.9)
    out = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
        for i in range(steps):
            groups = optimizer.param_groups
            out.append([g["lr"] for g in groups] + [g["momentum"] for g in groups])
            optimizer.step()
            metric = (1 / (1 + i // 4),) if name.startswith("Reduce") else ()
            scheduler.step(*metric)
    return out


def run_schedule_state(t, name):
    """Returns the keys of a scheduler's state dict, its plain values, and the last rates."""
    p, q = (t.nn.Parameter(t.zeros(2)) for _ in range(2))
    optimizer = t.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.9)
    scheduler = SCHEDULES[name](t.optim.lr_scheduler, optimizer)
    for _ in range(5):
        optimizer.step()
        scheduler.step(*((1.0,) if name.startswith("Reduce") else ()))
    state = scheduler.state_dict()
    plain = {k: v for k, v in state.items() if isinstance(v, (int, float, str, bool))}
    return {"keys": sorted(state), "plain": plain, "last": scheduler.get_last_lr()}


def record(t):
    """Returns the contents of optim_expected.json for the given torch."""
    return {"optimizers": {label(*c): run_optimizer(t, *c) for c in OPTIMIZERS},
            "complex": {label(*c): run_optimizer(t, *c, complex_numbers=True)["values"]
                        for c in OPTIMIZERS if not c[1].get("fused")},
            "saved": {label(*c): run_saved(t, *c) for c in OPTIMIZERS},
            "schedules": {name: run_schedule(t, name) for name in SCHEDULES},
            "schedule states": {name: run_schedule_state(t, name) for name in SCHEDULES}}
