#!/usr/bin/env bash
# Runs the unit tests of the runtime under Miri, which notices undefined behaviour and leaks: buffers,
# pools and their shelves, argument slots, scratch memory, the reader of hsacos. What calls into a
# loaded library is beyond Miri; tests/sanitize.sh has that.
#
# Needs a toolchain with Miri, nightly or what MIRI_TOOLCHAIN names:
# rustup toolchain install nightly -c miri,rust-src
set -euo pipefail
cd "$(dirname "$0")/.."
# A case takes a thousand times as long.
export PROPTEST_CASES="${PROPTEST_CASES:-3}"
# proptest looks for a file of failed cases; a kernel gets addresses as numbers.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance ${MIRIFLAGS:-}"
miri() { cargo "+${MIRI_TOOLCHAIN:-nightly}" miri test --target-dir target/miri --locked -p npu-runtime --lib -- "$@"; }
if [ $# -gt 0 ]; then
    miri "$@"
    exit
fi
miri --skip cpu::pool
# The threads of the pool end with the process, which Miri takes for a leak.
MIRIFLAGS="$MIRIFLAGS -Zmiri-ignore-leaks" miri cpu::pool
