/* Nodes as loop expressions, and the facts about nodes.
 *
 * The entry, the types of the arguments and, for a composition, which branches on them, its
 * numbers decide if loops can compute a node.  The first node of a kind is tried by building
 * its expressions; the result is remembered under these properties. */
#include "base/log.h"
#include "base/map.h"
#include "compile/facts.h"
#include "loop/build.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <pthread.h>
#include <string.h>

/* --- types --- */

typedef struct {
    cr_tensor *made[CR_MAX_ARGS];
    int count;
    cr_value arg[CR_MAX_ARGS];
} fakes;

static void drop_fakes(fakes *f)
{
    for (int i = 0; i < f->count; i++)
        cr_drop(f->made[i]);
}

/* Arguments for the rules, with tensors without bytes. */
static cr_status fake_args(fakes *f, const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        f->arg[i] = (cr_value){.tag = a->tag, .len = a->len};
        if (a->tag == CR_TENSOR) {
            const cr_gtype *t = &a->value->type;
            CR_TRY(cr_tensor_new(&f->made[f->count], (cr_dtype)t->dtype, cr_as_fake(t->device),
                                 t->ndim, t->size));
            f->arg[i].t = f->made[f->count++];
        } else {
            memcpy(&f->arg[i].number, &a->number, sizeof a->number);
        }
    }
    return CR_OK;
}

static cr_status decided_type(cr_dtype *out, const cr_gnode *n)
{
    cr_dtype results[CR_MAX_RESULTS];
    fakes f = {.count = 0};
    cr_status st;

    CR_GO(fake_args(&f, n));
    CR_GO(cr_decide_types(n->op, f.arg, out, results));
done:
    drop_fakes(&f);
    return st;
}

/* A composition without a types rule computes in the common type of its tensors. */
static cr_dtype common_type(const cr_gnode *n)
{
    cr_dtype t = CR_DTYPE_NONE;

    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSOR) {
            cr_dtype own = (cr_dtype)n->arg[i].value->type.dtype;
            if (t != CR_DTYPE_NONE && t != own)
                return CR_DTYPE_NONE;
            t = own;
        }
    return t;
}

static cr_dtype entry_type(const cr_gnode *n)
{
    cr_dtype t;

    if (n->op->does == CR_DOES_IS && !n->op->type)
        return common_type(n);
    return decided_type(&t, n) ? CR_DTYPE_NONE : t;
}

/* --- arguments --- */

static cr_scalar number_of(const cr_garg *a)
{
    switch (a->tag) {
    case CR_NUMBER: return a->number;
    case CR_FLOAT: return cr_scalar_float(a->d);
    case CR_TRUTH: return (cr_scalar){.category = CR_CAT_BOOL, .i = a->i};
    default: return cr_scalar_int(a->i);
    }
}

static bool is_preset(const cr_gnode *n, int i)
{
    const cr_param *p = &n->op->param[i];

    return p->has_default && p->preset.tag == CR_NUMBER && n->arg[i].tag == CR_NUMBER &&
           p->preset.number.category == n->arg[i].number.category &&
           p->preset.number.i == n->arg[i].number.i;
}

/* A body reads its numbers at run time, like the eager kernel, except those equal to the
 * entry's defaults.  A composition branches on them, so its numbers are literals. */
bool cr_node_reads_number(const cr_gnode *n, int i)
{
    uint8_t tag = n->arg[i].tag;

    return n->op->does == CR_DOES_BODY &&
           (tag == CR_NUMBER || tag == CR_INT || tag == CR_FLOAT || tag == CR_TRUTH) &&
           !is_preset(n, i);
}

cr_scalar cr_node_number(const cr_gnode *n, int i) { return number_of(&n->arg[i]); }

cr_dtype cr_node_wants(const cr_gnode *n, const cr_facts *f, int i)
{
    return n->op->mask_params >> i & 1 ? CR_BOOL : (cr_dtype)f->compute;
}

/* The parameter with the dims of a row, or -1. */
static int dims_param(const cr_op *op)
{
    int dim = cr_op_find_param(op, "dim");

    return op->fused ? op->rows.dim : dim >= 0 ? dim : cr_op_find_param(op, "normalized_shape");
}

