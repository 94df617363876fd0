"""Event files for TensorBoard, through the package `tensorboard`, which must be installed."""
import tensorboard
from tensorboard.summary.writer.record_writer import RecordWriter

from .writer import FileWriter, SummaryWriter
