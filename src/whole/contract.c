/* Sums of products over named dimensions: einsum, tensordot, and chains of products.
 *
 * An operand is a tensor with one label a dimension.  Two operands are contracted as one batch
 * of matrix products: labels of both that are needed later are the batch, other labels of both
 * are summed, and the remaining labels are rows and columns. */
#include "whole/whole_impl.h"
#include <stdio.h>
#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + 2 * CR_MAX_DIMS, MOST_OPERANDS = 64 };

typedef struct {
    cr_tensor *t; /* counted */
    int n;
    uint8_t label[CR_MAX_DIMS];
} operand;

/* Replaces the operand's tensor by op(tensor, rest...). */
static cr_status operand_apply(operand *o, const cr_op *op, const cr_value *rest, int n)
{
    cr_value arg[4] = {cr_of_tensor(o->t)};
    cr_tensor *made;

    memcpy(arg + 1, rest, (size_t)n * sizeof *rest);
    CR_TRY(cr_call_tensor(&made, op, arg, n + 1));
    cr_drop(o->t);
    o->t = made;
    return CR_OK;
}

static int label_place(const operand *o, uint8_t label)
{
    for (int d = 0; d < o->n; d++)
        if (o->label[d] == label)
            return d;
    return -1;
}

static void remove_label(operand *o, int d)
{
    memmove(o->label + d, o->label + d + 1, (size_t)(--o->n - d));
}

/* Sums out the labels that `drop` names. */
static cr_status sum_labels(operand *o, const bool *drop)
{
    int64_t dims[CR_MAX_DIMS];
    size_t n = 0;

    for (int d = 0; d < o->n; d++)
        if (drop[o->label[d]])
            dims[n++] = d;
    if (!n)
        return CR_OK;
    CR_TRY(operand_apply(o, cr_entry.sum, (cr_value[]){cr_of_ints(dims, n)}, 1));
    while (n)
        remove_label(o, (int)dims[--n]);
    return CR_OK;
}

/* Picks the labels of `o` for which `in` is `wanted`, in o's order. */
static int pick_labels(const operand *o, const bool *in, bool wanted, uint8_t *out)
{
    int n = 0;

    for (int d = 0; d < o->n; d++)
        if (in[o->label[d]] == wanted)
            out[n++] = o->label[d];
    return n;
}

static int64_t label_volume(const operand *o, const uint8_t *label, int n)
{
    int64_t v = 1;

    for (int i = 0; i < n; i++)
        v *= o->t->size[label_place(o, label[i])];
    return v;
}

static cr_status permute_to(operand *o, const uint8_t *order)
{
    int64_t dims[CR_MAX_DIMS];
    bool same = true;

    for (int i = 0; i < o->n; i++) {
        dims[i] = label_place(o, order[i]);
        same = same && dims[i] == i;
    }
    if (same)
        return CR_OK;
    CR_TRY(operand_apply(o, cr_entry.permute, (cr_value[]){cr_of_ints(dims, (size_t)o->n)}, 1));
    memcpy(o->label, order, (size_t)o->n);
    return CR_OK;
}

static cr_status operand_reshape(operand *o, const int64_t *size, size_t n)
{
    return operand_apply(o, cr_entry.reshape, (cr_value[]){cr_of_ints(size, n)}, 1);
}

/* Reshapes o to [a, b, c], where each dim merges the given labels. */
static cr_status as_matrices(operand *o, const uint8_t *a, int na, const uint8_t *b, int nb,
                             const uint8_t *c, int nc, bool flat)
{
    uint8_t order[CR_MAX_DIMS];
    int64_t size[3] = {label_volume(o, a, na), label_volume(o, b, nb), label_volume(o, c, nc)};

    memcpy(order, a, (size_t)na);
    memcpy(order + na, b, (size_t)nb);
    memcpy(order + na + nb, c, (size_t)nc);
    CR_TRY(permute_to(o, order));
    return operand_reshape(o, size + flat, 3 - (size_t)flat);
}

