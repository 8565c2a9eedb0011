"""Pictures in files, and folders of them."""

import numpy as np
import pytest

import needle as ndl
from needle.data import ImageFolder, RandomFlipHorizontal, read_image
from tests.apps.data import picture_folder, write_picture
from tests.optional import hide

PIL = pytest.importorskip("PIL.Image")


def test_a_folder_for_each_class(tmp_path):
    data = ImageFolder(picture_folder(tmp_path, 3), size=(6, 8))
    assert data.classes == ["blue", "lime", "red"] and data.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    image, label = data[7]
    assert image.shape == (3, 6, 8) and image.dtype == np.float32 and label == 2
    assert np.allclose(image.mean((1, 2)), [1, 0, 0], atol=0.02)  # JPEG is not exact


def test_files_are_in_order_and_hidden_ones_left_out(tmp_path):
    for name, grey in (("b.png", 20), ("a.png", 10), (".c.png", 30)):
        write_picture(tmp_path / "only" / name, grey, mode="L")
    (tmp_path / ".git").mkdir()
    data = ImageFolder(tmp_path, size=2, channels=1, transforms=[RandomFlipHorizontal()])
    assert np.round(data.images[:, 0, 0, 0] * 255).tolist() == [10, 20]
    assert data[0][0].shape == (1, 2, 2)


def test_a_part_keeps_the_classes(tmp_path):
    part = ImageFolder(picture_folder(tmp_path, 2), size=2).select([5, 0])
    assert part.classes == ["blue", "lime", "red"] and part.labels.tolist() == [2, 0] and part[0][0].shape == (3, 2, 2)


def test_folders_without_pictures(tmp_path):
    with pytest.raises(ndl.FileFormatError, match=f"{tmp_path}: it holds no folders, one per class"):
        ImageFolder(tmp_path)
    (tmp_path / "cats").mkdir()
    with pytest.raises(ndl.FileFormatError, match=f"{tmp_path}: the folder cats is empty"):
        ImageFolder(tmp_path)


def test_a_picture_is_cut_to_the_proportions_and_scaled(tmp_path):
    pixels = np.zeros((4, 12), np.uint8)
    pixels[:, 4:8] = 255  # the middle third is white
    PIL.fromarray(pixels).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", 4, channels=1).tolist() == np.ones((4, 4, 1)).tolist()
    assert read_image(tmp_path / "a.png", (4, 12)).shape == (4, 12, 3)


def test_what_is_transparent_is_black(tmp_path):
    path = write_picture(tmp_path / "a.png", (255, 255, 255, 0), mode="RGBA")
    assert read_image(path, 3).max() == 0


def test_a_camera_that_was_turned(tmp_path):
    pixels = np.zeros((4, 4), np.uint8)
    pixels[0, 0] = 255
    exif = PIL.Exif()
    exif[0x0112] = 6  # turned by a quarter
    PIL.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png", 4, 1)[0, 3, 0] == 1


def test_truncated_files_and_wrong_channels(tmp_path):
    noise = np.random.randint(0, 256, (30, 30, 3), np.uint8)
    for name in ("a.png", "a.jpg"):
        PIL.fromarray(noise).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ndl.FileFormatError, match=rf"{name}: no whole picture"):
            read_image(tmp_path / name, 8)
    with pytest.raises(ndl.OptionError, match=r"channels must be 1 \(grey\) or 3"):
        read_image(tmp_path / "a.png", 8, channels=2)


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    path = write_picture(tmp_path / "a.png", "red")
    hide(monkeypatch, "PIL")
    with pytest.raises(ndl.MissingExtraError, match=r'pip install "needle\[apps\]"'):
        read_image(path, 8)
