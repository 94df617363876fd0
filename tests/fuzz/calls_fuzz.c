/* Calls every record of the operator table with random arguments:
 *
 *     calls_fuzz [CALLS [SEED [NAME [BATCH]]]]
 *
 * CALLS calls (default 600) of every record: entries, internal entries and in-place forms. Each
 * must give sound results or fail with a message.  A batch of calls of one record runs in a
 * child process; when the child ends early, the parent prints record, seed, batch and the
 * call's arguments, and goes on.  SEED 0 takes the time; runs with equal arguments make equal
 * calls.  NAME runs one record alone; with BATCH its calls run in this process and are printed,
 * for a debugger.
 *
 * Arguments come from four sources, so that many calls pass the checks and reach the kernels:
 * the entry's `sample` clause, calls that other entries made of this one (the parent runs all
 * samples and their derivatives before it starts children), arguments of earlier calls of the
 * batch that returned, and fresh draws by parameter type.  All but the last are changed in up
 * to two places.  Some calls give out=, most results that require a gradient are
 * differentiated, some twice. */
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "num/generator.h"
#include "ops/lex.h"
#include "tensor/arg.h"
#include "tensor/geometry.h"
#include "tensor/sparse.h"
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 100,    /* calls of a child */
    LONGEST = 20,   /* seconds of processor time of one call; of waiting, ten times as many */
    MOST_JOBS = 64, /* children at once */
    TEXT = 4096,    /* description of a call */
    MOST_DIMS = 6,
    KEPT = 24,   /* argument lists that returned */
    LEARNED = 6, /* argument lists of calls by other entries */
    MANY_PARTS = 10000,
    MOST_ELEMENTS = 1 << 20
};

/* Shared by the parent and its children. */
typedef struct {
    int calls, returned;
    int ended; /* children that ended early */
} op_count;

typedef struct {
    char text[TEXT]; /* the call that runs */
    int call;
} child_report;

static op_count *counts;
static child_report *report;
static bool verbose;

/* --- random numbers --- */

static uint64_t state;

static uint64_t draw_word(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint32_t draw(uint32_t n) { return (uint32_t)(draw_word() >> 33) % n; }
static bool one_in(uint32_t n) { return !draw(n); }

/* Memory of the batch: lists and texts. */
static cr_arena arena;

static void *batch_memory(size_t size)
{
    void *p = cr_arena_get(&arena, size ? size : 1);

    if (!p)
        _exit(0); /* the address space is used up, which is no failure */
    return p;
}

/* --- properties of all arguments of a call --- */

typedef struct {
    int ndim;
    int64_t size[MOST_DIMS];
} fuzz_shape;

static struct {
    fuzz_shape shape;
    cr_dtype dtype;
    bool meta, grad;
    bool plain;      /* row-major, ordinary values */
    bool small;      /* no huge numbers */
    bool sparse;     /* most tensors have a sparse layout */
    int sparse_dims; /* of most of them */
} common;

/* --- numbers --- */

static int64_t huge_int(void)
{
    static const int64_t values[] = {INT64_MAX,
                                     INT64_MIN,
                                     INT64_MIN + 1,
                                     INT64_MAX - 1,
                                     (int64_t)1 << 62,
                                     -((int64_t)1 << 62),
                                     (int64_t)1 << 40,
                                     -((int64_t)1 << 40),
                                     (int64_t)1 << 33,
                                     ((int64_t)1 << 32) + 1,
                                     (int64_t)1 << 31,
                                     INT32_MAX,
                                     INT32_MIN,
                                     65536,
                                     1000,
                                     20};

    return common.small ? 3 : values[draw(CR_LEN(values))];
}

static double huge_float(void)
{
    static const double values[] = {1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, -0.0,  1e300,
                                    -1e300,    1e-310,     1e19,      -1e19, 3e9};

    return common.small ? 2.5 : values[draw(CR_LEN(values))];
}

/* --- shapes --- */

static const cr_dtype usual_dtypes[] = {CR_F32, CR_F32,  CR_F32,  CR_F64, CR_F64, CR_I64,
                                        CR_I64, CR_I32,  CR_BOOL, CR_U8,  CR_I8,  CR_I16,
                                        CR_F16, CR_BF16, CR_C64,  CR_C128};

static cr_dtype any_dtype(void)
{
    if (one_in(10))
        return (cr_dtype)draw(CR_DTYPE_COUNT);
    return usual_dtypes[draw(CR_LEN(usual_dtypes))];
}

static fuzz_shape random_shape(void)
{
    fuzz_shape s = {.ndim = (int)draw(one_in(8) ? MOST_DIMS : 5)};

    for (int d = 0; d < s.ndim; d++)
        s.size[d] = one_in(14) ? 0 : one_in(40) ? 17 : 1 + draw(4);
    return s;
}

static void draw_common(void)
{
    common.shape = random_shape();
    if (one_in(3)) /* square matrices, perhaps several */
        common.shape = (fuzz_shape){.ndim = 2 + (int)draw(2), .size = {3, 3, 3}};
    common.dtype = one_in(2) ? CR_F32 : any_dtype();
    common.meta = one_in(16);
    common.grad = one_in(3);
    common.plain = one_in(2);
}

static fuzz_shape related_shape(void)
{
    fuzz_shape s = common.shape;
    uint32_t k = draw(100);

    if (k < 62)
        return s;
    if (k < 72 && s.ndim) { /* broadcast */
        s.size[draw((uint32_t)s.ndim)] = 1;
    } else if (k < 78 && s.ndim) { /* fewer dims */
        s.ndim--;
        memmove(s.size, s.size + 1, sizeof s.size - sizeof *s.size);
    } else if (k < 84 && s.ndim) {
        s.size[draw((uint32_t)s.ndim)] = draw(5);
    } else if (k < 88) {
        s.ndim = 0;
    } else {
        s = random_shape();
    }
    return s;
}

/* A shape without elements; the other sizes are arbitrary while their product fits. */
static void make_hollow(fuzz_shape *s)
{
    static const int64_t sizes[] = {(int64_t)1 << 33, (int64_t)1 << 31, ((int64_t)1 << 31) + 1,
                                    (int64_t)1 << 40, 1000000};

    if (!s->ndim)
        s->ndim = 1 + (int)draw(3);
    for (int d = 0; d < s->ndim; d++)
        s->size[d] = 1 + draw(3);
    s->size[draw((uint32_t)s->ndim)] = sizes[draw(CR_LEN(sizes))];
    s->size[draw((uint32_t)s->ndim)] = 0;
}

/* --- tensors --- */

static int64_t elements_of(const fuzz_shape *s)
{
    int64_t n = 1;

    for (int d = 0; d < s->ndim; d++)
        n *= s->size[d];
    return n;
}

/* Strides of a kind of layout: row-major, dims exchanged, gaps, repeated, overlapping, channels
 * last. */
static void draw_strides(cr_geometry *g)
{
    int order[MOST_DIMS], kind = common.plain ? 0 : (int)draw(9);
    int64_t step = 1;

    for (int d = 0; d < g->ndim; d++)
        order[d] = g->ndim - 1 - d;
    if (kind == 1 && g->ndim > 1) {
        int a = (int)draw((uint32_t)g->ndim), b = order[0];
        order[0] = order[a];
        order[a] = b;
    }
    for (int i = 0; kind == 2 && g->ndim > 2 && i < g->ndim; i++) /* channels last */
        order[i] = i == 0 ? 1 : i == g->ndim - 1 ? 0 : g->ndim - i;
    for (int i = 0; i < g->ndim; i++) {
        g->stride[order[i]] = step;
        step = CR_WRAP_MUL(step, g->size[order[i]] > 1 ? g->size[order[i]] : 1);
        step = CR_WRAP_MUL(step, kind == 3 ? 2 : 1);
    }
    for (int d = 0; d < g->ndim; d++) {
        if (kind == 4 && one_in(2))
            g->stride[d] = 0;
        if (kind == 5)
            g->stride[d] = draw(3);
    }
}

/* A dim of one element, or a tensor of none, may have any stride. */
static void draw_free_strides(cr_geometry *g, bool hollow)
{
    for (int d = 0; d < g->ndim; d++)
        if ((hollow || g->size[d] == 1) && one_in(3))
            g->stride[d] = one_in(3) ? INT64_MAX - draw(2) : (int64_t)1 << (draw(40) + 10);
}

static cr_scalar element(cr_dtype t, int kind)
{
    if (kind == 1 && one_in(3))
        return cr_dtype_is_inexact(t) ? cr_scalar_float(huge_float())
                                      : cr_scalar_int(huge_int());
    if (cr_dtype_is_inexact(t) && kind != 2)
        return cr_scalar_float(draw(2000) / 250.0 - 4);
    return cr_scalar_int(kind == 4   ? 1 + (int64_t)draw(3)
                         : kind == 3 ? (int64_t)draw(6) - 3
                                     : draw(3));
}

static void fill(cr_tensor *t, int kind)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);

    for (int64_t i = 0; t->address && i < t->numel; i++)
        cr_scalar_store(element((cr_dtype)t->dtype, kind), (cr_dtype)t->dtype,
                        t->address + i * item);
}

