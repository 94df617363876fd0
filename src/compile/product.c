/* Products with a weight: eager copies the weight for each product (kern/cpu/product/matmul.h);
 * a program copies it once and gives the copy to the same kernel. */
#include "compile/packed.h"
#include "compile/program_impl.h"
#include "entry.h"
#include "kern/cpu/product/matmul.h"
#include <string.h>

typedef struct {
    cr_own own;
    cr_packer *packer, mine; /* the packer of the first product with the weight */
    const cr_op *op;
    cr_value arg[CR_MAX_ARGS]; /* complete except for the tensors */
    int args, reads, at[4];    /* by read: the argument */
    int weight, rows;          /* indices of reads */
    bool turned;               /* b is the transposed weight */
    cr_gtype type;             /* of the weight */
    cr_gemm gemm;              /* sizes; each run sets the number of rows */
} product;

/* The entries, and the argument that is b. */
static const struct {
    const cr_op *const *op;
    int weight;
    bool turned;
} entries[] = {{&cr_entry.linear, 1, true},
               {&cr_entry.mm, 1, false},
               {&cr_entry.addmm, 2, false},
               {&cr_entry.matmul, 1, false}};

/* The base of the view `v`, or `v` itself. */
static const cr_gvalue *root(const cr_gvalue *v)
{
    while (v->by && v->by->kind == CR_GNODE_CALL && v->by->op->does == CR_DOES_MAP)
        v = v->by->arg[0].value;
    return v;
}

static void mark(void *written, cr_gvalue *v) { ((bool *)written)[root(v)->id] = true; }

/* By value id: true if a step writes the value. */
static bool *find_written(const cr_program_steps *p)
{
    bool *written = CR_NEW_N(p->s, bool, p->g->values);

    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        for (int k = 0; s->kind == CR_STEP_CALL && k < s->call.op->param_count; k++)
            if (s->call.op->param[k].written)
                cr_garg_each(&s->values.node->arg[k], mark, written);
    }
    return written;
}

/* True for an input, a constant or a view of one that no step writes. */
static bool is_lasting(const cr_gvalue *v, const bool *written)
{
    v = root(v);
    return (!v->by || v->by->kind == CR_GNODE_CONSTANT) && !written[v->id];
}

static bool is_matrix(const cr_gtype *t)
{
    return t->known && t->dtype == CR_F32 && cr_is_host(t->device) && t->ndim == 2;
}

/* Fills the sizes and the layout of b from the types; false if it is not such a product. */
static bool describe(cr_gemm *g, const cr_gtype *x, const cr_gtype *w, bool turned)
{
    int64_t step[2] = {w->stride ? w->stride[0] : w->size[1], w->stride ? w->stride[1] : 1},
            m = 1;

    if (!x->known || x->dtype != CR_F32 || x->ndim < 2 || !cr_gtype_is_contiguous(x))
        return false;
    for (int d = 0; d < x->ndim - 1; d++)
        m *= x->size[d];
    *g = cr_gemm_plain(CR_F32, m, w->size[!turned], w->size[turned]);
    g->b = (cr_matrix){NULL, step[turned], step[!turned]};
    return x->size[x->ndim - 1] == g->k;
}

static bool is_product(const cr_step *s, const bool *written, int *entry, cr_gemm *g)
{
    const cr_gnode *n = s->values.node;

    if (s->kind != CR_STEP_CALL || s->call.tracked || s->call.symbols || n->varying_count ||
        n->result_count != 1)
        return false;
    for (*entry = 0; *entry < (int)CR_LEN(entries); ++*entry)
        if (n->op == *entries[*entry].op)
            break;
    if (*entry == (int)CR_LEN(entries))
        return false;
    int weight = entries[*entry].weight;
    return n->arg[weight].tag == CR_TENSOR && n->arg[weight - 1].tag == CR_TENSOR &&
           is_matrix(&n->arg[weight].value->type) &&
           is_lasting(n->arg[weight].value, written) &&
           describe(g, &n->arg[weight - 1].value->type, &n->arg[weight].value->type,
                    entries[*entry].turned) &&
           cr_gemm_copies_b(g);
}

/* --- running --- */