static cr_loop_arg number_arg(const cr_gnode *n, int i, const cr_facts *f,
                              const cr_node_reader *r)
{
    const cr_garg *a = &n->arg[i];

    if (cr_node_reads_number(n, i))
        return (cr_loop_arg){.kind = CR_LOOP_PARAM,
                             .e = r->number(r->context, number_of(a), cr_node_wants(n, f, i))};
    return (cr_loop_arg){.kind = a->tag == CR_TRUTH ? CR_LOOP_TRUTH : CR_LOOP_NUMBER,
                         .number = number_of(a)};
}

static cr_loop_arg arg_of(cr_loop *l, const cr_gnode *n, int i, const cr_facts *f,
                          const cr_node_reader *r)
{
    const cr_garg *a = &n->arg[i];

    if (f->kind == CR_FACT_ROWS && i == dims_param(n->op))
        return (cr_loop_arg){.kind = CR_LOOP_ROW_DIMS};
    if (f->kind == CR_FACT_ROWS && !strcmp(n->op->param[i].name, "keepdim"))
        return (cr_loop_arg){.kind = CR_LOOP_TRUTH, .number = cr_scalar_int(1)};
    switch (a->tag) {
    case CR_NONE: return (cr_loop_arg){.kind = CR_LOOP_NONE};
    case CR_TENSOR: return (cr_loop_arg){.kind = CR_LOOP_TENSOR, .e = r->value(r->context, i)};
    case CR_STRING:
        return (cr_loop_arg){.kind = CR_LOOP_STRING,
                             .text = cr_session_printf(l->session, "%.*s", (int)a->len, a->s)};
    case CR_DTYPE_VAL: return (cr_loop_arg){.kind = CR_LOOP_DTYPE, .dtype = (cr_dtype)a->i};
    case CR_NUMBER:
    case CR_INT:
    case CR_FLOAT:
    case CR_TRUTH: return number_arg(n, i, f, r);
    case CR_INTS: return (cr_loop_arg){.kind = CR_LOOP_ROW_DIMS}; /* only derivatives use it */
    default:
        cr_bail(l->session, CR_VALUE, "%s: no loop for its argument '%s'", n->op->name,
                n->op->param[i].name);
    }
}

/* --- expressions --- */

/* Entries that copy or convert the elements of their argument. */
static bool copies(const cr_op *op)
{
    return op->does == CR_DOES_WHOLE && (op->words & (CR_WORD_IDENTITY | CR_WORD_CAST));
}

/* --- several types in one kernel --- */

enum {
    WIDE_LANES = 1 << CR_I32 | 1 << CR_I64 | 1 << CR_F32 | 1 << CR_F64,
    BYTES = 1 << CR_U8,
    LOADED = WIDE_LANES | BYTES | 1 << CR_BOOL
};

bool cr_node_converts(const cr_gnode *n, int own, cr_dtype want)
{
    return cr_is_host(n->result[0]->type.device) && (LOADED >> own & 1) &&
           (WIDE_LANES >> want & 1 ||
            (want == CR_U8 && copies(n->op) && (WIDE_LANES >> own & 1)));
}

unsigned cr_node_types(const cr_gnode *n, const cr_facts *f)
{
    cr_dtype t = (cr_dtype)f->compute;

    if (t == CR_BOOL)
        return 0;
    if (t == CR_U8 && copies(n->op) && cr_node_converts(n, n->arg[0].value->type.dtype, t))
        t = (cr_dtype)n->arg[0].value->type.dtype;
    return 1u << t;
}

/* Bytes are computed in lanes of bytes. */
bool cr_types_mix(unsigned types, cr_device device)
{
    return !(types & (types - 1)) || (cr_is_host(device) && !(types & BYTES));
}

static const cr_expr *rounded(cr_loop *l, const cr_expr *e, int half)
{
    return cr_expr_call1(l, half == CR_F16 ? CR_FN_roundhalf : CR_FN_roundbfloat, e);
}

/* Result k in its lane type, rounded if its type is a half type. */
static const cr_expr *as_result(cr_loop *l, const cr_gnode *n, int k, const cr_facts *f,
                                const cr_expr *e)
{
    int t = n->result[k]->type.dtype;
    bool half = t == CR_F16 || t == CR_BF16;
    bool done = n->op->does == CR_DOES_IS && !n->op->fused && f->half == t;

    if (e->dtype != cr_lane_type(t))
        cr_bail(l->session, CR_TYPE, "%%%s has another type than its loop", n->result[k]->name);
    return half && !done && !f->loose ? rounded(l, e, t) : e;
}

