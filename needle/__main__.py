"""`python -m needle`: tell what this installation of needle is made of."""

import sys

from needle.backend_ndarray.runtime import backend_info


def main() -> None:
    """Print `backend_info()`, a line for each device and each of the rest."""
    info = backend_info()
    lines = {"version": info["version"]}
    for name, state in info["devices"].items():
        lines[f"device {name}"] = "enabled" if state is True else f"not there ({state})"
    lines["threads"], lines["convolution algorithm"] = info["threads"], info["conv_algorithm"]
    lines["instruction set"] = info["isa"] or "none, without the device cpu"
    lines["instruction sets compiled"] = ", ".join(info["isas"] or ["none"])
    lines["kernels in C++"] = ", ".join(info["native_kernels"] or ["none"])
    lines["kernels in NumPy"] = ", ".join(info["reference_kernels"])
    for name, value in lines.items():
        sys.stdout.write(f"{name}: {value}\n")


if __name__ == "__main__":
    main()
