"""Distributions with parameters, and numbers that describe them.

The same code runs with torch and with this library. Recorded with torch 2.13 on the CPU:
    ATEN_CPU_CAPABILITY=avx2 python tests/python/distribution_cases.py
"""
import itertools
import json
import math
import pathlib
import warnings

EXPECTED = pathlib.Path(__file__).parent / "distribution_expected.json"

# Class name, parameters by name.  Lists become float64 tensors that require a gradient.
POSITIVE, ANY, SHARES = [0.7, 2.5], [-0.4, 1.3], [0.3, 0.85]
TRIL = [[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.2, 0.4, 1.5]]
SPREAD = [[2.0, 0.3, -0.1], [0.3, 1.5, 0.2], [-0.1, 0.2, 1.1]]
ROWS = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]
SCORES = [[0.5, -1.0, 0.2], [1.5, 0.0, -0.7]]

PLAIN = {
    "Bernoulli": {"probs": SHARES},
    "Bernoulli logits": {"logits": ANY},
    "Beta": {"concentration1": POSITIVE, "concentration0": [1.5, 0.6]},
    "Binomial": {"total_count": 7, "probs": SHARES},
    "Binomial logits": {"total_count": 7, "logits": ANY},
    "Categorical": {"probs": ROWS},
    "Categorical logits": {"logits": SCORES},
    "Cauchy": {"loc": ANY, "scale": POSITIVE},
    "Chi2": {"df": POSITIVE},
    "ContinuousBernoulli": {"probs": SHARES},
    "ContinuousBernoulli logits": {"logits": [0.0003, 1.3]},
    "Dirichlet": {"concentration": [[0.7, 2.5, 1.1], [3.0, 0.4, 9.0]]},
    "Exponential": {"rate": POSITIVE},
    "FisherSnedecor": {"df1": [3.0, 5.0], "df2": [2.5, 7.0]},
    "Gamma": {"concentration": POSITIVE, "rate": [1.5, 0.6]},
    "GeneralizedPareto": {"loc": ANY, "scale": POSITIVE, "concentration": [0.2, -0.3]},
    "Geometric": {"probs": SHARES},
    "Geometric logits": {"logits": ANY},
    "Gumbel": {"loc": ANY, "scale": POSITIVE},
    "HalfCauchy": {"scale": POSITIVE},
    "HalfNormal": {"scale": POSITIVE},
    "InverseGamma": {"concentration": [1.2, 4.0], "rate": [1.5, 0.6]},
    "Kumaraswamy": {"concentration1": POSITIVE, "concentration0": [1.5, 0.6]},
    "LKJCholesky": {"dim": 3, "concentration": POSITIVE},
    "Laplace": {"loc": ANY, "scale": POSITIVE},
    "LogNormal": {"loc": ANY, "scale": [0.7, 0.4]},
    "LogisticNormal": {"loc": ANY, "scale": POSITIVE},
    "LogitRelaxedBernoulli": {"temperature": [0.6], "probs": SHARES},
    "LowRankMultivariateNormal": {"loc": [0.1, -0.2, 0.3], "cov_diag": [0.5, 1.5, 0.8],
                                  "cov_factor": [[1.0, 0.2], [-0.3, 0.7], [0.5, 0.1]]},
    "Multinomial": {"total_count": 6, "probs": ROWS},
    "MultivariateNormal": {"loc": [[0.1, -0.2, 0.3], [1.0, 2.0, 3.0]], "scale_tril": TRIL},
    "MultivariateNormal covariance": {"loc": [0.1, -0.2, 0.3], "covariance_matrix": SPREAD},
    "MultivariateNormal precision": {"loc": [0.1, -0.2, 0.3], "precision_matrix": SPREAD},
    "NegativeBinomial": {"total_count": 4, "probs": SHARES},
    "NegativeBinomial logits": {"total_count": [2.5, 4.0], "logits": ANY},
    "Normal": {"loc": ANY, "scale": POSITIVE},
    "Normal numbers": {"loc": 0.5, "scale": 2.0},
    "OneHotCategorical": {"probs": ROWS},
    "OneHotCategoricalStraightThrough": {"logits": SCORES},
    "Pareto": {"scale": POSITIVE, "alpha": [2.3, 3.5]},
    "Poisson": {"rate": [0.7, 12.5]},
    "RelaxedBernoulli": {"temperature": [0.6], "probs": SHARES},
    "RelaxedOneHotCategorical": {"temperature": [0.6], "probs": ROWS},
    "StudentT": {"df": [1.5, 4.0], "loc": ANY, "scale": POSITIVE},
    "Uniform": {"low": ANY, "high": [0.9, 4.0]},
    "VonMises": {"loc": ANY, "concentration": POSITIVE},
    "Weibull": {"scale": POSITIVE, "concentration": [1.5, 0.6]},
    "Wishart": {"df": [4.5], "covariance_matrix": SPREAD},
    "Wishart scale_tril": {"df": [4.5, 6.0], "scale_tril": TRIL},
    "Wishart precision": {"df": [4.5], "precision_matrix": SPREAD},
}


