/* Making expressions: hash-consing, and the meaning of calls for each category of type.
 *
 * Invariant: a node's arguments exist before it, so ids order a program. */
#include "base/map.h"
#include "loop/loop.h"
#include <math.h>
#include <string.h>

enum { FIRST_CHAINS = 128 };

cr_loop *cr_loop_new(cr_session *s)
{
    cr_loop *l = CR_NEW(s, cr_loop);

    l->session = s;
    l->syms = cr_syms_new(s);
    l->chains = FIRST_CHAINS;
    l->chain = CR_NEW_N(s, const cr_expr *, l->chains);
    l->name = "kernel";
    l->origin = "";
    return l;
}

/* --- declarations --- */

cr_buffer *cr_loop_find_buffer(const cr_loop *l, const char *name)
{
    for (size_t i = 0; i < l->buffers.len; i++)
        if (!strcmp(l->buffers.at[i]->name, name))
            return l->buffers.at[i];
    return NULL;
}

cr_buffer *cr_loop_buffer(cr_loop *l, cr_buffer_role role, const char *name, cr_dtype t,
                          int ndim, const cr_sym *const *size)
{
    cr_buffer *b = CR_NEW(l->session, cr_buffer);

    CR_ASSERT(ndim <= CR_LOOP_DIMS);
    if (cr_loop_find_buffer(l, name))
        cr_bail(l->session, CR_VALUE, "'%s' is declared twice", name);
    b->name = cr_session_text(l->session, name);
    b->dtype = (uint8_t)t;
    b->role = (uint8_t)role;
    b->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        b->size[i] = size[i];
    for (size_t i = 0; i < l->buffers.len; i++)
        b->slot += l->buffers.at[i]->role == role;
    CR_PUSH(l->session, &l->buffers, b);
    return b;
}

cr_loop_param *cr_loop_find_param(const cr_loop *l, const char *name)
{
    for (size_t i = 0; i < l->params.len; i++)
        if (!strcmp(l->params.at[i]->name, name))
            return l->params.at[i];
    return NULL;
}

cr_loop_param *cr_loop_param_new(cr_loop *l, const char *name, cr_dtype t, int slot)
{
    cr_loop_param *p = CR_NEW(l->session, cr_loop_param);

    p->name = cr_session_text(l->session, name);
    p->dtype = (uint8_t)t;
    p->slot = slot;
    CR_PUSH(l->session, &l->params, p);
    return p;
}

cr_def *cr_loop_define(cr_loop *l, cr_buffer *target, int axes, const cr_axis *axis,
                       const cr_expr *value)
{
    cr_def *d = CR_NEW(l->session, cr_def);

    d->target = target;
    d->axes = axes;
    for (int i = 0; i < axes; i++)
        d->axis[i] = axis[i];
    d->value = value;
    CR_PUSH(l->session, &l->defs, d);
    return d;
}

int cr_loop_operands(cr_loop *l, cr_buffer **out, int most)
{
    int n = 0;

    for (int role = CR_BUFFER_OUTPUT; role >= CR_BUFFER_INPUT; role--)
        for (size_t i = 0; i < l->buffers.len; i++)
            if (l->buffers.at[i]->role == role) {
                if (n == most)
                    cr_bail(l->session, CR_VALUE, "a program has at most %d operands", most);
                out[n++] = l->buffers.at[i];
            }
    return n;
}