static void end_batch(const char *why)
{
    fprintf(stderr, "calls_fuzz: it %s\n", why);
    fflush(stderr);
    _exit(3);
}

/* Calls that only prepare arguments may fail only without memory. */
static void must(cr_status st)
{
    if (st == CR_MEMORY)
        _exit(0);
    if (st)
        end_batch(cr_error_message());
}

static cr_tensor *flat_tensor(cr_dtype dtype, cr_device device, int64_t n)
{
    cr_tensor *t = NULL;

    must(cr_tensor_new(&t, dtype, device, 1, &n));
    return t;
}

static cr_tensor *tensor_of(fuzz_shape s, cr_dtype dtype, int values)
{
    bool hollow = !common.small && one_in(60), meta = common.meta || one_in(60);
    cr_geometry g = {.ndim = s.ndim};
    int64_t last = 0;
    cr_tensor *flat, *t = NULL;

    if (hollow)
        make_hollow(&s);
    g.ndim = s.ndim;
    memcpy(g.size, s.size, sizeof s.size);
    draw_strides(&g);
    hollow = !elements_of(&s);
    for (int d = 0; !hollow && d < g.ndim; d++)
        last += (g.size[d] - 1) * g.stride[d];
    if (!common.plain && one_in(6))
        draw_free_strides(&g, hollow);
    g.offset = common.plain || one_in(2) ? 0 : draw(4);
    flat = flat_tensor(dtype, meta ? CR_META_DEVICE : CR_HOST,
                       g.offset + (hollow ? 0 : last + 1) + draw(3));
    fill(flat, values);
    must(cr_tensor_view(&t, flat, &g));
    cr_drop(flat);
    return t;
}

static const char no_error[] = "no error yet";

static void forget_error(void) { (void)cr_fail(CR_RUNTIME, "%s", no_error); }

/* --- sparse tensors --- */

/* Positions in no order, some of them several times. */
static void fill_indices(cr_tensor *indices, const fuzz_shape *s)
{
    int64_t *at = (int64_t *)(void *)indices->address, n = indices->size[1];

    for (int64_t d = 0; at && d < indices->size[0]; d++)
        for (int64_t i = 0; i < n; i++)
            at[d * n + i] = draw((uint32_t)s->size[d]);
}

static cr_tensor *coo_of(fuzz_shape s, cr_dtype dtype, cr_device device)
{
    int sparse = common.sparse_dims <= s.ndim && draw(5) ? common.sparse_dims
                                                         : (int)draw((uint32_t)s.ndim + 1);
    int64_t n = draw(6), size[MOST_DIMS + 1];
    cr_sparse parts = {0};
    cr_tensor *t = NULL;

    for (int d = 0; d < sparse; d++)
        n = s.size[d] ? n : 0;
    size[0] = n;
    memcpy(size + 1, s.size + sparse, (size_t)(s.ndim - sparse) * sizeof *size);
    must(cr_tensor_new(&parts.values, dtype, device, 1 + s.ndim - sparse, size));
    fill(parts.values, (int)draw(4));
    must(cr_tensor_new(&parts.indices, CR_I64, device, 2, (int64_t[]){sparse, n}));
    fill_indices(parts.indices, &s);
    must(cr_sparse_new(&t, CR_LAYOUT_COO, s.ndim, s.size, &parts));
    cr_drop(parts.indices);
    cr_drop(parts.values);
    return t;
}

/* Replaces *t by the result of an entry on it, if the call succeeds. */
static void convert(cr_tensor **t, const char *entry, const cr_value *more, int n)
{
    cr_value arg[4] = {cr_of_tensor(*t)}, made;

    for (int i = 0; i < n; i++)
        arg[1 + i] = more[i];
    if (cr_call_named(entry, arg, n + 1, &made)) {
        forget_error();
        return;
    }
    cr_drop(*t);
    *t = made.t;
}

/* A program can write to indices, and can call them coalesced: no call may trust them. */
static void spoil(cr_tensor *t)
{
    cr_sparse *parts = cr_sparse_of(t);
    cr_tensor *part = parts->compressed && one_in(2) ? parts->compressed : parts->indices;

    if (part->address && part->numel && part->dtype == CR_I64 && one_in(2))
        ((int64_t *)(void *)part->address)[draw((uint32_t)part->numel)] =
            one_in(2) ? huge_int() : (int64_t)draw(9) - 4;
    parts->coalesced |= cr_is_coo(t) && one_in(3);
}

