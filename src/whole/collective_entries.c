/* Calls between ranks as entries: their results, which fakes have too, and the start. */
#include "base/memory.h"
#include "whole/collective.h"
#include "whole/steps.h"
#include <string.h>

/* A text among arguments, with a zero at its end. */
static cr_status text_of(char **out, const cr_value *v)
{
    *out = cr_alloc(v->len + 1);
    CR_NEED(*out);
    memcpy(*out, v->s, v->len);
    (*out)[v->len] = 0;
    return CR_OK;
}

/* Starts n calls with these texts. */
static cr_status start_named(const cr_value *group, const cr_value *reduce, cr_collective *c,
                             int n)
{
    char *name = NULL, *op = NULL;
    cr_status st;

    CR_GO(text_of(&name, group));
    if (reduce)
        CR_GO(text_of(&op, reduce));
    for (int i = 0; i < n; i++)
        c[i].reduce = op;
    CR_GO(cr_collective_start(name, c, n));
done:
    cr_free(op);
    cr_free(name);
    return st;
}

/* A new tensor with another first dim. */
static cr_status new_rows(cr_tensor **out, const cr_tensor *like, int64_t rows)
{
    int64_t size[CR_MAX_DIMS];

    memcpy(size, like->size, (size_t)like->ndim * sizeof *size);
    size[0] = rows;
    return cr_tensor_new(out, (cr_dtype)like->dtype, like->device, like->ndim ? like->ndim : 1,
                         size);
}

static cr_status copy_of(cr_tensor **out, const cr_tensor *t)
{
    return cr_copy_as(out, t, (cr_dtype)t->dtype, t->device, CR_FORMAT_CONTIGUOUS);
}

/* --- the tensors of calls; `call` is complete but for its texts --- */

typedef cr_status (*making)(cr_collective *call, cr_tensor *input, const cr_value *further);

static cr_status make_reduced(cr_collective *c, cr_tensor *t, const cr_value *further)
{
    (void)further;
    c->kind = CR_CALL_ALL_REDUCE;
    c->root = -1;
    return copy_of(&c->out, t);
}

static cr_status make_gathered(cr_collective *c, cr_tensor *t, const cr_value *further)
{
    int64_t ranks = further[0].i;

    c->kind = CR_CALL_ALL_GATHER;
    c->root = -1;
    if (ranks < 1)
        return cr_fail(CR_VALUE, "a group has at least one rank, not %lld", (long long)ranks);
    int64_t rows = ranks;
    if (t->ndim && CR_MUL_OVERFLOW(t->size[0], ranks, &rows))
        return cr_fail(CR_RUNTIME,
                       "Storage size calculation overflowed with %lld parts of %lld rows",
                       (long long)ranks, (long long)t->size[0]);
    CR_TRY(cr_contiguous_plain(&c->in, t));
    return new_rows(&c->out, t, rows);
}

static cr_status make_scattered(cr_collective *c, cr_tensor *t, const cr_value *further)
{
    int64_t ranks = further[1].i;

    c->kind = CR_CALL_REDUCE_SCATTER;
    c->root = -1;
    if (ranks < 1 || !t->ndim || t->size[0] % ranks)
        return cr_fail(CR_RUNTIME,
                       "input dimension 0 (%lld) must be a multiple of group_size %lld",
                       (long long)(t->ndim ? t->size[0] : 1), (long long)ranks);
    CR_TRY(cr_contiguous_plain(&c->in, t));
    return new_rows(&c->out, t, t->size[0] / ranks);
}

static cr_status sum_rows(int64_t *out, const cr_value *list)
{
    *out = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        if (list->ints[i] < 0)
            return cr_fail(CR_RUNTIME, "a split of %lld rows", (long long)list->ints[i]);
        if (CR_ADD_OVERFLOW(*out, list->ints[i], out))
            return cr_fail(CR_RUNTIME,
                           "Storage size calculation overflowed with the rows of %u parts",
                           list->len);
    }
    return CR_OK;
}

static cr_status make_exchanged(cr_collective *c, cr_tensor *t, const cr_value *further)
{
    int64_t to, from;

    c->kind = CR_CALL_ALL_TO_ALL;
    c->root = -1;
    CR_TRY(sum_rows(&to, &further[0]));
    CR_TRY(sum_rows(&from, &further[1]));
    if (!t->ndim || from != t->size[0])
        return cr_fail(CR_RUNTIME, "Split sizes doesn't match total dim 0 size");
    c->out_rows = further[0].ints;
    c->out_parts = (int)further[0].len;
    c->in_rows = further[1].ints;
    c->in_parts = (int)further[1].len;
    CR_TRY(cr_contiguous_plain(&c->in, t));
    return new_rows(&c->out, t, to);
}

static cr_status make_broadcast(cr_collective *c, cr_tensor *t, const cr_value *further)
{
    c->kind = CR_CALL_BROADCAST;
    c->root = further[0].i;
    return copy_of(&c->out, t);
}

/* --- entries --- */

static void collective_drop(cr_collective *c)
{
    cr_drop(c->in);
    cr_drop(c->out);
}

/* A call with one tensor; `group` is the index of its name. */
static cr_status run_one(const cr_value *arg, cr_value *result, making make, int group,
                         const cr_value *reduce)
{
    cr_collective c = {.reduce = NULL};
    cr_status st;

    CR_GO(make(&c, arg[0].t, arg + 1));
    CR_GO(start_named(&arg[group], reduce, &c, 1));
    *result = cr_of_tensor(cr_keep(c.out));
done:
    collective_drop(&c);
    return st;
}

