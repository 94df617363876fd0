"""accelerate: a training loop with accumulated and clipped gradients, saved and loaded states."""
import tempfile

import torch
from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from program import gradient_size, program, summary
from safetensors.torch import save_model
from torch.utils.data import DataLoader, TensorDataset


def make_net():
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16),
                               torch.nn.Linear(16, 3))


def make_data():
    x = torch.randn(40, 6)
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


def weights_of(net):
    return summary(torch.cat([p.detach().flatten() for p in net.parameters()]))


class Loop:
    def __init__(self, **settings):
        set_seed(0)
        AcceleratorState._reset_state()  # each program has other settings
        self.accelerator = Accelerator(cpu=True, **settings)
        net = make_net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        loader = DataLoader(make_data(), batch_size=8, shuffle=True)
        self.net, self.optimizer, self.schedule, self.loader = self.accelerator.prepare(
            net, optimizer, schedule, loader)

    def epoch(self):
        losses = []
        for x, y in self.loader:
            with self.accelerator.accumulate(self.net):
                loss = torch.nn.functional.cross_entropy(self.net(x), y)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.net.parameters(), 0.5)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
                losses.append(self.accelerator.gather_for_metrics(loss).item())
        return losses


@program("train")
def train():
    loop = Loop()
    losses = [*loop.epoch(), *loop.epoch()]
    return {"losses": losses, "rate": loop.schedule.get_last_lr(), "weights": weights_of(loop.net)}


@program("accumulate")
def accumulate():
    loop = Loop(gradient_accumulation_steps=2)
    return {"losses": loop.epoch(), "weights": weights_of(loop.net)}


@program("bfloat16", 1e-2)
def bfloat16():
    loop = Loop(mixed_precision="bf16")
    return {"losses": loop.epoch()}


@program("states")
def states():
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop()
        loop.epoch()
        loop.accelerator.save_state(folder)
        straight = loop.epoch()
        again = Loop()
        again.accelerator.load_state(folder)
        resumed = again.epoch()
    return {"straight": straight, "resumed": resumed, "weights": weights_of(again.net)}


@program("models")
def models():
    loop = Loop()
    loop.epoch()
    with tempfile.TemporaryDirectory() as folder:
        save_model(loop.accelerator.unwrap_model(loop.net), f"{folder}/model.safetensors")
        with init_empty_weights():
            empty = make_net()
        on_meta = [p.is_meta for p in empty.parameters()]
        filled = load_checkpoint_and_dispatch(empty, f"{folder}/model.safetensors",
                                              device_map={"": "cpu"})
    return {"meta": on_meta, "weights": weights_of(filled)}


@program("gradients")
def gradients():
    loop = Loop()
    x, y = next(iter(loop.loader))
    with loop.accelerator.autocast():
        loss = torch.nn.functional.cross_entropy(loop.net(x), y)
    loop.accelerator.backward(loss)
    return {"size": gradient_size(loop.net), "processes": [loop.accelerator.num_processes],
            "device": str(loop.accelerator.device)}