/* Any compressed layout, with blocks of one element, or of half a row or column, or of all. */
static void compress(cr_tensor **t)
{
    static const int layouts[] = {CR_LAYOUT_CSR, CR_LAYOUT_CSC, CR_LAYOUT_BSR, CR_LAYOUT_BSC};
    int layout = layouts[draw(CR_LEN(layouts))];
    int64_t block[2];

    for (int d = 0; d < 2; d++) {
        int64_t size = (*t)->size[d];
        block[d] = !size || one_in(3) ? 1 : size % 2 == 0 && one_in(2) ? size / 2 : size;
    }
    bool blocked = layout == CR_LAYOUT_BSR || layout == CR_LAYOUT_BSC;
    convert(t, "_to_sparse",
            (cr_value[]){cr_of_int(layout), blocked ? cr_of_ints(block, 2) : cr_of_none(),
                         cr_of_int(0)},
            3);
}

static cr_tensor *sparse_of(fuzz_shape s, cr_dtype dtype)
{
    cr_tensor *t = coo_of(s, dtype, common.meta || one_in(60) ? CR_META_DEVICE : CR_HOST);

    if (one_in(3))
        convert(&t, "coalesce", NULL, 0);
    if (s.ndim == 2 && cr_sparse_dims(t) == 2 && one_in(3))
        compress(&t);
    if (!common.small && one_in(6))
        spoil(t);
    return t;
}

/* --- tensors of any layout --- */

static void want_gradient(cr_tensor **t)
{
    cr_value one[2] = {cr_of_tensor(*t), {.tag = CR_NUMBER, .number = cr_scalar_int(1)}}, made;

    if (!cr_dtype_is_inexact((cr_dtype)(*t)->dtype) || cr_set_requires_grad(*t, true) ||
        one_in(3))
        return;
    if ((*t)->numel > MOST_ELEMENTS ||
        cr_call_named("mul", one, 2, &made)) /* not a leaf: may be changed in place */
        return;
    *t = made.t;
}

static bool named(const cr_param *p, const char *part) { return strstr(p->name, part) != NULL; }

static cr_tensor *any_tensor(const cr_param *p)
{
    bool index =
        named(p, "ind") || named(p, "target") || named(p, "offsets") || named(p, "lengths");
    cr_dtype dtype = named(p, "mask") || named(p, "condition") ? CR_BOOL
                     : index                                   ? CR_I64
                                                               : common.dtype;
    bool pivots = named(p, "pivots");
    cr_tensor *t;

    if (pivots && draw(4))
        return tensor_of((fuzz_shape){1, {3}}, CR_I32, 4);
    dtype = one_in(10) ? any_dtype() : dtype;
    t = common.sparse && draw(4) ? sparse_of(related_shape(), dtype)
                                 : tensor_of(related_shape(), dtype,
                                             index          ? 2 * !one_in(8)
                                             : common.plain ? 0
                                                            : (int)draw(4));
    if (common.grad && draw(4))
        want_gradient(&t);
    return t;
}

/* --- other arguments --- */

static int64_t any_int(const cr_param *p)
{
    int n = common.shape.ndim;

    if (named(p, "sampling_ratio")) /* a bin has its square of samples */
        return draw(20) - 3;
    if (one_in(12))
        return huge_int();
    if (named(p, "dim") || named(p, "axis"))
        return n && draw(10) ? (int64_t)draw(2 * (uint32_t)n) - n : (int64_t)draw(7) - 3;
    return one_in(4) ? (int64_t)draw(9) - 4 : draw(4);
}

static cr_arg any_ints(const cr_param *p)
{
    int n = common.shape.ndim;
    bool sizes = (named(p, "size") || named(p, "shape")) && draw(3);
    uint32_t lengths[] = {(uint32_t)p->fixed, (uint32_t)n, n > 2 ? (uint32_t)n - 2 : 1, 1,
                          draw(6)};
    uint32_t len = sizes                 ? (uint32_t)n
                   : p->fixed && draw(6) ? (uint32_t)p->fixed
                                         : lengths[draw(CR_LEN(lengths))];
    int64_t *ints = batch_memory(len * sizeof *ints);

    if (one_in(5))
        return (cr_arg){.kind = CR_ARG_INT, .i = any_int(p)};
    for (uint32_t i = 0; i < len; i++)
        ints[i] = sizes && draw(6) ? common.shape.size[i] : any_int(p);
    return (cr_arg){.kind = CR_ARG_INTS, .len = len, .ints = ints};
}

static cr_arg any_float(void)
{
    return (cr_arg){.kind = CR_ARG_FLOAT, .d = draw(8) ? draw(40) / 8.0 - 1.5 : huge_float()};
}

static cr_arg any_floats(void)
{
    uint32_t len = draw(5);
    double *floats = batch_memory(len * sizeof *floats);

    for (uint32_t i = 0; i < len; i++)
        floats[i] = any_float().d;
    return (cr_arg){.kind = CR_ARG_FLOATS, .len = len, .floats = floats};
}

static cr_arg any_number(const cr_param *p)
{
    switch (draw(8)) {
    case 0: return (cr_arg){.kind = CR_ARG_COMPLEX, .c = {any_float().d, any_float().d}};
    case 1: return (cr_arg){.kind = CR_ARG_BOOL, .i = draw(2)};
    case 2:
    case 3:
    case 4: return (cr_arg){.kind = CR_ARG_INT, .i = any_int(p)};
    default: return any_float();
    }
}

static cr_arg any_tensors(const cr_param *p)
{
    cr_arg a = {.kind = CR_ARG_TENSORS, .len = one_in(30) ? 12 : draw(5)};
    cr_tensor **list = batch_memory(a.len * sizeof *list);

    for (uint32_t i = 0; i < a.len; i++)
        list[i] = one_in(p->item_optional ? 3 : 40) ? NULL : any_tensor(p);
    a.tensors = list;
    return a;
}

/* The strings in the record's rules: its checks and composition compare arguments with them. */
static const char *strings[64];
static uint32_t string_count;

static void collect_strings(const cr_rule *r)
{
    if (!r)
        return;
    if (r->kind == CR_RULE_STRING && string_count < CR_LEN(strings))
        strings[string_count++] = r->name;
    for (int i = 0; i < r->count; i++)
        collect_strings(r->args[i]);
}

static void find_strings(const cr_op *op)
{
    string_count = 0;
    for (int i = 0; i < op->check_count; i++)
        collect_strings(op->checks[i].when);
    for (int i = 0; i < op->body_count; i++)
        collect_strings(op->body[i]);
    for (int i = 0; i < op->let_count; i++)
        collect_strings(op->lets[i].rule);
}

static cr_arg any_string(void)
{
    static const char *const words[] = {
        "",        "none",    "mean",    "sum",  "floor",     "ij",   "same",    "valid",
        "reflect", "nearest", "linear",  "tanh", "ij,jk->ik", "ii",   "...i->i", "xy",
        "sum",     "amax",    "reduced", "fro",  "nuc",       "left", "gelsd",   "circular"};

    if (string_count && draw(4))
        return (cr_arg){.kind = CR_ARG_STRING, .s = strings[draw(string_count)]};
    return (cr_arg){.kind = CR_ARG_STRING, .s = words[draw(CR_LEN(words))]};
}

