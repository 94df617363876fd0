/* Running entries that are stated as loops, on any device.
 *
 * A box of a plan is a command of the device's table: a copy, a fill, elements at computed
 * places, or a write that combines elements.  A loop over windows is one command.
 *
 * Evaluating the clauses takes microseconds, more than moving a few elements, so plans are kept
 * by the sizes, strides and numbers of the call.  Every thread has its own plans, because two
 * atomic exchanges would cost a tenth of a small call. */
#include "base/memory.h"
#include "device/facts.h"
#include "kern/move.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/remote.h"
#include "tensor/stated.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* --- keys --- */

/* Room for n more words of the key; NULL when there is none. */
static int64_t *key_room(cr_stated_plan *p, int n)
{
    int64_t *at = p->kept.key + p->kept.words;

    if (p->kept.words < 0 || n > CR_STATED_KEY - p->kept.words) {
        p->kept.words = -1;
        return NULL;
    }
    p->kept.words += n;
    return at;
}

static inline uint64_t key_mixed(uint64_t h, int64_t word)
{
    return (h << 7 | h >> 57) ^ (uint64_t)word;
}

static void key_word(cr_stated_plan *p, int64_t word)
{
    int64_t *at = key_room(p, 1);

    if (at)
        *at = word;
    p->kept.hash = key_mixed(p->kept.hash, word);
}

static void key_words(cr_stated_plan *p, const int64_t *word, uint32_t n)
{
    int64_t *at = n < CR_STATED_KEY ? key_room(p, (int)n + 1) : key_room(p, CR_STATED_KEY + 1);

    if (!at)
        return;
    *at++ = n;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = word[i];
        p->kept.hash = key_mixed(p->kept.hash, word[i]);
    }
}

static void key_view(cr_stated_plan *p, const cr_view *v)
{
    int n = v->ndim;
    int64_t *at = key_room(p, 1 + 2 * n);
    uint64_t h = key_mixed(p->kept.hash, v->dtype | n << 8);

    if (!at)
        return;
    *at++ = v->dtype | n << 8;
    for (int d = 0; d < n; d++) {
        at[2 * d] = v->size[d];
        at[2 * d + 1] = v->stride[d];
        h = key_mixed(key_mixed(h, v->size[d]), v->stride[d]);
    }
    p->kept.hash = h;
}

/* Adds a value that affects indices: an integer, a list of them, or a tensor.  False for other
 * values. */
static bool key_value(cr_stated_plan *p, const cr_value *v)
{
    if (v->tag == CR_VIEW)
        key_view(p, v->view);
    else if (v->tag == CR_INT || v->tag == CR_TRUTH)
        key_word(p, v->i);
    else if (v->tag == CR_INTS || v->tag == CR_TRUTHS)
        key_words(p, v->ints, v->len);
    else
        return false;
    return true;
}

/* Sets the key; a call with more numbers has no key.  One word has a bit for each argument
 * that is not in the key, because an optional integer may be None. */
static void stated_key(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                       const cr_view *out)
{
    int64_t absent = 0;

    p->kept.words = 0;
    p->kept.hash = 0;
    key_word(p, op->index);
    for (int i = 0; i < op->param_count; i++)
        absent |= (int64_t)!key_value(p, &arg[i]) << i;
    key_word(p, absent);
    key_view(p, out);
    p->kept.words = p->kept.words < 0 ? 0 : p->kept.words;
    p->kept.hash *= 0x9E3779B97F4A7C15u;
    p->kept.hash ^= p->kept.hash >> 32;
}

/* Compares word by word: the key was just written by words, and vector loads of memcmp would
 * wait for these stores. */
static bool key_is(const cr_stated_plan *p, const cr_stated_plan *like)
{
    int64_t differ = p->kept.words ^ like->kept.words;

    for (int i = 0; i < like->kept.words && !differ; i++)
        differ = p->kept.key[i] ^ like->kept.key[i];
    return !differ;
}

/* --- the cache --- */

#ifdef CR_MEAN
enum { PLANS = 1 };
#else
enum { PLANS = 64 };
#endif

/* The most bytes that the lists of a thread's plans for windows may have: those of a dim of
 * millions of places would stay in memory until the thread ends. */
