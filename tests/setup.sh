#!/usr/bin/env bash
# Installs what building and testing npu-build needs and this machine lacks: Debian's MLIR, LLVM and
# clang of one version, and the few small programs that tests and benches compare with.
set -euo pipefail

# A LLVM with MLIR, of any version that the distribution has.
has_llvm() {
    local bin
    for bin in /usr/lib/llvm-*/bin; do
        [ -x "$bin/mlir-opt" ] && [ -x "$bin/mlir-translate" ] && [ -x "$bin/clang" ] && return 0
    done
    command -v mlir-opt mlir-translate clang >/dev/null 2>&1
}

# Programs by their names, libraries and headers by those of their packages.
missing=()
for name in "$@"; do
    case $name in
    lib* | *-dev) dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name") ;;
    *) command -v "$name" >/dev/null 2>&1 || missing+=("$name") ;;
    esac
done

if ! has_llvm || [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: no apt-get here; install MLIR, LLVM and clang of one version${missing:+, and: ${missing[*]}}" >&2
        exit 3
    fi
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    # Another apt may hold either lock; apt waits by itself for that of packages, not for that of lists.
    for attempt in $(seq 60); do
        failure=$("${as_root[@]}" apt-get update -qq 2>&1) && break
        case $failure in
        *"Could not get lock"*) [ "$attempt" -gt 1 ] || echo "setup: waiting for another apt" >&2; sleep 5 ;;
        *) echo "$failure" >&2; exit 3 ;;
        esac
    done
    if ! has_llvm; then
        version=$(apt-cache pkgnames mlir- | sed -n 's/^mlir-\([0-9]\+\)-tools$/\1/p' | sort -n | tail -1)
        if [ -z "$version" ]; then
            echo "setup: this distribution has no mlir-NN-tools package" >&2
            exit 3
        fi
        missing+=("mlir-$version-tools" "llvm-$version" "clang-$version")
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=600 \
        libc6-dev gcc "${missing[@]}"
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: no cargo; install Rust 1.89 or later, see https://rustup.rs" >&2
    exit 3
fi