/* Replaces a by the product of a and b, summed over the labels that both have and that `keep`
 * does not contain. */
static cr_status contract_pair(operand *a, operand *b, const bool *keep)
{
    bool in_a[LABELS] = {0}, in_b[LABELS] = {0}, batch[LABELS] = {0}, summed[LABELS] = {0};
    uint8_t bl[CR_MAX_DIMS], cl[CR_MAX_DIMS], al[CR_MAX_DIMS], rl[CR_MAX_DIMS];
    int64_t size[CR_MAX_DIMS];
    int nb, nc, na, nr, n = 0;

    for (int d = 0; d < a->n; d++)
        in_a[a->label[d]] = true;
    for (int d = 0; d < b->n; d++)
        in_b[b->label[d]] = true;
    for (int l = 0; l < LABELS; l++) {
        batch[l] = in_a[l] && in_b[l] && keep[l];
        summed[l] = in_a[l] && in_b[l] && !keep[l];
    }
    nb = pick_labels(a, batch, true, bl);
    nc = pick_labels(a, summed, true, cl);
    na = pick_labels(a, in_b, false, al);
    nr = pick_labels(b, in_a, false, rl);
    for (int i = 0; i < nb; i++)
        size[n++] = a->t->size[label_place(a, bl[i])];
    for (int i = 0; i < na; i++)
        size[n++] = a->t->size[label_place(a, al[i])];
    for (int i = 0; i < nr; i++)
        size[n++] = b->t->size[label_place(b, rl[i])];
    CR_TRY(as_matrices(a, bl, nb, al, na, cl, nc, nb == 0));
    CR_TRY(as_matrices(b, bl, nb, cl, nc, rl, nr, nb == 0));
    CR_TRY(operand_apply(a,
                         nc == 0 ? cr_entry.mul
                         : nb    ? cr_entry.bmm
                                 : cr_entry.mm,
                         (cr_value[]){cr_of_tensor(b->t)}, 1));
    memcpy(a->label, bl, (size_t)nb);
    memcpy(a->label + nb, al, (size_t)na);
    memcpy(a->label + nb + na, rl, (size_t)nr);
    a->n = n;
    return operand_reshape(a, size, (size_t)n);
}

static void drop_operands(operand *o, int n)
{
    for (int i = 0; i < n; i++)
        cr_drop(o[i].t);
}

/* --- einsum: reading the equation --- */

typedef struct {
    const char *text;
    size_t len, at;
    int count; /* operands */
    operand operand[MOST_OPERANDS];
    bool has_ellipsis[MOST_OPERANDS];
    int ellipsis_at[MOST_OPERANDS]; /* letters before it */
    int ellipsis_dims; /* the most dims that an ellipsis of an operand stands for */
    uint8_t out[CR_MAX_DIMS];
    int out_count;
    int64_t size[LABELS];
    int seen[LABELS]; /* uses in all operands */
} equation;

/* Upper case first, as torch sorts implicit outputs. */
static int label_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

static bool ellipsis_here(const equation *e)
{
    return e->len - e->at >= 3 && !memcmp(e->text + e->at, "...", 3);
}

static cr_status bad_subscript(const equation *e)
{
    return cr_fail(
        CR_RUNTIME,
        "einsum(): invalid subscript given at index %zu in the equation string, subscripts "
        "must be in [a-zA-Z]",
        e->at);
}

static cr_status read_dot(equation *e, int k)
{
    if (e->has_ellipsis[k])
        return cr_fail(
            CR_RUNTIME,
            "einsum(): found '.' for operand %d for which an ellipsis was already found", k);
    if (!ellipsis_here(e))
        return cr_fail(CR_RUNTIME,
                       "einsum(): found '.' for operand %d that is not part of any ellipsis",
                       k);
    e->has_ellipsis[k] = true;
    e->ellipsis_at[k] = e->operand[k].n;
    e->at += 3;
    return CR_OK;
}

