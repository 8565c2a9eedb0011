"""Small data sets of every kind that train_cnn.py reads."""

import gzip
import struct

import numpy as np


def write_idx(path, array):
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def idx_folder(folder, suffix, size=12, classes=3):
    """Images that are brighter the higher their class."""
    for part, count in (("train", 60), ("t10k", 30)):
        labels = np.arange(count) % classes
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", labels)
        images = np.full((count, size, size), 80) * labels[:, None, None]
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
    return folder


def cifar_folder(folder):
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        records = np.zeros((20, 3073), np.uint8)
        records[:, 0] = np.arange(20) % 10
        records[:, 1:] = 25 * records[:, :1]
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


def write_picture(path, color, size=(20, 14), mode="RGB"):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)
    return path


def picture_folder(folder, count=15):
    """Pictures in the colour that their folder's name says, of several sizes and formats."""
    for index in range(count):
        for color in ("red", "lime", "blue"):
            suffix = ("png", "jpg", "bmp")[index % 3]
            write_picture(folder / color / f"{index:02}.{suffix}", color, size=(16 + index, 24 - index))
    return folder
