/* Layouts between convolutions, and weights packed once.
 *
 * A device's convolution kernels may prefer blocks of channels (kern/layout.h).  Eager copies
 * every operand to that layout and every result back.  A program keeps a result in blocks while
 * its consumers are convolutions, pooling or pointwise steps, and adds a copy in the plain
 * layout for every other consumer.  The kernels are those of eager, so the bits are equal.
 *
 * Graphs that write to tensors or choose between blocks keep plain layouts. */
#include "kern/layout.h"
#include "compile/packed.h"
#include "compile/program_impl.h"
#include "entry.h"
#include <string.h>

enum { X, W, BIAS, TRANSPOSED = 6 };

static bool is_convolution(const cr_gnode *n)
{
    return n && n->kind == CR_GNODE_CALL && n->op == cr_entry.convolution &&
           !n->arg[TRANSPOSED].i;
}

bool cr_has_layouts(const cr_graph *g)
{
    bool any = false;

    for (size_t i = 0; i < g->body->len; i++) {
        const cr_gnode *n = g->body->at[i];
        if (n->kind == CR_GNODE_IF || cr_gnode_writes(n))
            return false;
        any = any || is_convolution(n);
    }
    return any;
}

/* --- convolutions --- */

typedef struct {
    cr_own own;
    const cr_layout_hook *hook;
    cr_layout_kernel *kernel;
    bool x_blocked, y_own; /* X and Y are in the kernel's layout */
    bool has_bias;
    const cr_gtype *type[3]; /* of X in the plain layout, of W and of the bias */
    const cr_gtype *made;    /* of Y: the graph's type, or one dimension */
    const cr_value *arg;     /* of the call */
    cr_packer *packer, mine; /* of the weight; shared with the same step for other sizes */
} convolution;

static cr_status pack(void *context, cr_tensor *w, cr_tensor **out)
{
    const convolution *c = context;
    int64_t size = (int64_t)(c->hook->bytes(c->kernel, CR_CONV_ARG_W) / sizeof(float));
    cr_tensor *made = NULL;
    cr_status st;

    CR_GO(cr_tensor_new(&made, CR_F32, CR_HOST, 1, &size));
    CR_GO(c->hook->pack(c->kernel, CR_CONV_ARG_W, w->address, made->address));
    *out = made;
    made = NULL;
done:
    cr_drop(made);
    return st;
}

static cr_status check(const convolution *c, cr_tensor *const *read)
{
    for (int i = 0; i < 2 + c->has_bias; i++)
        if (c->type[i] && !(cr_tensor_is_of(read[i], c->type[i]) && read[i]->contiguous))
            return cr_fail(CR_RUNTIME,
                           "convolution: an argument is not what the program was made for");
    return CR_OK;
}

static cr_status run_convolution(cr_own *own, cr_tensor *const *read, cr_tensor **output)
{
    convolution *c = (convolution *)own;
    unsigned in_own = (unsigned)c->x_blocked << CR_CONV_ARG_X | (unsigned)c->y_own
                                                                    << CR_CONV_ARG_Y;
    cr_packed *weight = NULL;
    cr_tensor *y = NULL;
    cr_status st;

    CR_GO(check(c, read));
    void *data[] = {read[X]->address, read[W]->address, NULL,
                    c->has_bias ? read[BIAS]->address : NULL};
    if (!c->hook->is_plain(c->kernel, CR_CONV_ARG_W))
        CR_GO(cr_packer_get(&weight, c->packer, read[W], pack, c));
    if (weight) {
        data[CR_CONV_ARG_W] = cr_packed_tensor(weight)->address;
        in_own |= 1u << CR_CONV_ARG_W;
    }
    CR_GO(cr_tensor_new(&y, CR_F32, CR_HOST, c->made->ndim, c->made->size));
    data[CR_CONV_ARG_Y] = y->address;
    CR_GO(c->hook->run(c->kernel, data, in_own));
    output[0] = y;
    y = NULL;
done:
    cr_drop(y);
    cr_packed_release(weight);
    return st;
}

