"""Silent wrong answers of torch.compile that its users reported, as programs written for this suite.

Every program states the report (an issue or pull request of pytorch/pytorch unless a repository is
named), the fact in one line, and the stage of torch that the report names: "dynamo" (torch's backend
"eager" shows it), "aot" ("aot_eager") or "inductor".  `record_reported.py` runs them with torch and writes its
answers to torch.txt; test_reported.py requires that a compiled program behaves as the eager one.
"""
import cresset as torch

REPORTED = []  # (report, fact, stage, program, known difference or None)


def reported(report, fact, stage="dynamo", wrong=None):
    """Registers a program: a generator function with the argument `compile`, as in capture.harness."""
    def register(f):
        REPORTED.append((f"{report}", fact, stage, f, wrong))
        return f
    return register


def calls(report, fact, stage, f, arguments, times=3, wrong=None, **options):
    """Registers a function that is called with new arguments `times` times."""
    def program(compile):
        compiled = compile(f, **options)
        for i in range(times):
            torch.manual_seed(i)
            given = arguments()
            torch.manual_seed(i)
            try:
                yield compiled(*given)
            except Exception as e:
                yield type(e).__name__
            yield given
    program.__name__ = f"report_{report}"
    REPORTED.append((f"{report}", fact, stage, program, wrong))


def trains(report, fact, stage, f, arguments, times=3, wrong=None, **options):
    """Like calls(), with the gradients of the sum of all floating point results that have a history."""
    def program(compile):
        compiled = compile(f, **options)
        for i in range(times):
            torch.manual_seed(i)
            given = arguments()
            out = compiled(*given)
            outs = [t for t in (out if isinstance(out, (tuple, list)) else [out])
                    if isinstance(t, torch.Tensor) and t.requires_grad]
            yield out, [t.grad_fn is not None for t in outs]
            if outs:
                sum((t * (k + 1)).sum() for k, t in enumerate(outs)).backward()
            yield given
    program.__name__ = f"report_{report}"
    REPORTED.append((f"{report}", fact, stage, program, wrong))
