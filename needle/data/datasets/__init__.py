"""Data sets, one module each."""

from .cifar10 import CIFAR10Dataset as CIFAR10Dataset
from .digits import Digits as Digits
from .mnist import MNISTDataset as MNISTDataset
