/* Pointwise nodes over tensors whose channels are blocked, [N][C / b][points][b].
 *
 * The nodes become one fused program, like those of a group (code.c), with other layouts of
 * operands: an operand with one value for each channel has one value for each column inside a
 * block of channels.  It is repeated, so that a row of several points is long enough for a
 * kernel. */
#include "base/parallel.h"
#include "compile/facts.h"
#include "compile/program_impl.h"
#include <stdatomic.h>
#include <string.h>

enum {
    MOST = 24,
    MOST_PARAMS = 64,
    MOST_CHANNELS = 8,
    LEAST_COLUMNS = 64,
    MOST_COLUMNS = 1024,
    GRAIN = 16384
};

/* A step whose operands are in blocks of channels.
 * Invariant: block * channel_blocks is the number of channels, and `blocks` that of all
 * images; columns are a multiple of block; kind and type have `reads` entries in use. */
typedef struct {
    cr_own own;
    cr_fused *fused;
    bool shares;            /* `fused` is of the same step for other sizes */
    bool varies;            /* a number of its nodes is another one for other sizes */
    const cr_gvalue *of;    /* a value of the graph that has the space's type */
    cr_gvalue *const *read; /* of the graph */
    int results, reads;
    uint8_t kind[MOST];                   /* cr_blocked_operand of the reads */
    const cr_gtype *type[MOST];           /* of arguments in the plain layout */
    cr_gtype made;                        /* of every result */
    int64_t blocks, block, rows, columns; /* rows and columns of one block of channels */
    int64_t channel_blocks;
    _Alignas(16) char param[MOST_PARAMS * CR_PARAM_BYTES];
} blocked;

cr_blocked_operand cr_blocked_operand_of(const cr_gtype *space, const cr_gtype *in)
{
    int lead = space->ndim - in->ndim;

    if (!in->known || !cr_gtype_is_contiguous(in) || lead < 0 || in->dtype != space->dtype ||
        !cr_same_device(in->device, space->device))
        return CR_BLOCKED_OTHER;
    if (!lead && !memcmp(in->size, space->size, in->ndim * sizeof *in->size))
        return CR_BLOCKED_FULL;
    int64_t n = cr_numel(in->ndim, in->size);
    if (n == 1)
        return CR_BLOCKED_SCALAR;
    return lead <= 1 && in->size[1 - lead] == n && n == space->size[1] ? CR_BLOCKED_PER_CHANNEL
                                                                       : CR_BLOCKED_OTHER;
}

/* --- the program --- */

typedef struct {
    const cr_blocked_work *w;
    blocked *b;
    cr_loop *l;
    const cr_expr **expr; /* by value id */
    unsigned values;
    int params;
    unsigned how;       /* cr_how */
    const cr_gnode *at; /* the current node */
    cr_facts facts;
} builder;

static cr_axis axis(cr_loop *l, const char *index, const char *extent)
{
    return (cr_axis){cr_sym_name(l->syms, index, 0, CR_SYM_HIGH),
                     cr_sym_name(l->syms, extent, 0, CR_SYM_HIGH)};
}

/* A buffer with dims for rows, columns or both, as the operand has. */
static cr_buffer *buffer(builder *x, cr_buffer_role role, const char *name,
                         cr_blocked_operand kind, const cr_sym **index)
{
    cr_axis both[2] = {axis(x->l, "i", "R"), axis(x->l, "j", "C")};
    const cr_sym *size[2];
    int n = 0;

    for (int k = 0; k < 2; k++) {
        if (kind == (k ? CR_BLOCKED_SCALAR : CR_BLOCKED_PER_CHANNEL))
            continue;
        size[n] = both[k].extent;
        index[n++] = both[k].index;
    }
    return cr_loop_buffer(x->l, role, name, CR_F32, n, size);
}

static const cr_expr *value_of(void *context, int i)
{
    builder *x = context;
    const cr_gvalue *v = x->at->arg[i].value;

    if (!x->expr[v->id])
        cr_bail(x->l->session, CR_VALUE, "%%%s is no operand", v->name);
    return cr_expr_cast(x->l, cr_node_wants(x->at, &x->facts, i), x->expr[v->id]);
}

static const cr_expr *number_of(void *context, cr_scalar number, cr_dtype t)
{
    builder *x = context;
    int slot = x->params++;

    if (slot == MOST_PARAMS)
        cr_bail(x->l->session, CR_VALUE, "too many numbers");
    cr_scalar_store(number, t, x->b->param + slot * CR_PARAM_BYTES);
    return cr_expr_param(
        x->l, cr_loop_param_new(x->l, cr_session_printf(x->l->session, "p%d", slot), t, slot));
}

