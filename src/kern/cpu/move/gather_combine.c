/* The element operations of indexed writes. */
#include "kern/cpu/element.h"
#include "kern/cpu/move/gather.h"

/* The address that element i of an indexed row is combined into. */
#define PLACE(type)                                                                            \
    (r->dst + i * r->dst_step + r->unit * *(const type *)(r->index + i * r->index_step))

#define ADD_INT(a, b)    cr_wrap_add(a, b)
#define MUL_INT(a, b)    cr_wrap_mul(a, b)
#define ADD_NUMBER(a, b) ((a) + (b))
#define MUL_NUMBER(a, b) ((a) * (b))
/* NaN wins over any number, -0 is below +0, and of equal values the present one stays. */
#define MIN_INT(a, b)    ((b) < (a) ? (b) : (a))
#define MAX_INT(a, b)    ((a) < (b) ? (b) : (a))
#define BELOW(a, b)      ((a) < (b) || ((a) == (b) && signbit(a) && !signbit(b)))
#define MIN_NUMBER(a, b) (BELOW(b, a) || (b) != (b) ? (b) : (a))
#define MAX_NUMBER(a, b) (BELOW(a, b) || (b) != (b) ? (b) : (a))

/* Dense rows are combined in blocks of a fixed length, which the compiler vectorizes.  Other
 * rows are combined one element at a time. */
enum { BLOCK = 16 };

#define COMBINE(op, suffix, expression)                                                        \
    static inline void op##_one_##suffix(char *d, const char *s)                               \
    {                                                                                          \
        wide_##suffix a = load_##suffix(d), b = load_##suffix(s);                              \
        store_##suffix(d, expression(a, b));                                                   \
    }                                                                                          \
    static void op##_dense_##suffix(char *restrict d, const char *restrict s, int64_t n)       \
    {                                                                                          \
        enum { ITEM = sizeof(item_##suffix) };                                                 \
        for (; n >= BLOCK; n -= BLOCK, d += BLOCK * ITEM, s += BLOCK * ITEM)                   \
            for (int k = 0; k < BLOCK; k++)                                                    \
                op##_one_##suffix(d + k * ITEM, s + k * ITEM);                                 \
        for (int64_t k = 0; k < n; k++)                                                        \
            op##_one_##suffix(d + k * ITEM, s + k * ITEM);                                     \
    }                                                                                          \
    static void op##_##suffix(const cr_combine_row *r)                                         \
    {                                                                                          \
        enum { ITEM = sizeof(item_##suffix) };                                                 \
        if (!r->index && r->dst_step == ITEM && r->src_step == ITEM)                           \
            op##_dense_##suffix(r->dst, r->src, r->n);                                         \
        else if (!r->index)                                                                    \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                op##_one_##suffix(r->dst + i * r->dst_step, r->src + i * r->src_step);         \
        else if (r->is32)                                                                      \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                op##_one_##suffix(PLACE(int32_t), r->src + i * r->src_step);                   \
        else                                                                                   \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                op##_one_##suffix(PLACE(int64_t), r->src + i * r->src_step);                   \
    }

#define INT_ROWS(s)                                                                            \
    COMBINE(add, s, ADD_INT)                                                                   \
    COMBINE(mul, s, MUL_INT) COMBINE(min, s, MIN_INT) COMBINE(max, s, MAX_INT)
#define FLOAT_ROWS(s)                                                                          \
    COMBINE(add, s, ADD_NUMBER)                                                                \
    COMBINE(mul, s, MUL_NUMBER) COMBINE(min, s, MIN_NUMBER) COMBINE(max, s, MAX_NUMBER)
#define COMPLEX_ROWS(s) COMBINE(add, s, ADD_NUMBER) COMBINE(mul, s, MUL_NUMBER)
CR_INT_TYPES(INT_ROWS)
CR_FLOAT_TYPES(FLOAT_ROWS)
CR_COMPLEX_TYPES(COMPLEX_ROWS)

#define SET(name, type)                                                                        \
    static void name##_dense(type *to, const type *from, const int64_t *index, int64_t n)      \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                        \
            to[index[i]] = from[i];                                                            \
    }                                                                                          \
    static void name(const cr_combine_row *r)                                                  \
    {                                                                                          \
        enum { ITEM = sizeof(type) };                                                          \
        if (r->index && !r->is32 && !r->dst_step && r->src_step == ITEM && r->unit == ITEM &&  \
            r->index_step == sizeof(int64_t))                                                  \
            name##_dense((type *)(void *)r->dst, (const type *)(const void *)r->src,           \
                         (const int64_t *)(const void *)r->index, r->n);                       \
        else if (!r->index && r->dst_step == ITEM && r->src_step == ITEM)                      \
            memcpy(r->dst, r->src, (size_t)r->n *ITEM);                                        \
        else if (!r->index)                                                                    \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                memcpy(r->dst + i * r->dst_step, r->src + i * r->src_step, ITEM);              \
        else if (r->is32)                                                                      \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                memcpy(PLACE(int32_t), r->src + i * r->src_step, ITEM);                        \
        else                                                                                   \
            for (int64_t i = 0; i < r->n; i++)                                                 \
                memcpy(PLACE(int64_t), r->src + i * r->src_step, ITEM);                        \
    }
SET(set_1, uint8_t)
SET(set_2, uint16_t)
SET(set_4, uint32_t)
SET(set_8, uint64_t)
SET(set_16, cr_complex)

cr_combine_fn cr_combine_for(cr_combine how, cr_dtype t)
{
    static const cr_combine_fn set[] = {set_1, set_2, set_4, set_8, set_16};
    static const cr_combine_fn rows[CR_COMBINE_COUNT][CR_DTYPE_COUNT] = {
        [CR_COMBINE_ADD] = {CR_TYPE_TABLE(add, CR_AND_FLOATS_AND_COMPLEX)},
        [CR_COMBINE_MUL] = {CR_TYPE_TABLE(mul, CR_AND_FLOATS_AND_COMPLEX)},
        [CR_COMBINE_MIN] = {CR_TYPE_TABLE(min, CR_AND_FLOATS)},
        [CR_COMBINE_MAX] = {CR_TYPE_TABLE(max, CR_AND_FLOATS)},
    };

    return how == CR_COMBINE_SET ? set[CR_CTZ(cr_dtype_size(t))] : rows[how][t];
}