/* Reads up to the arrow or the end. */
static cr_status read_operands(equation *e, int given)
{
    int k = 0;

    for (e->at = 0; e->at < e->len;) {
        char c = e->text[e->at];
        int label = label_of(c);

        if (c == '-' && e->at + 1 < e->len && e->text[e->at + 1] == '>')
            break;
        if (c == ' ') {
            e->at++;
        } else if (c == ',') {
            if (++k >= given)
                return cr_fail(
                    CR_RUNTIME,
                    "einsum(): fewer operands were provided than specified in the equation");
            e->at++;
        } else if (c == '.') {
            CR_TRY(read_dot(e, k));
        } else if (label < 0 || e->operand[k].n >= CR_MAX_DIMS) {
            return bad_subscript(e);
        } else {
            e->operand[k].label[e->operand[k].n++] = (uint8_t)label;
            e->at++;
        }
    }
    if (k + 1 < given)
        return cr_fail(CR_RUNTIME,
                       "einsum(): more operands were provided than specified in the equation");
    return CR_OK;
}

/* Replaces an ellipsis by labels for its dims, aligned at the right. */
static cr_status spread_ellipsis(equation *e, int k)
{
    operand *o = &e->operand[k];
    int ndim = o->t->ndim, more = ndim - o->n;

    if (!e->has_ellipsis[k] && more)
        return cr_fail(
            CR_RUNTIME,
            "einsum(): the number of subscripts in the equation (%d) does not match the "
            "number of dimensions (%d) for operand %d and no ellipsis was given",
            o->n, ndim, k);
    if (more < 0)
        return cr_fail(
            CR_RUNTIME,
            "einsum(): the number of subscripts in the equation (%d) is more than the number "
            "of dimensions (%d) for operand %d",
            o->n, ndim, k);
    memmove(o->label + e->ellipsis_at[k] + more, o->label + e->ellipsis_at[k],
            (size_t)(o->n - e->ellipsis_at[k]));
    for (int i = 0; i < more; i++)
        o->label[e->ellipsis_at[k] + i] = (uint8_t)(LABELS - more + i);
    o->n = ndim;
    e->ellipsis_dims = more > e->ellipsis_dims ? more : e->ellipsis_dims;
    return CR_OK;
}

/* Takes the diagonal over each repeated label.  Its dim is then the last, as diagonal() returns
 * it. */
static cr_status take_diagonals(equation *e, int k)
{
    operand *o = &e->operand[k];

    for (int d = 0; d < o->n; d++)
        for (int f = d + 1; f < o->n; f++) {
            uint8_t label = o->label[d];
            if (label != o->label[f])
                continue;
            if (o->t->size[d] != o->t->size[f])
                return cr_fail(
                    CR_RUNTIME,
                    "einsum(): subscript %c is repeated for operand %d but the sizes don't "
                    "match, %lld != %lld",
                    letter_of(label), k, (long long)o->t->size[f], (long long)o->t->size[d]);
            CR_TRY(operand_apply(o, cr_entry.diagonal,
                                 (cr_value[]){cr_of_int(0), cr_of_int(d), cr_of_int(f)}, 3));
            remove_label(o, f);
            remove_label(o, d);
            o->label[o->n++] = label;
            return take_diagonals(e, k);
        }
    return CR_OK;
}

static cr_status note_sizes(equation *e, int k)
{
    const operand *o = &e->operand[k];

    for (int d = 0; d < o->n; d++) {
        int64_t *known = &e->size[o->label[d]], n = o->t->size[d];
        e->seen[o->label[d]]++;
        if (*known > 1 && n != 1 && n != *known)
            return cr_fail(
                CR_RUNTIME,
                "einsum(): subscript %c has size %lld for operand %d which does not broadcast "
                "with previously seen size %lld",
                o->label[d] < LETTERS ? letter_of(o->label[d]) : '.', (long long)n, k,
                (long long)*known);
        if (*known <= 0 || *known == 1)
            *known = n;
    }
    return CR_OK;
}

