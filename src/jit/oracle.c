/* The oracle: compares the results of a kernel with those of the interpreter.
 *
 * The program is read from its text, before any pass touched it.  The interpreter uses the
 * kernels' functions and order of reductions, so every bit must be equal. */
#include "jit/oracle.h"
#include "base/env.h"
#include "jit/generated.h"
#include "loop/interp.h"
#include "loop/nest.h"
#include <math.h>
#include <string.h>

enum { MOST_OPERANDS = 32, MOST_ELEMENTS = 1 << 16 };

bool cr_oracle_wanted(void) { return cr_env_int(CR_ENV_CR_ORACLE) != 0; }

typedef struct {
    const char *text;
    void *const *ptr;
    const int64_t *stride;
    int64_t rows, columns;
    const void *param;
    cr_session *s;
    cr_loop *l;
    cr_buffer *operand[MOST_OPERANDS];
    int operands;
} check;

static bool by_row(const check *c, int k)
{
    return c->operand[k]->ndim == 2 || (c->stride[2 * k] && !c->stride[2 * k + 1]);
}

static bool by_column(const check *c, int k)
{
    return c->operand[k]->ndim == 2 || c->stride[2 * k + 1] != 0;
}

/* An input whose strides are zero may be indexed by row or by column.  Its copy has enough
 * elements for both. */
static int64_t elements(const check *c, int k)
{
    if (c->operand[k]->role == CR_BUFFER_INPUT && !by_row(c, k) && !by_column(c, k))
        return c->rows > c->columns ? c->rows : c->columns;
    return (by_row(c, k) ? c->rows : 1) * (by_column(c, k) ? c->columns : 1);
}

static const char *operand_place(const check *c, int k, int64_t i)
{
    int64_t columns = by_column(c, k) ? c->columns : 1;

    return (const char *)c->ptr[k] + i / columns * c->stride[2 * k] +
           i % columns * c->stride[2 * k + 1];
}

static void *operand_copy(const check *c, int k)
{
    size_t item = cr_dtype_size((cr_dtype)c->operand[k]->dtype);
    char *to = cr_session_get(c->s, (size_t)elements(c, k) * item);

    for (int64_t i = 0; c->operand[k]->role == CR_BUFFER_INPUT && i < elements(c, k); i++)
        memcpy(to + (size_t)i * item, operand_place(c, k, i), item);
    return to;
}

static double operand_value(const check *c, int k, const char *p)
{
    return cr_scalar_as_double(cr_scalar_load((cr_dtype)c->operand[k]->dtype, p));
}

/* Equal bits, or NaN for NaN. */
static bool equal_elements(cr_dtype t, const char *a, const char *b)
{
    cr_scalar x = cr_scalar_load(t, a), y = cr_scalar_load(t, b);
    int64_t part = (int64_t)cr_dtype_size(t) / 2;

    if (!memcmp(a, b, cr_dtype_size(t)))
        return true;
    if (cr_dtype_is_float(t))
        return isnan(x.d) && isnan(y.d);
    return cr_dtype_is_complex(t) &&
           ((isnan(x.c.re) && isnan(y.c.re)) || !memcmp(a, b, (size_t)part)) &&
           ((isnan(x.c.im) && isnan(y.c.im)) || !memcmp(a + part, b + part, (size_t)part));
}

static void compare_operand(const check *c, int k, const char *wanted)
{
    cr_dtype t = (cr_dtype)c->operand[k]->dtype;
    int64_t n = elements(c, k), item = (int64_t)cr_dtype_size(t);

    for (int64_t i = 0; i < n; i++)
        if (!equal_elements(t, wanted + i * item, operand_place(c, k, i)))
            cr_bail(c->s, CR_RUNTIME,
                    "CR_ORACLE: element %lld of '%s' is %.17g, not %.17g, in\n%s", (long long)i,
                    c->operand[k]->name, operand_value(c, k, operand_place(c, k, i)),
                    operand_value(c, k, wanted + i * item), c->text);
}

static void oracle_run(cr_session *s, void *context)
{
    check *c = context;
    cr_loop *copy = cr_loop_parse(s, c->text);
    void *memory[MOST_OPERANDS];
    cr_loop_size sizes[2];
    int count = 0;
    cr_nest *n;

    c->s = s;
    c->l = cr_loop_parse(s, c->text);
    c->operands = cr_loop_operands(c->l, c->operand, MOST_OPERANDS);
    cr_loop_fuse(copy);
    n = cr_nest_schedule(copy);
    if (n->row.extent->kind == CR_SYM_NAME)
        sizes[count++] = (cr_loop_size){cr_sym_find(c->l->syms, n->row.extent->name), c->rows};
    if (n->column.extent->kind == CR_SYM_NAME)
        sizes[count++] =
            (cr_loop_size){cr_sym_find(c->l->syms, n->column.extent->name), c->columns};
    for (int k = 0; k < c->operands; k++)
        memory[k] = operand_copy(c, k);
    cr_loop_interpret(c->l, &(cr_loop_run){sizes, count, memory, c->param, cr_fn_one});
    for (int k = 0; k < c->operands && c->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        compare_operand(c, k, memory[k]);
}

cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                          int64_t rows, int64_t columns, const void *param)
{
    int64_t most = columns < MOST_ELEMENTS ? MOST_ELEMENTS / (columns ? columns : 1) : 1;
    check c = {.text = text, .ptr = ptr, .stride = stride, .columns = columns, .param = param};
    cr_session s = {.status = CR_OK};
    cr_status st;

    c.rows = rows < most ? rows : most;
    st = cr_session_run(&s, oracle_run, &c);
    cr_session_drop(&s);
    return st;
}