/* A number whose category would change the type in which a composition computes. */
static bool is_wide(const cr_garg *a, const cr_facts *f)
{
    return a->tag == CR_NUMBER && a->number.category > cr_dtype_category((cr_dtype)f->compute);
}

/* Bails if a result is an argument itself: eager returns the same tensor, a loop would make
 * another without shared storage. */
static void refuse_same(cr_loop *l, const cr_gnode *n, const cr_loop_arg *arg,
                        const cr_expr *result)
{
    for (int i = 0; i < n->op->param_count; i++)
        if (arg[i].kind == CR_LOOP_TENSOR && arg[i].e == result)
            cr_bail(l->session, CR_VALUE, "%%%s is its argument", n->result[0]->name);
}

static bool holds_half(cr_expr_set *seen, const cr_expr *e)
{
    bool half = e->dtype == CR_F16 || e->dtype == CR_BF16;

    if (!cr_expr_set_add(seen, e))
        return false;
    for (int i = 0; i < e->count && !half; i++)
        half = holds_half(seen, e->args[i]);
    return half;
}

/* Bails if a composition converts to a half type inside, as softmax does to its `dtype`: lanes
 * of half types are float32. */
static void refuse_half(cr_loop *l, const cr_gnode *n, const cr_expr *result)
{
    cr_expr_set seen = cr_expr_set_new(l);

    if (holds_half(&seen, result))
        cr_bail(l->session, CR_TYPE, "%%%s converts to a half type inside", n->result[0]->name);
}

/* The node returns its argument itself, because type and strides already fit. */
static bool is_itself(const cr_gnode *n)
{
    if (!copies(n->op) || !(n->op->words & CR_WORD_ITSELF) || n->arg[0].tag != CR_TENSOR)
        return false;
    const cr_gtype *x = &n->arg[0].value->type, *y = &n->result[0]->type;
    if (x->dtype != y->dtype || x->ndim != y->ndim)
        return false;
    return cr_gtype_is_contiguous(x)
               ? cr_gtype_is_contiguous(y)
               : y->stride && !memcmp(x->stride, y->stride, x->ndim * sizeof *x->stride);
}

static cr_loop_arg rounded_arg(cr_loop *l, cr_loop_arg a, cr_dtype half)
{
    char element[2];

    if (a.kind == CR_LOOP_NUMBER) {
        cr_scalar_store(a.number, half, element);
        a.number = cr_scalar_load(half, element);
    } else if (a.e) {
        a.e = rounded(l, cr_expr_cast(l, CR_F32, a.e), half);
    }
    return a;
}

/* Argument i as the entry's body reads it (clause `rounds`). */
static cr_loop_arg read_arg(cr_loop *l, const cr_gnode *n, int i, const cr_facts *f,
                            const cr_node_reader *r)
{
    cr_loop_arg a = arg_of(l, n, i, f, r);
    bool own = n->arg[i].tag == CR_TENSOR && n->arg[i].value->type.dtype == f->half;

    return n->op->rounds >> i & 1 && f->half != CR_DTYPE_NONE && !own
               ? rounded_arg(l, a, (cr_dtype)f->half)
               : a;
}

void cr_compile_node(cr_loop *l, const cr_gnode *n, const cr_facts *f, const cr_node_reader *r,
                     const cr_expr **result)
{
    cr_loop_call call = {n->op, (cr_dtype)f->compute, (cr_dtype)f->half,
                         f->kind == CR_FACT_ROWS ? cr_node_columns(n) : 0};
    cr_loop_arg arg[CR_MAX_ARGS];

    if (is_itself(n))
        cr_bail(l->session, CR_VALUE, "%%%s is its argument", n->result[0]->name);
    if (copies(n->op)) {
        const cr_expr *e = r->value(r->context, 0);
        result[0] =
            as_result(l, n, 0, f, cr_expr_cast(l, cr_lane_type(n->result[0]->type.dtype), e));
        return;
    }
    for (int i = 0; i < n->op->param_count; i++) {
        if (n->op->does == CR_DOES_IS && is_wide(&n->arg[i], f))
            cr_bail(l->session, CR_TYPE, "%%%s computes in another type", n->result[0]->name);
        arg[i] = read_arg(l, n, i, f, r);
    }
    cr_loop_apply(l, &call, arg, result);
    for (int k = 0; k < n->result_count; k++) {
        if (n->op->does == CR_DOES_IS) {
            refuse_same(l, n, arg, result[k]);
            refuse_half(l, n, result[k]);
        }
        result[k] = as_result(l, n, k, f, result[k]);
    }
}

