"""Build needle; everything but compiled code is described in pyproject.toml."""

from setuptools import setup

setup()