static void put_ellipsis_out(equation *e)
{
    for (int i = 0; i < e->ellipsis_dims; i++)
        e->out[e->out_count++] = (uint8_t)(LABELS - e->ellipsis_dims + i);
}

/* The output of an equation without an arrow: the ellipsis, then the labels that are used
 * once. */
static void implicit_output(equation *e, const int *uses)
{
    put_ellipsis_out(e);
    for (int l = 0; l < LETTERS; l++)
        if (uses[l] == 1)
            e->out[e->out_count++] = (uint8_t)l;
}

static cr_status read_output_label(equation *e)
{
    char c = e->text[e->at];
    int label = label_of(c);

    if (label < 0)
        return bad_subscript(e);
    for (int i = 0; i < e->out_count; i++)
        if (e->out[i] == label)
            return cr_fail(CR_RUNTIME,
                           "einsum(): output subscript %c appears more than once in the output",
                           c);
    if (!e->seen[label])
        return cr_fail(
            CR_RUNTIME,
            "einsum(): output subscript %c does not appear in the equation for any input "
            "operand",
            c);
    e->out[e->out_count++] = (uint8_t)label;
    e->at++;
    return CR_OK;
}

static cr_status read_output(equation *e)
{
    bool ellipsis = false;

    for (e->at += 2; e->at < e->len;) {
        char c = e->text[e->at];
        if (c == ' ') {
            e->at++;
        } else if (c == '.' && !ellipsis && ellipsis_here(e)) {
            ellipsis = true;
            put_ellipsis_out(e);
            e->at += 3;
        } else if (c == '.') {
            return cr_fail(
                CR_RUNTIME,
                ellipsis ? "einsum(): found '.' for output but an ellipsis (...) was already "
                           "found"
                         : "einsum(): found '.' for output that is not part of any ellipsis "
                           "(...)");
        } else {
            CR_TRY(read_output_label(e));
        }
    }
    return CR_OK;
}

static void count_uses(const equation *e, int *uses)
{
    memset(uses, 0, LABELS * sizeof *uses);
    for (int k = 0; k < e->count; k++)
        for (int d = 0; d < e->operand[k].n; d++)
            uses[e->operand[k].label[d]]++;
}

static cr_status read_equation(equation *e, const cr_value *tensors)
{
    int uses[LABELS];

    CR_TRY(read_operands(e, (int)tensors->len));
    for (int k = 0; k < e->count; k++)
        CR_TRY(spread_ellipsis(e, k));
    count_uses(e, uses);
    for (int k = 0; k < e->count; k++)
        CR_TRY(take_diagonals(e, k));
    for (int k = 0; k < e->count; k++)
        CR_TRY(note_sizes(e, k));
    if (e->at < e->len)
        return read_output(e);
    implicit_output(e, uses);
    return CR_OK;
}

/* --- einsum: computing --- */

/* Removes dimensions of size 1 whose label has a larger size in another operand: these
 * broadcast. */
static cr_status drop_ones(equation *e, operand *o)
{
    for (int d = o->n - 1; d >= 0; d--)
        if (o->t->size[d] == 1 && e->size[o->label[d]] != 1) {
            CR_TRY(operand_apply(o, cr_entry.squeeze_dim, (cr_value[]){cr_of_int(d)}, 1));
            remove_label(o, d);
        }
    return CR_OK;
}

/* Sets keep[] for the labels that the output or an operand from `first` on needs. */
static void needed_labels(const equation *e, int first, bool *keep)
{
    memset(keep, 0, LABELS * sizeof *keep);
    for (int i = 0; i < e->out_count; i++)
        keep[e->out[i]] = true;
    for (int k = first; k < e->count; k++)
        for (int d = 0; d < e->operand[k].n; d++)
            keep[e->operand[k].label[d]] = true;
}