/* --- rows --- */

/* False if `d` is not a dim of the tensor: the argument has another meaning. */
static bool set_dim(uint64_t *mask, int64_t d, int ndim)
{
    d += d < 0 ? ndim : 0;
    if (d < 0 || d >= ndim)
        return false;
    *mask |= (uint64_t)1 << d;
    return true;
}

/* Bit d: dim d is reduced.  False if the argument does not name dims. */
static bool reduced_dims(uint64_t *out, const cr_garg *a, int ndim)
{
    *out = 0;
    if (a->tag == CR_NONE || (a->tag == CR_INTS && !a->len)) {
        *out = ndim ? ~(uint64_t)0 >> (64 - ndim) : 0;
        return true;
    }
    for (uint32_t i = 0; a->tag == CR_INTS && i < a->len; i++)
        if (!set_dim(out, a->ints[i], ndim))
            return false;
    return a->tag == CR_INTS || (a->tag == CR_INT && set_dim(out, a->i, ndim));
}

const cr_gtype *cr_node_first_tensor(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSOR)
            return &n->arg[i].value->type;
    return NULL;
}

static int64_t more_than_one(int64_t n) { return n > 1 ? n : 0; }

int64_t cr_node_columns(const cr_gnode *n)
{
    const cr_gtype *in = cr_node_first_tensor(n);
    int at = dims_param(n->op);
    int64_t columns = 1;
    uint64_t mask;
    bool kept = false;

    if (!in || at < 0 || !in->ndim || in->ndim > 63)
        return 0;
    if (!strcmp(n->op->param[at].name, "normalized_shape"))
        return n->arg[at].tag == CR_INTS
                   ? more_than_one(cr_numel((int)n->arg[at].len, n->arg[at].ints))
                   : 0;
    if (!reduced_dims(&mask, &n->arg[at], in->ndim))
        return 0;
    for (int d = in->ndim - 1; d >= 0; d--) {
        if (in->size[d] == 1)
            continue;
        if (mask >> d & 1 && kept)
            return 0;
        kept = kept || !(mask >> d & 1);
        columns *= kept ? 1 : in->size[d];
    }
    return more_than_one(columns);
}

int64_t cr_node_kept(const cr_gnode *n)
{
    const cr_gtype *in = cr_node_first_tensor(n);
    int at = dims_param(n->op);
    int64_t kept = 1;
    uint64_t mask;
    bool reduced = false;

    if (!in || at < 0 || !in->ndim || in->ndim > 63 ||
        !reduced_dims(&mask, &n->arg[at], in->ndim))
        return 0;
    for (int d = in->ndim - 1; d >= 0; d--) {
        if (in->size[d] == 1)
            continue;
        if (!(mask >> d & 1) && reduced)
            return 0;
        reduced = reduced || mask >> d & 1;
        kept *= reduced ? 1 : in->size[d];
    }
    return reduced ? more_than_one(kept) : 0;
}

/* How argument i of a ROWS node covers the node's first tensor: one value for each element, for
 * each row, for each column, or one in all. */
typedef enum { ARG_FULL, ARG_ROW, ARG_COLUMN, ARG_ONE } arg_over;
static arg_over node_over(const cr_gnode *n, int i)
{
    const cr_gtype *in = &n->arg[i].value->type, *whole = cr_node_first_tensor(n);
    int64_t numel = cr_numel(in->ndim, in->size);

    if (numel == cr_numel(whole->ndim, whole->size))
        return ARG_FULL;
    if (cr_is_one_a_row(whole->ndim, whole->size, cr_node_columns(n), in->ndim, in->size))
        return ARG_ROW;
    return numel == 1 ? ARG_ONE : ARG_COLUMN;
}

/* --- facts --- */

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    size_t len;
    const char *key;
    cr_facts facts;
} entry;

enum { CHAINS = 4096, MOST_ENTRIES = 16384, KEY_ROOM = 384 };

/* Facts of the process, in a separate session; all are dropped when there are MOST_ENTRIES. */
static struct {
    pthread_mutex_t lock;
    cr_session s;
    size_t count;
    entry *chain[CHAINS];
    bool prepared;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void) { pthread_mutex_lock(&known.lock); }
static void after_fork(void) { pthread_mutex_unlock(&known.lock); }