/* The copy, as a tensor of the weight's sizes. */
static cr_status pack(void *context, cr_tensor *w, cr_tensor **out)
{
    const product *p = context;
    cr_gemm g = p->gemm;
    cr_tensor *bytes = NULL;
    int64_t size = (int64_t)(cr_gemm_copy_bytes(&g) / sizeof(float));
    cr_matrix b;

    CR_TRY(cr_tensor_new(&bytes, CR_F32, CR_HOST, 1, &size));
    g.b.data = w->address;
    b = cr_gemm_copy_b(&g, bytes->address);
    cr_geometry as = {.ndim = 2,
                      .size = {w->size[0], w->size[1]},
                      .stride = {p->turned ? 1 : b.row, p->turned ? b.row : 1}};
    cr_status st = cr_tensor_view(out, bytes, &as);
    cr_drop(bytes);
    return st;
}

/* True if eager copies the weight for this number of rows. */
static bool copies(const product *p, cr_tensor *const *read)
{
    cr_gemm g = p->gemm;

    g.m = read[p->rows]->numel / g.k;
    return cr_gemm_copies_b(&g);
}

static cr_status run(cr_own *own, cr_tensor *const *read, cr_tensor **output)
{
    product *p = (product *)own;
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_packed *packed = NULL;

    memcpy(arg, p->arg, (size_t)p->args * sizeof *arg);
    for (int k = 0; k < p->reads; k++)
        arg[p->at[k]] = cr_of_tensor(read[k]);
    if (copies(p, read) && cr_tensor_is_of(read[p->weight], &p->type))
        CR_TRY(cr_packer_get(&packed, p->packer, read[p->weight], pack, p));
    if (packed)
        arg[p->at[p->weight]] = cr_of_tensor(cr_packed_tensor(packed));
    cr_status st = p->op->kernel_stage(p->op, arg, result);
    cr_packed_release(packed);
    if (!st)
        output[0] = result[0].t;
    return st;
}

static void drop(cr_own *own)
{
    cr_packer_drop(&((product *)own)->mine);
    cr_free(own);
}

/* --- plans --- */

/* Products with one weight share its copy. */
static void share_packer(product *p, product **first)
{
    cr_packer_init(&p->mine);
    *first = *first ? *first : p;
    p->packer = &(*first)->mine;
}

static cr_gtype kept_type(cr_session *s, const cr_gtype *type)
{
    cr_gtype t = *type;

    t.size = cr_session_copy(s, t.size, t.ndim * sizeof *t.size);
    t.stride = t.stride ? cr_session_copy(s, t.stride, t.ndim * sizeof *t.stride) : NULL;
    return t;
}

static void take_over(cr_program_steps *plan, cr_step *s, int entry, const cr_gemm *g,
                      product **first)
{
    product *p = cr_alloc_zero(sizeof *p);

    cr_session_check(plan->s, p ? CR_OK : CR_MEMORY);
    share_packer(p, first);
    p->own = (cr_own){.run = run,
                      .drop = drop,
                      .name = cr_session_printf(plan->s, "%s.packed", s->call.op->name)};
    cr_program_own(plan, &p->own);
    p->op = s->call.op;
    p->args = s->call.arg_count;
    memcpy(p->arg, s->call.arg, s->call.arg_count * sizeof *p->arg);
    p->reads = (int)s->call.patches;
    for (uint32_t k = 0; k < s->call.patches; k++) {
        p->at[k] = s->call.patch[k].arg;
        if (p->at[k] == entries[entry].weight)
            p->weight = (int)k;
        if (p->at[k] == entries[entry].weight - 1)
            p->rows = (int)k;
    }
    p->turned = entries[entry].turned;
    p->type = kept_type(plan->s, &s->values.node->arg[entries[entry].weight].value->type);
    p->gemm = *g;
    s->kind = CR_STEP_OWN;
    s->own = &p->own;
    s->call.patches = s->call.list_room = 0;
    if (s->reads + s->results > plan->frame.operands)
        plan->frame.operands = s->reads + s->results;
}

void cr_program_products(cr_program_steps *p)
{
    product **first = CR_NEW_N(p->s, product *,
                               2 * (size_t)p->g->values); /* by id of the weight and `turned` */
    const bool *written = find_written(p);
    cr_gemm g;
    int entry;

    for (size_t i = 0; i < p->steps.len; i++) {
        cr_step *s = &p->steps.at[i];
        if (!is_product(s, written, &entry, &g))
            continue;
        const cr_gvalue *w =
            cr_program_value(p, s->values.node->arg[entries[entry].weight].value);
        take_over(p, s, entry, &g, &first[2 * w->id + entries[entry].turned]);
    }
}