/* Sums labels of `o` that neither `keep` nor the other operand has. */
static cr_status sum_alone(operand *o, const operand *other, const bool *keep)
{
    bool drop[LABELS];

    for (int l = 0; l < LABELS; l++)
        drop[l] = !keep[l] && (!other || label_place(other, (uint8_t)l) < 0);
    return sum_labels(o, drop);
}

static cr_status compute_equation(equation *e)
{
    operand *first = &e->operand[0];
    bool keep[LABELS];

    for (int k = 0; k < e->count; k++)
        CR_TRY(drop_ones(e, &e->operand[k]));
    for (int k = 1; k < e->count; k++) {
        needed_labels(e, k + 1, keep);
        CR_TRY(sum_alone(first, &e->operand[k], keep));
        CR_TRY(sum_alone(&e->operand[k], first, keep));
        CR_TRY(contract_pair(first, &e->operand[k], keep));
    }
    needed_labels(e, e->count, keep);
    CR_TRY(sum_alone(first, NULL, keep));
    return permute_to(first, e->out);
}

/* (equation, tensors, path) */
cr_status cr_do_einsum(const cr_value *arg, cr_value *result)
{
    equation *e;
    cr_status st;

    if (arg[1].len == 0)
        return cr_fail(CR_RUNTIME, "einsum(): must provide at least one operand");
    if (arg[1].len > MOST_OPERANDS)
        return cr_fail(CR_RUNTIME, "einsum(): more than %d operands", MOST_OPERANDS);
    e = cr_alloc_zero(sizeof *e);
    CR_NEED(e);
    e->text = arg[0].s;
    e->len = arg[0].len;
    for (; e->count < (int)arg[1].len; e->count++)
        e->operand[e->count].t = cr_keep(arg[1].list[e->count].t);
    for (int l = 0; l < LABELS; l++)
        e->size[l] = -1;
    CR_GO(read_equation(e, &arg[1]));
    CR_GO(compute_equation(e));
    *result = cr_of_tensor(e->operand[0].t);
    e->operand[0].t = NULL;
done:
    drop_operands(e->operand, e->count);
    cr_free(e);
    return st;
}

/* --- tensordot --- */

static cr_status check_contracted(const cr_tensor *a, const cr_tensor *b, int64_t da,
                                  int64_t db, int64_t said_a, int64_t said_b)
{
    if (a->size[da] == b->size[db] || a->size[da] == 1 || b->size[db] == 1)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "contracted dimensions need to match, but first has size %lld in dim %lld and second "
        "has size %lld in dim %lld",
        (long long)a->size[da], (long long)said_a, (long long)b->size[db], (long long)said_b);
}

/* Wraps a dimension of a tensor with at least one dimension. */
static cr_status wrap_pair_dim(int64_t *out, int64_t dim, const cr_tensor *t)
{
    CR_TRY(cr_wrap_dim(out, dim, t->ndim));
    return t->ndim
               ? CR_OK
               : cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                         (long long)dim);
}

/* Labels both operands: paired dims share a label, every other dim has a separate one. */
static cr_status label_pairs(operand *a, operand *b, const cr_value *da, const cr_value *db)
{
    bool used_a[CR_MAX_DIMS] = {0}, used_b[CR_MAX_DIMS] = {0};
    uint8_t next = 0;

    for (uint32_t i = 0; i < da->len; i++) {
        int64_t x, y;
        CR_TRY(wrap_pair_dim(&x, da->ints[i], a->t));
        CR_TRY(wrap_pair_dim(&y, db->ints[i], b->t));
        if (used_a[x] || used_b[y])
            return cr_fail(CR_RUNTIME, "dim %lld appears multiple times in the list of dims",
                           (long long)(used_a[x] ? x : y));
        CR_TRY(check_contracted(a->t, b->t, x, y, da->ints[i], db->ints[i]));
        used_a[x] = used_b[y] = true;
        a->label[x] = b->label[y] = next++;
    }
    for (int d = 0; d < a->t->ndim; d++)
        if (!used_a[d])
            a->label[d] = next++;
    for (int d = 0; d < b->t->ndim; d++)
        if (!used_b[d])
            b->label[d] = next++;
    a->n = a->t->ndim;
    b->n = b->t->ndim;
    return CR_OK;
}

