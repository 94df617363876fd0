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

typedef enum {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias) CR_##NAME,
#include "num/dtype.def"
#undef CR_DTYPE
    CR_DTYPE_COUNT,
    CR_DTYPE_NONE = 0xff
} cr_dtype;

/* Ordered: promotion between categories takes the later one. */
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
static inline bool cr_dtype_is_float(cr_dtype t)
{
    return cr_dtype_category(t) == CR_CAT_FLOAT;
}
static inline bool cr_dtype_is_complex(cr_dtype t)
{
    return cr_dtype_category(t) == CR_CAT_COMPLEX;
}
/* float or complex: what can require a gradient. */
static inline bool cr_dtype_is_inexact(cr_dtype t)
{
    return cr_dtype_category(t) >= CR_CAT_FLOAT;
}

/* The smallest type that torch promotes both to. */
cr_dtype cr_promote(cr_dtype a, cr_dtype b);
/* complex64 -> float32 and so on; others as they are. */
cr_dtype cr_dtype_real(cr_dtype t);
/* float32 -> complex64 (float16 and bfloat16 too); others as they are. */
cr_dtype cr_dtype_complex(cr_dtype t);
/* The type a kernel computes in: f32 for half types, i32 for i8 and i16, else t. */
cr_dtype cr_dtype_compute(cr_dtype t);
/* Whether torch lets a result of type `from` be stored in `to` (in-place, out=). */
bool cr_can_cast(cr_dtype from, cr_dtype to);
/* By torch name, alias or suffix; CR_DTYPE_NONE when there is none. */
CR_API cr_dtype cr_dtype_find(const char *name);

/* A number with a category: what Python's bool, int, float, complex become. */
typedef struct {
    cr_category category;
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
/* Writes `s` as one element of type `t`, wrapping and rounding as a cast does. */
void cr_scalar_store(cr_scalar s, cr_dtype t, void *element);
cr_scalar cr_scalar_load(cr_dtype t, const void *element);
/* False when an integral target cannot hold the value (torch refuses it). */
bool cr_scalar_fits(cr_scalar s, cr_dtype t);

/* Half types as bits; round to nearest even, NaN kept quiet. */
float cr_half_to_float(uint16_t h);
uint16_t cr_float_to_half(float f);
float cr_bfloat_to_float(uint16_t h);
uint16_t cr_float_to_bfloat(float f);

#endif
