"""torchmetrics: metrics updated batch by batch, reset, and as functions."""
import torch
import torchmetrics
from program import program


def batches():
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        yield (torch.rand(16, 4, generator=generator).softmax(1), torch.randint(0, 4, (16,), generator=generator),
               torch.rand(16, generator=generator), torch.rand(16, generator=generator))


def run(metric, kind):
    for probabilities, labels, x, y in batches():
        metric.update(*{"classes": (probabilities, labels), "numbers": (x, y), "one": (x,),
                        "binary": (x, (y > 0.5).long())}[kind])
    result = metric.compute()
    metric.reset()
    return result.double().flatten().tolist()


CLASSES = {name: (lambda name=name: getattr(torchmetrics, name)(task="multiclass", num_classes=4), "classes")
           for name in """Accuracy Precision Recall F1Score AUROC AveragePrecision CohenKappa ConfusionMatrix
               MatthewsCorrCoef Specificity StatScores HammingDistance JaccardIndex""".split()}
BINARY = {f"Binary{name}": (lambda name=name: getattr(torchmetrics, name)(task="binary"), "binary")
          for name in "Accuracy AUROC F1Score CalibrationError HingeLoss".split()}
NUMBERS = {name: (lambda name=name: getattr(torchmetrics, name)(), "numbers")
           for name in """MeanSquaredError MeanAbsoluteError R2Score PearsonCorrCoef SpearmanCorrCoef
               ExplainedVariance ConcordanceCorrCoef KendallRankCorrCoef""".split()}
ONE = {name: (lambda name=name: getattr(torchmetrics, name)(), "one")
       for name in "MeanMetric SumMetric MaxMetric MinMetric CatMetric".split()}

for _name, (_make, _kind) in {**CLASSES, **BINARY, **NUMBERS, **ONE}.items():
    program(_name)(lambda make=_make, kind=_kind: run(make(), kind))


@program("collection")
def collection():
    metrics = torchmetrics.MetricCollection({
        "accuracy": torchmetrics.Accuracy(task="multiclass", num_classes=4),
        "f1": torchmetrics.F1Score(task="multiclass", num_classes=4, average="macro")})
    for probabilities, labels, _, _ in batches():
        metrics.update(probabilities, labels)
    return {name: value.item() for name, value in metrics.compute().items()}
