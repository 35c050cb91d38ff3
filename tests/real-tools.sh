#!/bin/bash
# Takes every NPU example of the documentation, and every level, target, runtime and format, through real
# tools: bash tests/real-tools.sh DIRECTORY [PEANO]. DIRECTORY/bin holds aiecc, air-opt, aircc, bootgen,
# aiebu-asm and xclbinutil; PEANO is an installation of Peano, and where there is none, DIRECTORY/peano-stand-in.
# Prints a line for each command: what was expected of it, what came of it, and how long it took.
# Not part of CI, which has no such tools.
set -u
cd "$(dirname "$0")/.." || exit
tools=${1:?usage: tests/real-tools.sh DIRECTORY [PEANO]}
cargo build --quiet --package npu-build --bins || exit
npu_build=$PWD/target/debug/npu-build
data=$PWD/tests/data/aie
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NPU_BUILD_AIR=$tools NPU_BUILD_AIE=$tools NPU_BUILD_XRT=$tools NPU_BUILD_CACHE_DIR=$work/cache
export NPU_BUILD_PEANO=${2:-$tools/peano-stand-in}
failed=0

# try CODE WORDS ARGUMENT...: npu-build with these arguments ends with CODE and says WORDS.
try() {
    local expected=$1 words=$2 start=$SECONDS
    shift 2
    "$npu_build" "$@" >"$work/told" 2>&1
    local code=$? result=ok
    if [ "$code" != "$expected" ] || ! grep -qF -- "$words" "$work/told"; then
        result=FAILED
        failed=1
    fi
    printf '%-6s exit %s, %3s s  npu-build %s\n' "$result" "$code" $((SECONDS - start)) "$*"
    if [ "$result" = FAILED ]; then
        sed 's/^/    /' "$work/told"
    fi
}

# every FILE TARGET ARGUMENT...: a kernel for all runtimes and formats of a target.
every() {
    local file=$1 target=$2 runtime format
    shift 2
    for runtime in xrt hsa; do
        for format in auto xclbin elf pdi; do
            local code=0 words=''
            case $target/$runtime/$format in
            npu1/*/elf) code=2 words='there is no full ELF for npu1' ;;
            */hsa/pdi) code=2 words='an hsaco is packed from a full ELF or an xclbin' ;;
            *pdi) code=$pdi_code words=$pdi_words ;;
            */xclbin) code=$xclbin_code words=$xclbin_words ;;
            esac
            try "$code" "$words" compile "$file" --target "$target" --runtime "$runtime" --format "$format" "$@"
        done
    done
}
# What is expected of a PDI, which not every aircc makes, and of an xclbin.
pdi_code=0 pdi_words='' xclbin_code=0 xclbin_words=''

echo '# The documentation'
twice=examples/kernels/twice.mlir herd=examples/kernels/herd.mlir
try 0 'aiecc' doctor
try 0 'npu2' compile "$data/copy_npu2/kernel.mlir"
try 0 'npu2' compile $twice --target npu2 --grid 4 --transform $herd
try 0 'cpu, npu2 (xrt), npu2 (hsa)' compile $twice --target cpu,npu2 --runtime xrt,hsa --grid 4 --transform $herd
try 0 'npu2' compile $twice --target npu2 --runtime hsa --grid 4 --transform $herd --out-dir "$work/out" --keep-intermediates
try 0 'npu2' compile "$work"/out/*.air.mlir --target npu2 --runtime hsa

echo '# Levels, targets, runtimes, formats'
if ! "$tools/bin/aircc" --help | grep -q -- '--pdi-name'; then
    pdi_code=2 pdi_words='--output-format pdi'
fi
for target in npu1 npu2; do
    every $twice $target --grid 4 --transform $herd
    every "$(echo "$work"/out/*.air.mlir)" $target
done
pdi_code=0 pdi_words=''
for target in npu1 npu2; do
    every "$data/copy_$target/kernel.mlir" $target
    cat >"$work/core_$target.mlir" <<MLIR
module {
  aie.device($target) @main {
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @in(%shim, {%core_tile}, 2 : i32) : !aie.objectfifo<memref<256xi32>>
    aie.objectfifo @out(%core_tile, {%shim}, 2 : i32) : !aie.objectfifo<memref<256xi32>>
    %core = aie.core(%core_tile) {
      %from = aie.objectfifo.acquire @in(Consume, 1) : !aie.objectfifosubview<memref<256xi32>>
      %x = aie.objectfifo.subview.access %from[0] : !aie.objectfifosubview<memref<256xi32>> -> memref<256xi32>
      %to = aie.objectfifo.acquire @out(Produce, 1) : !aie.objectfifosubview<memref<256xi32>>
      %y = aie.objectfifo.subview.access %to[0] : !aie.objectfifosubview<memref<256xi32>> -> memref<256xi32>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 256 : index
      scf.for %i = %c0 to %n step %c1 {
        %v = memref.load %x[%i] : memref<256xi32>
        %w = arith.addi %v, %v : i32
        memref.store %w, %y[%i] : memref<256xi32>
      }
      aie.objectfifo.release @in(Consume, 1)
      aie.objectfifo.release @out(Produce, 1)
      aie.end
    }
    aie.runtime_sequence @sequence(%x : memref<256xi32>, %out : memref<256xi32>) {
      aiex.npu.load_pdi { device_ref = @main }
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {id = 0 : i64, metadata = @in} : memref<256xi32>
      aiex.npu.dma_memcpy_nd(%out[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {id = 1 : i64, metadata = @out} : memref<256xi32>
      aiex.npu.dma_wait {symbol = @out}
    }
  }
}
MLIR
    every "$work/core_$target.mlir" $target
done
every "$data/two_kernels_npu2/kernel.mlir" npu2
every "$data/copy_npu2_4col/kernel.mlir" npu2
pdi_code=2 xclbin_code=2
pdi_words='configures devices' xclbin_words='configures devices'
every "$data/configure_npu2/kernel.mlir" npu2

echo '# What is refused'
try 1 'use --transform' compile $twice --target npu2 --grid 4
try 2 'the kernel has no air.herd' compile "$data/air/no_herd.mlir" --target npu1
try 1 'l3_access.mlir":18:11' compile "$data/air/l3_access.mlir" --target npu2
try 1 'a core reaches its own memory (L1) alone' compile "$data/air/l3_access.mlir" --target npu1

echo '# Byte for byte what was recorded'
for design in copy_npu2 copy_npu2_4col two_kernels_npu2 configure_npu2; do
    made=$("$npu_build" compile "$data/$design/kernel.mlir" 2>/dev/null | head -1)
    if cmp -s "$made" "$data/$design/aie.elf"; then
        echo "ok     $design/aie.elf"
    else
        echo "FAILED $design/aie.elf is another than $made"
        failed=1
    fi
done
exit $failed
