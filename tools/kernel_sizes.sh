#!/bin/sh
# Prints the bytes of prebuilt kernels by operator for one instruction set, summed over dtypes
# and forms: tools/kernel_sizes.sh [BUILD] [ISA].  A kernel that several entries share counts
# for the first entry.
build=${1:-build}
isa=${2:-avx512}
nm -S --radix=d "$build"/gen/kern_*."$isa".o | awk -v isa="$isa" '
    NF == 4 && $4 ~ "^ck_" isa "_" {
        name = substr($4, length(isa) + 5)
        sub(/_(join_columns|columns|join|reduce)$/, "", name)
        sub(/_(f32|f64|i32|i64|u8|bool|c64|c128)$/, "", name)
        bytes[name] += $2; count[name]++; total += $2; kernels++
    }
    END {
        for (n in bytes) printf "%8d %3d %s\n", bytes[n], count[n], n
        printf "%8d %3d total, %.0f a kernel\n", total, kernels, total / kernels
    }' | sort -n