static cr_arg any_generator(void)
{
    cr_generator *g = NULL;

    must(cr_generator_new(&g, draw_word()));
    return (cr_arg){.kind = CR_ARG_GENERATOR, .generator = g};
}

static cr_arg any_arg(const cr_param *p)
{
    static const char *const devices[] = {"cpu", "meta"};
    static const char *const formats[] = {"contiguous_format", "preserve_format",
                                          "channels_last", "channels_last_3d"};
    cr_type type = one_in(40) ? (cr_type)draw(CR_T_GENERATOR) : (cr_type)p->type;

    if (one_in(p->optional ? 3 : 60))
        return (cr_arg){.kind = CR_ARG_NONE};
    switch (type) {
    case CR_T_TENSOR:
        if (p->number && one_in(4))
            return any_number(p);
        return (cr_arg){.kind = CR_ARG_TENSOR, .t = any_tensor(p)};
    case CR_T_TENSORS: return any_tensors(p);
    case CR_T_SCALAR: return any_number(p);
    case CR_T_INT: return (cr_arg){.kind = CR_ARG_INT, .i = any_int(p)};
    case CR_T_INTS:
    case CR_T_BOOLS: return any_ints(p);
    case CR_T_FLOAT: return any_float();
    case CR_T_FLOATS: return any_floats();
    case CR_T_BOOL: return (cr_arg){.kind = CR_ARG_BOOL, .i = draw(2)};
    case CR_T_STRING: return any_string();
    case CR_T_DTYPE:
        return (cr_arg){.kind = CR_ARG_INT,
                        .i = one_in(3) ? draw(CR_DTYPE_COUNT + 2) : (int64_t)any_dtype()};
    case CR_T_DEVICE: return (cr_arg){.kind = CR_ARG_STRING, .s = devices[one_in(6)]};
    case CR_T_FORMAT:
        return (cr_arg){.kind = CR_ARG_STRING, .s = formats[draw(CR_LEN(formats))]};
    case CR_T_GENERATOR: return any_generator();
    case CR_T_LAYOUT:
        return (cr_arg){.kind = CR_ARG_STRING, .s = cr_layout_names[draw(CR_LAYOUT_COUNT)]};
    case CR_T_SCALARS: break;
    }
    return (cr_arg){.kind = CR_ARG_NONE};
}

/* --- arguments by the `sample` clause (tests/ops/table.py) --- */

static cr_tensor *sample_tensor(const cr_rule *call)
{
    bool index = !strcmp(call->name, "i"), truth = !strcmp(call->name, "b");
    fuzz_shape s = {0};

    /* ones(()) and similar samples are used as numbers */
    for (int i = index; !call->name[1] && i < call->count && s.ndim < MOST_DIMS; i++)
        s.size[s.ndim++] = call->args[i]->kind == CR_RULE_INT ? call->args[i]->integer : 2;
    cr_tensor *t = tensor_of(s,
                             index   ? CR_I64
                             : truth ? CR_BOOL
                                     : common.dtype,
                             index || truth ? 2 : 0);
    if (common.grad)
        want_gradient(&t);
    return t;
}

static bool sample_floats(cr_arg *out, const cr_rule *r)
{
    double *floats = batch_memory((size_t)r->count * sizeof *floats);

    for (int i = 0; i < r->count; i++)
        floats[i] = r->args[i]->number;
    *out = (cr_arg){.kind = CR_ARG_FLOATS, .len = (uint32_t)r->count, .floats = floats};
    return true;
}

static bool sample_list(cr_arg *out, const cr_rule *r)
{
    int64_t *ints = batch_memory((size_t)r->count * sizeof *ints);
    cr_tensor **tensors = batch_memory((size_t)r->count * sizeof *tensors);
    bool all_ints = true;

    if (r->count && r->args[0]->kind == CR_RULE_FLOAT)
        return sample_floats(out, r);
    for (int i = 0; i < r->count; i++) {
        const cr_rule *one = r->args[i];
        all_ints &= one->kind == CR_RULE_INT || one->kind == CR_RULE_BOOL;
        ints[i] = one->integer;
        if (one->kind == CR_RULE_CALL)
            tensors[i] = sample_tensor(one);
    }
    *out =
        all_ints
            ? (cr_arg){.kind = CR_ARG_INTS, .len = (uint32_t)r->count, .ints = ints}
            : (cr_arg){.kind = CR_ARG_TENSORS, .len = (uint32_t)r->count, .tensors = tensors};
    return true;
}

static bool sample_arg(cr_arg *out, const cr_rule *r)
{
    switch (r->kind) {
    case CR_RULE_INT: *out = (cr_arg){.kind = CR_ARG_INT, .i = r->integer}; return true;
    case CR_RULE_BOOL: *out = (cr_arg){.kind = CR_ARG_BOOL, .i = r->integer}; return true;
    case CR_RULE_FLOAT: *out = (cr_arg){.kind = CR_ARG_FLOAT, .d = r->number}; return true;
    case CR_RULE_STRING: *out = (cr_arg){.kind = CR_ARG_STRING, .s = r->name}; return true;
    case CR_RULE_NONE: *out = (cr_arg){.kind = CR_ARG_NONE}; return true;
    case CR_RULE_LIST: return sample_list(out, r);
    case CR_RULE_CALL:
        if (strlen(r->name) != 1)
            return false;
        *out = (cr_arg){.kind = CR_ARG_TENSOR, .t = sample_tensor(r)};
        return true;
    case CR_RULE_NAME:
        for (int t = 0; t < CR_DTYPE_COUNT; t++)
            if (!strcmp(cr_dtype_name((cr_dtype)t), r->name)) {
                *out = (cr_arg){.kind = CR_ARG_INT, .i = t};
                return true;
            }
        return false;
    default: return false;
    }
}

/* --- a call --- */

typedef struct {
    bool given[CR_MAX_ARGS];
    cr_arg arg[CR_MAX_ARGS];
} fuzz_call;

static cr_arg two_tensors(fuzz_shape s)
{
    cr_tensor **list = batch_memory(2 * sizeof *list);

    list[0] = tensor_of(s, common.dtype, 0);
    list[1] = tensor_of(s, common.dtype, 0);
    return (cr_arg){.kind = CR_ARG_TENSORS, .len = 2, .tensors = list};
}

/* The argument of a parameter that the sample does not name, as tests draw it. */
static bool preset_arg(cr_arg *out, const cr_param *p)
{
    fuzz_shape s = {2, {3, 4}};

    if (p->has_default)
        return false;
    if (p->optional)
        *out = (cr_arg){.kind = CR_ARG_NONE};
    else if (p->type == CR_T_TENSOR)
        *out = (cr_arg){.kind = CR_ARG_TENSOR,
                        .t = tensor_of(s, named(p, "mask") ? CR_BOOL : common.dtype, 0)};
    else if (p->type == CR_T_TENSORS)
        *out = two_tensors(s);
    else if (p->type == CR_T_INT)
        *out = (cr_arg){.kind = CR_ARG_INT, .i = !named(p, "dim")};
    else
        *out = any_arg(p);
    if (out->kind == CR_ARG_TENSOR && common.grad)
        want_gradient(&out->t);
    return true;
}