/* --- hash-consing --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

static uint64_t hash_expr(const cr_expr *e)
{
    uint64_t h = mix(e->kind, (uint64_t)e->back << 24 | (uint64_t)e->dtype << 16 |
                                  (uint64_t)e->fn << 8 | e->count);

    for (int i = 0; i < e->count; i++)
        h = mix(h, e->args[i]->id);
    for (int i = 0; i < CR_LOOP_DIMS && e->index[i]; i++)
        h = mix(h, e->index[i]->id);
    h = mix(h, (uint64_t)(uintptr_t)e->param ^ (uint64_t)(uintptr_t)e->buffer);
    if (e->kind == CR_EXPR_CONST)
        h = mix(h, cr_hash(&e->value.c, sizeof e->value.c));
    if (e->axis.index)
        h = mix(h, e->axis.index->id);
    return h;
}

static bool same_expr(const cr_expr *a, const cr_expr *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->fn == b->fn &&
           a->count == b->count && a->back == b->back &&
           !memcmp(a->args, b->args, sizeof a->args) && a->param == b->param &&
           a->buffer == b->buffer && !memcmp(a->index, b->index, sizeof a->index) &&
           a->axis.index == b->axis.index && a->axis.extent == b->axis.extent &&
           !memcmp(&a->value.c, &b->value.c, sizeof a->value.c);
}

static void expr_rehash(cr_loop *l)
{
    size_t chains = l->chains * 2;
    const cr_expr **chain = CR_NEW_N(l->session, const cr_expr *, chains), *next;

    for (size_t i = 0; i < l->chains; i++)
        for (const cr_expr *e = l->chain[i]; e; e = next) {
            const cr_expr **place = &chain[hash_expr(e) & (chains - 1)];
            next = e->next;
            ((cr_expr *)e)->next = *place;
            *place = e;
        }
    l->chain = chain;
    l->chains = chains;
}

static const cr_expr *expr_intern(cr_loop *l, const cr_expr *like)
{
    uint64_t h = hash_expr(like);
    cr_expr *made;

    for (const cr_expr *e = l->chain[h & (l->chains - 1)]; e; e = e->next)
        if (same_expr(e, like))
            return e;
    if (l->nodes >= l->chains)
        expr_rehash(l);
    made = CR_NEW(l->session, cr_expr);
    *made = *like;
    made->id = (unsigned)l->nodes++;
    made->next = l->chain[h & (l->chains - 1)];
    return l->chain[h & (l->chains - 1)] = made;
}

/* --- leaves --- */

static cr_scalar scalar_in(cr_dtype t, cr_scalar v)
{
    union {
        char bytes[CR_PARAM_BYTES];
        int64_t align;
    } element = {{0}};
    cr_scalar r = {.category = cr_dtype_category(t)}, stored;

    cr_scalar_store(v, t, element.bytes);
    stored = cr_scalar_load(t, element.bytes);
    memset(&r.c, 0, sizeof r.c);
    if (r.category <= CR_CAT_INT)
        r.i = stored.i;
    else if (r.category == CR_CAT_FLOAT)
        r.d = stored.d;
    else
        r.c = stored.c;
    return r;
}

const cr_expr *cr_expr_const(cr_loop *l, cr_dtype t, cr_scalar value)
{
    return expr_intern(
        l,
        &(cr_expr){.kind = CR_EXPR_CONST, .dtype = (uint8_t)t, .value = scalar_in(t, value)});
}

const cr_expr *cr_expr_number(cr_loop *l, cr_dtype t, double value)
{
    return cr_expr_const(l, t, cr_scalar_float(value));
}

const cr_expr *cr_expr_integer(cr_loop *l, cr_dtype t, const cr_sym *value)
{
    if (value->kind == CR_SYM_INT)
        return cr_expr_const(l, t, cr_scalar_int(value->integer));
    return expr_intern(
        l, &(cr_expr){.kind = CR_EXPR_INTEGER, .dtype = (uint8_t)t, .index = {value}});
}

const cr_expr *cr_expr_param(cr_loop *l, const cr_loop_param *param)
{
    return expr_intern(
        l, &(cr_expr){.kind = CR_EXPR_PARAM, .dtype = param->dtype, .param = param});
}

const cr_expr *cr_expr_load(cr_loop *l, const cr_buffer *b, const cr_sym *const *index)
{
    cr_expr like = {.kind = CR_EXPR_LOAD, .dtype = b->dtype, .buffer = b};

    for (int i = 0; i < b->ndim; i++)
        like.index[i] = index[i];
    return expr_intern(l, &like);
}

