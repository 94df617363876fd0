"""pyro: variational inference, MCMC, enumeration and effect handlers."""
import pyro
import pyro.distributions as dist
import torch
from program import program, summary
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, HMC, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal, AutoNormal


def start(seed=0):
    pyro.clear_param_store()
    pyro.set_rng_seed(seed)


def steps(svi, *data, count=20):
    return [svi.step(*data) for _ in range(count)]


def coin(data):
    f = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(f), obs=data)


def coin_guide(data):
    a = pyro.param("a", torch.tensor(15.0), constraint=dist.constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=dist.constraints.positive)
    pyro.sample("fairness", dist.Beta(a, b))


DATA = torch.tensor([1.0] * 6 + [0.0] * 4)


@program("svi_coin", 1e-3)
def svi_coin():
    start()
    svi = SVI(coin, coin_guide, pyro.optim.Adam({"lr": 5e-3}), Trace_ELBO())
    return {"losses": steps(svi, DATA), "a": pyro.param("a").item(), "b": pyro.param("b").item()}


def regression(x, y=None):
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 2.0))
    sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("obs", dist.Normal(x @ weight + bias, sigma), obs=y)


def make_data():
    torch.manual_seed(1)
    x = torch.randn(30, 3)
    return x, x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.1 * torch.randn(30)


def fit_guide(guide_class):
    start()
    x, y = make_data()
    guide = guide_class(regression)
    svi = SVI(regression, guide, pyro.optim.ClippedAdam({"lr": 0.03}), Trace_ELBO())
    losses = steps(svi, x, y)
    median = guide.median(x)
    drawn = Predictive(regression, guide=guide, num_samples=7)(x)
    return {"losses": losses, "weight": median["weight"].tolist(), "predicted": summary(drawn["obs"])}


for _guide in (AutoNormal, AutoDiagonalNormal, AutoMultivariateNormal):
    program(f"svi_{_guide.__name__}", 1e-3)(lambda guide=_guide: fit_guide(guide))


@program("enumerate", 1e-3)
def enumerate_mixture():
    start()
    data = torch.tensor([0.0, 1.0, 10.0, 11.0, 12.0])

    @config_enumerate
    def model(data):
        weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 2.0))
        with pyro.plate("components", 2):
            place = pyro.sample("place", dist.Normal(0.0, 10.0))
        with pyro.plate("data", len(data)):
            chosen = pyro.sample("chosen", dist.Categorical(weights))
            pyro.sample("obs", dist.Normal(place[chosen], scale), obs=data)

    guide = AutoDiagonalNormal(poutine.block(model, expose=["weights", "place", "scale"]))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
    return {"losses": steps(svi, data, count=12)}


def run_mcmc(kernel, count):
    start()
    x, y = make_data()
    mcmc = MCMC(kernel(regression), num_samples=count, warmup_steps=count, disable_progbar=True)
    mcmc.run(x, y)
    drawn = mcmc.get_samples()
    return {"shape": list(drawn["weight"].shape),
            "near": ((drawn["weight"].mean(0) - torch.tensor([1.0, -2.0, 0.5])).abs() < 0.25).tolist()}


program("nuts")(lambda: run_mcmc(NUTS, 40))
program("hmc")(lambda: run_mcmc(lambda model: HMC(model, step_size=0.05, num_steps=8), 60))


@program("trace")
def trace():
    start()
    x, y = make_data()
    found = poutine.trace(regression).get_trace(x, y)
    again = poutine.trace(poutine.replay(regression, found)).get_trace(x, y)
    fixed = poutine.trace(poutine.condition(regression, {"bias": torch.tensor(0.5)})).get_trace(x, y)
    return {"log": found.log_prob_sum().item(), "again": again.log_prob_sum().item(),
            "fixed": fixed.nodes["bias"]["value"].item(), "names": sorted(found.nodes)}


@program("module")
def module():
    start()

    class Net(pyro.nn.PyroModule):
        def __init__(self):
            super().__init__()
            self.linear = pyro.nn.PyroModule[torch.nn.Linear](3, 1)
            self.linear.weight = pyro.nn.PyroSample(dist.Normal(0.0, 1.0).expand([1, 3]).to_event(2))

        def forward(self, x, y=None):
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", len(x)):
                pyro.sample("obs", dist.Normal(mean, 0.5), obs=y)
            return mean

    net = Net()
    x, y = make_data()
    svi = SVI(net, AutoNormal(net), pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    return {"losses": steps(svi, x, y), "names": sorted(pyro.get_param_store().keys())}
