"""Train with several seeds, and print each test accuracy, their mean and the least.

    python apps/seeds.py
    python apps/seeds.py --seeds 3 --epochs 10

Options other than --seeds are those of train_cnn.py.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Sequence
from contextlib import redirect_stdout

import train_cnn
from command_line import positive


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Train once a seed, from 0 up; return the test accuracies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=positive(int), default=10, metavar="N", help="how many (default: 10)")
    args, options = parser.parse_known_args(arguments)
    accuracies = []
    for seed in range(args.seeds):
        start = time.perf_counter()
        with redirect_stdout(io.StringIO()):
            accuracies.append(train_cnn.main([*options, "--no-report", "--seed", str(seed)]).accuracy)
        print(f"seed {seed}: {accuracies[-1]:.2%} in {time.perf_counter() - start:.0f} s", flush=True)
    print(f"mean {sum(accuracies) / len(accuracies):.2%}, least {min(accuracies):.2%}")
    return accuracies


if __name__ == "__main__":
    main()