# torch's GeneralizedPareto refuses float64.
FLOAT32 = ("GeneralizedPareto",)


def tensor(t, values, grad=True, dtype="float64"):
    return t.tensor(values, dtype=getattr(t, dtype), requires_grad=grad)


def make(t, label):
    """Returns the distribution and its parameters that require a gradient."""
    d = t.distributions
    if label in COMPOSED:
        leaves = []

        def leaf(values):
            leaves.append(tensor(t, values))
            return leaves[-1]
        return COMPOSED[label](d, leaf), leaves
    dtype = "float32" if label in FLOAT32 else "float64"
    params = {name: tensor(t, value, dtype=dtype) if isinstance(value, list) else value
              for name, value in PLAIN[label].items()}
    name = label.split()[0]
    cls = getattr(d, name, None) or d.relaxed_bernoulli.LogitRelaxedBernoulli
    return cls(**params), [p for p in params.values() if isinstance(p, t.Tensor)]


COMPOSED = {
    "Independent normal": lambda d, x: d.Independent(d.Normal(x(SCORES), x([[0.5], [2.0]])), 1),
    "Independent of two dimensions": lambda d, x: d.Independent(d.Gamma(x(ROWS), x(2.0)), 2),
    "Mixture of normals": lambda d, x: d.MixtureSameFamily(
        d.Categorical(logits=x(SCORES[0])), d.Normal(x([-1.0, 0.5, 2.0]), x([0.5, 1.0, 0.3]))),
    "Mixture of vectors": lambda d, x: d.MixtureSameFamily(
        d.Categorical(probs=x(ROWS)),
        d.Independent(d.Normal(x([[SCORES[0]] * 3, [SCORES[1]] * 3]), x(1.5)), 1)),
    "Transformed affine": lambda d, x: d.TransformedDistribution(
        d.Normal(x(ANY), x(POSITIVE)), [d.AffineTransform(x(0.5), x(-2.0)), d.SigmoidTransform()]),
    "Transformed tanh": lambda d, x: d.TransformedDistribution(
        d.Normal(x(ANY), x(POSITIVE)), d.TanhTransform(cache_size=1)),
    "Transformed stick breaking": lambda d, x: d.TransformedDistribution(
        d.Normal(x(SCORES), x(1.5)), [d.StickBreakingTransform()]),
    "Transformed reshape": lambda d, x: d.TransformedDistribution(
        d.Independent(d.Normal(x(SCORES), x(1.5)), 1), [d.ReshapeTransform((3,), (3, 1))]),
}

MOMENTS = ("mean", "mode", "variance", "stddev")


def plain(t, x):
    """A tensor as [shape, numbers], with seven digits."""
    if not isinstance(x, t.Tensor):
        return x
    values = x.detach().to(t.float64).reshape(-1).tolist()
    return [list(x.shape), [str(v) if not math.isfinite(v) else float(f"{v:.8g}") for v in values]]


def attempt(t, call):
    """The result as plain data; the name of the class of an error."""
    try:
        result = call()
    except (NotImplementedError, ValueError, AttributeError, RuntimeError, TypeError, AssertionError) as error:
        return type(error).__name__
    return [plain(t, r) for r in result] if isinstance(result, (list, tuple)) else plain(t, result)


def gradients(t, value, leaves):
    weights = t.arange(1, value.numel() + 1, dtype=t.float64).reshape(value.shape).cos()
    found = t.autograd.grad((value * weights).sum(), leaves, allow_unused=True, retain_graph=True)
    return [plain(t, g) for g in found]


