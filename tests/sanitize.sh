#!/usr/bin/env bash
# Runs the runtime's tests under ThreadSanitizer, the emulated ROCR and XRT instrumented too.
#
# Needs a nightly toolchain with its rust-src: the standard library is compiled with the sanitizer as
# well, or it would take every lock for a race.
set -euo pipefail
cd "$(dirname "$0")/.."
# An array that no memory has room for is an error that tests provoke.
export TSAN_OPTIONS="allocator_may_return_null=1 ${TSAN_OPTIONS:-}"
# A case takes twenty times as long.
export PROPTEST_CASES="${PROPTEST_CASES:-32}"
target="$(rustc -vV | sed -n 's/^host: //p')"
if [ $# -eq 0 ]; then
    # Its allocations are counted, and the sanitizer has some of its own.
    set -- -p npu-runtime -p rocr-double -- --skip launches_after_the_first_set_nothing_up
fi
# Libraries that are loaded use the program's sanitizer. What tests compile for themselves does not
# inherit these flags, as it would RUSTFLAGS.
flags="target.$target.rustflags=['-Zsanitizer=thread', '-Clink-arg=-rdynamic']"
exec cargo +nightly test --lib --tests -Zbuild-std --config "$flags" --target "$target" --target-dir target/sanitized \
    --locked "$@"