/* A computed index is the name $k in the load's index list; k numbers the load's arguments. */
static const cr_sym *computed_name(cr_loop *l, int k)
{
    return cr_sym_name(l->syms, cr_session_printf(l->session, "$%d", k), 0, CR_SYM_HIGH);
}

const cr_expr *cr_load_computed(const cr_expr *load, int k)
{
    const cr_sym *e = load->index[k];

    return e->kind == CR_SYM_NAME && *e->name == '$' ? load->args[e->name[1] - '0'] : NULL;
}

const cr_expr *cr_expr_load_at(cr_loop *l, const cr_buffer *b, const cr_sym *const *index,
                               const cr_expr *const *at)
{
    cr_expr like = {.kind = CR_EXPR_LOAD, .dtype = b->dtype, .buffer = b};

    for (int i = 0; i < b->ndim; i++) {
        like.index[i] = index[i];
        if (index[i])
            continue;
        if (like.count == CR_LEN(like.args))
            cr_bail(l->session, CR_VALUE, "'%s' is read at more than %d computed indices",
                    b->name, (int)CR_LEN(like.args));
        if (at[like.count]->dtype != CR_I64 && at[like.count]->dtype != CR_I32)
            cr_bail(l->session, CR_TYPE, "'%s' is read at a computed index of type %s", b->name,
                    cr_dtype_name((cr_dtype)at[like.count]->dtype));
        like.index[i] = computed_name(l, like.count);
        like.args[like.count] = at[like.count];
        like.count++;
    }
    return expr_intern(l, &like);
}

/* --- calls --- */

static const cr_expr *call_node(cr_loop *l, cr_fn fn, cr_dtype t, int count,
                                const cr_expr *const *args)
{
    cr_expr like = {
        .kind = CR_EXPR_CALL, .dtype = (uint8_t)t, .fn = (uint8_t)fn, .count = (uint8_t)count};

    for (int i = 0; i < count; i++)
        like.args[i] = args[i];
    return expr_intern(l, &like);
}

static const cr_expr *call_not(cr_loop *l, const cr_expr *a)
{
    return call_node(l, CR_FN_not, (cr_dtype)a->dtype, 1, &a);
}

static const cr_expr *logic2(cr_loop *l, cr_fn fn, const cr_expr *a, const cr_expr *b)
{
    return call_node(l, fn, CR_BOOL, 2, (const cr_expr *[]){a, b});
}

/* Replaces arithmetic and comparisons of bools by logic; NULL for other functions. */
static const cr_expr *call_on_bools(cr_loop *l, cr_fn fn, const cr_expr *const *a)
{
    switch (fn) {
    case CR_FN_add:
    case CR_FN_maximum: return logic2(l, CR_FN_or, a[0], a[1]);
    case CR_FN_mul:
    case CR_FN_minimum: return logic2(l, CR_FN_and, a[0], a[1]);
    case CR_FN_ne: return logic2(l, CR_FN_xor, a[0], a[1]);
    case CR_FN_eq: return call_not(l, logic2(l, CR_FN_xor, a[0], a[1]));
    case CR_FN_lt: return logic2(l, CR_FN_and, call_not(l, a[0]), a[1]);
    case CR_FN_gt: return logic2(l, CR_FN_and, a[0], call_not(l, a[1]));
    case CR_FN_le: return logic2(l, CR_FN_or, call_not(l, a[0]), a[1]);
    case CR_FN_ge: return logic2(l, CR_FN_or, a[0], call_not(l, a[1]));
    case CR_FN_abs:
    case CR_FN_square:
    case CR_FN_sgn: return a[0];
    case CR_FN_above: return logic2(l, CR_FN_and, a[0], call_not(l, a[1]));
    case CR_FN_below: return logic2(l, CR_FN_and, call_not(l, a[0]), a[1]);
    default: return NULL;
    }
}

