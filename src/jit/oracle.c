/* The oracle: interpreter against kernel.
 *
 * The program is read from its text, before any pass touched it.  Functions differ by
 * their bounds and a sum of them by more, so a difference counts when it is large beside
 * both the element and the largest element of the output. */
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
    const cr_sym *row, *column; /* the extents' names; NULL for integers */
} check;

static bool by_row(const check *c, int k)
{
    return c->operand[k]->ndim == 2 || (c->stride[2 * k] && !c->stride[2 * k + 1]);
}

static bool by_column(const check *c, int k) { return c->stride[2 * k + 1] != 0; }

static int64_t elements(const check *c, int k)
{
    return (by_row(c, k) ? c->rows : 1) * (by_column(c, k) ? c->columns : 1);
}

static const char *place(const check *c, int k, int64_t i)
{
    int64_t columns = by_column(c, k) ? c->columns : 1;

    return (const char *)c->ptr[k] + i / columns * c->stride[2 * k] +
           i % columns * c->stride[2 * k + 1];
}

static void *row_major(const check *c, int k)
{
    size_t item = cr_dtype_size((cr_dtype)c->operand[k]->dtype);
    char *to = cr_session_get(c->s, (size_t)elements(c, k) * item);

    for (int64_t i = 0; c->operand[k]->role == CR_BUFFER_INPUT && i < elements(c, k); i++)
        memcpy(to + (size_t)i * item, place(c, k, i), item);
    return to;
}

static double element(const check *c, int k, const char *p)
{
    return cr_scalar_as_double(cr_scalar_load((cr_dtype)c->operand[k]->dtype, p));
}

static void compare(const check *c, int k, const char *wanted)
{
    cr_dtype t = (cr_dtype)c->operand[k]->dtype;
    double digits = t == CR_F32 || t == CR_C64 ? 1e-5 : 1e-12, largest = 0;
    int64_t n = elements(c, k), item = (int64_t)cr_dtype_size(t);

    for (int64_t i = 0; i < n; i++) {
        double a = fabs(element(c, k, wanted + i * item));
        largest = isfinite(a) && a > largest ? a : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        double a = element(c, k, wanted + i * item), b = element(c, k, place(c, k, i));
        bool same = a == b || (isnan(a) && isnan(b));
        if (!same && !(fabs(a - b) <= digits * (fabs(a) + largest)))
            cr_bail(c->s, CR_RUNTIME, "CR_ORACLE: element %lld of '%s' is %.9g, not %.9g, in\n%s",
                    (long long)i, c->operand[k]->name, b, a, c->text);
    }
}

static void run(cr_session *s, void *context)
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
        memory[k] = row_major(c, k);
    cr_loop_interpret(c->l, &(cr_loop_run){sizes, count, memory, c->param, cr_fn_one});
    for (int k = 0; k < c->operands && c->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        compare(c, k, memory[k]);
}

cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                          int64_t rows, int64_t columns, const void *param)
{
    int64_t most = columns < MOST_ELEMENTS ? MOST_ELEMENTS / (columns ? columns : 1) : 1;
    check c = {.text = text, .ptr = ptr, .stride = stride, .columns = columns, .param = param};
    cr_session s = {.status = CR_OK};
    cr_status st;

    c.rows = rows < most ? rows : most;
    st = cr_session_run(&s, run, &c);
    cr_session_drop(&s);
    return st;
}
