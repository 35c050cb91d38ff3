#!/usr/bin/env bash
# Runs the runtime's tests under ThreadSanitizer, the emulated ROCR and XRT instrumented too.
#
# Needs a nightly toolchain with its rust-src: the standard library is compiled with the sanitizer as
# well, or it would take every lock for a race.
set -euo pipefail
cd "$(dirname "$0")/.."
# Libraries that are loaded use the program's sanitizer.
export RUSTFLAGS="-Zsanitizer=thread -Clink-arg=-rdynamic"
# An array that no memory has room for is an error that tests provoke.
export TSAN_OPTIONS="allocator_may_return_null=1 ${TSAN_OPTIONS:-}"
target="$(rustc -vV | sed -n 's/^host: //p')"
if [ $# -eq 0 ]; then
    # Its allocations are counted, and the sanitizer has some of its own.
    set -- -p npu-runtime -p rocr-double -- --skip launches_after_the_first_set_nothing_up
fi
exec cargo +nightly test -Zbuild-std --target "$target" --target-dir target/sanitized --locked "$@"