def describe(t, label):
    """Everything that a distribution tells about itself, as plain data."""
    d, leaves = make(t, label)
    leaves = [x for x in leaves if x.requires_grad]
    out = {"repr": repr(d), "batch": list(d.batch_shape), "event": list(d.event_shape),
           "has": [d.has_rsample, d.has_enumerate_support]}
    out["support"] = attempt(t, lambda: repr(d.support).split("(")[0])
    for name in MOMENTS:
        out[name] = attempt(t, lambda: getattr(d, name))
    t.manual_seed(11)
    drawn = d.sample((3,))
    out["sample"] = plain(t, drawn)
    out["single sample"] = plain(t, d.sample())
    out["after"] = t.rand(1).item()
    out["log_prob"] = attempt(t, lambda: d.log_prob(drawn))
    if leaves:
        out["log_prob gradients"] = attempt(t, lambda: gradients(t, d.log_prob(drawn), leaves))
    out["entropy"] = attempt(t, d.entropy)
    if leaves:
        out["entropy gradients"] = attempt(t, lambda: gradients(t, d.entropy(), leaves))
    if d.has_rsample:
        t.manual_seed(12)
        out["rsample"] = plain(t, d.rsample((2,)))
        if leaves:
            t.manual_seed(12)
            out["rsample gradients"] = attempt(t, lambda: gradients(t, d.rsample((2,)), leaves))
    if not d.event_shape:
        out["cdf"] = attempt(t, lambda: d.cdf(drawn))
        quantiles = tensor(t, [[0.2], [0.7]], False)
        out["icdf"] = attempt(t, lambda: d.icdf(quantiles))
    out["values"] = attempt(t, d.enumerate_support)
    out["values as they are"] = attempt(t, lambda: d.enumerate_support(expand=False))
    wide = d.expand((4,) + tuple(d.batch_shape))
    out["expanded"] = [repr(wide), list(wide.batch_shape), attempt(t, lambda: wide.log_prob(drawn[0])),
                       attempt(t, lambda: wide.mean)]
    t.manual_seed(13)
    out["expanded sample"] = plain(t, wide.sample())
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "probs", "logits", "_natural_params"):
        out[name] = attempt(t, lambda: getattr(d, name))
    return {key: value for key, value in out.items() if value != "AttributeError"}


def divergence(t, p, q):
    """KL(p || q) and its gradients, or the name of an error."""
    (d, leaves_p), (e, leaves_q) = make(t, p), make(t, q)
    leaves = [x for x in leaves_p + leaves_q if x.requires_grad]
    value = attempt(t, lambda: t.distributions.kl_divergence(d, e))
    if isinstance(value, str):
        return value
    moved = attempt(t, lambda: gradients(t, t.distributions.kl_divergence(d, e), leaves))
    return [value, moved]


def divergences(t):
    """Those that exist, by the labels of the pair."""
    found = {}
    for p, q in itertools.product(PLAIN, PLAIN):
        if " " in p and " " in q and p != q:
            continue  # two other ways to give parameters
        value = divergence(t, p, q)
        if value != "NotImplementedError":
            found[f"{p} || {q}"] = value
    for label in COMPOSED:
        found[f"{label} || itself"] = divergence_of_one(t, label)
    return found


def divergence_of_one(t, label):
    (d, _), (e, _) = make(t, label), make(t, label)
    return attempt(t, lambda: t.distributions.kl_divergence(d, e))