enum { CACHE_BYTES = 1 << 23 };

typedef struct {
    cr_stated_plan *slot[PLANS];
    size_t bytes; /* of the plans' windows */
} plan_cache;

static CR_THREAD plan_cache *cache; /* NULL until the thread keeps a plan */
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_end;
static bool cache_ends; /* caches are dropped when their threads end */

static void plan_drop(cr_stated_plan *p)
{
    if (p) {
        cr_vec_drop(&p->box);
        cr_vec_drop(&p->dim);
        cr_vec_drop(&p->part);
        cr_window_drop(p->window);
    }
    cr_free(p);
}

static void cache_clear(plan_cache *c)
{
    for (int i = 0; i < PLANS; i++) {
        plan_drop(c->slot[i]);
        c->slot[i] = NULL;
    }
    c->bytes = 0;
}

static void cache_drop(void *of)
{
    plan_cache *c = of;

    if (c)
        cache_clear(c);
    cr_free(c);
    cache = NULL;
}

static void cache_start(void) { cache_ends = !pthread_key_create(&cache_end, cache_drop); }

/* The thread's plan for the key of `like`, or NULL. */
static cr_stated_plan *plan_find(const cr_stated_plan *like)
{
    cr_stated_plan *p = cache && like->kept.words ? cache->slot[like->kept.hash % PLANS] : NULL;

    return p && key_is(p, like) ? p : NULL;
}

/* Replaces the plan of the slot, or all plans when they would have too many bytes. */
static void cache_put(plan_cache *c, cr_stated_plan *p, size_t bytes)
{
    cr_stated_plan **slot = &c->slot[p->kept.hash % PLANS];

    if (c->bytes + bytes > CACHE_BYTES)
        cache_clear(c);
    if (*slot)
        c->bytes -= cr_window_bytes((*slot)->window);
    plan_drop(*slot);
    *slot = p;
    c->bytes += bytes;
}

size_t cr_stated_kept_bytes(void) { return cache ? cache->bytes : 0; }

/* Keeps the plan in place of another one; false when it is not kept. */
static bool plan_keep(cr_stated_plan *p)
{
    size_t bytes = cr_window_bytes(p->window);

    if (!p->kept.words || p->dim.len > CR_STATED_CACHED || bytes > CACHE_BYTES)
        return false;
    if (!cache) {
        pthread_once(&cache_once, cache_start);
        cache = cache_ends ? cr_alloc_zero(sizeof *cache) : NULL;
        if (cache && pthread_setspecific(cache_end, cache))
            cache_drop(cache);
    }
    if (!cache)
        return false;
    cache_put(cache, p, bytes);
    return true;
}

/* A new plan for the key of `like`. */
static cr_status plan_new(cr_stated_plan **out, const cr_stated_plan *like, const cr_op *op,
                          const cr_value *arg, const cr_view *view)
{
    cr_stated_plan *p = cr_alloc_zero(sizeof *p);
    cr_status st;

    CR_NEED(p);
    memcpy(p->kept.key, like->kept.key, (size_t)like->kept.words * sizeof *p->kept.key);
    p->kept.words = like->kept.words;
    p->kept.hash = like->kept.hash;
    st = cr_stated_make(p, op, arg, view);
    CR_GIVE(st, out, p, plan_drop);
}

/* An integer or a parameter needs no frame. */
static cr_status number_value(cr_value *v, const cr_rule *number, const cr_op *op,
                              const cr_value *arg)
{
    cr_frame f;
    cr_status st = CR_OK;

    if (number->kind == CR_RULE_INT) {
        *v = cr_of_int(number->integer);
    } else if (number->kind == CR_RULE_NAME && number->slot < op->param_count) {
        *v = arg[number->slot];
    } else {
        cr_frame_init(&f, op, arg);
        st = cr_frame_eval(&f, number, v);
        cr_frame_drop(&f);
    }
    return st;
}

/* The element of a tensor of one, on any device. */
static cr_status number_of_view(cr_scalar *out, const cr_view *v)
{
    _Alignas(16) char item[16];

    CR_TRY(cr_device_copy_out(item, v->device, v->data, cr_dtype_size((cr_dtype)v->dtype)));
    *out = cr_scalar_load((cr_dtype)v->dtype, item);
    return CR_OK;
}