static void apply_setting(fuzz_call *c, const cr_op *op, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    cr_rule *rule = NULL;
    lexer x;
    size_t n;

    if (!equals)
        return;
    for (n = (size_t)(equals - text); n && text[n - 1] == ' ';)
        n--;
    for (int i = 0; i < op->param_count; i++)
        if (strlen(op->param[i].name) == n && !memcmp(op->param[i].name, text, n)) {
            if (!lex_start(&x, "sample", 1, equals + 1, len - (size_t)(equals + 1 - text),
                           &arena) &&
                !rule_parse(&x, &rule))
                c->given[i] = sample_arg(&c->arg[i], rule);
            forget_error();
        }
}

static const cr_op *of_entry(const cr_op *op) { return op->inplace_of ? op->inplace_of : op; }

/* The entry's sample without its line ends, or NULL. */
static const char *sample_text(const cr_op *op)
{
    cr_text text = {0};
    const char *kept = NULL;

    if (!of_entry(op)->text.sample.at)
        return NULL;
    cr_clause_put(&text, of_entry(op)->text.sample);
    if (!cr_text_status(&text))
        kept = cr_arena_text(&arena, cr_text_str(&text), text.len);
    cr_text_drop(&text);
    return kept;
}

static void sample_call(fuzz_call *c, const cr_op *op)
{
    const char *text = sample_text(op), *end;

    for (int i = 0; i < op->param_count; i++)
        c->given[i] = preset_arg(&c->arg[i], &op->param[i]);
    if (text && !strncmp(text, "none", 4)) { /* the other tests do not draw it */
        text = strchr(text, '|');
        text += text != NULL;
    }
    if (!text)
        return;
    for (end = text + strcspn(text, "|"); *end && one_in(2); end = text + strcspn(text, "|"))
        text = end + 1;
    for (size_t n; text < end; text += n + (text + n < end)) {
        text += strspn(text, " \n");
        n = strcspn(text, ";|");
        apply_setting(c, op, text, n);
    }
}

static void fresh_arg(fuzz_call *c, const cr_op *op, int i)
{
    c->given[i] = !op->param[i].has_default || one_in(2);
    if (c->given[i])
        c->arg[i] = any_arg(&op->param[i]);
}

static fuzz_call kept[KEPT];
static int kept_count;

/* --- calls that entries make of each other --- */

typedef struct {
    fuzz_call call[LEARNED];
    int count;
} lesson;

static lesson *lessons; /* by record */
static bool learning;

static void *copy_of(const void *from, size_t size)
{
    return from ? memcpy(batch_memory(size), from, size) : NULL;
}

static cr_tensor *detached(cr_tensor *t)
{
    cr_tensor *made = NULL;

    return t && !cr_detached(&made, t) ? made : NULL;
}

static cr_arg learned_arg(const cr_value *v)
{
    cr_tensor **list;

    switch (v->tag) {
    case CR_TENSOR: return (cr_arg){.kind = CR_ARG_TENSOR, .t = detached(v->t)};
    case CR_NUMBER:
        if (v->number.category == CR_CAT_COMPLEX)
            return (cr_arg){.kind = CR_ARG_COMPLEX, .c = v->number.c};
        if (v->number.category == CR_CAT_FLOAT)
            return (cr_arg){.kind = CR_ARG_FLOAT, .d = v->number.d};
        return (cr_arg){.kind = CR_ARG_INT, .i = v->number.i};
    case CR_INT: return (cr_arg){.kind = CR_ARG_INT, .i = v->i};
    case CR_DTYPE_VAL: return (cr_arg){.kind = CR_ARG_INT, .i = v->i};
    case CR_FLOAT: return (cr_arg){.kind = CR_ARG_FLOAT, .d = v->d};
    case CR_TRUTH: return (cr_arg){.kind = CR_ARG_BOOL, .i = v->i};
    case CR_STRING:
        return (cr_arg){.kind = CR_ARG_STRING, .s = cr_arena_text(&arena, v->s, v->len)};
    case CR_INTS:
    case CR_TRUTHS:
        return (cr_arg){.kind = CR_ARG_INTS,
                        .len = v->len,
                        .ints = copy_of(v->ints, v->len * sizeof *v->ints)};
    case CR_FLOATS:
        return (cr_arg){.kind = CR_ARG_FLOATS,
                        .len = v->len,
                        .floats = copy_of(v->floats, v->len * sizeof *v->floats)};
    case CR_TENSORS:
        list = batch_memory(v->len * sizeof *list);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = v->list[i].tag == CR_TENSOR ? detached(v->list[i].t) : NULL;
        return (cr_arg){.kind = CR_ARG_TENSORS, .len = v->len, .tensors = list};
    default: return (cr_arg){.kind = CR_ARG_NONE};
    }
}

static bool is_small(const cr_op *op, const cr_value *v)
{
    for (int i = 0; i < op->param_count; i++)
        if (v[i].tag == CR_TENSOR && v[i].t->numel > 1000)
            return false;
    return true;
}

/* Replaces the autocast stage while samples run. */
static cr_status learning_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    lesson *l = &lessons[op->index];

    if (learning && l->count < LEARNED && is_small(op, arg)) {
        fuzz_call *c = &l->call[l->count++];
        learning = false; /* detaching makes calls, too */
        for (int i = 0; i < op->param_count; i++) {
            c->given[i] = true;
            c->arg[i] = learned_arg(&arg[i]);
        }
        learning = true;
    }
    return cr_call_past(CR_STAGE_AUTOCAST, op, arg, result);
}

static void learned_call(fuzz_call *c, const cr_op *op)
{
    const lesson *l = &lessons[op->index];

    *c = l->call[draw((uint32_t)l->count)];
    for (int i = 0; common.grad && i < op->param_count; i++)
        if (c->arg[i].kind == CR_ARG_TENSOR && c->arg[i].t && !c->arg[i].t->requires_grad) {
            c->arg[i].t = detached(c->arg[i].t);
            if (c->arg[i].t)
                want_gradient(&c->arg[i].t);
        }
}

static bool takes_sparse(const cr_op *op)
{
    return (op->words & (CR_WORD_SPARSE | CR_WORD_KEEPS_ZERO)) || op->sparse.op;
}

static void draw_call(fuzz_call *c, const cr_op *op)
{
    uint32_t source = draw(100);
    int changes = (int)draw(3);

    memset(c, 0, sizeof *c);
    draw_common();
    common.sparse = takes_sparse(op) ? draw(4) : one_in(40);
    common.sparse_dims =
        one_in(2) ? common.shape.ndim : (int)draw((uint32_t)common.shape.ndim + 1);
    if (source < 35 && lessons[op->index].count && one_in(2)) {
        learned_call(c, op);
    } else if (source < 35) {
        sample_call(c, op);
    } else if (source < 65 && kept_count) {
        *c = kept[draw((uint32_t)kept_count)];
        changes += one_in(2);
    } else {
        changes = 0;
        for (int i = 0; i < op->param_count; i++)
            fresh_arg(c, op, i);
    }
    for (int i = 0; op->param_count && i < changes; i++)
        fresh_arg(c, op, (int)draw(op->param_count));
}