/* When one dim of a pair has size 1, the other operand is summed over its dim. */
static cr_status sum_broadcast(operand *a, operand *b, uint32_t pairs)
{
    for (uint32_t l = 0; l < pairs; l++) {
        int x = label_place(a, (uint8_t)l), y = label_place(b, (uint8_t)l);
        bool drop[LABELS] = {0};
        if (a->t->size[x] == b->t->size[y])
            continue;
        drop[l] = true;
        CR_TRY(sum_labels(a, drop));
        CR_TRY(sum_labels(b, drop));
    }
    return CR_OK;
}

/* (self, other, dims_self, dims_other) */
cr_status cr_do_tensordot(const cr_value *arg, cr_value *result)
{
    operand a = {.t = cr_keep(arg[0].t)}, b = {.t = cr_keep(arg[1].t)};
    bool keep[LABELS];
    cr_status st = CR_OK;

    if (arg[2].len != arg[3].len)
        CR_GO(cr_fail(CR_RUNTIME, "both dimension lists should have same length"));
    if (a.t->dtype != b.t->dtype)
        CR_GO(cr_fail(CR_RUNTIME, "both inputs should have same dtype"));
    CR_GO(label_pairs(&a, &b, &arg[2], &arg[3]));
    CR_GO(sum_broadcast(&a, &b, arg[2].len));
    for (int l = 0; l < LABELS; l++)
        keep[l] = l >= (int)arg[2].len;
    CR_GO(contract_pair(&a, &b, keep));
    *result = cr_of_tensor(a.t);
    a.t = NULL;
done:
    cr_drop(a.t);
    cr_drop(b.t);
    return st;
}

/* --- chains of matrix products --- */

enum { MOST_CHAIN = 64 };

static cr_status check_chain(const cr_value *list)
{
    char a[64], b[64];
    int n = (int)list->len;

    if (n < 2)
        return cr_fail(CR_RUNTIME, "multi_dot(): expected at least 2 tensors but got %d", n);
    if (n > MOST_CHAIN)
        return cr_fail(CR_RUNTIME, "multi_dot(): more than %d tensors", MOST_CHAIN);
    for (int i = 0; i < n; i++) {
        const cr_tensor *t = list->list[i].t;
        bool end = i == 0 || i == n - 1;
        if (end && t->ndim != 1 && t->ndim != 2)
            return cr_fail(CR_RUNTIME,
                           "multi_dot(): the %s tensor must be 1D or 2D but got %dD",
                           i ? "last" : "first", t->ndim);
        if (!end && t->ndim != 2)
            return cr_fail(CR_RUNTIME, "multi_dot(): tensor %d must be 2D but got %dD", i,
                           t->ndim);
        if (t->dtype != list->list[0].t->dtype)
            return cr_fail(
                CR_RUNTIME,
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and "
                "tensor %d %s",
                cr_dtype_name((cr_dtype)list->list[0].t->dtype), i,
                cr_dtype_name((cr_dtype)t->dtype));
    }
    for (int i = 0; i + 1 < n; i++) {
        const cr_tensor *x = list->list[i].t, *y = list->list[i + 1].t;
        if (x->size[x->ndim - 1] == y->size[0])
            continue;
        snprintf(a, sizeof a, x->ndim == 1 ? "[%lld]" : "[%lld, %lld]", (long long)x->size[0],
                 (long long)x->size[x->ndim - 1]);
        snprintf(b, sizeof b, y->ndim == 1 ? "[%lld]" : "[%lld, %lld]", (long long)y->size[0],
                 (long long)y->size[y->ndim - 1]);
        return cr_fail(
            CR_RUNTIME,
            "multi_dot(): tensors %d and %d with shapes %s and %s cannot be multiplied", i,
            i + 1, a, b);
    }
    return CR_OK;
}