cr_status cr_stated_number(void *item, const cr_rule *number, const cr_op *op,
                           const cr_value *arg, cr_dtype dtype)
{
    cr_scalar view_number = {0};
    cr_value v;

    if (number->kind == CR_RULE_INT && !number->integer) {
        memset(item, 0, cr_dtype_size(dtype));
        return CR_OK;
    }
    CR_TRY(number_value(&v, number, op, arg));
    if (v.tag == CR_VIEW)
        CR_TRY(number_of_view(&view_number, v.view));
    cr_scalar_store(v.tag == CR_NUMBER  ? v.number
                    : v.tag == CR_FLOAT ? cr_scalar_float(v.d)
                    : v.tag == CR_VIEW  ? view_number
                                        : cr_scalar_int(v.i),
                    dtype, item);
    return CR_OK;
}

/* --- combinations --- */

static const struct {
    const char *name;
    cr_stated_combination is;
} combinations[] = {
    {"set", {.how = CR_COMBINE_SET}},      {"add", {.how = CR_COMBINE_ADD}},
    {"multiply", {.how = CR_COMBINE_MUL}}, {"sum", {.how = CR_COMBINE_ADD}},
    {"prod", {.how = CR_COMBINE_MUL}},     {"amin", {.how = CR_COMBINE_MIN}},
    {"amax", {.how = CR_COMBINE_MAX}},     {"mean", {.how = CR_COMBINE_ADD, .mean = true}}};

static cr_status combination_of_clause(cr_stated_combination *c, const cr_op *op, cr_frame *f)
{
    cr_value v;

    CR_TRY(cr_frame_eval(f, op->loop.combine, &v));
    for (size_t i = 0; i < CR_LEN(combinations); i++) {
        const char *name = combinations[i].name;
        if (v.len == strlen(name) && !memcmp(v.s, name, v.len))
            *c = combinations[i].is;
    }
    if (!op->loop.fresh)
        return CR_OK;
    CR_TRY(cr_frame_eval(f, op->loop.fresh, &v));
    c->fresh = v.i != 0;
    return CR_OK;
}

/* The operation that clause `combine` names; without the clause, that of `=` or `+=`. */
static cr_status combination_of(cr_stated_combination *c, const cr_op *op, const cr_value *arg)
{
    cr_frame f;
    cr_status st;

    *c = (cr_stated_combination){.how = op->loop.adds ? CR_COMBINE_ADD : CR_COMBINE_SET};
    if (!op->loop.combine)
        return CR_OK;
    cr_frame_init(&f, op, arg);
    st = combination_of_clause(c, op, &f);
    cr_frame_drop(&f);
    return st;
}

/* The least number of a dtype, or the greatest. */
static cr_scalar combination_limit(cr_dtype t, bool greatest)
{
    int bits = 8 * (int)cr_dtype_size(t);
    int64_t top = t == CR_BOOL ? 1 : t == CR_U8 ? UINT8_MAX : INT64_MAX >> (64 - bits);

    if (cr_dtype_category(t) >= CR_CAT_FLOAT)
        return cr_scalar_float(greatest ? (double)INFINITY : -(double)INFINITY);
    return cr_scalar_int(greatest ? top : t == CR_BOOL || t == CR_U8 ? 0 : -top - 1);
}

static cr_scalar combination_identity(cr_stated_combination c, cr_dtype t)
{
    switch (c.how) {
    case CR_COMBINE_MUL: return cr_scalar_int(1);
    case CR_COMBINE_MIN:
    case CR_COMBINE_MAX: return combination_limit(t, c.how == CR_COMBINE_MIN);
    default: return cr_scalar_int(0);
    }
}

/* --- errors of indices --- */

cr_status cr_stated_check(const cr_loop_index *b, const cr_op *op, const cr_value *given,
                          int64_t low, int64_t high)
{
    cr_value arg[CR_MAX_ARGS];
    cr_frame f;
    cr_status st;
    int64_t bad;

    if (cr_move_within(given[b->param].view, low, high, &bad))
        return CR_OK;
    memcpy(arg, given, op->param_count * sizeof *arg);
    arg[b->param] = cr_of_int(bad);
    cr_frame_init(&f, op, arg);
    st = cr_raise_check(&b->error, &f);
    cr_frame_drop(&f);
    return st;
}

