"""Data sets, random transforms of images, and the loader that makes batches."""

from .dataset import Dataset as Dataset
from .dataset import ImageDataset as ImageDataset
from .dataset import NDArrayDataset as NDArrayDataset
from .datasets import CIFAR10Dataset as CIFAR10Dataset
from .datasets import Digits as Digits
from .datasets import MNISTDataset as MNISTDataset
from .loader import DataLoader as DataLoader
from .transforms import RandomCrop as RandomCrop
from .transforms import RandomFlipHorizontal as RandomFlipHorizontal
from .transforms import Transform as Transform