/* split[i][j]: where to cut the product of matrices i..j for the fewest multiplications. */
typedef struct {
    double cost[MOST_CHAIN][MOST_CHAIN];
    uint8_t split[MOST_CHAIN][MOST_CHAIN];
    operand matrix[MOST_CHAIN];
    int n;
} chain;

static void plan_chain(chain *c)
{
    for (int len = 2; len <= c->n; len++)
        for (int i = 0; i + len <= c->n; i++) {
            int j = i + len - 1;
            c->cost[i][j] = -1;
            for (int k = i; k < j; k++) {
                double work = (double)c->matrix[i].t->size[0] *
                              (double)c->matrix[k].t->size[1] * (double)c->matrix[j].t->size[1];
                double cost = c->cost[i][k] + c->cost[k + 1][j] + work;
                if (c->cost[i][j] >= 0 && cost >= c->cost[i][j])
                    continue;
                c->cost[i][j] = cost;
                c->split[i][j] = (uint8_t)k;
            }
        }
}

/* The product of matrices i..j. Recursion is at most as deep as the chain is long. */
static cr_status multiply_chain(chain *c, int i, int j, cr_tensor **out)
{
    cr_tensor *left = NULL, *right = NULL;
    cr_status st;

    if (i == j) {
        *out = cr_keep(c->matrix[i].t);
        return CR_OK;
    }
    CR_GO(multiply_chain(c, i, c->split[i][j], &left));
    CR_GO(multiply_chain(c, c->split[i][j] + 1, j, &right));
    CR_GO(cr_call_tensor(out, cr_entry.mm,
                         (cr_value[]){cr_of_tensor(left), cr_of_tensor(right)}, 2));
done:
    cr_drop(left);
    cr_drop(right);
    return st;
}

/* Vectors at the ends are used as matrices; the added dims are removed from the result. */
static cr_status run_chain(chain *c, const cr_value *list, cr_value *result)
{
    bool row = list->list[0].t->ndim == 1, column = list->list[c->n - 1].t->ndim == 1;
    operand product = {0};
    cr_status st;

    if (row)
        CR_TRY(operand_apply(&c->matrix[0], cr_entry.unsqueeze, (cr_value[]){cr_of_int(0)}, 1));
    if (column)
        CR_TRY(operand_apply(&c->matrix[c->n - 1], cr_entry.unsqueeze,
                             (cr_value[]){cr_of_int(-1)}, 1));
    plan_chain(c);
    CR_TRY(multiply_chain(c, 0, c->n - 1, &product.t));
    st = row ? operand_apply(&product, cr_entry.squeeze_dim, (cr_value[]){cr_of_int(0)}, 1)
             : CR_OK;
    if (!st && column)
        st = operand_apply(&product, cr_entry.squeeze_dim, (cr_value[]){cr_of_int(-1)}, 1);
    if (st)
        cr_drop(product.t);
    else
        *result = cr_of_tensor(product.t);
    return st;
}

/* (tensors) */
cr_status cr_do_multi_dot(const cr_value *arg, cr_value *result)
{
    chain *c;
    cr_status st;

    CR_TRY(check_chain(&arg[0]));
    c = cr_alloc_zero(sizeof *c);
    CR_NEED(c);
    for (; c->n < (int)arg[0].len; c->n++)
        c->matrix[c->n].t = cr_keep(arg[0].list[c->n].t);
    st = run_chain(c, &arg[0], result);
    drop_operands(c->matrix, c->n);
    cr_free(c);
    return st;
}