# Transforms: one that makes it, and an input.
TRANSFORMS = {
    "abs": (lambda d, x: d.AbsTransform(), ANY),
    "affine": (lambda d, x: d.AffineTransform(x(0.5), x(-2.0)), ANY),
    "affine of numbers": (lambda d, x: d.AffineTransform(1, 3, cache_size=1), ANY),
    "affine of vectors": (lambda d, x: d.AffineTransform(x([0.5, 1.0, 2.0]), x(2.0), event_dim=1), SCORES),
    "cat": (lambda d, x: d.CatTransform([d.ExpTransform(), d.SigmoidTransform()], 1, [1, 2]), SCORES),
    "stack": (lambda d, x: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0), SCORES),
    "compose": (lambda d, x: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(x(1.0), x(2.0)),
                                                 d.PowerTransform(x(0.5))]), ANY),
    "compose with events": (lambda d, x: d.ComposeTransform([d.TanhTransform(), d.StickBreakingTransform()]),
                            SCORES),
    "correlation": (lambda d, x: d.CorrCholeskyTransform(), SCORES),
    "cumulative": (lambda d, x: d.CumulativeDistributionTransform(d.Normal(x(0.5), x(2.0))), ANY),
    "exp": (lambda d, x: d.ExpTransform(), ANY),
    "independent": (lambda d, x: d.IndependentTransform(d.ExpTransform(), 1), SCORES),
    "lower": (lambda d, x: d.LowerCholeskyTransform(), TRIL),
    "definite": (lambda d, x: d.PositiveDefiniteTransform(), TRIL),
    "power": (lambda d, x: d.PowerTransform(x(1.7)), POSITIVE),
    "reshape": (lambda d, x: d.ReshapeTransform((3,), (1, 3)), SCORES),
    "sigmoid": (lambda d, x: d.SigmoidTransform(), ANY),
    "softmax": (lambda d, x: d.SoftmaxTransform(), SCORES),
    "softplus": (lambda d, x: d.SoftplusTransform(), ANY),
    "stick": (lambda d, x: d.StickBreakingTransform(), SCORES),
    "tanh": (lambda d, x: d.TanhTransform(), ANY),
    "inverse of exp": (lambda d, x: d.ExpTransform().inv, POSITIVE),
    "inverse of a composition": (lambda d, x: d.ComposeTransform([d.ExpTransform(), d.TanhTransform()]).inv,
                                 SHARES),
}


def transform(t, label):
    build, values = TRANSFORMS[label]
    f = build(t.distributions, lambda v: tensor(t, v, False))
    x = tensor(t, values)
    y = f(x)
    sign = attempt(t, lambda: f.sign)
    return {"y": plain(t, y), "x": attempt(t, lambda: f.inv(y.detach())), "bijective": f.bijective,
            "gradient": attempt(t, lambda: gradients(t, y, [x])), "sign": sign,
            "jacobian": attempt(t, lambda: f.log_abs_det_jacobian(x, y)), "repr": repr(f), "inverse": repr(f.inv),
            "domain": attempt(t, lambda: repr(f.domain)), "codomain": attempt(t, lambda: repr(f.codomain)),
            "forward": attempt(t, lambda: list(f.forward_shape(x.shape))),
            "inverse shape": attempt(t, lambda: list(f.inverse_shape(y.shape))),
            "cached": attempt(t, lambda: list(f.with_cache()(x).shape)), "itself": f == f, "other": f == f.inv}


# Constraints, and values of which some are in the set.
CONSTRAINTS = {
    "boolean": [0.0, 1.0, 0.5], "one_hot": [[0.0, 1.0], [1.0, 1.0]], "nonnegative_integer": [0.0, -1.0, 1.5],
    "positive_integer": [0.0, 2.0], "real": [1.0, math.nan], "real_vector": [[1.0, math.nan], [1.0, 2.0]],
    "positive": [0.0, 1.0], "nonnegative": [0.0, -1.0], "unit_interval": [0.0, 1.0, 1.1], "simplex": ROWS + SCORES,
    "lower_triangular": [TRIL, SPREAD], "lower_cholesky": [TRIL, SPREAD], "square": [TRIL], "symmetric": [TRIL, SPREAD],
    "corr_cholesky": [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]],
    "positive_semidefinite": [SPREAD, [[0.0] * 3] * 3], "positive_definite": [SPREAD, [[0.0] * 3] * 3],
    "integer_interval(0, 3)": [0.0, 3.0, 4.0, 1.5], "interval(-1.0, 2.0)": [-1.0, 2.5],
    "half_open_interval(-1.0, 2.0)": [-1.0, 2.0], "greater_than(1.5)": [1.5, 2.0], "greater_than_eq(1.5)": [1.5, 1.0],
    "less_than(1.5)": [1.5, 1.0], "multinomial(3)": [[1.0, 2.0], [2.0, 2.0]],
    "independent(constraints.positive, 1)": SCORES, "cat([constraints.positive, constraints.real], 1, [1, 2])": SCORES,
    "stack([constraints.positive, constraints.real], 0)": SCORES,
}


def constraint(t, text):
    c = eval(f"constraints.{text}", {"constraints": t.distributions.constraints})
    out = {"repr": repr(c), "discrete": c.is_discrete, "event": c.event_dim,
           "check": plain(t, c.check(tensor(t, CONSTRAINTS[text], False)).long())}
    for registry in ("biject_to", "transform_to"):
        f = attempt(t, lambda: repr(getattr(t.distributions, registry)(c)))
        out[registry] = f
    return out