static void drop_convolution(cr_own *own)
{
    convolution *c = (convolution *)own;

    if (c->packer == &c->mine)
        cr_packer_drop(&c->mine);
    c->hook->release(c->kernel);
    cr_free(c);
}

static bool is_row_major(const cr_gtype *t, cr_dtype dtype)
{
    return t->known && t->dtype == dtype && cr_is_host(t->device) && cr_gtype_is_contiguous(t);
}

static cr_view view_of(const cr_gtype *t)
{
    return (cr_view){.size = t->size, .ndim = t->ndim, .dtype = t->dtype};
}

static bool has_elements(const cr_gtype *t)
{
    for (int d = 0; d < t->ndim; d++)
        if (!t->size[d])
            return false;
    return true;
}

/* The kernel that eager runs for x, w and y; NULL when there is none. */
static cr_layout_kernel *kernel_of(const cr_layout_hook *hook, const cr_gtype *const *type,
                                   const cr_gtype *made, const cr_value *arg)
{
    if (!is_row_major(made, CR_F32) || made->ndim < 3 || !has_elements(made))
        return NULL;
    for (int i = X; i <= BIAS; i++)
        if (type[i] && (!is_row_major(type[i], CR_F32) || !has_elements(type[i])))
            return NULL;
    cr_view x = view_of(type[X]), w = view_of(type[W]), y = view_of(made);
    if (x.ndim != y.ndim || w.ndim != y.ndim)
        return NULL;
    cr_conv c = cr_conv_problem(&x, &w, &y, arg);
    return hook->convolution(&c, CR_F32, type[BIAS] != NULL);
}

/* Operands are in the same blocks, and the packed weight serves both. */
static bool same_layouts(const cr_layout_hook *hook, const cr_layout_kernel *a,
                         const cr_layout_kernel *b)
{
    return hook->block(a, CR_CONV_ARG_X) == hook->block(b, CR_CONV_ARG_X) &&
           hook->block(a, CR_CONV_ARG_Y) == hook->block(b, CR_CONV_ARG_Y) &&
           hook->is_same(a, b, CR_CONV_ARG_W);
}

static cr_status resize_convolution(cr_own **out, const cr_own *own, const cr_step *s,
                                    const cr_kept_types *kept)
{
    const convolution *of = (const convolution *)own;
    const cr_gnode *n = s->values.node;
    const cr_gtype *type[3] = {NULL};
    cr_layout_kernel *kernel;
    convolution *c;

    for (int i = X; i <= BIAS; i++)
        type[i] = n->arg[i].tag == CR_TENSOR ? kept->of(kept->context, n->arg[i].value) : NULL;
    kernel = n->varying_count
                 ? NULL
                 : kernel_of(of->hook, type, kept->of(kept->context, n->result[0]), of->arg);
    if (!kernel || !same_layouts(of->hook, of->kernel, kernel)) {
        if (kernel)
            of->hook->release(kernel);
        return cr_fail(CR_VALUE, "%%%s has another layout for these sizes", n->result[0]->name);
    }
    c = cr_alloc(sizeof *c);
    if (!c) {
        of->hook->release(kernel);
        return CR_MEMORY;
    }
    *c = *of;
    c->kernel = kernel;
    for (int i = X; i <= BIAS; i++)
        c->type[i] = of->type[i] ? type[i] : NULL;
    c->made = kept->of(kept->context, s->values.made_value[0]);
    *out = &c->own;
    return CR_OK;
}

/* --- back to the plain layout --- */

typedef struct {
    cr_own own;
    const cr_layout_hook *hook;
    const cr_gtype *plain;
    int64_t block, points;
} unblocking;

static cr_status run_unblocking(cr_own *own, cr_tensor *const *read, cr_tensor **output)
{
    const unblocking *u = (const unblocking *)own;

    CR_TRY(cr_tensor_new(&output[0], CR_F32, u->plain->device, u->plain->ndim, u->plain->size));
    u->hook->unblock((void *)output[0]->address, (const void *)read[0]->address,
                     output[0]->numel / (u->block * u->points), u->block, u->points);
    return CR_OK;
}

