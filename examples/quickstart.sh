#!/usr/bin/env bash
# From a fresh clone to a verified launch: installs what is missing, builds npu-build, compiles the
# vector addition for the cpu target (a miss, then a hit), and runs a host program that calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tests/setup.sh

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

say "Building npu-build"
cargo build --release --locked -p npu-build -p npu-build-run --bins
# Wherever Cargo was told to put it.
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
npu_build=$target/release/npu-build

# A cache of its own, so that the first compilation is a miss whatever has been built before.
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export NPU_BUILD_CACHE_DIR=$cache/cache

say "What the kernel takes"
"$npu_build" signature examples/kernels/vecadd.mlir

say "The first compilation: a miss"
"$npu_build" compile examples/kernels/vecadd.mlir --target cpu

say "The second: a hit"
"$npu_build" compile examples/kernels/vecadd.mlir --target cpu

say "A host program that calls the generated launcher"
cargo run --release --locked --quiet -p npu-build-examples --bin vecadd