/* Calls with the tensors of a list, as one work. */
static cr_status run_list(const cr_value *arg, cr_value *result, making make, int group,
                          const cr_value *reduce)
{
    int n = (int)arg[0].len;
    cr_collective *c = cr_alloc_zero((size_t)n * sizeof *c + 1);
    cr_value *list = cr_list_new(n);
    cr_status st = c && list ? CR_OK : CR_MEMORY;

    for (int i = 0; !st && i < n; i++)
        st = make(&c[i], arg[0].list[i].t, arg + 1);
    if (!st)
        st = start_named(&arg[group], reduce, c, n);
    for (int i = 0; !st && i < n; i++)
        list[i] = cr_of_tensor(cr_keep(c[i].out));
    if (!st)
        *result = cr_of_list(list, (uint32_t)n);
    else
        cr_list_drop(list, (uint32_t)n);
    for (int i = 0; c && i < n; i++)
        collective_drop(&c[i]);
    cr_free(c);
    return st;
}

/* A call on the elements of a tensor that the program has. */
static cr_status run_inplace(const cr_value *arg, cr_value *result, cr_collective c,
                             const cr_value *group, const cr_value *reduce)
{
    c.out = arg[0].t;
    CR_TRY(start_named(group, reduce, &c, 1));
    return cr_give_changed(result, arg[0].t);
}

cr_status cr_do_all_reduce(const cr_value *arg, cr_value *result)
{
    return run_one(arg, result, make_reduced, 2, &arg[1]);
}

cr_status cr_do_all_reduce_(const cr_value *arg, cr_value *result)
{
    cr_collective c = {.kind = CR_CALL_ALL_REDUCE, .root = -1};

    return run_inplace(arg, result, c, &arg[2], &arg[1]);
}

cr_status cr_do_all_reduce_coalesced(const cr_value *arg, cr_value *result)
{
    return run_list(arg, result, make_reduced, 2, &arg[1]);
}

cr_status cr_do_all_gather(const cr_value *arg, cr_value *result)
{
    return run_one(arg, result, make_gathered, 2, NULL);
}

cr_status cr_do_all_gather_coalesced(const cr_value *arg, cr_value *result)
{
    return run_list(arg, result, make_gathered, 2, NULL);
}

cr_status cr_do_reduce_scatter(const cr_value *arg, cr_value *result)
{
    return run_one(arg, result, make_scattered, 3, &arg[1]);
}

cr_status cr_do_reduce_scatter_coalesced(const cr_value *arg, cr_value *result)
{
    return run_list(arg, result, make_scattered, 3, &arg[1]);
}

cr_status cr_do_all_to_all(const cr_value *arg, cr_value *result)
{
    return run_one(arg, result, make_exchanged, 3, NULL);
}

cr_status cr_do_broadcast_start(const cr_value *arg, cr_value *result)
{
    return run_one(arg, result, make_broadcast, 2, NULL);
}

cr_status cr_do_broadcast_start_(const cr_value *arg, cr_value *result)
{
    cr_collective c = {.kind = CR_CALL_BROADCAST, .root = arg[1].i};

    return run_inplace(arg, result, c, &arg[2], NULL);
}

/* The result is another tensor over the elements, so that a record of the wait begins with
 * it. */
cr_status cr_do_wait_tensor(const cr_value *arg, cr_value *result)
{
    cr_tensor *t;

    CR_TRY(cr_collective_wait(arg[0].t));
    CR_TRY(cr_tensor_alias(&t, arg[0].t));
    *result = cr_of_tensor(t);
    return CR_OK;
}

/* Whether this process is a rank of a group. */
static cr_status is_rank(bool *out, const cr_value *group, int64_t rank, const cr_tensor *t)
{
    char *name = NULL;
    cr_comm_found g = {NULL, 0};
    cr_status st;

    CR_GO(text_of(&name, group));
    CR_GO(cr_comm_find(&g, name, (cr_device_kind)t->device.kind));
    *out = g.rank == rank;
done:
    cr_comm_drop(g.comm);
    cr_free(name);
    return st;
}

/* The calls are those of all ranks, also in derivatives of the result: only the mask
 * differs. */
cr_status cr_do_broadcast_backward(const cr_value *arg, cr_value *result)
{
    cr_steps s = {.st = CR_OK};
    bool root = true;
    const cr_value sum = {.tag = CR_STRING, .len = 3, .s = "sum"};

    CR_TRY(is_rank(&root, &arg[2], arg[1].i, arg[0].t));
    cr_tensor *t = CR_STEP(&s, _c10d_functional_all_reduce, arg[0], sum, arg[2]);
    t = CR_STEP(&s, _c10d_functional_wait_tensor, T(t));
    const cr_value no = cr_of_number(cr_scalar_int(0));
    cr_tensor *mask = CR_STEP(&s, full_like, T(t), cr_of_number(cr_scalar_int(!root)),
                              (cr_value){.tag = CR_DTYPE_VAL, .i = CR_BOOL});
    return cr_steps_give(&s, result, CR_STEP(&s, masked_fill_Scalar, T(t), T(mask), no));
}