static void drop_unblocking(cr_own *own) { cr_free(own); }

static int64_t points_of(const cr_gtype *t)
{
    int64_t points = 1;

    for (int d = 2; d < t->ndim; d++)
        points *= t->size[d];
    return points;
}

static cr_status resize_unblocking(cr_own **out, const cr_own *own, const cr_step *s,
                                   const cr_kept_types *kept)
{
    unblocking *u = cr_alloc(sizeof *u);

    CR_NEED(u);
    *u = *(const unblocking *)own;
    u->plain = kept->of(kept->context, s->values.made_value[0]);
    u->points = points_of(u->plain);
    *out = &u->own;
    return CR_OK;
}

/* --- choosing --- */

typedef struct {
    cr_program_steps *p;
    cr_session *s;
    const cr_layout_hook *hook;
    CR_VEC(cr_step) steps; /* the new list */
    cr_gvalue **blocked;   /* by id of the graph's values: the value in blocks, or NULL */
    int64_t *block;
    bool *no_plain; /* the value exists in blocks only */
    bool *read;     /* the value has a reader */
} layouter;

static cr_step *add(layouter *x, const cr_step *like, cr_own *own, int reads, cr_gvalue **made,
                    uint32_t results)
{
    CR_PUSH(x->s, &x->steps,
            ((cr_step){.kind = CR_STEP_OWN,
                       .own = own,
                       .values.node = like->values.node,
                       .reuse_read = -1,
                       .back_read = -1}));
    cr_step *s = &x->steps.at[x->steps.len - 1];

    s->values.read_value = CR_NEW_N(x->s, cr_gvalue *, reads);
    s->reads = (uint32_t)reads;
    s->values.made_value = made;
    s->results = results;
    if (s->reads + s->results > x->p->frame.operands)
        x->p->frame.operands = s->reads + s->results;
    return s;
}

/* Makes the value that holds `v` in blocks. */
static cr_gvalue *new_blocked(layouter *x, cr_gvalue *v, int64_t block)
{
    cr_gvalue *b = CR_NEW(x->s, cr_gvalue);
    int64_t *size = CR_NEW(x->s, int64_t);

    *size = 1;
    for (int d = 0; d < v->type.ndim; d++)
        *size *= v->type.size[d];
    *b = (cr_gvalue){.name = cr_session_printf(x->s, "%s.%d", v->name, (int)block),
                     .id = x->p->value.values++,
                     .by = v->by};
    b->type = (cr_gtype){.known = true, .dtype = CR_F32, .ndim = 1, .size = size};
    CR_PUSH(x->s, &x->p->value.blocked, v);
    x->blocked[v->id] = b;
    x->block[v->id] = block;
    x->no_plain[v->id] = true;
    return b;
}

static cr_gvalue **one_value(layouter *x, cr_gvalue *v)
{
    cr_gvalue **at = CR_NEW(x->s, cr_gvalue *);

    *at = v;
    return at;
}

/* Adds the copy to the plain layout of a value that exists in blocks only. */
static void need_plain(layouter *x, const cr_step *like, cr_gvalue *v)
{
    unblocking *u;

    v = cr_program_value(x->p, v);
    if (!x->no_plain[v->id])
        return;
    x->no_plain[v->id] = false;
    u = cr_alloc_zero(sizeof *u);
    cr_session_check(x->s, u ? CR_OK : CR_MEMORY);
    u->own = (cr_own){.run = run_unblocking,
                      .drop = drop_unblocking,
                      .resize = resize_unblocking,
                      .name = "unblock"};
    cr_program_own(x->p, &u->own);
    u->hook = x->hook;
    u->plain = &v->type;
    u->block = x->block[v->id];
    u->points = points_of(u->plain);
    add(x, like, &u->own, 1, one_value(x, v), 1)->values.read_value[0] = x->blocked[v->id];
}

