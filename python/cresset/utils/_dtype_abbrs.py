"""Short names of dtypes, for comments in generated code."""
import cresset

dtype_abbrs = {
    cresset.bfloat16: "bf16", cresset.float64: "f64", cresset.float32: "f32",
    cresset.float16: "f16", cresset.complex64: "c64", cresset.complex128: "c128",
    cresset.int8: "i8", cresset.int16: "i16", cresset.int32: "i32", cresset.int64: "i64",
    cresset.bool: "b8", cresset.uint8: "u8"}