static cr_status outside_bounds(const cr_loop_index *b, const cr_op *op, const cr_value *arg,
                                int64_t *low, int64_t *high)
{
    cr_value least, most;
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    CR_GO(cr_frame_eval(&f, b->low, &least));
    CR_GO(cr_frame_eval(&f, b->high, &most));
    *low = least.i;
    *high = most.i;
done:
    cr_frame_drop(&f);
    return st;
}

/* The error's text is that of an index which no tensor has; its digits are then replaced. */
static const int64_t outside_mark = 130000000000007;

static cr_status outside_text(cr_stated_plan *p, const cr_op *op, const cr_value *given)
{
    cr_value arg[CR_MAX_ARGS];
    char digits[24];
    cr_frame f;

    if (*p->picks.outside)
        return CR_OK;
    memcpy(arg, given, op->param_count * sizeof *arg);
    arg[p->picks.bounds->param] = cr_of_int(outside_mark);
    cr_frame_init(&f, op, arg);
    p->picks.outside_kind = cr_raise_check(&p->picks.bounds->error, &f);
    cr_frame_drop(&f);
    const char *text = cr_error_message();
    int n = snprintf(digits, sizeof digits, "%lld", (long long)outside_mark);
    const char *at = strstr(text, digits);
    if (at)
        snprintf(p->picks.outside, sizeof p->picks.outside, "%.*s%c%s", (int)(at - text), text,
                 CR_INDEX_MARK, at + n);
    else
        snprintf(p->picks.outside, sizeof p->picks.outside, "%s", text);
    return CR_OK;
}

/* --- commands --- */

/* A call.  Not initialized: it is long. */
typedef struct {
    cr_stated_plan *p;
    const cr_op *op;
    const cr_value *arg;
    cr_view *out;
    const cr_device_ops *ops; /* of the device */
    char *dense, *table;      /* dense: NULL for a number */
    const char *index;        /* NULL without */
    cr_indexed c;
    cr_array numbered;
    bool declined; /* the device does not take a command */
} running;

/* Each place that is written counts; even axes share their counts. */
typedef enum { GIVEN, COUNTS } run_how;

/* On the host. */
static cr_status run_check(const running *r)
{
    const cr_loop_index *b = r->p->picks.bounds;
    int64_t low = 0, high = r->p->extent;

    if (b->low)
        CR_TRY(outside_bounds(b, r->op, r->arg, &low, &high));
    return cr_stated_check(b, r->op, r->arg, low, high);
}

/* Of a call that reads and writes no element, only the host checks the index. */
static cr_status run_check_empty(const running *r)
{
    return r->index && !r->p->box.len && cr_is_host(r->out->device) ? run_check(r) : CR_OK;
}

static cr_status run_outside(const running *r)
{
    CR_TRY(run_check(r));
    return cr_fail(CR_INDEX, "%s", cr_index_outside);
}

static cr_status run_status(running *r, const char *error)
{
    if (CR_LIKELY(!error))
        return CR_OK;
    if (error == cr_index_outside)
        return run_outside(r);
    if (error != cr_command_declines)
        return cr_device_status(error);
    r->declined = true;
    return CR_OK;
}

/* Sets the addresses and dims of a box. */
static void run_place(running *r, size_t i)
{
    const cr_stated_plan *p = r->p;
    const cr_stated_box *box = &p->box.at[i];
    const int64_t *dim = p->dim.at + i * (size_t)(CR_STATED_DIM * p->ndim);
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)r->c.dtype);

    r->c.size = dim;
    r->c.dense_stride = dim + p->ndim;
    r->c.table_stride = dim + 2 * p->ndim;
    r->c.index_stride = dim + 3 * p->ndim;
    r->c.dense = r->dense ? r->dense + box->to * item : NULL;
    r->c.table = r->table + box->from * item;
    r->c.index = r->index ? r->index + box->index * (p->picks.is32 ? 4 : 8) : NULL;
}

static cr_array run_array(const running *r, char *data, const int64_t *stride)
{
    return (cr_array){data, r->c.dtype, r->c.ndim, r->c.size, stride};
}