static const char *program_name(cr_session *s, const cr_blocked_work *w)
{
    char *name = cr_session_text(s, "blocked");

    for (size_t i = 0; i < w->nodes && i < 4; i++)
        name = cr_session_printf(s, "%s_%s", name, w->node[i]->op->name);
    return name;
}

static cr_loop *make_program(cr_session *s, void *context)
{
    builder *x = context;
    const cr_blocked_work *w = x->w;
    cr_node_reader reader = {value_of, number_of, x};
    cr_facts_cache *facts = cr_facts_cache_new(s);
    cr_axis both[2];
    const cr_sym *index[2];

    x->l = cr_loop_new(s);
    x->expr = CR_NEW_N(s, const cr_expr *, x->values);
    x->l->name = x->l->origin = program_name(s, w);
    for (int k = 0; k < w->reads; k++) {
        cr_buffer *in = buffer(x, CR_BUFFER_INPUT, cr_session_printf(s, "x%d", k),
                               (cr_blocked_operand)x->b->kind[k], index);
        x->expr[w->read[k]->id] = cr_expr_load(x->l, in, index);
    }
    for (size_t i = 0; i < w->nodes; i++) {
        x->at = w->node[i];
        x->facts = cr_facts_of(facts, x->at);
        if (x->facts.kind != CR_FACT_POINT || x->at->result_count != 1)
            cr_bail(s, CR_VALUE, "%s is not pointwise", w->node[i]->result[0]->name);
        if (x->how & CR_HOW_FAST)
            x->facts = cr_facts_loose(x->facts);
        cr_compile_node(x->l, x->at, &x->facts, &reader, &x->expr[x->at->result[0]->id]);
    }
    both[0] = axis(x->l, "i", "R");
    both[1] = axis(x->l, "j", "C");
    for (int k = 0; k < w->results; k++) {
        cr_buffer *out =
            buffer(x, CR_BUFFER_OUTPUT, cr_session_printf(s, "y%d", k), CR_BLOCKED_FULL, index);
        cr_loop_define(x->l, out, 2, both, x->expr[w->made[k]->id]);
    }
    if (x->how & CR_HOW_FAST)
        cr_loop_contract(x->l);
    return x->l;
}

/* --- running --- */

typedef struct {
    const blocked *b;
    char *ptr[MOST]; /* results, then arguments */
    _Atomic int status;
} job;

/* Repeats the values of a block of channels. */
static void spread(const blocked *b, float *to, const float *from)
{
    for (int64_t i = 0; i < b->columns; i += b->block)
        memcpy(to + i, from, (size_t)b->block * sizeof *to);
}

static void run_blocks(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    const blocked *b = j->b;
    _Alignas(64) float channels[MOST_CHANNELS][MOST_COLUMNS];
    int64_t bytes = b->rows * b->columns * (int64_t)sizeof(float), stride[2 * MOST];
    void *ptr[MOST];
    int n = b->results + b->reads;

    for (int k = 0; k < n; k++) {
        int kind = k < b->results ? CR_BLOCKED_FULL : b->kind[k - b->results];
        stride[2 * k] = kind == CR_BLOCKED_FULL ? b->columns * (int64_t)sizeof(float) : 0;
        stride[2 * k + 1] = kind == CR_BLOCKED_SCALAR ? 0 : (int64_t)sizeof(float);
    }
    for (int64_t i = begin; i < end; i++) {
        int channel = 0;
        for (int k = 0; k < n; k++) {
            int kind = k < b->results ? CR_BLOCKED_FULL : b->kind[k - b->results];
            ptr[k] = kind == CR_BLOCKED_FULL ? j->ptr[k] + i * bytes : j->ptr[k];
            if (kind != CR_BLOCKED_PER_CHANNEL)
                continue;
            spread(b, channels[channel],
                   (const float *)(const void *)j->ptr[k] + i % b->channel_blocks * b->block);
            ptr[k] = channels[channel++];
        }
        cr_status st = cr_fused_run(b->fused, ptr, stride, b->rows, b->columns, b->param);
        if (st)
            atomic_store(&j->status, (int)st);
    }
}

static cr_status run(cr_own *own, cr_tensor *const *read, cr_tensor **output)
{
    const blocked *b = (const blocked *)own;
    job j = {.b = b};
    cr_status st = CR_OK;

    for (int k = 0; k < b->reads; k++) {
        if (b->type[k] && !cr_tensor_is_of(read[k], b->type[k])) {
            st = cr_fail(CR_RUNTIME, "%s: an argument is not what the program was made for",
                         own->name);
            goto done;
        }
        j.ptr[b->results + k] = read[k]->address;
    }
    for (int k = 0; k < b->results; k++) {
        if (!output[k])
            CR_GO(cr_tensor_new(&output[k], CR_F32, CR_HOST, 1, b->made.size));
        j.ptr[k] = output[k]->address;
    }
    cr_parallel_for(b->blocks, GRAIN / (b->rows * b->columns) + 1, run_blocks, &j);
    st = (cr_status)atomic_load(&j.status);
done:
    for (int k = 0; st && k < b->results; k++) {
        cr_drop(output[k]);
        output[k] = NULL;
    }
    return st;
}

