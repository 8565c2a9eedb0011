"""Build needle: everything but compiled code is described in pyproject.toml; compiled code is described here.

One extension module per instruction set is compiled from needle/backend_ndarray/cpu/*.cc, in parallel. Where that
fails, the installation succeeds without the native device, and `BUILD_LOG`, inside the package, says why.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = "needle.backend_ndarray"
FOLDER = Path(*PACKAGE.split("."))
SOURCES = FOLDER / "cpu"
BUILD_LOG = FOLDER / "cpu_build.log"

# -ffp-contract=off: a product and a sum are fused where the source says so, and nowhere else, on every compiler.
FLAGS = [
    "-std=c++17", "-O3", "-g0", "-DNDEBUG", "-fPIC", "-pthread", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra",
]  # fmt: skip
ISA_FLAGS = {
    "baseline": [],
    "neon": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512"
    ],
}  # fmt: skip


def isas() -> list[str]:
    """Give the instruction sets of the machine that is built for; the first one runs on all of its kind."""
    machine = sysconfig.get_platform().rsplit("-", 1)[-1]
    if machine in ("x86_64", "amd64"):
        found = ["baseline", "avx2", "avx512"]
    else:
        found = ["neon"] if machine in ("arm64", "aarch64") else ["baseline"]
    chosen = os.environ.get("NEEDLE_BUILD_ISA")  # for a quick build while one works on kernels
    return [isa for isa in found if isa in chosen.split(",")] if chosen else found


def compiler() -> list[str]:
    """Give the C++ compiler's command: $CXX, $CC, or what is found.

    Raises:
        RuntimeError: there is none.
    """
    named = os.environ.get("CXX") or os.environ.get("CC")
    for command in [named] if named else ["c++", "g++", "clang++"]:
        words = shlex.split(command)
        if shutil.which(words[0]):
            return words
    raise RuntimeError(f"no C++ compiler was found ({named or 'c++, g++ or clang++'})")


class BuildKernels(build_ext):
    """Compile all sources for all instruction sets, as many at a time as there are processors."""

    def run(self) -> None:
        """Build what can be built; write the log."""
        log = [f"{self.plat_name}, Python {sys.version.split()[0]}"]
        try:
            self._build(log)
        except Exception as error:  # an installation without the native device is better than none
            log.append(f"FAILED: {error}")
        text = "\n".join(log) + "\n"
        print(text)
        target = Path() if self.inplace else Path(self.build_lib)
        (target / BUILD_LOG).parent.mkdir(parents=True, exist_ok=True)
        (target / BUILD_LOG).write_text(text, encoding="utf-8")

    def _build(self, log: list[str]) -> None:
        if os.name != "posix":
            raise RuntimeError("the kernels are written for Linux and macOS")
        command = compiler()
        log.append(_output([*command, "--version"]).splitlines()[0])
        try:
            import pybind11
        except ImportError:
            raise RuntimeError("pybind11 is not installed, which the build needs") from None
        includes = [f"-I{path}" for path in (sysconfig.get_paths()["include"], pybind11.get_include())]
        sources = sorted(SOURCES.glob("*.cc"))
        newest = max(path.stat().st_mtime for path in [*SOURCES.glob("*.h"), Path(__file__)])
        objects = Path("build") / f"kernels-{self.plat_name}-{sys.implementation.cache_tag}"
        extensions = {extension.name.rpartition("_")[2]: extension for extension in self.extensions}
        jobs = []
        with ThreadPoolExecutor(_processors()) as pool:
            for isa in extensions:
                (objects / isa).mkdir(parents=True, exist_ok=True)
                for source in sources:
                    target = objects / isa / f"{source.stem}.o"
                    if target.exists() and target.stat().st_mtime > max(newest, source.stat().st_mtime):
                        continue
                    flags = [*FLAGS, *ISA_FLAGS[isa], *_words("CXXFLAGS"), f"-DNEEDLE_MODULE=_cpu_{isa}", *includes]
                    jobs.append((isa, pool.submit(_output, [*command, *flags, "-c", str(source), "-o", str(target)])))
        failed = {}
        for isa, job in jobs:
            if job.exception():
                failed.setdefault(isa, job.exception())
            elif job.result():
                log.append(job.result())
        for isa, extension in extensions.items():
            if isa in failed:
                log.append(f"FAILED: {isa}: {failed[isa]}")
                continue
            library = Path(self.get_ext_fullpath(extension.name))
            library.parent.mkdir(parents=True, exist_ok=True)
            shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
            inputs = [str(objects / isa / f"{source.stem}.o") for source in sources]
            runtime = "-lc++" if sys.platform == "darwin" else "-lstdc++"
            _output([*command, *shared, "-pthread", *inputs, *_words("LDFLAGS"), runtime, "-o", str(library)])
            log.append(f"built {isa}")


def _words(variable: str) -> list[str]:
    return shlex.split(os.environ.get(variable, ""))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _output(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        report = f"{shlex.join(command)}\n{done.stdout}"
        raise RuntimeError(f"{command[0]} stopped with exit code {done.returncode}\n{report}")
    return done.stdout


if __name__ == "__main__":
    setup(
        ext_modules=[Extension(f"{PACKAGE}._cpu_{isa}", [], optional=True) for isa in isas()],
        cmdclass={"build_ext": BuildKernels},
    )
