#!/usr/bin/env bash
# Run the tests of the kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the tree, and the pool
# of threads under ThreadSanitizer. For Linux and g++; arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
tree=build/sanitize
compiler=${CXX:-g++}

isa=$("$python" -c 'import needle; print(needle.backend_info()["isa"])')
mkdir -p "$tree"
tar -cf - --exclude='*.so' --exclude=__pycache__ needle apps tests setup.py pyproject.toml README.md LICENSE | tar -xf - -C "$tree"
cd "$tree"

checks="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
NEEDLE_BUILD_ISA=$isa CXX=$compiler CXXFLAGS="$checks -O1 -g1 -fno-omit-frame-pointer" LDFLAGS=$checks \
    "$python" setup.py --quiet build_ext --inplace >build.log || { cat build.log; exit 1; }

# The sanitizer must be loaded before Python is, and the C++ library with it, or it cannot follow exceptions.
LD_PRELOAD="$($compiler -print-file-name=libasan.so) $($compiler -print-file-name=libstdc++.so)" \
ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc PYTHONPATH=. \
    "$python" -m pytest -q --capture=sys -p no:cacheprovider -m "not slow" \
    --ignore=tests/backend_ndarray/test_native_build.py tests/backend_ndarray "$@"

$compiler -std=c++17 -O1 -g -pthread -fsanitize=thread tests/backend_ndarray/pool_stress.cc \
    needle/backend_ndarray/cpu/parallel.cc -o pool_stress
./pool_stress