/* --- reading --- */

/* The parts of a box's lines one by one, on a device that makes no lines. */
static cr_status run_parts(running *r, const cr_move_part *part, int parts)
{
    int64_t size[CR_MAX_DIMS], from[CR_MAX_DIMS];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)r->c.dtype);
    int last = r->c.ndim - 1, device = r->out->device.index;
    cr_status st = CR_OK;

    memcpy(size, r->c.size, (size_t)r->c.ndim * sizeof *size);
    memcpy(from, r->c.table_stride, (size_t)r->c.ndim * sizeof *from);
    for (int i = 0; i < parts && !st; i++, part++) {
        char *at = r->c.dense + part->at * r->c.dense_stride[last] * item;
        cr_array to = {at, r->c.dtype, r->c.ndim, size, r->c.dense_stride};
        cr_array of = {r->c.table + part->from * item, r->c.dtype, r->c.ndim, size, from};
        size[last] = part->n;
        from[last] = part->stride;
        st = cr_device_status(part->fill ? r->ops->fill(device, &to, r->c.item)
                                         : r->ops->move(device, &to, &of));
    }
    return st;
}

static cr_status run_lines(running *r, const cr_move_part *part, int parts)
{
    return r->ops->lines
               ? run_status(r, r->ops->lines(r->out->device.index, &r->c, part, parts))
               : run_parts(r, part, parts);
}

static cr_status run_box(running *r, const cr_stated_box *box, const cr_move_part *part)
{
    int device = r->out->device.index;

    if (box->parts)
        return run_lines(r, part, box->parts);
    if (r->index && !box->fill)
        return run_status(r, r->ops->indexed(device, &r->c));
    cr_array to = run_array(r, r->c.dense, r->c.dense_stride);
    if (box->fill)
        return cr_device_status(r->ops->fill(device, &to, r->c.item));
    cr_array from = run_array(r, r->c.table, r->c.table_stride);
    return cr_device_status(r->ops->move(device, &to, &from));
}

static cr_status run_reads(running *r)
{
    const cr_stated_plan *p = r->p;
    const cr_move_part *part = p->part.at;

    r->dense = r->out->data;
    r->table = r->arg[p->from].view->data;
    r->c.how = CR_COMBINE_READ;
    if (p->fill)
        CR_TRY(cr_stated_number(r->c.item, p->fill, r->op, r->arg, (cr_dtype)r->c.dtype));
    for (size_t i = 0; i < p->box.len && !r->declined; part += p->box.at[i++].parts) {
        run_place(r, i);
        CR_TRY(run_box(r, &p->box.at[i], part));
    }
    return run_check_empty(r);
}

/* --- writing --- */

/* Sets the result to what a loop that writes starts from. */
static cr_status run_start(running *r)
{
    const cr_rule *start = r->op->loop.start;
    cr_view *out = r->out;

    if (start->kind != CR_RULE_NAME) {
        cr_array to = cr_array_of(out);
        CR_TRY(cr_stated_number(r->c.item, start, r->op, r->arg, (cr_dtype)out->dtype));
        return cr_device_status(r->ops->fill(out->device.index, &to, r->c.item));
    }
    const cr_view *v = r->arg[start->slot].view;
    if (out->data == v->data)
        return CR_OK;
    cr_array to = cr_array_of(out);
    cr_array from = cr_array_of(v);
    return cr_device_status(r->ops->move(out->device.index, &to, &from));
}

/* The host can repeat a call whose later commands the device declines, unless an argument has
 * been changed. */
static cr_status run_check_repeats(const running *r)
{
    const cr_rule *start = r->op->loop.start;

    if (start->kind != CR_RULE_NAME || r->out->data != r->arg[start->slot].view->data)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s(): the device takes only some commands of the call",
                   r->op->name);
}

static cr_status run_combine(running *r, cr_combine how)
{
    r->c.how = how;
    for (size_t i = 0; i < r->p->box.len && !r->declined; i++) {
        run_place(r, i);
        CR_TRY(run_status(r, r->ops->combine(r->out->device.index, &r->c)));
        if (r->declined && i)
            CR_TRY(run_check_repeats(r));
    }
    return CR_OK;
}