struct cr_facts_cache {
    uint8_t *kind; /* by entry: 1 + kind_of it; 0: not computed yet */
};

cr_facts_cache *cr_facts_cache_new(cr_session *s)
{
    cr_facts_cache *c = CR_NEW(s, cr_facts_cache);

    c->kind = CR_NEW_N(s, uint8_t, cr_ops_count());
    return c;
}

/* Always a view, or a view if strides permit. */
static bool is_view(const cr_op *op)
{
    return op->does == CR_DOES_MAP ||
           (op->does == CR_DOES_WHOLE && (op->words & CR_WORD_RESHAPE));
}

/* A rule that filters a list of dims reduces other dims than the given ones: renorm reduces all
 * dims but `dim`. */
static bool chooses_dims(const cr_rule *r)
{
    if (!r)
        return false;
    if (r->kind == CR_RULE_EACH && (r->count > 2 || r->args[1]->kind == CR_RULE_CHOOSE))
        return true;
    for (int i = 0; i < r->count; i++)
        if (chooses_dims(r->args[i]))
            return true;
    return false;
}

static bool folds_other_dims(const cr_op *op)
{
    for (int i = 0; i < op->let_count; i++)
        if (chooses_dims(op->lets[i].rule))
            return true;
    for (int k = 0; k < op->body_count; k++)
        if (chooses_dims(op->body[k]))
            return true;
    return false;
}

/* The kind that nodes of the entry can have; arguments decide between it and CALL. */
static cr_fact_kind kind_of(const cr_op *op)
{
    if (op->words & CR_WORD_RANDOM || op->does == CR_DOES_INPLACE)
        return CR_FACT_CALL;
    if ((op->words & CR_WORD_JOIN) && cr_op_on_views(op))
        return CR_FACT_JOIN;
    if (op->words & CR_WORD_SPLIT)
        return CR_FACT_SPLIT;
    if (cr_op_has_parts(op))
        return CR_FACT_READ;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return CR_FACT_CALL;
    if (is_view(op))
        return CR_FACT_VIEW;
    if (copies(op) || op->does == CR_DOES_BODY)
        return CR_FACT_POINT;
    if (op->does == CR_DOES_FOLD || op->does == CR_DOES_SCAN)
        return CR_FACT_ROWS;
    if (op->does != CR_DOES_IS || (!op->fused && dims_param(op) >= 0 && folds_other_dims(op)))
        return CR_FACT_CALL;
    return op->fused || (op->body_count && dims_param(op) >= 0) ? CR_FACT_ROWS : CR_FACT_POINT;
}

typedef struct {
    char at[KEY_ROOM];
    size_t len;
    bool full;
} key;

static void put(key *k, const void *bytes, size_t n)
{
    k->full = k->full || k->len + n > sizeof k->at;
    if (!k->full) {
        memcpy(k->at + k->len, bytes, n);
        k->len += n;
    }
}

static void put_byte(key *k, int v) { put(k, &(uint8_t){(uint8_t)v}, 1); }

static void put_arg(key *k, const cr_gnode *n, int i, bool rows)
{
    const cr_garg *a = &n->arg[i];

    put_byte(k, a->tag);
    if (a->tag == CR_TENSOR) {
        put_byte(k, a->value->type.dtype);
        put_byte(k, a->value->type.ndim > 0);
        put_byte(k, rows ? (int)node_over(n, i) : 0);
    } else if (cr_node_reads_number(n, i)) {
        put_byte(k, a->tag == CR_NUMBER ? (int)a->number.category : 0);
    } else if (a->tag == CR_NUMBER) {
        put_byte(k, (int)a->number.category);
        put(k, &a->number.c, a->number.category == CR_CAT_COMPLEX ? 16 : 8);
    } else if (a->tag == CR_STRING) {
        put(k, &a->len, sizeof a->len);
        put(k, a->s, a->len);
    } else if (a->tag == CR_INTS) {
        put_byte(k, 0); /* cr_node_columns reads dims from the node */
    } else {
        put(k, &a->i, sizeof a->i);
    }
}

static bool is_known(const cr_gtype *t) { return t->known && cr_has_bytes(t->device); }