/* --- making --- */

static void drop(cr_own *own)
{
    if (!((blocked *)own)->shares)
        cr_fused_drop(((blocked *)own)->fused);
    cr_free(own);
}

/* Cuts the points of a block into rows: a row is a number of points. */
static void cut(blocked *b, const cr_gtype *space, int64_t block)
{
    int64_t points = 1, some = 1;

    for (int d = 2; d < space->ndim; d++)
        points *= space->size[d];
    for (int64_t k = 1;
         k <= points && k * block <= MOST_COLUMNS && some * block < LEAST_COLUMNS; k++)
        if (points % k == 0)
            some = k;
    b->block = block;
    b->columns = some * block;
    b->rows = points / some;
    b->channel_blocks = space->size[1] / block;
    b->blocks = space->size[0] * b->channel_blocks;
}

static bool any_varies(const cr_blocked_work *w)
{
    for (size_t i = 0; i < w->nodes; i++)
        if (w->node[i]->varying_count)
            return true;
    return false;
}

/* Sets the fields that depend on sizes; false if an operand has other dims. */
static bool lie_again(blocked *b, const cr_step *s, const cr_kept_types *kept)
{
    const cr_gtype *space = kept->of(kept->context, b->of);

    for (int k = 0; k < b->reads; k++) {
        const cr_gtype *t = kept->of(kept->context, b->read[k]);
        if (cr_blocked_operand_of(space, t) != (cr_blocked_operand)b->kind[k])
            return false;
        b->type[k] = b->type[k] ? t : NULL;
    }
    cut(b, space, b->block);
    b->made = *kept->of(kept->context, s->values.made_value[0]);
    return true;
}

static cr_status resize(cr_own **out, const cr_own *own, const cr_step *s,
                        const cr_kept_types *kept)
{
    blocked *b = cr_alloc(sizeof *b);

    CR_NEED(b);
    *b = *(const blocked *)own;
    b->shares = true;
    if (b->varies || !lie_again(b, s, kept)) {
        cr_free(b);
        return cr_fail(CR_VALUE, "%s: an operand broadcasts in another way for these sizes",
                       own->name);
    }
    *out = &b->own;
    return CR_OK;
}

static bool lay_out(blocked *b, const cr_blocked_work *w)
{
    int channels = 0;

    b->results = w->results;
    b->reads = w->reads;
    for (int k = 0; k < w->reads; k++) {
        b->kind[k] = (uint8_t)cr_blocked_operand_of(w->space, &w->read[k]->type);
        b->type[k] = b->kind[k] == CR_BLOCKED_FULL ? NULL : &w->read[k]->type;
        channels += b->kind[k] == CR_BLOCKED_PER_CHANNEL;
        if (b->kind[k] == CR_BLOCKED_OTHER)
            return false;
        if (b->kind[k] == CR_BLOCKED_FULL && w->results == 1 && k < 32)
            b->own.overwrites |= 1u << k;
    }
    return channels <= MOST_CHANNELS;
}

/* One pass in which every element is read before it is written. */
static bool is_one_pass(const cr_nest *n)
{
    return n->kind == CR_NEST_ROWS && n->sweeps == 1 && n->sweep[0].stores == 1 &&
           !n->sweep[0].reduces.count;
}

cr_own *cr_blocked_new(cr_program_steps *p, const cr_blocked_work *w)
{
    blocked *b = cr_alloc_zero(sizeof *b);
    builder x = {.w = w, .b = b, .values = p->value.values, .how = p->how};
    cr_status st;

    cr_session_check(p->s, b ? CR_OK : CR_MEMORY);
    b->own = (cr_own){.run = run, .drop = drop, .resize = resize};
    b->of = w->made[0];
    b->read = w->read;
    b->varies = any_varies(w);
    cr_program_own(p, &b->own);
    if (w->reads + w->results > MOST || !lay_out(b, w))
        return NULL;
    cut(b, w->space, w->block);
    int64_t *size = CR_NEW(p->s, int64_t);
    *size = b->blocks * b->rows * b->columns;
    b->made = (cr_gtype){.known = true, .dtype = CR_F32, .ndim = 1, .size = size};
    st = cr_fused_new(&b->fused, make_program, &x);
    if (st == CR_MEMORY)
        cr_session_check(p->s, st);
    if (st || !cr_fused_has_tiles(b->fused))
        return NULL;
    b->own.name = cr_session_text(p->s, program_name(p->s, w));
    if (!is_one_pass(cr_fused_nest(b->fused)))
        b->own.overwrites = 0;
    return &b->own;
}