/* Replaces functions that are trivial or simpler for integers and bools; NULL for others. */
static const cr_expr *call_on_integral(cr_loop *l, cr_fn fn, const cr_expr *const *a)
{
    cr_dtype t = (cr_dtype)a[0]->dtype;

    switch (fn) {
    case CR_FN_round:
    case CR_FN_floor:
    case CR_FN_ceil:
    case CR_FN_trunc: return a[0];
    case CR_FN_isnan:
    case CR_FN_isinf: return cr_expr_const(l, CR_BOOL, cr_scalar_int(0));
    case CR_FN_isfinite: return cr_expr_const(l, CR_BOOL, cr_scalar_int(1));
    case CR_FN_signbit:
        return t == CR_BOOL ? cr_expr_const(l, CR_BOOL, cr_scalar_int(0))
                            : cr_expr_call2(l, CR_FN_lt, a[0], cr_expr_number(l, t, 0));
    case CR_FN_fmax: return cr_expr_call2(l, CR_FN_maximum, a[0], a[1]);
    case CR_FN_fmin: return cr_expr_call2(l, CR_FN_minimum, a[0], a[1]);
    case CR_FN_above: return cr_expr_call2(l, CR_FN_gt, a[0], a[1]);
    case CR_FN_below: return cr_expr_call2(l, CR_FN_lt, a[0], a[1]);
    case CR_FN_fma:
        return cr_expr_call2(l, CR_FN_add, cr_expr_call2(l, CR_FN_mul, a[0], a[1]), a[2]);
    default: return NULL;
    }
}

/* Replaces functions that are trivial for real types; NULL for others. */
static const cr_expr *call_on_real(cr_loop *l, cr_fn fn, const cr_expr *const *a)
{
    cr_dtype t = (cr_dtype)a[0]->dtype;

    switch (fn) {
    case CR_FN_real:
    case CR_FN_conj: return a[0];
    case CR_FN_imag: return cr_expr_number(l, t, 0);
    case CR_FN_magnitude: return cr_expr_call1(l, CR_FN_abs, a[0]);
    default: return NULL;
    }
}

static const cr_expr *call_on_complex(cr_loop *l, cr_fn fn, const cr_expr *const *a)
{
    return fn == CR_FN_abs ? cr_expr_call1(l, CR_FN_magnitude, a[0]) : NULL;
}

/* An equivalent of the call for the arguments' type, or NULL. */
static const cr_expr *written_out(cr_loop *l, cr_fn fn, cr_dtype t, const cr_expr *const *a)
{
    const cr_expr *r = NULL;

    if (t == CR_BOOL)
        r = call_on_bools(l, fn, a);
    if (!r && cr_dtype_category(t) <= CR_CAT_INT)
        r = call_on_integral(l, fn, a);
    if (!r && !cr_dtype_is_complex(t))
        r = call_on_real(l, fn, a);
    if (!r && cr_dtype_is_complex(t))
        r = call_on_complex(l, fn, a);
    return r;
}

static cr_dtype result_type(cr_fn fn, cr_dtype t)
{
    switch ((cr_fn_kind)cr_fn_infos[fn].kind) {
    case CR_FN_TEST: return CR_BOOL;
    case CR_FN_PARTS: return cr_dtype_real(t);
    case CR_FN_JOIN: return cr_dtype_complex(t);
    case CR_FN_RANDOM: return CR_F32;
    case CR_FN_SAME:
    case CR_FN_SELECT:
    case CR_FN_CAST: break;
    }
    return t;
}

