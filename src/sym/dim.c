/* Symbolic sizes.
 *
 * Handle h refers to node h - INT64_MIN of the context's list.  Expressions are canonical, so
 * the list is searched by pointer.  It is short, because a graph has few distinct sizes. */
#include "sym/dim.h"
#include <string.h>

struct cr_dims {
    cr_session session;
    cr_syms *syms;
    struct {
        const cr_sym **at;
        size_t len, cap;
    } nodes; /* by handle */
    struct {
        struct {
            const cr_sym *name;
            int64_t hint;
        } * at;
        size_t len, cap;
    } names;
    struct {
        cr_dim_relation *at;
        size_t len, cap;
    } guards;
    cr_status failed;
};

static CR_THREAD cr_dims *current;

static void dims_start(cr_session *s, void *context)
{
    cr_dims *d = context;

    d->syms = cr_syms_new(s);
}

cr_status cr_dims_new(cr_dims **out)
{
    cr_dims *d = cr_alloc_zero(sizeof *d);
    cr_status st;

    if (!d)
        return CR_MEMORY;
    st = cr_session_run(&d->session, dims_start, d);
    if (st)
        cr_dims_drop(d);
    else
        *out = d;
    return st;
}

void cr_dims_drop(cr_dims *d)
{
    if (!d)
        return;
    cr_session_drop(&d->session);
    cr_free(d);
}

cr_dims *cr_dims_use(cr_dims *d)
{
    cr_dims *before = current;

    current = d;
    return before;
}

cr_status cr_dims_status(cr_dims *d)
{
    cr_status st = d->failed;

    d->failed = CR_OK;
    return st;
}

/* --- handles --- */

static cr_dim handle_of(cr_dims *d, const cr_sym *e)
{
    size_t i = 0;

    if (e->kind == CR_SYM_INT)
        return e->integer;
    while (i < d->nodes.len && d->nodes.at[i] != e)
        i++;
    if (i == d->nodes.len)
        CR_PUSH(&d->session, &d->nodes, e);
    return INT64_MIN + (int64_t)i;
}

static const cr_sym *node_of(cr_dims *d, cr_dim a)
{
    if (!cr_dim_is_symbol(a))
        return cr_sym_int(d->syms, a);
    CR_ASSERT((size_t)(a - INT64_MIN) < d->nodes.len);
    return d->nodes.at[a - INT64_MIN];
}

static int64_t hint_of_name(void *context, const cr_sym *name)
{
    const cr_dims *d = context;

    for (size_t i = 0; i < d->names.len; i++)
        if (d->names.at[i].name == name)
            return d->names.at[i].hint;
    return 1;
}

static int64_t hint_of(cr_dims *d, const cr_sym *e)
{
    bool wrong = false;

    return cr_sym_eval(e, hint_of_name, d, &wrong);
}

/* --- operations, each in the context's session --- */

typedef struct {
    cr_dims *d;
    int what; /* cr_dim_fn or cr_dim_test */
    cr_dim a, b, result;
    const char *name;
    const cr_sym *e;
    bool answer;
} request;

/* Runs an operation in the context's session.  After a failure, which the context stores,
 * results are meaningless. */
static void perform(request *r, cr_session_fn fn)
{
    cr_status st;

    CR_ASSERT(current);
    r->d = current;
    st = cr_session_run(&r->d->session, fn, r);
    if (st && !r->d->failed)
        r->d->failed = st;
}

static const cr_sym *dim_combine(cr_syms *t, cr_dim_fn fn, const cr_sym *a, const cr_sym *b)
{
    switch (fn) {
    case CR_DIM_ADD: return cr_sym_add(t, a, b);
    case CR_DIM_SUB: return cr_sym_sub(t, a, b);
    case CR_DIM_MUL: return cr_sym_mul(t, a, b);
    case CR_DIM_FLOORDIV: return cr_sym_floordiv(t, a, b);
    case CR_DIM_MOD: return cr_sym_mod(t, a, b);
    case CR_DIM_MIN: return cr_sym_min(t, a, b);
    case CR_DIM_MAX: break;
    }
    return cr_sym_max(t, a, b);
}

static void do_combine(cr_session *s, void *context)
{
    request *r = context;

    (void)s;
    r->result = handle_of(r->d, dim_combine(r->d->syms, (cr_dim_fn)r->what, node_of(r->d, r->a),
                                            node_of(r->d, r->b)));
}

cr_dim cr_dim_symbolic(cr_dim_fn fn, cr_dim a, cr_dim b)
{
    request r = {.what = fn, .a = a, .b = b, .result = 1};

    perform(&r, do_combine);
    return r.result;
}