/* The kernel that eager runs for the step; NULL if there is none or a type is unknown. */
static cr_layout_kernel *convolution_kernel(const layouter *x, const cr_step *s)
{
    const cr_gnode *n = s->values.node;
    const cr_gtype *type[3];

    for (int i = X; i <= BIAS; i++)
        type[i] = n->arg[i].tag == CR_TENSOR ? &n->arg[i].value->type : NULL;
    return kernel_of(x->hook, type, &n->result[0]->type, s->call.arg);
}

static convolution *new_convolution(layouter *x, cr_layout_kernel *kernel)
{
    convolution *c = cr_alloc_zero(sizeof *c);

    if (!c) {
        x->hook->release(kernel);
        cr_session_check(x->s, CR_MEMORY);
    }
    c->hook = x->hook;
    c->kernel = kernel;
    c->own = (cr_own){.run = run_convolution,
                      .drop = drop_convolution,
                      .resize = resize_convolution,
                      .name = "convolution"};
    cr_packer_init(&c->mine);
    c->packer = &c->mine;
    cr_program_own(x->p, &c->own);
    return c;
}

static bool convolve(layouter *x, const cr_step *s)
{
    const cr_gnode *n = s->values.node;
    cr_layout_kernel *kernel = s->kind == CR_STEP_CALL && !s->call.symbols && is_convolution(n)
                                   ? convolution_kernel(x, s)
                                   : NULL;
    cr_gvalue *in, *out, *bias;

    if (!kernel)
        return false;
    convolution *c = new_convolution(x, kernel);
    int64_t x_block = x->hook->block(kernel, CR_CONV_ARG_X);
    int64_t y_block = x->hook->block(kernel, CR_CONV_ARG_Y);
    in = cr_program_value(x->p, n->arg[X].value);
    bias = n->arg[BIAS].tag == CR_TENSOR ? cr_program_value(x->p, n->arg[BIAS].value) : NULL;
    c->x_blocked = x_block && x->blocked[in->id] && x->block[in->id] == x_block;
    if (!c->x_blocked)
        need_plain(x, s, in);
    need_plain(x, s, n->arg[W].value);
    if (bias)
        need_plain(x, s, bias);
    out = y_block ? new_blocked(x, n->result[0], y_block) : n->result[0];
    c->arg = s->call.arg;
    c->has_bias = bias != NULL;
    c->y_own = y_block != 0;
    c->made = &out->type;
    c->type[X] = c->x_blocked ? NULL : &in->type;
    c->type[W] = &n->arg[W].value->type;
    c->type[BIAS] = bias ? &bias->type : NULL;
    cr_step *made = add(x, s, &c->own, 2 + c->has_bias, one_value(x, out), 1);
    made->values.read_value[X] = c->x_blocked ? x->blocked[in->id] : in;
    made->values.read_value[W] = cr_program_value(x->p, n->arg[W].value);
    if (bias)
        made->values.read_value[BIAS] = bias;
    return true;
}

/* --- pointwise steps --- */

/* The block size of all arguments that cover the whole space; 0: they are not all in blocks of
 * one size. */
static int64_t common_block(const layouter *x, const cr_step *s, const cr_gtype *space)
{
    int64_t block = 0;

    for (uint32_t k = 0; k < s->reads; k++) {
        const cr_gvalue *v = cr_program_value(x->p, s->values.read_value[k]);
        cr_blocked_operand kind = cr_blocked_operand_of(space, &v->type);
        if (kind == CR_BLOCKED_OTHER || (kind == CR_BLOCKED_FULL && !x->blocked[v->id]) ||
            (kind == CR_BLOCKED_FULL && block && block != x->block[v->id]))
            return 0;
        if (kind == CR_BLOCKED_FULL)
            block = x->block[v->id];
    }
    return block;
}