const cr_expr *cr_expr_call(cr_loop *l, cr_fn fn, int count, const cr_expr *const *args)
{
    const cr_fn_info *info = &cr_fn_infos[fn];
    int first = info->kind == CR_FN_SELECT ? 1 : 0;
    const cr_expr *other;
    cr_dtype t;

    if (count != info->args)
        cr_bail(l->session, CR_TYPE, "%s takes %d arguments, not %d", info->name, info->args,
                count);
    t = (cr_dtype)args[first]->dtype;
    for (int i = first; i < count; i++)
        if (args[i]->dtype != t)
            cr_bail(l->session, CR_TYPE, "%s of %s and %s", info->name, cr_dtype_name(t),
                    cr_dtype_name((cr_dtype)args[i]->dtype));
    if (first && args[0]->dtype != CR_BOOL)
        cr_bail(l->session, CR_TYPE, "the condition of where is no bool");
    other = written_out(l, fn, t, args);
    if (other)
        return other;
    if (!cr_fn_has(fn, t))
        cr_bail(l->session, CR_TYPE, "%s does not exist for %s", info->name, cr_dtype_name(t));
    return call_node(l, fn, result_type(fn, t), count, args);
}

const cr_expr *cr_expr_cast(cr_loop *l, cr_dtype t, const cr_expr *a)
{
    cr_dtype from = (cr_dtype)a->dtype;

    if (from == t)
        return a;
    if (a->kind == CR_EXPR_CONST)
        return cr_expr_const(l, t, a->value);
    if (t == CR_BOOL)
        return cr_expr_call2(l, CR_FN_ne, a, cr_expr_number(l, from, 0));
    if (cr_dtype_is_complex(t) && cr_dtype_real(t) == from)
        return cr_expr_call2(l, CR_FN_complex, a, cr_expr_number(l, from, 0));
    return call_node(l, CR_FN_cast, t, 1, &a);
}

/* --- reductions --- */

bool cr_fn_has_order(cr_fn fn, cr_dtype t)
{
    return (fn == CR_FN_add || fn == CR_FN_mul) && cr_dtype_category(t) >= CR_CAT_FLOAT;
}

bool cr_fn_keeps_index(cr_fn fn) { return fn == CR_FN_above || fn == CR_FN_below; }

/* The function of bools that folds as `fn` does. */
static cr_fn logical(cr_fn fn)
{
    return fn == CR_FN_add || fn == CR_FN_maximum   ? CR_FN_or
           : fn == CR_FN_mul || fn == CR_FN_minimum ? CR_FN_and
                                                    : fn;
}

cr_fn cr_fn_without_index(cr_fn fn, cr_dtype t)
{
    cr_fn extreme = fn == CR_FN_above ? CR_FN_maximum : CR_FN_minimum;

    CR_ASSERT(cr_fn_keeps_index(fn));
    return t == CR_BOOL ? logical(extreme) : extreme;
}

cr_scalar cr_fn_identity(cr_fn fn, cr_dtype t)
{
    bool whole = cr_dtype_category(t) <= CR_CAT_INT;
    int bits = 8 * (int)cr_dtype_size(t);
    int64_t most = bits >= 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;

    if (cr_fn_keeps_index(fn))
        fn = cr_fn_without_index(fn, t);
    switch (fn) {
    case CR_FN_mul: return cr_scalar_int(1);
    case CR_FN_and: return cr_scalar_int(-1);
    case CR_FN_maximum:
        return !whole ? cr_scalar_float(-(double)INFINITY)
                      : cr_scalar_int(t == CR_U8 ? 0 : -most - 1);
    case CR_FN_minimum:
        return !whole ? cr_scalar_float((double)INFINITY)
                      : cr_scalar_int(t == CR_U8 ? 255 : most);
    case CR_FN_add:
        return whole ? cr_scalar_int(0)
                     : (cr_scalar){.category = CR_CAT_COMPLEX, .c = {-0.0, -0.0}};
    default: return cr_scalar_int(0);
    }
}

static bool reduces(cr_fn fn)
{
    return fn == CR_FN_add || fn == CR_FN_mul || fn == CR_FN_maximum || fn == CR_FN_minimum ||
           fn == CR_FN_and || fn == CR_FN_or || cr_fn_keeps_index(fn);
}

