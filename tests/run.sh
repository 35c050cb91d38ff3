#!/usr/bin/env bash
# Runs all tests, after installing what they need.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tests/setup.sh strace ccache g++ uuid-dev libhsa-runtime64-1 zsh fish
cargo test --workspace --locked --no-fail-fast "$@"
