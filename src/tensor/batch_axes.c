/* Batches of entries that state their axes: the examples are more matrices, rows or groups. */
#include "entry.h"
#include "tensor/batch_call.h"
#include <ctype.h>
#include <string.h>

/* --- the clause --- */

enum { AXES_GROUPS = 10 };

/* A group of clause `axes`: its first name, and the number of names. */
typedef struct {
    char first[8];
    int names;   /* but for those of several dims */
    bool packed; /* `*` is among them: any dims, that are those of a batch */
} axes_group;

typedef struct {
    axes_group group[AXES_GROUPS];
    int given, made; /* groups of tensors, then those of results */
} axes_clause;

static bool axes_read_group(axes_group *g, const char **at, const char *end)
{
    memset(g, 0, sizeof *g);
    for (int count = 0; *at < end && **at != ')';) {
        char word[8] = "";
        size_t n = 0;
        while (*at < end && (isalnum((unsigned char)**at) || **at == '_' || **at == '*')) {
            if (n + 1 < sizeof word)
                word[n++] = **at;
            ++*at;
        }
        if (!n) {
            ++*at;
            continue;
        }
        word[n] = 0;
        if (!count++)
            memcpy(g->first, word, sizeof word);
        g->packed |= !strcmp(word, "*");
        g->names += !strchr(word, '*');
    }
    return *at < end;
}

static bool axes_read(axes_clause *a, const cr_op *op)
{
    const char *at = op->text.axes.at, *end = at ? at + op->text.axes.len : NULL;
    bool arrow = false;
    int n = 0;

    if (!at || op->does == CR_DOES_INPLACE)
        return false;
    a->given = a->made = 0;
    for (; at < end; at++) {
        if (*at == '|' || *at == '+')
            return false;
        arrow |= *at == '>';
        if (*at != '(')
            continue;
        at++;
        if (n == AXES_GROUPS || !axes_read_group(&a->group[n++], &at, end))
            return false;
        *(arrow ? &a->made : &a->given) += 1;
    }
    return arrow && a->given && a->made;
}

/* group[i] becomes that of parameter i; NULL without a tensor.  False if they do not fit. */
static bool axes_of_params(const axes_group **group, const axes_clause *a, const batch_call *c)
{
    int n = 0;

    for (int i = 0; i < c->op->param_count; i++) {
        group[i] = NULL;
        if (c->op->param[i].type == CR_T_TENSORS)
            return false;
        if (c->op->param[i].type != CR_T_TENSOR)
            continue;
        if (n == a->given)
            return false;
        if (c->arg[i].tag == CR_TENSOR)
            group[i] = &a->group[n];
        if (group[i] && c->arg[i].t->ndim < group[i]->names)
            return false; /* an example alone raises */
        n++;
    }
    return n == a->given;
}

/* The first name of all results and mapped tensors; NULL if these differ. */
static const char *axes_first(const axes_group *const *group, const axes_clause *a,
                              const batch_call *c)
{
    const char *first = a->group[a->given].first;

    for (int k = 0; k < a->made; k++)
        if (strcmp(first, a->group[a->given + k].first))
            return NULL;
    for (int i = 0; i < c->op->param_count; i++)
        if (group[i] && cr_batch_has(c, c->arg[i].t) && strcmp(first, group[i]->first))
            return NULL;
    return first;
}

static cr_status axes_more_matrices(batch_call *c, const axes_group *const *group,
                                    cr_value *result)
{
    int dims = -1;

    for (int i = 0; i < c->op->param_count; i++) {
        if (!group[i] || !group[i]->packed)
            continue;
        int own = c->arg[i].t->ndim - group[i]->names;
        if (dims >= 0 && own != dims)
            return cr_batch_leave(c);
        dims = own;
        CR_TRY(cr_batch_give_whole(c, i));
    }
    return cr_batch_run(c, result);
}

/* Sizes of a result with all its axes: one of them is that of all examples. */
static cr_status axes_grow_sizes(batch_call *c, int ndim, int at)
{
    for (int i = 0; i < c->op->param_count; i++) {
        const char *name = c->op->param[i].name;
        size_t n = strlen(name);
        int64_t *list;
        if (c->arg[i].tag != CR_INTS || (int)c->arg[i].len != ndim || n < 5 ||
            strcmp(name + n - 5, "_size"))
            continue;
        CR_TRY(cr_batch_list(c, &list, -1, c->arg[i].ints, c->arg[i].len));
        list[at] *= c->size;
        c->given[i] = cr_of_ints(list, c->arg[i].len);
    }
    return CR_OK;
}

/* Dims `at` of the batch's examples and of the batch become one, which is dim `at` after. */
static cr_status axes_join(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    cr_tensor *whole, *moved;
    int64_t size[CR_MAX_DIMS];

    CR_TRY(cr_batch_whole(c, &whole, t));
    CR_TRY(cr_batch_move(c, &moved, whole, 0, at));
    for (int d = 0, k = 0; d < moved->ndim; d++) {
        size[k] = moved->size[d];
        if (d == at)
            size[k] *= moved->size[++d];
        k++;
    }
    return cr_batch_reshape(c, out, moved, moved->ndim - 1, size);
}