/* The same with r->c.item in place of all elements that are written. */
static cr_status run_combine_item(running *r, cr_combine how)
{
    char *dense = r->dense;

    r->dense = NULL;
    cr_status st = run_combine(r, how);
    r->dense = dense;
    return st;
}

/* Adds one for each place that is written; positions along even axes count once. */
static cr_status run_counts(running *r)
{
    int64_t size[CR_MAX_DIMS], one = 1;
    const cr_stated_plan *p = r->p;

    r->dense = NULL;
    r->table = r->out->data;
    r->c.how = CR_COMBINE_ADD;
    memcpy(r->c.item, &one, sizeof one);
    for (size_t i = 0; i < p->box.len && !r->declined; i++) {
        run_place(r, i);
        for (int d = 0; d < p->ndim; d++)
            size[d] = p->axes.even >> d & 1 ? 1 : r->c.size[d];
        r->c.size = size;
        CR_TRY(run_status(r, r->ops->combine(r->out->device.index, &r->c)));
    }
    return CR_OK;
}

static cr_status run_mean(running *r, bool fresh);

/* Boxes of an index: all indices are checked before the first write. */
static cr_status run_writes(running *r)
{
    const cr_stated_plan *p = r->p;
    cr_dtype t = (cr_dtype)r->c.dtype;
    cr_stated_combination c;

    CR_TRY(combination_of(&c, r->op, r->arg));
    CR_TRY(run_check_empty(r));
    r->dense = p->plain >= 0 ? r->arg[p->plain].view->data : NULL;
    r->table = r->out->data;
    CR_TRY(run_start(r));
    if (c.fresh) {
        cr_scalar_store(combination_identity(c, t), t, r->c.item);
        CR_TRY(run_combine_item(r, CR_COMBINE_SET));
    }
    if (p->fill)
        CR_TRY(cr_stated_number(r->c.item, p->fill, r->op, r->arg, t));
    if (!r->declined)
        CR_TRY(run_combine(r, c.how));
    return c.mean && !r->declined ? run_mean(r, c.fresh) : CR_OK;
}

/* --- windows --- */

static cr_status run_windows(running *r)
{
    const cr_view *from = r->arg[r->p->from].view;
    cr_view *out = r->out;
    cr_window_lists lists = {0};
    cr_windows c;
    cr_status st = CR_OK;

    c.prepared = r->p->window;
    c.from = cr_array_of(from);
    c.result = cr_array_of(out);
    c.which = c.result;
    if (r->p->window->extreme)
        c.which = cr_array_of(&out[1]);
    if (!cr_is_host(out->device))
        st = cr_window_list(&c, &lists, r->p->window);
    if (!st)
        st = run_status(r, r->ops->windows(out->device.index, &c));
    cr_vec_drop(&lists);
    return st;
}

/* --- calls --- */

/* A parameter's elements are on the device; a tensor without dims may be on the host. */
static bool run_is_there(const running *r, int param)
{
    return param < 0 || r->arg[param].tag != CR_VIEW ||
           cr_same_device(r->arg[param].view->device, r->out->device);
}

/* True if the device has functions for the plan's commands, and the tensors. */
static bool run_fits(const running *r)
{
    const cr_stated_plan *p = r->p;
    const cr_rule *start = r->op->loop.start;

    if (!run_is_there(r, p->from) || !run_is_there(r, p->plain) ||
        !run_is_there(r, p->picks.index) ||
        (start && start->kind == CR_RULE_NAME && !run_is_there(r, start->slot)))
        return false;
    if (p->window)
        return r->ops->windows != NULL;
    if (r->op->loop.start && !r->ops->combine)
        return false;
    return p->picks.index < 0 || r->ops->indexed;
}

static void run_begin(running *r, cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                      cr_view *out)
{
    r->p = p;
    r->op = op;
    r->arg = arg;
    r->out = out;
    r->ops = cr_device_of((cr_device_kind)out->device.kind);
    r->declined = false;
    r->index = p->picks.index >= 0 ? arg[p->picks.index].view->data : NULL;
    r->c.dtype = out->dtype;
    r->c.ndim = p->ndim;
    r->c.is32 = p->picks.is32;
    r->c.wraps = p->picks.index >= 0 && p->picks.bounds->low != NULL;
    r->c.unit = p->unit;
    r->c.extent = p->extent;
    r->c.numbered = NULL;
    r->c.picked = p->axes.picked;
    r->c.outside = NULL;
    r->c.kernel[0] = p->picks.kernel[0];
    r->c.kernel[1] = p->picks.kernel[1];
    if (p->axes.unravel) {
        const cr_view *v = p->from >= 0 ? arg[p->from].view : out;
        r->numbered = cr_array_of(v);
        r->c.numbered = &r->numbered;
    }
}