/* --- describing a call --- */

static void describe(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void describe(const char *fmt, ...)
{
    size_t used = strlen(report->text);
    va_list list;

    va_start(list, fmt);
    vsnprintf(report->text + used, sizeof report->text - used, fmt, list);
    va_end(list);
}

static void describe_ints(const int64_t *ints, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        describe("%s%lld", i ? "," : "", (long long)ints[i]);
}

static void describe_tensor(const cr_tensor *t)
{
    if (!t) {
        describe("None");
        return;
    }
    describe("%s[", cr_dtype_name((cr_dtype)t->dtype));
    describe_ints(t->size, t->ndim);
    if (!t->contiguous) {
        describe(" / ");
        describe_ints(t->stride, t->ndim);
    }
    describe("]%s%s", !cr_has_bytes(t->device) ? " meta" : "", t->requires_grad ? " grad" : "");
    if (cr_is_sparse(t))
        describe(" %s", cr_layout_names[t->layout]);
    if (t->numel == 1 && t->address && !t->requires_grad) {
        cr_scalar s;
        if (!cr_tensor_item(&s, t))
            describe("{%g}", s.category == CR_CAT_FLOAT ? s.d : (double)s.i);
    }
}

static void describe_arg(const cr_arg *a)
{
    switch (a->kind) {
    case CR_ARG_TENSOR: describe_tensor(a->t); break;
    case CR_ARG_BOOL: describe(a->i ? "True" : "False"); break;
    case CR_ARG_INT: describe("%lld", (long long)a->i); break;
    case CR_ARG_FLOAT: describe("%g", a->d); break;
    case CR_ARG_COMPLEX: describe("(%g%+gj)", a->c.re, a->c.im); break;
    case CR_ARG_STRING: describe("'%s'", a->s ? a->s : "None"); break;
    case CR_ARG_INTS:
        describe("(");
        describe_ints(a->ints, a->len);
        describe(")");
        break;
    case CR_ARG_FLOATS:
        for (uint32_t i = 0; i < a->len; i++)
            describe("%s%g", i ? "," : "(", a->floats[i]);
        describe(a->len ? ")" : "()");
        break;
    case CR_ARG_TENSORS:
        describe("[");
        for (uint32_t i = 0; i < a->len; i++) {
            describe(i ? ", " : "");
            describe_tensor(a->tensors[i]);
        }
        describe("]");
        break;
    case CR_ARG_GENERATOR: describe("generator"); break;
    default: describe("None");
    }
}

static void describe_call(const fuzz_call *c, const cr_op *op)
{
    const char *comma = "";

    report->text[0] = 0;
    describe("%s(", op->name);
    for (int i = 0; i < op->param_count; i++)
        if (c->given[i]) {
            describe("%s%s=", comma, op->param[i].name);
            describe_arg(&c->arg[i]);
            comma = ", ";
        }
    describe(")");
}

static void describe_step(const char *step)
{
    describe("%s", step);
    if (verbose) {
        printf("%s", step);
        fflush(stdout);
    }
}

/* --- results --- */

static bool is_sound(const cr_tensor *t);

/* Whether blocks of these sizes divide a matrix. */
static bool blocks_fit(const int64_t *size, const int64_t *block)
{
    return block[0] > 0 && block[1] > 0 && size[0] % block[0] == 0 && size[1] % block[1] == 0;
}

/* Whether a part has the sizes of the batch in front. */
static bool batch_fits(const cr_tensor *t, const cr_tensor *part, int batch)
{
    return part->ndim > batch && !memcmp(part->size, t->size, (size_t)batch * sizeof *t->size);
}

/* Whether the starts of the lines of a compressed layout go with the sizes. */
static bool lines_fit(const cr_tensor *t, const cr_sparse *s, int batch)
{
    int line = !cr_by_rows(t->layout);
    const int64_t one[2] = {1, 1}, *size = t->size + batch,
                  *block = cr_is_blocked(t) ? s->values->size + batch + 1 : one;

    return batch_fits(t, s->compressed, batch) && blocks_fit(size, block) &&
           s->compressed->size[batch] == size[line] / block[line] + 1;
}

/* Whether the sizes of the parts go with those of the tensor. */
static bool parts_fit(const cr_tensor *t, const cr_sparse *s)
{
    int batch = cr_sparse_batch(t), sparse = batch + cr_sparse_dims(t),
        first = batch + (cr_is_blocked(t) ? 3 : 1);

    if (s->values->ndim != first + t->ndim - sparse ||
        s->indices->ndim != batch + 2 - !cr_is_coo(t) || !batch_fits(t, s->indices, batch) ||
        !batch_fits(t, s->values, batch) ||
        s->indices->size[batch + cr_is_coo(t)] != s->values->size[batch])
        return false;
    for (int d = sparse; d < t->ndim; d++)
        if (s->values->size[first + d - sparse] != t->size[d])
            return false;
    return !s->compressed || lines_fit(t, s, batch);
}

/* A sparse tensor has parts, which are checked, and no bytes. */
static bool is_sound_sparse(const cr_tensor *t)
{
    const cr_sparse *s = cr_sparse_of(t);

    return is_sound(s->indices) && is_sound(s->values) && parts_fit(t, s) &&
           (!s->compressed || is_sound(s->compressed));
}

/* True when all elements are inside the storage. */
static bool is_sound(const cr_tensor *t)
{
    int64_t numel = 1, first = t->offset, last = t->offset,
            item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);

    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] < 0 || CR_MUL_OVERFLOW(numel, t->size[d], &numel))
            return false;
    if (cr_is_sparse(t))
        return numel == t->numel && is_sound_sparse(t);
    for (int d = 0; t->numel && d < t->ndim; d++) {
        int64_t reach;
        if (CR_MUL_OVERFLOW(t->size[d] - 1, t->stride[d], &reach) ||
            CR_ADD_OVERFLOW(first, reach < 0 ? reach : 0, &first) ||
            CR_ADD_OVERFLOW(last, reach > 0 ? reach : 0, &last))
            return false;
    }
    return numel == t->numel && (!numel || !cr_has_bytes(t->device) ||
                                 (first >= 0 && last < (int64_t)t->storage->size / item));
}

static void check_tensor(const cr_tensor *t)
{
    if (t && !is_sound(t))
        end_batch("leaves a tensor that is larger than its memory");
}

static void check_failure(void)
{
    if (!strcmp(cr_error_message(), no_error))
        end_batch("failed without a message");
}

