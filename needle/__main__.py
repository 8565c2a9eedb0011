"""`python -m needle`: tell what this installation of needle is made of."""

import sys

from needle.backend_ndarray.runtime import backend_info


def main() -> None:
    """Print `backend_info()`, a line each."""
    for name, value in backend_info().items():
        if isinstance(value, dict):
            value = "; ".join(f"{key}: {'enabled' if what is True else what}" for key, what in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        sys.stdout.write(f"{name.replace('_', ' ')}: {value}\n")


if __name__ == "__main__":
    main()