const cr_expr *cr_expr_reduce(cr_loop *l, cr_fn fn, cr_axis axis, const cr_expr *a)
{
    cr_dtype t = (cr_dtype)a->dtype;

    if (t == CR_BOOL)
        fn = logical(fn);
    if (!reduces(fn) || !cr_fn_has(fn, t))
        cr_bail(l->session, CR_TYPE, "no reduction by %s of %s", cr_fn_infos[fn].name,
                cr_dtype_name(t));
    return expr_intern(l, &(cr_expr){.kind = CR_EXPR_REDUCE,
                                     .dtype = (uint8_t)t,
                                     .fn = (uint8_t)fn,
                                     .count = 1,
                                     .args = {a},
                                     .axis = axis});
}

/* --- scans --- */

static bool scans(cr_fn fn)
{
    return fn == CR_FN_add || fn == CR_FN_mul || cr_fn_keeps_index(fn);
}

cr_dtype cr_scan_running(cr_fn fn, cr_dtype t)
{
    if (cr_fn_keeps_index(fn))
        return t;
    return t == CR_F32 ? CR_F64 : t == CR_C64 ? CR_C128 : t;
}

const cr_expr *cr_expr_scan(cr_loop *l, cr_fn fn, bool back, cr_axis axis, const cr_expr *a)
{
    cr_dtype t = (cr_dtype)a->dtype;

    if (!scans(fn) || !cr_fn_has(fn, t))
        cr_bail(l->session, CR_TYPE, "no scan by %s of %s", cr_fn_infos[fn].name,
                cr_dtype_name(t));
    return expr_intern(l, &(cr_expr){.kind = CR_EXPR_SCAN,
                                     .dtype = (uint8_t)t,
                                     .fn = (uint8_t)fn,
                                     .count = 1,
                                     .back = back,
                                     .args = {a},
                                     .axis = axis});
}

const cr_expr *cr_expr_index_of(cr_loop *l, const cr_expr *reduce)
{
    bool scan = reduce->kind == CR_EXPR_SCAN && cr_fn_keeps_index((cr_fn)reduce->fn);

    if (!scan && !cr_expr_keeps_index(reduce))
        cr_bail(l->session, CR_TYPE, "index() takes a reduction or scan by above or below");
    return expr_intern(
        l, &(cr_expr){.kind = CR_EXPR_INDEX_OF, .dtype = CR_I64, .count = 1, .args = {reduce}});
}

const cr_expr *cr_expr_with(cr_loop *l, const cr_expr *like, const cr_expr *const *args)
{
    cr_expr e = *like;
    bool same = true;

    for (int i = 0; i < like->count; i++)
        same = same && args[i] == like->args[i];
    if (same)
        return like;
    if (like->kind == CR_EXPR_CALL && like->fn != CR_FN_cast)
        return cr_expr_call(l, (cr_fn)like->fn, like->count, args);
    for (int i = 0; i < like->count; i++)
        e.args[i] = args[i];
    e.next = NULL;
    return expr_intern(l, &e);
}

int cr_expr_readers(cr_expr_set *seen, const cr_expr *in, const cr_expr *e)
{
    int n = 0;

    if (!cr_expr_set_add(seen, in))
        return 0;
    for (int i = 0; i < in->count; i++)
        n += (in->args[i] == e && in->kind != CR_EXPR_INDEX_OF) +
             cr_expr_readers(seen, in->args[i], e);
    return n;
}

/* --- sets --- */

cr_expr_set cr_expr_set_new(const cr_loop *l)
{
    size_t words = l->nodes / 64 + 1;

    return (cr_expr_set){CR_NEW_N(l->session, uint64_t, words), words};
}

bool cr_expr_set_has(const cr_expr_set *set, const cr_expr *e)
{
    return e->id / 64 < set->words && set->bits[e->id / 64] >> (e->id % 64) & 1;
}

bool cr_expr_set_add(cr_expr_set *set, const cr_expr *e)
{
    CR_ASSERT(e->id / 64 < set->words);
    if (cr_expr_set_has(set, e))
        return false;
    set->bits[e->id / 64] |= (uint64_t)1 << (e->id % 64);
    return true;
}