/* All tensors have known types, and bytes on one device. */
static bool all_known(const cr_gnode *n)
{
    if (n->result_count != n->op->result_count || !n->result_count)
        return false;
    const cr_gtype *like = &n->result[0]->type;
    for (int k = 0; k < n->result_count; k++)
        if (!is_known(&n->result[k]->type) ||
            !cr_same_device(n->result[k]->type.device, like->device))
            return false;
    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSORS || n->arg[i].tag == CR_NUMBERS ||
            (n->arg[i].tag == CR_TENSOR &&
             (!is_known(&n->arg[i].value->type) ||
              !cr_same_device(n->arg[i].value->type.device, like->device))))
            return false;
    return true;
}

typedef struct {
    cr_loop *l;
    const cr_gnode *n;
    const cr_facts *facts;
} trial;

static const cr_expr *trial_value(void *context, int i)
{
    trial *t = context;
    const char *name = cr_session_printf(t->l->session, "x%d", i);
    arg_over over = t->facts->kind == CR_FACT_ROWS ? node_over(t->n, i) : ARG_FULL;
    int from = over == ARG_COLUMN, dims = over == ARG_FULL ? 2 : 1;
    const cr_sym *size[2] = {cr_sym_name(t->l->syms, "R", 0, CR_SYM_HIGH),
                             cr_sym_name(t->l->syms, "C", 0, CR_SYM_HIGH)};
    const cr_sym *index[2] = {cr_sym_name(t->l->syms, "i", 0, CR_SYM_HIGH),
                              cr_sym_name(t->l->syms, "j", 0, CR_SYM_HIGH)};

    return cr_expr_load(t->l,
                        cr_loop_buffer(t->l, CR_BUFFER_INPUT, name,
                                       cr_node_wants(t->n, t->facts, i), dims, size + from),
                        index + from);
}

static const cr_expr *trial_number(void *context, cr_scalar n, cr_dtype t)
{
    return cr_expr_const(((trial *)context)->l, t, n);
}

static bool depends_on(const cr_expr *e, const cr_sym *index)
{
    for (int i = 0; i < CR_LOOP_DIMS && e->index[i]; i++)
        if (cr_sym_uses(e->index[i], index))
            return true;
    for (int i = 0; i < e->count; i++)
        if (depends_on(e->args[i], index))
            return true;
    return false;
}

/* False if the loop reduces a value that is the same in all columns: eager reduces dims of one
 * element there. */
static bool reduces_columns(const cr_expr *e)
{
    for (int i = 0; i < e->count; i++)
        if (!reduces_columns(e->args[i]))
            return false;
    return e->kind != CR_EXPR_REDUCE || depends_on(e->args[0], e->axis.index);
}

static void try_node(cr_session *s, void *context)
{
    trial *t = context;
    cr_node_reader r = {trial_value, trial_number, t};
    const cr_expr *result[CR_MAX_RESULTS];

    t->l = cr_loop_new(s);
    cr_compile_node(t->l, t->n, t->facts, &r, result);
    for (int k = 0; k < t->n->result_count; k++)
        if (!reduces_columns(result[k]))
            cr_bail(s, CR_VALUE, "%s reduces one element", t->n->op->name);
}

static bool has_loop(const cr_gnode *n, const cr_facts *f)
{
    trial t = {.n = n, .facts = f};
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, try_node, &t);

    cr_session_drop(&s);
    if (st)
        cr_log_line("fusion", 2, "%s stays a call: %s", n->op->name, cr_error_message());
    return !st;
}

static bool is_half(int t) { return t == CR_F16 || t == CR_BF16; }

/* Loops convert as eager does only if the conversion is one step. */
static bool converts_well(int from, int to)
{
    cr_dtype lane = cr_lane_type(to);

    if (cr_dtype_is_complex((cr_dtype)from) || cr_dtype_is_complex((cr_dtype)to) ||
        (lane != (cr_dtype)to && !is_half(to)))
        return false;
    return from == to || !is_half(to) || from == CR_F32 || from == CR_BOOL || is_half(from);
}

/* All results have type t or BOOL: a composition in half types rounds every part to t. */
static bool gives_type(const cr_gnode *n, cr_dtype t)
{
    for (int k = 0; k < n->result_count; k++)
        if (n->result[k]->type.dtype != t && n->result[k]->type.dtype != CR_BOOL)
            return false;
    return true;
}