static bool results_fill(const cr_step *s, const cr_gtype *space)
{
    for (uint32_t k = 0; k < s->results; k++) {
        const cr_gtype *t = &s->values.made_value[k]->type;
        if (!is_row_major(t, CR_F32) || t->ndim != space->ndim || t->ndim < 3 ||
            memcmp(t->size, space->size, t->ndim * sizeof *t->size))
            return false;
    }
    return true;
}

/* The distinct arguments of a step, as the nodes name them. */
static int distinct_reads(cr_gvalue **out, const cr_step *s)
{
    int n = 0;

    for (uint32_t k = 0; k < s->reads; k++) {
        bool seen = false;
        for (int i = 0; i < n; i++)
            seen |= out[i] == s->values.read_value[k];
        if (!seen)
            out[n++] = s->values.read_value[k];
    }
    return n;
}

static bool stay_blocked(layouter *x, const cr_step *s)
{
    const cr_gnode *n = s->values.node;
    cr_blocked_work w = {0};

    if ((s->kind != CR_STEP_CALL && s->kind != CR_STEP_GROUP) || s->call.symbols ||
        !s->results || s->call.list_result || (s->kind == CR_STEP_CALL && n->result_count != 1))
        return false;
    w.space = &s->values.made_value[0]->type;
    if (!results_fill(s, w.space) || !(w.block = common_block(x, s, w.space)))
        return false;
    w.node = s->kind == CR_STEP_GROUP ? n->block[0]->at : (cr_gnode *const *)&s->values.node;
    w.nodes = s->kind == CR_STEP_GROUP ? n->block[0]->len : 1;
    w.read = CR_NEW_N(x->s, cr_gvalue *, s->reads);
    w.reads = distinct_reads(w.read, s);
    w.results = (int)s->results;
    cr_gvalue **inner = CR_NEW_N(x->s, cr_gvalue *, s->results);
    for (uint32_t k = 0; k < s->results; k++)
        inner[k] = s->kind == CR_STEP_GROUP ? n->block[0]->output[k].value : n->result[0];
    w.made = inner;
    cr_own *own = cr_blocked_new(x->p, &w);
    if (!own)
        return false;
    cr_gvalue **made = CR_NEW_N(x->s, cr_gvalue *, s->results);
    for (int k = 0; k < w.reads; k++)
        if (cr_blocked_operand_of(w.space, &w.read[k]->type) != CR_BLOCKED_FULL)
            need_plain(x, s, w.read[k]);
    for (uint32_t k = 0; k < s->results; k++)
        made[k] = new_blocked(x, s->values.made_value[k], w.block);
    cr_step *step = add(x, s, own, w.reads, made, s->results);
    for (int k = 0; k < w.reads; k++) {
        cr_gvalue *v = cr_program_value(x->p, w.read[k]);
        step->values.read_value[k] =
            cr_blocked_operand_of(w.space, &v->type) == CR_BLOCKED_FULL ? x->blocked[v->id] : v;
    }
    return true;
}

/* --- pooling --- */

typedef struct {
    cr_own own;
    const cr_layout_hook *hook;
    cr_pool windows;
    int64_t block;
    const cr_gtype *made;
    const cr_value *arg; /* of the call */
} pooling;

static cr_status run_pooling(cr_own *own, cr_tensor *const *read, cr_tensor **output)
{
    const pooling *w = (const pooling *)own;

    CR_TRY(cr_tensor_new(&output[0], CR_F32, CR_HOST, 1, w->made->size));
    w->hook->max_pool(&w->windows, w->block, (const void *)read[0]->address,
                      (void *)output[0]->address);
    return CR_OK;
}

static void drop_pooling(cr_own *own) { cr_free(own); }

static void set_windows(pooling *w, const cr_gtype *in, const cr_gtype *out)
{
    cr_view x = view_of(in), y = view_of(out);

    w->windows = cr_pool_max_windows(&x, &y, w->arg);
    w->windows.planes /= w->block;
}