ERRORS = {
    "a negative scale": lambda t, d: d.Normal(t.tensor([0.0, 1.0]), t.tensor([1.0, -1.0])),
    "a NaN loc": lambda t, d: d.Normal(t.tensor(math.nan), 1.0),
    "probs above one": lambda t, d: d.Bernoulli(probs=t.tensor([0.5, 1.5])),
    "both probs and logits": lambda t, d: d.Bernoulli(probs=0.5, logits=0.0),
    "neither probs nor logits": lambda t, d: d.Categorical(),
    "probs without a dimension": lambda t, d: d.Categorical(probs=t.tensor(0.5)),
    "no simplex": lambda t, d: d.Categorical(probs=t.tensor([-1.0, 2.0])),
    "a value beside the support": lambda t, d: d.Exponential(1.0).log_prob(t.tensor([1.0, -1.0])),
    "a value of another size": lambda t, d: d.Normal(t.zeros(3), t.ones(3)).log_prob(t.zeros(2)),
    "a value of another event": lambda t, d: d.Dirichlet(t.ones(3)).log_prob(t.ones(2)),
    "no tensor": lambda t, d: d.Normal(0.0, 1.0).log_prob(0.5),
    "a string": lambda t, d: d.Normal("0", 1.0),
    "low above high": lambda t, d: d.Uniform(t.tensor(1.0), t.tensor(0.0)),
    "an unknown divergence": lambda t, d: d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5)),
    "too many reinterpreted dimensions": lambda t, d: d.Independent(d.Normal(0.0, 1.0), 1),
    "a mixture of no categories": lambda t, d: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)),
    "a mixture of other sizes": lambda t, d: d.MixtureSameFamily(
        d.Categorical(t.ones(3)), d.Normal(t.zeros(2), t.ones(2))),
    "a matrix that is not definite": lambda t, d: d.MultivariateNormal(t.zeros(2), t.zeros(2, 2)),
    "two matrices": lambda t, d: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "a vector as a matrix": lambda t, d: d.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2)),
    "few degrees of freedom": lambda t, d: d.Wishart(t.tensor(1.0), t.eye(3)),
    "a small dim": lambda t, d: d.LKJCholesky(1),
    "no mode": lambda t, d: d.MixtureSameFamily(d.Categorical(t.ones(2)), d.Normal(t.zeros(2), 1.0)).mode,
    "a transform that is none": lambda t, d: d.TransformedDistribution(d.Normal(0.0, 1.0), ["x"]),
    "a transform without room": lambda t, d: d.TransformedDistribution(
        d.Normal(0.0, 1.0), d.StickBreakingTransform()),
    "a dependent constraint": lambda t, d: d.constraints.dependent.check(t.zeros(1)),
    "a constraint without a transform": lambda t, d: d.biject_to(d.constraints.boolean),
    "a cache of two": lambda t, d: d.ExpTransform(cache_size=2),
    "a reshape of other sizes": lambda t, d: d.ReshapeTransform((2,), (3,)),
    "a sum of counts": lambda t, d: d.Multinomial(t.tensor(3), t.ones(2)),
    "no expand": lambda t, d: type("Own", (d.Normal,), {"__init__": lambda self: d.Normal.__init__(
        self, 0.0, 1.0)})().expand((2,)),
    "a zero probability": lambda t, d: d.Geometric(t.tensor([0.0, 0.5])),
    "a length of no triangle": lambda t, d: d.CorrCholeskyTransform()(t.zeros(4)),
}


def error(t, label):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ERRORS[label](t, t.distributions)
    except Exception as e:
        return [type(e).__name__, str(e)]
    return None


def run(t):
    """All results as plain data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"distributions": {label: describe(t, label) for label in (*PLAIN, *COMPOSED)},
                "divergences": divergences(t),
                "transforms": {label: transform(t, label) for label in TRANSFORMS},
                "constraints": {label: constraint(t, label) for label in CONSTRAINTS},
                "errors": {label: error(t, label) for label in ERRORS}}


if __name__ == "__main__":
    import torch

    EXPECTED.write_text(json.dumps(run(torch), separators=(",", ":")).replace("},", "},\n") + "\n")