static bool find_type(cr_facts *f, const cr_gnode *n)
{
    cr_dtype t = copies(n->op) ? (cr_dtype)n->result[0]->type.dtype : entry_type(n), lane;

    if (t == CR_DTYPE_NONE || cr_dtype_is_complex(t))
        return false;
    lane = cr_lane_type(t);
    f->entry = (uint8_t)t;
    f->compute = (uint8_t)lane;
    f->half = is_half(t) ? (uint8_t)t : (uint8_t)CR_DTYPE_NONE;
    if (lane != t && !is_half(t)) /* small integers wrap only when stored */
        return false;
    if (copies(n->op))
        return converts_well(n->arg[0].value->type.dtype, t);
    /* A composition does not convert its tensors. */
    return n->op->does != CR_DOES_IS || n->op->fused || !is_half(t) ||
           (common_type(n) == t && gives_type(n, t));
}

static bool loops_over(int dtype)
{
    return !cr_dtype_is_complex((cr_dtype)dtype) && !cr_dtype_is_stored((cr_dtype)dtype);
}

/* Complex arguments, or arguments of dtypes without kernels. */
static bool takes_others(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if ((n->arg[i].tag == CR_NUMBER && n->arg[i].number.category == CR_CAT_COMPLEX) ||
            (n->arg[i].tag == CR_TENSOR && !loops_over(n->arg[i].value->type.dtype)))
            return true;
    return false;
}

/* A call that raises where a tensor of integers has a zero: generated code cannot raise. */
static bool divides_integers(const cr_gnode *n, const cr_facts *f)
{
    int other = cr_op_find_param(n->op, "other");

    return other >= 0 && n->arg[other].tag == CR_TENSOR &&
           !cr_dtype_is_float((cr_dtype)f->compute) &&
           cr_op_reaches(n->op, CR_WORD_BIT_DIVIDES);
}

static cr_facts find_facts(const cr_gnode *n, cr_fact_kind kind)
{
    cr_facts f = {.kind = (uint8_t)kind};

    if (n->op->does == CR_DOES_SCAN)
        f.scans = n->op->scan.back ? CR_SCAN_BACK : CR_SCAN_FORWARD;
    if (!takes_others(n) && find_type(&f, n) && !divides_integers(n, &f) &&
        (kind == CR_FACT_POINT || cr_node_columns(n)) && has_loop(n, &f))
        return f;
    return (cr_facts){.kind = CR_FACT_CALL, .half = CR_DTYPE_NONE};
}

/* The caller holds the lock. */
static bool recall(cr_facts *out, const key *k, uint64_t hash)
{
    for (const entry *e = known.chain[hash % CHAINS]; e; e = e->next)
        if (e->hash == hash && e->len == k->len && !memcmp(e->key, k->at, k->len)) {
            *out = e->facts;
            return true;
        }
    return false;
}

typedef struct {
    const key *k;
    uint64_t hash;
    cr_facts facts;
} fresh;

static void remember(cr_session *s, void *context)
{
    const fresh *f = context;
    entry *made = CR_NEW(s, entry), **place = &known.chain[f->hash % CHAINS];

    *made =
        (entry){*place, f->hash, f->k->len, cr_session_copy(s, f->k->at, f->k->len), f->facts};
    *place = made;
    known.count++;
}

static void forget_all(void)
{
    cr_session_drop(&known.s);
    known.s = (cr_session){.status = CR_OK};
    memset(known.chain, 0, sizeof known.chain);
    known.count = 0;
}

static void watch_forks(void)
{
    if (!known.prepared)
        known.prepared = !pthread_atfork(before_fork, after_fork, after_fork);
}

void cr_facts_watch_forks(void)
{
    pthread_mutex_lock(&known.lock);
    watch_forks();
    pthread_mutex_unlock(&known.lock);
}

/* Without memory for the entry the facts are found again next time. */
static cr_facts look_up(const key *k, const cr_gnode *n, cr_fact_kind kind)
{
    fresh f = {.k = k, .hash = cr_hash(k->at, k->len)};

    pthread_mutex_lock(&known.lock);
    watch_forks();
    if (!recall(&f.facts, k, f.hash)) {
        f.facts = find_facts(n, kind);
        if (known.count == MOST_ENTRIES)
            forget_all();
        (void)!cr_session_run(&known.s, remember, &f);
    }
    pthread_mutex_unlock(&known.lock);
    return f.facts;
}

static bool is_last_dim(const cr_garg *a, int ndim)
{
    return a->tag == CR_INT && (a->i == -1 || a->i == ndim - 1);
}

