"""Data sets of images and text, random transforms of images, and what makes batches."""

from .dataset import Dataset as Dataset
from .dataset import ImageDataset as ImageDataset
from .dataset import NDArrayDataset as NDArrayDataset
from .datasets import CIFAR10Dataset as CIFAR10Dataset
from .datasets import Corpus as Corpus
from .datasets import Dictionary as Dictionary
from .datasets import Digits as Digits
from .datasets import ImageFolder as ImageFolder
from .datasets import MNISTDataset as MNISTDataset
from .datasets import batchify as batchify
from .datasets import get_batch as get_batch
from .datasets import read_image as read_image
from .loader import DataLoader as DataLoader
from .transforms import Cutout as Cutout
from .transforms import RandomCrop as RandomCrop
from .transforms import RandomFlipHorizontal as RandomFlipHorizontal
from .transforms import Transform as Transform