static cr_status resize_pooling(cr_own **out, const cr_own *own, const cr_step *s,
                                const cr_kept_types *kept)
{
    const cr_gnode *n = s->values.node;
    pooling *w;

    if (n->varying_count)
        return cr_fail(CR_VALUE, "%%%s has other windows for these sizes", n->result[0]->name);
    w = cr_alloc(sizeof *w);
    CR_NEED(w);
    *w = *(const pooling *)own;
    set_windows(w, kept->of(kept->context, n->arg[0].value),
                kept->of(kept->context, n->result[0]));
    w->made = kept->of(kept->context, s->values.made_value[0]);
    *out = &w->own;
    return CR_OK;
}

/* Max pooling in blocks, if no step reads the indices, which only backward passes need. */
static bool pool(layouter *x, const cr_step *s)
{
    const cr_gnode *n = s->values.node;
    cr_gvalue *in;
    pooling *w;

    if (s->kind != CR_STEP_CALL || s->call.symbols || n->op != cr_entry._max_pool ||
        x->read[n->result[1]->id] || !is_row_major(&n->result[0]->type, CR_F32))
        return false;
    in = cr_program_value(x->p, n->arg[0].value);
    if (!x->blocked[in->id] || in->type.ndim != s->call.arg[6].i + 2)
        return false;
    w = cr_alloc_zero(sizeof *w);
    cr_session_check(x->s, w ? CR_OK : CR_MEMORY);
    w->own = (cr_own){
        .run = run_pooling, .drop = drop_pooling, .resize = resize_pooling, .name = "max_pool"};
    cr_program_own(x->p, &w->own);
    w->hook = x->hook;
    w->arg = s->call.arg;
    w->block = x->block[in->id];
    set_windows(w, &in->type, &n->result[0]->type);
    cr_gvalue *out = new_blocked(x, n->result[0], w->block);
    w->made = &out->type;
    add(x, s, &w->own, 1, one_value(x, out), 1)->values.read_value[0] = x->blocked[in->id];
    return true;
}

static void mark_reads(layouter *x)
{
    cr_program_steps *p = x->p;

    for (size_t i = 0; i < p->steps.len; i++)
        for (uint32_t k = 0; k < p->steps.at[i].reads; k++)
            x->read[cr_program_value(p, p->steps.at[i].values.read_value[k])->id] = true;
    for (uint32_t i = 0; i < p->out.outputs; i++)
        if (p->out.output_value[i])
            x->read[p->out.output_value[i]->id] = true;
}

/* The hook of the device of the convolutions' results. */
static const cr_layout_hook *layout_hook(const cr_program_steps *p)
{
    for (size_t i = 0; i < p->steps.len; i++)
        if (is_convolution(p->steps.at[i].values.node) && p->steps.at[i].results)
            return cr_layout_hook_of(
                (cr_device_kind)p->steps.at[i].values.made_value[0]->type.device.kind);
    return NULL;
}

void cr_program_layouts(cr_program_steps *p)
{
    layouter x = {.p = p, .s = p->s, .hook = layout_hook(p)};
    static const cr_step last = {0};

    if (!x.hook)
        return;
    x.blocked = CR_NEW_N(p->s, cr_gvalue *, p->g->values);
    x.block = CR_NEW_N(p->s, int64_t, p->g->values);
    x.no_plain = CR_NEW_N(p->s, bool, p->g->values);
    x.read = CR_NEW_N(p->s, bool, p->g->values);
    mark_reads(&x);
    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        if (convolve(&x, s) || stay_blocked(&x, s) || pool(&x, s))
            continue;
        for (uint32_t k = 0; k < s->reads; k++)
            need_plain(&x, s, s->values.read_value[k]);
        CR_PUSH(x.s, &x.steps, *s);
    }
    for (uint32_t i = 0; i < p->out.outputs; i++)
        if (p->out.output_value[i])
            need_plain(&x, &last, p->out.output_value[i]);
    p->steps.at = x.steps.at;
    p->steps.len = x.steps.len;
    p->steps.cap = x.steps.cap;
}