/* A copy reads every element. */
static void read_all(cr_tensor *t)
{
    cr_tensor *copy = NULL;
    cr_view to, from;

    if (t->numel > MOST_ELEMENTS || !t->numel || !t->address)
        return;
    must(cr_tensor_new(&copy, (cr_dtype)t->dtype, CR_HOST, t->ndim, t->size));
    to = cr_view_of(copy);
    from = cr_view_of(t);
    must(cr_copy_elements(&to, &from));
    cr_drop(copy);
}

static void check_arg(const cr_arg *a)
{
    if (a->kind == CR_ARG_TENSOR)
        check_tensor(a->t);
    for (uint32_t i = 0; a->kind == CR_ARG_TENSORS && i < a->len; i++)
        check_tensor(a->tensors[i]);
}

static void check_args(const fuzz_call *c, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (c->given[i])
            check_arg(&c->arg[i]);
}

/* --- derivatives --- */

static cr_tensor *cotangent_for(const cr_tensor *root)
{
    fuzz_shape s = {.ndim = root->ndim};
    bool was = common.plain;

    if (root->ndim > MOST_DIMS || root->numel > MOST_ELEMENTS || one_in(20))
        s = related_shape();
    else
        memcpy(s.size, root->size, root->ndim * sizeof *root->size);
    common.plain = one_in(2);
    cr_tensor *t = tensor_of(s, one_in(20) ? any_dtype() : (cr_dtype)root->dtype, 0);
    common.plain = was;
    if (one_in(3))
        want_gradient(&t);
    return t;
}

static void wanted_inputs(cr_tensor **list, int *n, cr_tensor *t)
{
    if (t && t->requires_grad && *n < 16)
        list[(*n)++] = t;
}

/* One backward pass for inputs; with create_graph another through its gradients. */
static void differentiate(cr_tensor *root, const fuzz_call *c, const cr_op *op, int depth)
{
    cr_tensor *grad = cotangent_for(root), *inputs[16], *grads[16] = {0};
    cr_backward_call call = {.roots = &root,
                             .grads = &grad,
                             .root_count = 1,
                             .inputs = inputs,
                             .allow_unused = draw(8),
                             .retain_graph = one_in(3),
                             .create_graph = one_in(3)};

    for (int i = 0; i < op->param_count; i++) {
        if (c->given[i] && c->arg[i].kind == CR_ARG_TENSOR)
            wanted_inputs(inputs, &call.input_count, c->arg[i].t);
        for (uint32_t k = 0;
             c->given[i] && c->arg[i].kind == CR_ARG_TENSORS && k < c->arg[i].len; k++)
            wanted_inputs(inputs, &call.input_count, c->arg[i].tensors[k]);
    }
    describe_step(depth ? ", backward again with " : ", backward with ");
    describe_tensor(grad);
    if (!call.input_count || one_in(6)) {
        call.inputs = NULL;
        call.input_count = 0;
    }
    if (cr_backward(&call, call.inputs ? grads : NULL))
        check_failure();
    for (int i = 0; i < call.input_count; i++) {
        check_tensor(grads[i]);
        if (grads[i])
            read_all(grads[i]);
        if (grads[i] && call.create_graph && grads[i]->requires_grad && depth < 1)
            differentiate(grads[i], c, op, depth + 1);
        cr_drop(grads[i]);
    }
    cr_drop(grad);
}

static bool can_differentiate(const cr_tensor *t)
{
    return t->requires_grad && cr_dtype_is_inexact((cr_dtype)t->dtype) &&
           t->numel <= MOST_ELEMENTS;
}

static void check_result(const cr_value *v, const fuzz_call *c, const cr_op *op)
{
    /* A backward call from one of many parts makes zeros for all others. */
    uint32_t most = v->len > MANY_PARTS ? 1 : 8;

    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len && i < most; i++)
        check_result(&v->list[i], c, op);
    if (v->tag != CR_TENSOR)
        return;
    check_tensor(v->t);
    read_all(v->t);
    if (can_differentiate(v->t) && draw(3))
        differentiate(v->t, c, op, 0);
}

/* --- running --- */

static bool gives_out(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].type != CR_T_TENSOR || op->result[k].alias)
            return false;
    return op->does != CR_DOES_MAP && op->does != CR_DOES_INPLACE;
}

static cr_status run_bound(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *out[CR_MAX_RESULTS];
    static const cr_param any = {.name = "out"};

    if (!gives_out(op) || draw(8))
        return cr_call(op, arg, result);
    describe_step(", out=");
    for (int k = 0; k < op->result_count; k++) {
        out[k] = any_tensor(&any);
        describe_tensor(out[k]);
    }
    cr_status st = cr_call_out(op, arg, out, result);
    for (int k = 0; k < op->result_count; k++) {
        check_tensor(out[k]);
        cr_drop(out[k]);
    }
    return st;
}

static bool run_call(const fuzz_call *c, const cr_op *op)
{
    cr_arg args[CR_MAX_ARGS + 1];
    cr_value result[CR_MAX_RESULTS];
    const cr_op *bound = op;
    cr_binding b;
    int n = 0;

    for (int i = 0; i < op->param_count; i++)
        if (c->given[i]) {
            args[n] = c->arg[i];
            args[n++].name = op->param[i].name;
        }
    args[n] = (cr_arg){.kind = CR_ARG_END};
    cr_thread.no_grad = one_in(16);
    cr_status st = cr_bind(&b, &bound, op, op->name, args);
    st = st ? st : run_bound(bound, b.value, result);
    cr_thread.no_grad = false;
    check_args(c, op);
    if (st) {
        check_failure();
    } else {
        for (int k = 0; k < bound->result_count; k++)
            check_result(&result[k], c, op);
        cr_drop_values(result, bound->result_count);
    }
    cr_binding_drop(&b);
    return !st;
}

static void keep_call(const fuzz_call *c)
{
    int at = kept_count < KEPT ? kept_count++ : (int)draw(KEPT);

    kept[at] = *c;
}

/* A call that loops or waits forever ends its process. */
static void limit_call(void)
{
    const struct itimerval longest = {.it_value.tv_sec = LONGEST};

    setitimer(ITIMER_PROF, &longest, NULL);
    alarm(10 * LONGEST);
}

static void run_batch(cr_op *op, uint64_t seed, int batch, int calls, op_count *count)
{
    fuzz_call c;

    state = seed * 0x9E3779B97F4A7C15u ^ (uint64_t)op->index << 32 ^ (uint64_t)batch;
    draw_word();
    find_strings(of_entry(op));
    for (int i = 0; i < calls; i++) {
        report->call = i;
        draw_call(&c, op);
        describe_call(&c, op);
        if (verbose) {
            printf("%d: %s", i, report->text);
            fflush(stdout);
        }
        limit_call();
        bool returned = run_call(&c, op);
        if (verbose)
            printf("%s%s\n", returned ? "" : " fails: ", returned ? "" : cr_error_message());
        count->calls++;
        count->returned += returned;
        if (returned)
            keep_call(&c);
        forget_error();
    }
}