static cr_status run_planned(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                             cr_view *out, run_how how, bool *declined)
{
    running r; /* an initializer would clear hundreds of bytes */
    cr_status st;

    run_begin(&r, p, op, arg, out);
    if (!cr_is_host(out->device)) {
        *declined = !run_fits(&r);
        if (*declined)
            return CR_OK;
        if (p->picks.index >= 0) {
            CR_TRY(outside_text(p, op, arg));
            r.c.outside = p->picks.outside;
            r.c.outside_kind = p->picks.outside_kind;
        }
    }
    st = p->window        ? run_windows(&r)
         : how == COUNTS  ? run_counts(&r)
         : op->loop.start ? run_writes(&r)
                          : run_reads(&r);
    *declined = r.declined;
    return st;
}

static cr_status run_by_plan(const cr_op *op, const cr_value *arg, cr_view *out, run_how how,
                             bool *declined);

/* A row-major block like v; copies the elements if `filled`. */
static cr_status run_dense_view(cr_block *b, cr_view *copy, int64_t *stride, const cr_view *v,
                                bool filled)
{
    int64_t n = cr_numel(v->ndim, v->size);

    *copy = *v;
    copy->stride = stride;
    cr_row_major_strides(stride, v->ndim, v->size);
    CR_TRY(cr_block_get(b, v->device, (size_t)n * cr_dtype_size((cr_dtype)v->dtype)));
    copy->data = b->at;
    return filled && n ? cr_copy_elements(copy, v) : CR_OK;
}

/* The call with row-major copies of the tensors that the plan asks for. */
static cr_status run_dense(uint64_t dense, const cr_op *op, const cr_value *arg, cr_view *out,
                           run_how how, bool *declined)
{
    cr_value given[CR_MAX_ARGS];
    cr_view copy[CR_MAX_ARGS + 1];
    cr_block block[CR_MAX_ARGS + 1];
    int64_t stride[CR_MAX_ARGS + 1][CR_MAX_DIMS];
    bool result = dense >> CR_STATED_RESULT & 1;
    cr_view *into = result ? &copy[CR_MAX_ARGS] : out;
    cr_status st;

    memset(block, 0, sizeof block);
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int i = 0; i < op->param_count; i++)
        if (dense >> i & 1) {
            CR_GO(run_dense_view(&block[i], &copy[i], stride[i], arg[i].view, true));
            given[i].view = &copy[i];
        }
    if (result)
        CR_GO(run_dense_view(&block[CR_MAX_ARGS], into, stride[CR_MAX_ARGS], out, false));
    CR_GO(run_by_plan(op, given, into, how, declined));
    if (result && !*declined)
        CR_GO(cr_copy_elements(out, into));
done:
    for (int i = 0; i <= CR_MAX_ARGS; i++)
        cr_block_drop(&block[i]);
    return st;
}

/* A plan that asks for copies makes a call with another key.  That call may remove p from the
 * cache, so p is not read after it. */
static cr_status run_plan(cr_stated_plan *p, const cr_op *op, const cr_value *arg, cr_view *out,
                          run_how how, bool *declined)
{
    return p->dense ? run_dense(p->dense, op, arg, out, how, declined)
                    : run_planned(p, op, arg, out, how, declined);
}

static cr_status run_by_plan(const cr_op *op, const cr_value *arg, cr_view *out, run_how how,
                             bool *declined)
{
    cr_stated_plan like, *p;
    bool kept;
    cr_status st;

    stated_key(&like, op, arg, out);
    p = plan_find(&like);
    if (p)
        return run_plan(p, op, arg, out, how, declined);
    CR_TRY(plan_new(&p, &like, op, arg, out));
    kept = plan_keep(p);
    st = run_plan(p, op, arg, out, how, declined);
    if (!kept)
        plan_drop(p);
    return st;
}

