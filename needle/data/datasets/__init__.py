"""Data sets, one module each."""

from .cifar10 import CIFAR10Dataset as CIFAR10Dataset
from .digits import Digits as Digits
from .image_folder import ImageFolder as ImageFolder
from .image_folder import read_image as read_image
from .mnist import MNISTDataset as MNISTDataset
from .ptb import Corpus as Corpus
from .ptb import Dictionary as Dictionary
from .ptb import batchify as batchify
from .ptb import get_batch as get_batch
