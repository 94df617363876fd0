/* dtype.h - element types, torch's promotion lattice, scalars. */
#ifndef CR_NUM_DTYPE_H
#define CR_NUM_DTYPE_H

#include "base/error.h"

typedef struct {
    float re, im;
} cr_complex_float;

typedef struct {
    double re, im;
} cr_complex;

typedef struct {
    uint16_t re, im; /* float16 */
} cr_complex_half;

typedef enum {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias) CR_##NAME,
#include "num/dtype.def"
#undef CR_DTYPE
    CR_DTYPE_COUNT,
    CR_DTYPE_KERNELS = CR_C128 + 1, /* the dtypes below have kernels, the others are stored */
    CR_DTYPE_NONE = 0xff
} cr_dtype;

/* In promotion order: the later category wins. */
typedef enum { CR_CAT_BOOL, CR_CAT_INT, CR_CAT_FLOAT, CR_CAT_COMPLEX } cr_category;

typedef struct {
    const char *name;   /* "float32" */
    const char *legacy; /* "Float" */
    const char *alias;  /* "float", or NULL */
    const char *suffix; /* "f32" */
    uint8_t size;       /* bytes an element */
    uint8_t category;   /* cr_category */
} cr_dtype_info;

extern const cr_dtype_info cr_dtype_infos[CR_DTYPE_COUNT];

static inline size_t cr_dtype_size(cr_dtype t) { return cr_dtype_infos[t].size; }
static inline cr_category cr_dtype_category(cr_dtype t)
{
    return (cr_category)cr_dtype_infos[t].category;
}
static inline const char *cr_dtype_name(cr_dtype t) { return cr_dtype_infos[t].name; }
/* The number of the dtype in ATen's schemas, programs and archives. */
int cr_dtype_number(cr_dtype t);
/* The C++ name of the type in messages: "long int". */
const char *cr_dtype_cpp_name(cr_dtype t);
/* The same as torch's messages about numbers name it: "int8_t" */
const char *cr_dtype_scalar_name(cr_dtype t);
static inline bool cr_dtype_is_float(cr_dtype t)
{
    return cr_dtype_category(t) == CR_CAT_FLOAT;
}
static inline bool cr_dtype_is_complex(cr_dtype t)
{
    return cr_dtype_category(t) == CR_CAT_COMPLEX;
}
/* True for floating point and complex dtypes; only these can require a gradient. */
static inline bool cr_dtype_is_inexact(cr_dtype t)
{
    return cr_dtype_category(t) >= CR_CAT_FLOAT;
}

/* True for a dtype without kernels, see dtype.def. */
static inline bool cr_dtype_is_stored(cr_dtype t) { return t >= CR_DTYPE_KERNELS; }
static inline bool cr_dtype_is_float8(cr_dtype t)
{
    return cr_dtype_is_stored(t) && cr_dtype_is_float(t);
}
/* False for bool, unsigned integers and float8_e8m0fnu. */
bool cr_dtype_is_signed(cr_dtype t);

/* The result dtype of torch's promotion.  CR_DTYPE_NONE where torch refuses: float8 with
 * another dtype; uint16, uint32 and uint64 with another dtype that is not real floating point.
 * For callers that handle the refusal; others call cr_promote_checked. */
cr_dtype cr_promote(cr_dtype a, cr_dtype b);
/* Fails with torch's message for a pair that cr_promote refuses. */
CR_MUST cr_status cr_refuse_promotion(cr_dtype a, cr_dtype b);
/* The same dtype; fails with the message where torch refuses. */
CR_MUST cr_status cr_promote_checked(cr_dtype *out, cr_dtype a, cr_dtype b);
/* The dtype of the real part: complex64 -> float32 and so on; other dtypes unchanged. */
cr_dtype cr_dtype_real(cr_dtype t);
/* float16 -> complex32, float32 and bfloat16 -> complex64, float64 -> complex128; CR_DTYPE_NONE
 * for float8, which has no complex dtype; other dtypes unchanged. */
cr_dtype cr_dtype_complex(cr_dtype t);
/* The dtype that kernels compute in: float32 for half types and float8, int32 for int8, int16
 * and uint16, int64 for uint32 and uint64, complex64 for complex32, else t. */
cr_dtype cr_dtype_compute(cr_dtype t);
/* True when torch allows a result of dtype `from` to be stored in a tensor of dtype `to`
 * (in-place, out=). */
bool cr_can_cast(cr_dtype from, cr_dtype to);
/* Finds a dtype by torch name, alias or suffix; CR_DTYPE_NONE when there is none. */
CR_API cr_dtype cr_dtype_find(const char *name);

/* A number and its category: the C form of Python's bool, int, float and complex. */
typedef struct {
    cr_category category;
    bool large; /* INT: i has the bits of an uint64 above INT64_MAX */
    union {
        int64_t i; /* BOOL, INT */
        double d;  /* FLOAT */
        cr_complex c;
    };
} cr_scalar;

static inline cr_scalar cr_scalar_int(int64_t i)
{
    return (cr_scalar){.category = CR_CAT_INT, .i = i};
}
static inline cr_scalar cr_scalar_float(double d)
{
    return (cr_scalar){.category = CR_CAT_FLOAT, .d = d};
}
CR_API double cr_scalar_as_double(cr_scalar s);
CR_API int64_t cr_scalar_as_int(cr_scalar s);
CR_API cr_complex cr_scalar_as_complex(cr_scalar s);
/* Writes `s` as one element of dtype `t`, with the wrapping and rounding of a cast. */
void cr_scalar_store(cr_scalar s, cr_dtype t, void *element);
cr_scalar cr_scalar_load(cr_dtype t, const void *element);
/* False when dtype `t` cannot hold the value, which torch reports as an error. */
bool cr_scalar_fits(cr_scalar s, cr_dtype t);
bool cr_scalar_is_nonzero(cr_scalar s);

/* Half types as bit patterns.  Rounds to nearest even; NaN becomes a quiet NaN. */
float cr_half_to_float(uint16_t h);
uint16_t cr_float_to_half(float f);
float cr_bfloat_to_float(uint16_t h);
uint16_t cr_float_to_bfloat(float f);

/* A float to an unsigned integer, truncated.  A value out of range gives what x86's vector
 * conversion gives, as in torch: it converts x, or x minus the top bit's value for large x. */
uint32_t cr_double_to_u32(double d);
uint64_t cr_double_to_u64(double d);

#endif