/* The reverse of axes_join for a result: `size` examples. */
static cr_status axes_part(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    int64_t size[CR_MAX_DIMS + 1];
    cr_tensor *parted;

    for (int d = 0, k = 0; d < t->ndim; d++) {
        if (d == at) {
            size[k++] = c->size;
            size[k++] = t->size[d] / c->size;
        } else {
            size[k++] = t->size[d];
        }
    }
    CR_TRY(cr_batch_reshape(c, &parted, t, t->ndim + 1, size));
    return cr_batch_move(c, out, parted, at, 0);
}

/* Calls the entry and takes its results apart. */
static cr_status axes_run_parted(batch_call *c, int at, cr_value *result)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st;

    CR_TRY(cr_batch_run(c, made));
    for (int k = 0; k < c->op->result_count; k++)
        result[k] = cr_of_none();
    for (int k = 0; k < c->op->result_count; k++) {
        cr_tensor *t;
        if (made[k].tag != CR_TENSOR)
            continue;
        CR_GO(axes_part(c, &t, made[k].t, at));
        result[k] = cr_of_tensor(cr_keep(t));
    }
    st = CR_OK;
done:
    cr_drop_values(made, c->op->result_count);
    if (st)
        cr_drop_values(result, c->op->result_count);
    return st;
}

static cr_status axes_more_rows(batch_call *c, const axes_group *const *group,
                                const char *first, cr_value *result)
{
    int64_t rows = -1;
    int ndim = 0;

    for (int i = 0; i < c->op->param_count; i++) {
        if (!group[i] || strcmp(group[i]->first, first))
            continue;
        if (!c->arg[i].t->ndim || (rows >= 0 && c->arg[i].t->size[0] != rows))
            return cr_batch_leave(c);
        rows = c->arg[i].t->size[0];
        ndim = ndim ? ndim : c->arg[i].t->ndim;
    }
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        if (!group[i] || strcmp(group[i]->first, first))
            continue;
        CR_TRY(axes_join(c, &t, c->arg[i].t, 0));
        c->given[i] = cr_of_tensor(t);
    }
    CR_TRY(axes_grow_sizes(c, ndim, 0));
    return axes_run_parted(c, 0, result);
}

/* Channels are the second axis where a tensor has rows, else its first. */
static int axes_channel(const axes_group *g) { return strcmp(g->first, "_") ? 1 : 0; }

static cr_status axes_more_groups(batch_call *c, const axes_group *const *group,
                                  const axes_clause *a, cr_value *result)
{
    int groups = cr_op_find_param(c->op, "groups"), ndim = 0;
    int place = axes_channel(&a->group[a->given]);

    if (groups < 0 || a->made != 1 || c->arg[groups].tag != CR_INT)
        return cr_batch_leave(c);
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        if (!group[i])
            continue;
        ndim = c->arg[i].t->ndim > ndim ? c->arg[i].t->ndim : ndim;
        CR_TRY(axes_join(c, &t, c->arg[i].t, axes_channel(group[i])));
        c->given[i] = cr_of_tensor(t);
    }
    CR_TRY(axes_grow_sizes(c, ndim, place));
    c->given[groups] = cr_of_int(c->arg[groups].i * c->size);
    return axes_run_parted(c, place, result);
}

cr_status cr_batch_axes(batch_call *c, bool *stated, cr_value *result)
{
    const axes_group *group[CR_MAX_ARGS];
    axes_clause axes;

    *stated = axes_read(&axes, c->op);
    if (!*stated)
        return CR_OK;
    if (!axes_of_params(group, &axes, c))
        return cr_batch_leave(c);
    const char *first = axes_first(group, &axes, c);
    if (first && !strcmp(first, "*"))
        return axes_more_matrices(c, group, result);
    if (!c->size)
        return cr_batch_leave(c);
    if (first && *first && strcmp(first, "_") && strcmp(first, "_*"))
        return axes_more_rows(c, group, first, result);
    return axes_more_groups(c, group, &axes, result);
}

/* --- the last dims --- */

cr_status cr_batch_trailing(batch_call *c, cr_value *result)
{
    int dims = cr_op_find_param(c->op, "dims"), ndim = cr_batch_most_dims(c);

    if (c->arg[dims].tag != CR_INT || ndim <= c->arg[dims].i || !c->size)
        return cr_batch_leave(c);
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        int64_t *list;
        if (c->arg[i].tag == CR_TENSORS ||
            (c->arg[i].tag == CR_TENSOR && c->arg[i].t->ndim != ndim))
            return cr_batch_leave(c);
        if (c->arg[i].tag == CR_TENSOR) {
            CR_TRY(axes_join(c, &t, c->arg[i].t, 0));
            c->given[i] = cr_of_tensor(t);
        } else if (cr_batch_names_size(&c->op->param[i]) && c->arg[i].tag == CR_INTS) {
            if ((int)c->arg[i].len != ndim)
                return cr_batch_leave(c);
            CR_TRY(cr_batch_list(c, &list, -1, c->arg[i].ints, c->arg[i].len));
            list[0] *= c->size;
            c->given[i] = cr_of_ints(list, c->arg[i].len);
        }
    }
    return axes_run_parted(c, 0, result);
}
