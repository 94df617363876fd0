"""Event files, read back by the package tensorboard; skipped without it."""
import pytest

pytest.importorskip("tensorboard")

import cresset as torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cresset.utils.tensorboard import SummaryWriter
from cresset.utils.tensorboard.summary import histogram, hparams, scalar


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"histograms": 0, "scalars": 0, "images": 0, "tensors": 0})
    return events.Reload()


def test_numbers_distributions_images_and_texts(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for i in range(3):
            writer.add_scalar("loss", torch.tensor(1.5 * i), i)
        writer.add_histogram("weights", torch.arange(10.), 1)
        writer.add_image("image", torch.ones(3, 2, 4), 2)
        writer.add_images("images", torch.zeros(3, 1, 2, 4))
        writer.add_text("note", "hello", 4)
    events = read(tmp_path)
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 0), (1, 1.5), (2, 3)]
    weights = events.Histograms("weights")[0].histogram_value
    assert (weights.min, weights.max, weights.num, weights.sum) == (0, 9, 10, 45) and sum(weights.bucket) == 10
    picture, = events.Images("image")
    assert (picture.height, picture.width) == (2, 4) and picture.encoded_image_string.startswith(b"\x89PNG")
    assert events.Images("images")[0].width == 12
    assert events.Tensors("note/text_summary")[0].tensor_proto.string_val[0] == b"hello"


def test_several_numbers_and_hyperparameters_have_folders(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalars("run/a", {"x": 1, "y": 2.5}, 7)
    writer.add_hparams({"lr": 0.1, "name": "n"}, {"accuracy": 0.5}, run_name="one")
    writer.close()
    assert [(e.step, e.value) for e in read(tmp_path / "run_a_y").Scalars("run/a")] == [(7, 2.5)]
    assert read(tmp_path / "one").Scalars("accuracy")[0].value == 0.5


def test_summaries():
    assert scalar("a", torch.tensor([2.0])).value[0].simple_value == 2
    bins = histogram("h", torch.arange(10.), [0, 5, 9]).value[0].histo
    assert list(bins.bucket_limit) == [0, 5, 9] and list(bins.bucket) == [0, 5, 5]
    tags = [s.value[0].tag for s in hparams({"lr": 0.1}, {"m": 1.0})]
    assert tags == ["_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info"]
    with pytest.raises(AssertionError, match="Tensor should contain one element"):
        scalar("a", torch.ones(2))
    with pytest.raises(ValueError, match="The input has no element"):
        histogram("h", torch.ones(0), [0, 1])