/* The strides of counts, one for all places along an even dim; returns how many there are. */
static int64_t counts_of(int64_t *stride, uint64_t even, const cr_view *out)
{
    int64_t n = 1;

    for (int d = out->ndim - 1; d >= 0; d--) {
        stride[d] = even >> d & 1 ? 0 : n;
        n *= even >> d & 1 ? 1 : out->size[d];
    }
    return n;
}

static cr_status run_divide(const running *r, const cr_view *counts)
{
    const cr_view *out = r->out;
    cr_indexed c = {.how = CR_COMBINE_DIVIDE,
                    .dtype = out->dtype,
                    .ndim = out->ndim,
                    .size = out->size,
                    .dense = counts->data,
                    .dense_stride = counts->stride,
                    .table = out->data,
                    .table_stride = out->stride};

    return cr_device_status(r->ops->combine(out->device.index, &c));
}

/* Divides each place that was written by the number of its terms, one more unless `fresh`. */
static cr_status run_mean(running *r, bool fresh)
{
    int64_t stride[CR_MAX_DIMS], first = !fresh, step = 1, n;
    cr_view counts = *r->out;
    cr_block block = {.at = NULL};
    cr_array all = {.dtype = CR_I64, .ndim = 1, .size = &n, .stride = &step};
    bool declined = false;
    cr_status st;

    n = counts_of(stride, r->p->axes.even_dims, r->out);
    counts.stride = stride;
    counts.dtype = CR_I64;
    CR_GO(cr_block_get(&block, counts.device, (size_t)n * sizeof n));
    counts.data = all.data = block.at;
    CR_GO(cr_device_status(r->ops->fill(counts.device.index, &all, &first)));
    CR_GO(run_by_plan(r->op, r->arg, &counts, COUNTS, &declined));
    if (declined)
        CR_GO(cr_fail(CR_RUNTIME, "%s(): the device takes only some commands of the call",
                      r->op->name));
    CR_GO(run_divide(r, &counts));
done:
    cr_block_drop(&block);
    return st;
}

static bool is_one(cr_scalar s)
{
    cr_complex c = cr_scalar_as_complex(s);

    return c.re == 1 && c.im == 0;
}

/* A row-major copy of v times a number. */
static cr_status run_scaled(cr_block *b, cr_view *scaled, int64_t *stride, const cr_view *v,
                            cr_scalar factor)
{
    const cr_device_ops *ops = cr_device_of((cr_device_kind)v->device.kind);
    cr_indexed c = {.how = CR_COMBINE_MUL,
                    .dtype = v->dtype,
                    .ndim = v->ndim,
                    .size = v->size,
                    .table_stride = stride};

    CR_TRY(run_dense_view(b, scaled, stride, v, true));
    if (!cr_numel(v->ndim, v->size))
        return CR_OK;
    c.table = scaled->data;
    cr_scalar_store(factor, (cr_dtype)v->dtype, c.item);
    return cr_device_status(ops->combine(v->device.index, &c));
}

/* A tensor that is written may be multiplied by a number. */
cr_status cr_run_stated(const cr_op *op, const cr_value *arg, cr_view *out, bool *declined)
{
    int by = cr_stated_scale(op), param;
    cr_value given[CR_MAX_ARGS];
    int64_t stride[CR_MAX_DIMS];
    cr_view scaled;
    cr_block block = {.at = NULL};
    cr_status st;

    *declined = false;
    if (cr_stated_has_list(op))
        return cr_run_stated_list(op, arg, out);
    if (by < 0 || is_one(arg[by].number))
        return run_by_plan(op, arg, out, GIVEN, declined);
    *declined = !cr_device_of((cr_device_kind)out->device.kind)->combine;
    if (*declined)
        return CR_OK;
    param = op->loop.value->args[1]->args[0]->slot;
    memcpy(given, arg, op->param_count * sizeof *given);
    given[param].view = &scaled;
    CR_GO(run_scaled(&block, &scaled, stride, arg[param].view, arg[by].number));
    CR_GO(run_by_plan(op, given, out, GIVEN, declined));
done:
    cr_block_drop(&block);
    return st;
}
