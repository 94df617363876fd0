"""gpytorch: regression with exact and sparse Gaussian processes, and classification."""
import math

import gpytorch
import torch
from program import program, summary


def make_data(n=40):
    torch.manual_seed(0)
    x = torch.linspace(0, 1, n)
    return x, torch.sin(x * 2 * math.pi) + 0.2 * torch.randn(n)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit(model, objective, x, y, steps=8, lr=0.1):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


KERNELS = {
    "rbf": gpytorch.kernels.RBFKernel, "matern": lambda: gpytorch.kernels.MaternKernel(nu=1.5),
    "periodic": gpytorch.kernels.PeriodicKernel, "rq": gpytorch.kernels.RQKernel,
    "linear": gpytorch.kernels.LinearKernel, "cosine": gpytorch.kernels.CosineKernel,
    "polynomial": lambda: gpytorch.kernels.PolynomialKernel(2),
    "mixture": lambda: gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel()}


def regression(name):
    x, y = make_data()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood, KERNELS[name]())
    losses = fit(model.train(), gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), x, y)
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        predicted = likelihood(model(torch.linspace(0, 1.2, 11)))
        lower, upper = predicted.confidence_region()
    return {"losses": losses, "mean": predicted.mean.tolist(), "lower": summary(lower),
            "upper": summary(upper)}


for _name in KERNELS:
    program(f"regression_{_name}", 1e-3)(lambda name=_name: regression(name))


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(
            self, points, distribution, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@program("variational_regression", 1e-3)
def variational_regression():
    x, y = make_data()
    torch.manual_seed(1)
    model, likelihood = Sparse(x[::5].clone()), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    losses = fit(model.train(), objective, x, y)
    with torch.no_grad():
        mean = likelihood(model.eval()(x[:5])).mean
    return {"losses": losses, "mean": mean.tolist()}


@program("classification", 1e-3)
def classification():
    x, y = make_data()
    torch.manual_seed(1)
    model, likelihood = Sparse(x[::5].clone()), gpytorch.likelihoods.BernoulliLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    losses = fit(model.train(), objective, x, (y > 0).float())
    with torch.no_grad():
        probabilities = likelihood(model.eval()(x[:5])).probs
    return {"losses": losses, "probabilities": probabilities.tolist()}


@program("samples", 1e-3)
def samples():
    x, y = make_data(12)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood, gpytorch.kernels.RBFKernel()).eval()
    torch.manual_seed(2)
    with torch.no_grad():
        posterior = model(torch.linspace(0, 1, 4))
        drawn = posterior.rsample(torch.Size([3]))
    return {"variance": posterior.variance.tolist(), "shape": list(drawn.shape)}
