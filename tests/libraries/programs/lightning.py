"""lightning: a module that is fitted, validated, tested, saved and resumed."""
import logging
import tempfile
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from program import program, summary
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(L.LightningModule):
    def __init__(self, width=16, rate=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.ReLU(),
                                       torch.nn.Dropout(0.1), torch.nn.Linear(width, 3))
        self.losses = []

    def loss_of(self, batch):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def training_step(self, batch, index):
        loss = self.loss_of(batch)
        self.log("train_loss", loss, prog_bar=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss_of(batch))

    def test_step(self, batch, index):
        self.log("test_loss", self.loss_of(batch))

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)]


def make_loader(shuffle=False):
    x = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return DataLoader(TensorDataset(x, y), batch_size=8, shuffle=shuffle)


def make_trainer(folder, epochs=2, **more):
    return L.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, logger=False,
                     default_root_dir=folder, enable_progress_bar=False,
                     enable_model_summary=False, **more)


def weights_of(module):
    return summary(torch.cat([p.detach().flatten() for p in module.parameters()]))


@program("fit")
def fit():
    L.seed_everything(0, verbose=False)
    module = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(folder, gradient_clip_val=0.5, accumulate_grad_batches=2)
        trainer.fit(module, make_loader(True), make_loader())
        tested = trainer.test(module, make_loader(), verbose=False)
        predicted = torch.cat(trainer.predict(module, make_loader()))
        metrics = {k: v.item() for k, v in trainer.callback_metrics.items()}
    return {"losses": module.losses, "tested": tested[0]["test_loss"], "metrics": metrics,
            "predicted": summary(predicted), "weights": weights_of(module)}


@program("resume")
def resume():
    L.seed_everything(0, verbose=False)
    with tempfile.TemporaryDirectory() as folder:
        saver = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
        trainer = make_trainer(folder, callbacks=[saver])
        trainer.fit(Classifier(), make_loader())
        files = sorted(path.name for path in Path(folder).glob("*.ckpt"))
        loaded = Classifier.load_from_checkpoint(f"{folder}/{files[-1]}", weights_only=False)
        again = Classifier()
        make_trainer(folder, 3).fit(again, make_loader(), ckpt_path=f"{folder}/{files[-1]}",
                                    weights_only=False)
    return {"files": files, "width": loaded.hparams.width, "loaded": weights_of(loaded),
            "losses": again.losses, "resumed": weights_of(again)}


@program("stop_early")
def stop_early():
    L.seed_everything(0, verbose=False)
    module = Classifier(rate=0.0)
    with tempfile.TemporaryDirectory() as folder:
        stop = EarlyStopping("val_loss", patience=1)
        trainer = make_trainer(folder, 5, callbacks=[stop])
        trainer.fit(module, make_loader(), make_loader())
    return {"epochs": trainer.current_epoch, "steps": trainer.global_step}


@program("bfloat16", 2e-2)
def bfloat16():
    L.seed_everything(0, verbose=False)
    module = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        make_trainer(folder, 1, precision="bf16-mixed").fit(module, make_loader())
    return {"losses": module.losses}


@program("manual")
def manual():
    """Two optimizers that the module steps itself, with Fabric."""
    L.seed_everything(0, verbose=False)
    fabric = L.Fabric(accelerator="cpu", devices=1)
    net = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net, optimizer = fabric.setup(net, optimizer)
    loader = fabric.setup_dataloaders(make_loader())
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "weights": weights_of(net)}
