#!/bin/sh
# Runs programs of the runtime on other processors, by qemu, and compares the bits of their results
# with those of this one: rt_cross.sh FOLDER PROGRAM...
# Targets whose compiler or emulator is missing are named and left out.
set -eu
folder=$1
shift
failed=0 compared=0
build() { # build NAME COMPILER FLAGS
    make --no-print-directory rt RT_CC="$2" RT_FLAGS="$3" RT_BUILD="$folder/$1"
    $2 -std=gnu99 -Os $3 -Iinclude -static -Wl,--gc-sections tests/rt/run.c "$folder/$1/libcresset_rt.a" -lm -o "$folder/$1/run"
}
build host "${CC:-gcc}" ""
while read -r name compiler emulator flags; do
    if ! command -v "$compiler" >/dev/null || ! command -v "$emulator" >/dev/null; then
        echo "rt_cross: $name left out: it needs $compiler (gcc-${compiler%-gcc}) and $emulator (qemu-user)"
        continue
    fi
    build "$name" "$compiler" "$flags"
    for program; do
        compared=$((compared + 1))
        if [ "$("$folder/host/run" "$program")" != "$("$emulator" "$folder/$name/run" "$program")" ]; then
            echo "rt_cross: $program has other bits on $name"
            failed=$((failed + 1))
        fi
    done
done <<END
arm arm-linux-gnueabihf-gcc qemu-arm -mfpu=neon-vfpv4
arm_soft arm-linux-gnueabihf-gcc qemu-arm -march=armv7-a+fp
aarch64 aarch64-linux-gnu-gcc qemu-aarch64
riscv64 riscv64-linux-gnu-gcc qemu-riscv64
END
echo "rt_cross: $compared programs compared, $failed differ"
[ $failed -eq 0 ]
