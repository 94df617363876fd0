/* view.h - plain views of memory, tagged values, and the kernel calling convention.
 *
 * The rooms below `tensor` pass views and values: kernels and shape rules never see tensors. */
#ifndef CR_NUM_VIEW_H
#define CR_NUM_VIEW_H

#include "num/device.h"
#include "num/dtype.h"
#include "num/order.h"

enum { CR_MAX_DIMS = 64 };

/* Element (i0, i1, ...) is at data + (i0*stride[0] + i1*stride[1] + ...) * item size. `data` is
 * NULL for a fake tensor.  size and stride are borrowed. */
typedef struct {
    char *data;
    const int64_t *size, *stride; /* stride in elements */
    uint8_t ndim;
    uint8_t dtype; /* cr_dtype */
    cr_device device;
    bool number; /* a Python number in a tensor's place: weak in promotion */
} cr_view;

/* The sizes that a shape rule computes.  Initialize with {0}. */
typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS];
} cr_shape;

/* Sizes of the matrices that a view of two dimensions or more holds. */
static inline int64_t cr_view_rows(const cr_view *v) { return v->size[v->ndim - 2]; }
static inline int64_t cr_view_cols(const cr_view *v) { return v->size[v->ndim - 1]; }

/* Sizes, strides and offset of a view.  Strides and offset count elements; the offset is from
 * the input's first element. */
typedef struct {
    int ndim;
    int64_t offset;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
} cr_geometry;

struct cr_tensor;
struct cr_generator;

typedef enum {
    CR_NONE,
    CR_TENSOR,     /* t; counted by the value's maker */
    CR_VIEW,       /* view */
    CR_NUMBER,     /* number: a Scalar, or a number in a tensor's place */
    CR_INT,        /* i */
    CR_FLOAT,      /* d */
    CR_TRUTH,      /* i: 0 or 1 */
    CR_DTYPE_VAL,  /* i */
    CR_DEVICE_VAL, /* i: see cr_device_pack */
    CR_LAYOUT_VAL, /* i */
    CR_FORMAT_VAL, /* i: memory format */
    CR_STRING,     /* s, len */
    CR_INTS,       /* ints, len */
    CR_FLOATS,     /* floats, len */
    CR_TRUTHS,     /* ints (0 or 1), len */
    CR_NUMBERS,    /* list of values, len */
    CR_TENSORS,    /* list: CR_TENSOR, CR_VIEW or CR_NONE values, len */
    CR_GENERATOR   /* generator; NULL is the default one */
} cr_tag;

/* The values of CR_FORMAT_VAL. */
enum {
    CR_FORMAT_CONTIGUOUS,
    CR_FORMAT_PRESERVE,
    CR_FORMAT_CHANNELS_LAST,
    CR_FORMAT_CHANNELS_LAST_3D,
    CR_FORMAT_COUNT
};
/* The Python name, such as "channels_last". */
extern const char *const cr_format_names[CR_FORMAT_COUNT];

/* An argument or a result.  Lists and strings are borrowed. */
typedef struct cr_value {
    uint8_t tag; /* cr_tag */
    uint32_t len;
    union {
        struct cr_tensor *t;
        const cr_view *view;
        cr_scalar number;
        int64_t i;
        double d;
        const char *s;
        const int64_t *ints;
        const double *floats;
        const struct cr_value *list;
        struct cr_generator *generator;
    };
} cr_value;

static inline cr_value cr_of_none(void) { return (cr_value){.tag = CR_NONE}; }
/* Member by member: an initializer clears the whole union on the stack, and the copy from there
 * has to wait until the narrower store of the tag has finished. */
static inline cr_value cr_of_tensor(struct cr_tensor *t)
{
    cr_value v;

    v.tag = t ? CR_TENSOR : CR_NONE;
    v.len = 0;
    v.t = t;
    return v;
}
static inline cr_value cr_of_int(int64_t i) { return (cr_value){.tag = CR_INT, .i = i}; }
static inline cr_value cr_of_float(double d) { return (cr_value){.tag = CR_FLOAT, .d = d}; }
static inline cr_value cr_of_bool(bool b) { return (cr_value){.tag = CR_TRUTH, .i = b}; }
static inline cr_value cr_of_dtype(cr_dtype t)
{
    return (cr_value){.tag = CR_DTYPE_VAL, .i = t};
}
static inline cr_value cr_of_number(cr_scalar n)
{
    return (cr_value){.tag = CR_NUMBER, .number = n};
}
static inline cr_value cr_of_ints(const int64_t *ints, size_t n)
{
    return (cr_value){.tag = CR_INTS, .len = (uint32_t)n, .ints = ints};
}

/* Value d of a list; a list with one value gives that value for all dimensions. */
static inline int64_t cr_value_item(const cr_value *list, int64_t d)
{
    return list->ints[list->len == 1 ? 0 : d];
}

/* A generated kernel: every pointwise, folding or row kernel, eager, tile or fused.
 *
 * ptr     outputs, then inputs
 * stride  bytes, two an operand: from row to row, then from element to element
 *         along a row; the latter is the item size, or 0 for one value a row
 * size    {rows, columns}; fused kernels with random numbers also read a third, the
 *         number of the first row
 * param   scalar arguments, one CR_PARAM_BYTES slot each, in the compute type */
typedef void (*cr_kernel)(void *const *ptr, const int64_t *stride, const int64_t *size,
                          const void *param);
enum { CR_PARAM_BYTES = 16 };

/* The prebuilt kernels of one entry. */
typedef enum {
    CR_FORM_MAIN,    /* pointwise; fold: each row to one value; fused: rows */
    CR_FORM_COLUMNS, /* fold: at most CR_FOLD_COLUMN rows to one row */
    CR_FORM_JOIN,    /* fold: partial results of MAIN, each row to one value */
    CR_FORM_JOIN_COLUMNS /* fold: partial results of COLUMNS */,
    CR_FORM_INT32,  /* loop with an int32 index; MAIN has an int64 index */
    CR_FORM_ACROSS, /* fused: rows of at most CR_FOLD_LANES columns, of which neighbours are
                     * adjacent in memory and columns have any stride; only on the host */
    CR_FORM_COUNT
} cr_form;

/* How the elements of a window are folded. */
typedef enum {
    CR_WINDOW_ADD,
    CR_WINDOW_ABOVE_LAST_NAN, /* of equal values the first; NaN is above, and of NaNs the
                               * last */
    CR_WINDOW_COUNT
} cr_window_how;

#endif