static bool splits_evenly(const cr_gnode *n)
{
    const cr_gtype *in = &n->arg[0].value->type, *one = &n->result[0]->type;

    if (!is_known(in) || !cr_gtype_is_contiguous(in) || !in->ndim || n->result_count < 2 ||
        !is_last_dim(&n->arg[n->arg_count - 1], in->ndim))
        return false;
    for (int k = 0; k < n->result_count; k++)
        if (!is_known(&n->result[k]->type) || !cr_gtype_has_sizes_of(one, &n->result[k]->type))
            return false;
    return one->dtype == in->dtype &&
           one->size[one->ndim - 1] * n->result_count == in->size[in->ndim - 1];
}

static bool joins_evenly(const cr_gnode *n)
{
    const cr_garg *a = &n->arg[0];
    const cr_gtype *out = &n->result[0]->type;

    if (!is_known(out) || out->stride || !out->ndim || a->tag != CR_TENSORS || a->len < 2 ||
        !is_last_dim(&n->arg[1], out->ndim))
        return false;
    for (uint32_t k = 0; k < a->len; k++)
        if (a->list[k].tag != CR_TENSOR || !is_known(&a->list[k].value->type) ||
            a->list[k].value->type.dtype != out->dtype ||
            !cr_same_device(a->list[k].value->type.device, out->device) ||
            !cr_gtype_has_sizes_of(&a->list[0].value->type, &a->list[k].value->type))
            return false;
    return a->list[0].value->type.ndim == out->ndim;
}

/* A reduction of leading dims for which eager has column kernels. */
static bool folds_columns(const cr_gnode *n)
{
    const cr_gtype *in = &n->arg[0].value->type;
    cr_dtype lane = cr_lane_type(in->dtype);

    return n->op->does == CR_DOES_FOLD && cr_is_host(in->device) &&
           cr_dtype_is_float((cr_dtype)in->dtype) && cr_gtype_is_contiguous(in) &&
           n->result[0]->type.dtype == in->dtype && !n->result[0]->type.stride &&
           cr_node_kept(n) && n->op->kernel[lane][CR_FORM_COLUMNS] &&
           n->op->kernel[lane][CR_FORM_JOIN_COLUMNS];
}

cr_facts cr_facts_of(cr_facts_cache *c, const cr_gnode *n)
{
    static const cr_facts call = {.kind = CR_FACT_CALL, .half = CR_DTYPE_NONE};
    static const cr_facts view = {.kind = CR_FACT_VIEW, .half = CR_DTYPE_NONE};
    static const cr_facts split = {.kind = CR_FACT_SPLIT, .half = CR_DTYPE_NONE};
    static const cr_facts fold = {.kind = CR_FACT_FOLD, .half = CR_DTYPE_NONE};
    static const cr_facts join = {.kind = CR_FACT_JOIN, .half = CR_DTYPE_NONE};
    static const cr_facts read = {.kind = CR_FACT_READ, .half = CR_DTYPE_NONE};
    key k = {.len = 0};
    uint8_t *kind;

    if (n->kind != CR_GNODE_CALL || cr_gnode_has_symbol(n)) /* a group stores its numbers */
        return call;
    kind = &c->kind[n->op->index];
    if (!*kind)
        *kind = (uint8_t)(1 + kind_of(n->op));
    if (*kind == 1 + CR_FACT_SPLIT)
        return splits_evenly(n) ? split : call;
    if (*kind == 1 + CR_FACT_JOIN)
        return joins_evenly(n) ? join : cr_node_has_part(n) ? read : call;
    if (*kind == 1 + CR_FACT_READ)
        return cr_node_has_part(n) ? read : call;
    if (*kind == 1 + CR_FACT_CALL || !all_known(n))
        return call;
    if (*kind == 1 + CR_FACT_VIEW || is_itself(n))
        return view;
    if (*kind == 1 + CR_FACT_ROWS && !cr_node_columns(n))
        return folds_columns(n) ? fold : call;
    if (n->op->does == CR_DOES_SCAN && !cr_is_host(n->result[0]->type.device))
        return call;
    put(&k, &n->op, sizeof n->op);
    for (int i = 0; i < n->arg_count; i++)
        put_arg(&k, n, i, *kind == 1 + CR_FACT_ROWS);
    for (int i = 0; i < n->result_count; i++)
        put_byte(&k, n->result[i]->type.dtype);
    return k.full ? call : look_up(&k, n, (cr_fact_kind)(*kind - 1));
}