/* Runs all samples and their derivatives. */
static void learn(uint64_t seed)
{
    child_report unused;
    fuzz_call c;
    cr_stage_fn autocast = cr_stage_fns[CR_STAGE_AUTOCAST];

    report = &unused;
    state = seed;
    cr_stage_fns[CR_STAGE_AUTOCAST] = learning_stage;
    cr_thread.include |= CR_STAGE_BIT(AUTOCAST);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < cr_ops_table_count(); i++) {
            const cr_op *op = cr_ops_at(i);
            draw_common();
            common.plain = common.grad = common.small = true;
            common.meta = false;
            common.dtype = round ? CR_F64 : CR_F32;
            memset(&c, 0, sizeof c);
            unused.text[0] = 0;
            sample_call(&c, op);
            learning = true;
            run_call(&c, op);
            learning = false;
        }
    cr_stage_fns[CR_STAGE_AUTOCAST] = autocast;
    cr_thread.include &= ~CR_STAGE_BIT(AUTOCAST);
    common.small = false;
    report = NULL;
}

/* --- children --- */

static void print_place(int signal_)
{
    void *frames[40];

    backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
    signal(signal_, SIG_DFL);
    raise(signal_);
}

/* Large requests are refused at once: 1.5 GB more than the process has mapped, which with the
 * sanitizer is terabytes. */
static void limit_memory(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!f || fscanf(f, "%lu", &pages) != 1)
        exit(2);
    fclose(f);
    struct rlimit most = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1536 << 20),
                          RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &most);
}

CR_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=1024:soft_rss_limit_mb=3000:"
           "detect_leaks=0";
}

static void watch_signals(void)
{
    static const int ends[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGPROF};
    void *frame;

    backtrace(&frame, 1); /* loads a library, which a handler may not do */
#ifdef __SANITIZE_ADDRESS__
    signal(SIGALRM, print_place);
    signal(SIGPROF, print_place);
#else
    for (size_t i = 0; i < CR_LEN(ends); i++)
        signal(ends[i], print_place);
#endif
    (void)ends;
}

typedef struct {
    pid_t pid;
    FILE *errors;
    cr_op *op;
    int batch;
} child_process;

static child_process children[MOST_JOBS];
static child_report *reports;

static void start_child(int slot, cr_op *op, uint64_t seed, int batch, int calls)
{
    child_process *c = &children[slot];

    *c = (child_process){0, tmpfile(), op, batch};
    reports[slot] = (child_report){0};
    fflush(stdout);
    c->pid = fork();
    if (c->pid)
        return;
    report = &reports[slot];
    if (c->errors)
        dup2(fileno(c->errors), 2);
    watch_signals();
    run_batch(op, seed, batch, calls, &counts[op->index]);
    _exit(0);
}

static void print_errors(FILE *f)
{
    char line[512];

    rewind(f);
    for (int i = 0; i < 24 && fgets(line, sizeof line, f); i++)
        printf("    %s", line);
}

static const char *ending(int status, char text[64])
{
    if (WIFSIGNALED(status))
        snprintf(text, 64, "%s",
                 WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF
                     ? "took too long"
                     : strsignal(WTERMSIG(status)));
    else
        snprintf(text, 64, "exit status %d", WEXITSTATUS(status));
    return text;
}

static void end_child(int slot, int status, uint64_t seed)
{
    child_process *c = &children[slot];
    char text[64];

    if (status) {
        counts[c->op->index].ended++;
        printf("calls_fuzz: seed %llu, %s, batch %d, call %d: %s\n  %s\n",
               (unsigned long long)seed, c->op->name, c->batch, reports[slot].call,
               ending(status, text), reports[slot].text);
        if (c->errors)
            print_errors(c->errors);
    }
    if (c->errors)
        fclose(c->errors);
    c->pid = 0;
}

/* Waits for a child and returns its slot. */
static int wait_for_one(uint64_t seed)
{
    for (;;) {
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < MOST_JOBS; i++)
            if (pid > 0 && children[i].pid == pid) {
                end_child(i, status, seed);
                return i;
            }
        if (pid < 0 && errno != EINTR)
            return -1;
    }
}

static void run_all(uint64_t seed, int calls, const char *only, int jobs)
{
    int running = 0;

    for (int batch = 0; batch * BATCH < calls; batch++)
        for (int i = 0; i < cr_ops_count(); i++) {
            cr_op *op = cr_ops_at(i);
            int left = calls - batch * BATCH;
            if (only && strcmp(op->name, only))
                continue;
            int slot = running < jobs ? running++ : wait_for_one(seed);
            start_child(slot, op, seed, batch, left < BATCH ? left : BATCH);
        }
    while (running--)
        wait_for_one(seed);
}

/* --- statistics --- */

/* The number of records whose children ended early. */
static int print_counts(int calls, const char *only)
{
    long all = 0, returned = 0, ended = 0;
    int few = 0, never = 0, broken = 0;

    for (int i = 0; i < cr_ops_count(); i++) {
        const op_count *c = &counts[i];
        const cr_op *op = cr_ops_at(i);
        if (only && strcmp(op->name, only))
            continue;
        all += c->calls;
        returned += c->returned;
        ended += c->ended;
        broken += c->ended > 0;
        few += c->calls < calls;
        never += !c->returned;
        if (c->calls && (only || c->returned * 20 < c->calls))
            printf("calls_fuzz: %s%s%s: %d of %d calls returned\n", op->name,
                   *op->overload ? "." : "", op->overload, c->returned, c->calls);
    }
    printf("calls_fuzz: %ld calls of %d records, %.1f %% returned; %d records never returned, "
           "%d had fewer calls than "
           "asked for; %ld processes of %d records ended early\n",
           all, cr_ops_count(), all ? 100.0 * (double)returned / (double)all : 0.0, never, few,
           ended, broken);
    return broken;
}

static void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(2);
    return p;
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 600, jobs = cr_processors();
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *only = argc > 3 ? argv[3] : NULL;

    seed = seed ? seed : (uint64_t)time(NULL);
    if (cr_tensor_start() || cr_autograd_start())
        return 2;
    counts = shared_memory((size_t)cr_ops_count() * sizeof *counts);
    reports = shared_memory(MOST_JOBS * sizeof *reports);
    printf("calls_fuzz: seed %llu\n", (unsigned long long)seed);
    lessons = calloc((size_t)cr_ops_count(), sizeof *lessons);
    if (!lessons)
        return 2;
    limit_memory();
    learn(seed);
    if (argc > 4) {
        verbose = true;
        report = reports;
        for (int i = 0; i < cr_ops_count(); i++)
            if (!strcmp(cr_ops_at(i)->name, only))
                run_batch(cr_ops_at(i), seed, atoi(argv[4]), BATCH, &counts[i]);
        return 0;
    }
    run_all(seed, calls, only, jobs < MOST_JOBS ? jobs : MOST_JOBS);
    return print_counts(calls, only) ? 1 : 0;
}
