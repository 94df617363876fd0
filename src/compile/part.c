/* Nodes whose results are read part by part (tensor/part.h). */
#include "base/log.h"
#include "compile/facts.h"
#include "graph/rewrite.h"
#include "tensor/geometry.h"
#include <string.h>

typedef struct {
    cr_view view[CR_PART_TENSORS];
    int64_t stride[CR_PART_TENSORS][CR_MAX_DIMS];
    cr_value member[CR_PART_TENSORS], arg[CR_MAX_ARGS];
    int views;
} part_args;

/* The strides of a type; NULL: row-major. */
static const int64_t *part_strides(const cr_gtype *t, int64_t *room)
{
    int64_t dense = 1;

    if (t->stride)
        return t->stride;
    for (int d = t->ndim - 1; d >= 0; dense *= t->size[d--])
        room[d] = dense;
    return room;
}

static bool part_add_view(part_args *x, const cr_garg *a)
{
    const cr_gtype *t = a->tag == CR_TENSOR ? &a->value->type : NULL;
    int k = x->views;

    if (!t || k == CR_PART_TENSORS || !t->known || !cr_is_host(t->device) ||
        !cr_has_bytes(t->device) || !cr_numel(t->ndim, t->size))
        return false;
    x->view[k] = (cr_view){.size = t->size,
                           .stride = part_strides(t, x->stride[k]),
                           .ndim = t->ndim,
                           .dtype = t->dtype,
                           .device = t->device};
    x->views++;
    return true;
}

/* False when the argument holds a tensor that part_add_view refuses. */
static bool part_add_arg(part_args *x, int i, const cr_garg *a)
{
    x->arg[i] = (cr_value){.tag = a->tag, .len = a->len};
    if (a->tag == CR_TENSOR) {
        if (!part_add_view(x, a))
            return false;
        x->arg[i].tag = CR_VIEW;
        x->arg[i].view = &x->view[x->views - 1];
    } else if (a->tag == CR_TENSORS) {
        x->arg[i].list = x->member + x->views;
        for (uint32_t k = 0; k < a->len; k++) {
            if (!part_add_view(x, &a->list[k]))
                return false;
            x->member[x->views - 1] =
                (cr_value){.tag = CR_VIEW, .view = &x->view[x->views - 1]};
        }
    } else {
        memcpy(&x->arg[i].number, &a->number, sizeof a->number);
    }
    return true;
}

cr_status cr_node_part(cr_part **out, const cr_gnode *n)
{
    const cr_gtype *t = &n->result[0]->type;
    int64_t stride[CR_MAX_DIMS];
    cr_view result = {.size = t->size, .ndim = t->ndim, .dtype = t->dtype, .device = t->device};
    part_args x = {.views = 0};

    result.stride = part_strides(t, stride);
    for (int i = 0; i < n->arg_count; i++)
        if (!part_add_arg(&x, i, &n->arg[i]))
            return cr_fail(CR_VALUE, "%s of unknown tensors", n->op->name);
    return cr_part_new(out, n->op, x.arg, &result);
}

/* Elements that loops can read: numbers with lanes, truth values and half types. */
static bool part_is_loaded(int t)
{
    return t == CR_BOOL || t == CR_F16 || t == CR_BF16 || t == CR_U8 || t == CR_I32 ||
           t == CR_I64 || t == CR_F32 || t == CR_F64;
}

bool cr_node_has_part(const cr_gnode *n)
{
    const cr_gtype *t = &n->result[0]->type;
    cr_part *p = NULL;

    if (n->result_count != 1 || !t->known || t->stride || !cr_is_host(t->device) ||
        !cr_has_bytes(t->device) || !part_is_loaded(t->dtype) || !cr_numel(t->ndim, t->size))
        return false;
    if (cr_node_part(&p, n)) {
        cr_log_line("fusion", 2, "%s stays a call: %s", n->op->name, cr_error_message());
        return false;
    }
    cr_part_drop(p);
    return true;
}

/* --- compositions of reads --- */

static bool rule_reads(const cr_rule *r)
{
    if (r && r->kind == CR_RULE_CALL && r->op && cr_op_has_parts(r->op))
        return true;
    for (int i = 0; r && i < r->count; i++)
        if (rule_reads(r->args[i]))
            return true;
    return false;
}

/* A composition of entries that are stated as reads, such as roll. */
static bool is_composed(const cr_gnode *n)
{
    const cr_op *op = n->op;
    bool reads = false;

    if (op->does != CR_DOES_IS || op->fused || op->words & CR_WORD_SPARSE)
        return false;
    for (int i = 0; i < op->let_count && !reads; i++)
        reads = rule_reads(op->lets[i].rule);
    for (int k = 0; k < op->body_count && !reads; k++)
        reads = rule_reads(op->body[k]);
    for (int i = 0; i < op->param_count; i++)
        reads = reads && !op->param[i].written;
    return reads;
}

cr_graph *cr_compile_reads(const cr_graph *g) { return cr_graph_split(g, is_composed); }