static void do_symbol(cr_session *s, void *context)
{
    request *r = context;
    const cr_sym *e = cr_sym_find(r->d->syms, r->name);

    if (!e) {
        e = cr_sym_name(r->d->syms, r->name, r->b, CR_SYM_HIGH);
        if (r->d->names.len == r->d->names.cap)
            r->d->names.at = cr_session_grow(s, r->d->names.at, r->d->names.len,
                                             &r->d->names.cap, sizeof *r->d->names.at);
        r->d->names.at[r->d->names.len].name = e;
        r->d->names.at[r->d->names.len++].hint = r->a;
    }
    r->result = handle_of(r->d, e);
}

cr_dim cr_dim_symbol(const char *name, int64_t hint, int64_t low)
{
    request r = {.name = name, .a = hint, .b = low, .result = hint};

    perform(&r, do_symbol);
    return r.result;
}

static void do_of(cr_session *s, void *context)
{
    request *r = context;

    (void)s;
    r->result = handle_of(r->d, r->e);
}

cr_dim cr_dim_of(const cr_sym *e)
{
    request r = {.e = e, .result = 1};

    if (e->kind == CR_SYM_INT)
        return e->integer;
    perform(&r, do_of);
    return r.result;
}

static void do_expression(cr_session *s, void *context)
{
    request *r = context;

    (void)s;
    r->e = node_of(r->d, r->a);
}

const cr_sym *cr_dim_expression(cr_dim a)
{
    request r = {.a = a};

    perform(&r, do_expression);
    return r.e;
}

int64_t cr_dim_hint(cr_dim a)
{
    return cr_dim_is_symbol(a) ? hint_of(current, node_of(current, a)) : a;
}

void cr_dim_print(cr_text *out, cr_dim a)
{
    const cr_sym *e = cr_dim_is_symbol(a) ? node_of(current, a) : NULL;

    if (e)
        cr_sym_print(out, e);
    else
        cr_text_printf(out, "%lld", (long long)a);
}

/* --- guards --- */

static bool test_values(cr_dim_test test, int64_t a, int64_t b)
{
    return test == CR_DIM_EQ ? a == b : test == CR_DIM_LT ? a < b : a <= b;
}

static cr_sym_answer dim_known(cr_syms *t, cr_dim_test test, const cr_sym *a, const cr_sym *b)
{
    return test == CR_DIM_EQ   ? cr_sym_eq(t, a, b)
           : test == CR_DIM_LT ? cr_sym_lt(t, a, b)
                               : cr_sym_le(t, a, b);
}

static bool noted(const cr_dims *d, const cr_dim_relation *g)
{
    for (size_t i = 0; i < d->guards.len; i++)
        if (d->guards.at[i].test == g->test && d->guards.at[i].left == g->left &&
            d->guards.at[i].right == g->right)
            return true;
    return false;
}

static void do_guard(cr_session *s, void *context)
{
    request *r = context;
    cr_dims *d = r->d;
    cr_dim_relation g = {(uint8_t)r->what, false, node_of(d, r->a), node_of(d, r->b)};
    cr_sym_answer answer = dim_known(d->syms, (cr_dim_test)r->what, g.left, g.right);

    r->answer = answer == CR_SYM_YES;
    if (answer != CR_SYM_UNKNOWN)
        return;
    g.holds = r->answer =
        test_values((cr_dim_test)r->what, hint_of(d, g.left), hint_of(d, g.right));
    if (!noted(d, &g))
        CR_PUSH(s, &d->guards, g);
}

bool cr_dim_guard(cr_dim_test test, cr_dim a, cr_dim b)
{
    request r = {.what = test, .a = a, .b = b};

    perform(&r, do_guard);
    return r.answer;
}

int cr_dims_guard_count(const cr_dims *d) { return (int)d->guards.len; }

bool cr_dims_guards_hold(const cr_dims *d, cr_sym_value_fn value, void *context)
{
    for (size_t i = 0; i < d->guards.len; i++) {
        const cr_dim_relation *g = &d->guards.at[i];
        bool wrong = false;
        int64_t a = cr_sym_eval(g->left, value, context, &wrong);
        int64_t b = cr_sym_eval(g->right, value, context, &wrong);
        if (wrong || test_values((cr_dim_test)g->test, a, b) != g->holds)
            return false;
    }
    return true;
}

void cr_dims_print_guards(cr_text *out, const cr_dims *d)
{
    static const char *const sign[2][3] = {{" != ", " >= ", " > "}, {" == ", " < ", " <= "}};

    if (!d->guards.len)
        cr_text_put(out, "True");
    for (size_t i = 0; i < d->guards.len; i++) {
        const cr_dim_relation *g = &d->guards.at[i];
        cr_text_put(out, i ? " and " : "");
        cr_sym_print(out, g->left);
        cr_text_put(out, sign[g->holds][g->test]);
        cr_sym_print(out, g->right);
    }
}
