"""Special functions: the entries whose names begin with special_, and those with other names."""
from . import _C

_PREFIX = "special_"
_ELSEWHERE = {"digamma": "digamma", "psi": "digamma", "erf": "erf", "erfc": "erfc",
              "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid", "expm1": "expm1",
              "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0",
              "log1p": "log1p", "log_softmax": "log_softmax", "logit": "logit",
              "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma",
              "round": "round", "sinc": "sinc", "softmax": "softmax", "xlogy": "xlogy"}
__all__ = sorted({n[len(_PREFIX):] for n in dir(_C.ops)
                  if n.startswith(_PREFIX) and not n.endswith("_")} | set(_ELSEWHERE))
for _name in __all__:
    globals()[_name] = getattr(_C.ops, _ELSEWHERE.get(_name, _PREFIX + _name))
