"""Short names of dtypes, for comments in generated code."""
import cresset

dtype_abbrs = {
    cresset.bfloat16: "bf16", cresset.float64: "f64", cresset.float32: "f32",
    cresset.float16: "f16", cresset.complex64: "c64", cresset.complex128: "c128",
    cresset.int8: "i8", cresset.int16: "i16", cresset.int32: "i32", cresset.int64: "i64",
    cresset.bool: "b8", cresset.uint8: "u8",
    cresset.uint16: "u16", cresset.uint32: "u32", cresset.uint64: "u64", cresset.complex32: "c32",
    cresset.float8_e5m2: "f8e5m2", cresset.float8_e4m3fn: "f8e4m3fn",
    cresset.float8_e5m2fnuz: "f8e5m2fnuz", cresset.float8_e4m3fnuz: "f8e4m3fnuz",
    cresset.float8_e8m0fnu: "f8e8m0fnu"}
