"""Event files for TensorBoard, read back."""

import pytest


def events(folder):
    """Give the values in the event files of a folder: (tag, step, value) each, by the kind of value."""
    record = pytest.importorskip("tensorboardX.record_writer")
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = {}
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            assert content[8:12] == record.masked_crc32c(content[:8]).to_bytes(4, "little")
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            for value in event.summary.value:
                found.setdefault(value.WhichOneof("value"), []).append((value.tag, event.step, value))
            content = content[16 + length :]
    return found


def test_scalars_histograms_and_images_are_written(run, tmp_path):
    _, saved = run("--epochs", 2, "--log-dir", "logs", "--widths", 4, 4)
    found = events(tmp_path / "logs")
    history = saved["progress"]["history"]
    scalars = {(tag, step): value.simple_value for tag, step, value in found["simple_value"]}
    for step, row in enumerate(history, 1):
        for tag, value in zip(("loss/training", "accuracy/training", "accuracy/test", "learning_rate"), row):
            assert scalars[tag, step] == pytest.approx(value, rel=1e-6)
    histograms = {(tag, step): value.histo for tag, step, value in found["histo"]}
    weights = saved["model"]["net.0.0.weight"]
    for kind in ("weights", "gradients"):
        histogram = histograms[f"{kind}/net.0.0.weight", 2]
        assert histogram.num == weights.size and histogram.min < 0 < histogram.max
    assert histograms["weights/net.0.0.weight", 2].sum == pytest.approx(weights.sum(), rel=1e-4)
    ((tag, _, image),) = found["image"]
    assert tag == "training_images" and image.image.encoded_image_string.startswith(b"\x89PNG")
    assert (image.image.height, image.image.width) == (16, 64), "two rows of eight images"


def test_a_run_that_is_resumed_adds_a_file(run, tmp_path):
    run("--epochs", 2, "--log-dir", "logs", "--widths", 2, 2, "--stop-after", 1)
    first = {path.name for path in (tmp_path / "logs").iterdir()}
    for path in (tmp_path / "logs").iterdir():
        path.rename(path.with_name(path.name + ".first"))  # names have a resolution of a second
    run("--resume", "--log-dir", "logs")
    steps = {(tag, step) for tag, step, _ in events(tmp_path / "logs")["simple_value"]}
    assert len(first) == 1 and {("learning_rate", 1), ("learning_rate", 2)} <= steps
