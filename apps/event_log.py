"""Event files for TensorBoard: scalars, the learning rate, histograms of weights and gradients, example images."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from training import Run

from needle.io import require


class EventLog:
    """Writes into a folder, while it is open as a context, what `tensorboard --logdir FOLDER` shows."""

    def __init__(self, folder: Path) -> None:
        self.writer = require("tensorboardX", extra="apps").SummaryWriter(str(folder))

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.close()

    def images(self, run: Run) -> None:
        """Write the first training images, as the model gets them."""
        self.writer.add_images("training_images", run.data.train[:16][0], dataformats="NCHW")

    def epoch(self, run: Run) -> None:
        """Write what the last epoch came to."""
        number, row = len(run.history), run.history[-1]
        held_out = "validation" if run.data.validation else "test"
        scalars = {
            "loss/training": row.loss,
            "accuracy/training": row.train_accuracy,
            f"accuracy/{held_out}": row.accuracy,
            "learning_rate": row.lr,
        }
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, number)
        for path, parameter in run.model.named_parameters():
            self.writer.add_histogram(f"weights/{path}", parameter.numpy(), number)
            if parameter.grad is not None:
                self.writer.add_histogram(f"gradients/{path}", parameter.grad.numpy(), number)
        self.writer.flush()
