#!/usr/bin/env bash
# Writes the launcher and the artifact that src/main.rs includes. The program is `npu-build`, or what
# the variable NPU_BUILD names.
set -euo pipefail
cd "$(dirname "$0")"
"${NPU_BUILD:-npu-build}" compile ../kernels/vecadd.mlir --target cpu --extent x=n,y=n,out=n --out-dir generated
