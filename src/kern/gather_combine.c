/* The element operations behind every indexed write. */
#include "kern/element.h"
#include "kern/gather.h"

#define ADD_INT(a, b)    cr_wrap_add(a, b)
#define MUL_INT(a, b)    cr_wrap_mul(a, b)
#define ADD_NUMBER(a, b) ((a) + (b))
#define MUL_NUMBER(a, b) ((a) * (b))
/* A NaN wins; of equal values the one already there stays. */
#define MIN_INT(a, b)    ((b) < (a) ? (b) : (a))
#define MAX_INT(a, b)    ((a) < (b) ? (b) : (a))
#define MIN_NUMBER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define MAX_NUMBER(a, b) ((a) < (b) || (b) != (b) ? (b) : (a))

/* A row that is dense on both sides is left to the compiler's vectors. */
#define COMBINE(op, suffix, expression)                                                        \
    static void op##_##suffix(const cr_combine_row *r)                                         \
    {                                                                                          \
        enum { ITEM = sizeof(item_##suffix) };                                                 \
        const char *s = r->src;                                                                \
        if (!r->index && r->dst_step == ITEM && r->src_step == ITEM) {                         \
            for (int64_t i = 0; i < r->n; i++) {                                               \
                wide_##suffix a = load_##suffix(r->dst + i * ITEM);                            \
                wide_##suffix b = load_##suffix(s + i * ITEM);                                 \
                store_##suffix(r->dst + i * ITEM, expression(a, b));                           \
            }                                                                                  \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < r->n; i++, s += r->src_step) {                                 \
            char *d = r->dst + i * r->dst_step;                                                \
            if (r->index)                                                                      \
                d += r->unit * cr_index_at(r->index + i * r->index_step, r->is32);             \
            wide_##suffix a = load_##suffix(d), b = load_##suffix(s);                          \
            store_##suffix(d, expression(a, b));                                               \
        }                                                                                      \
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
    static void name(const cr_combine_row *r)                                                  \
    {                                                                                          \
        enum { ITEM = sizeof(type) };                                                          \
        const char *s = r->src;                                                                \
        if (!r->index && r->dst_step == ITEM && r->src_step == ITEM) {                         \
            memcpy(r->dst, s, (size_t)r->n * ITEM);                                            \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < r->n; i++, s += r->src_step) {                                 \
            char *d = r->dst + i * r->dst_step;                                                \
            if (r->index)                                                                      \
                d += r->unit * cr_index_at(r->index + i * r->index_step, r->is32);             \
            memcpy(d, s, ITEM);                                                                \
        }                                                                                      \
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
