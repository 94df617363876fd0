/* The invariants of programs, checked after passes in debug builds and by tools.
 *
 *   - a definition has as many axes as its target has dimensions, of the same extents
 *   - what is read is an input or was defined before, with one index a dimension
 *   - an index uses only sizes and the enclosing axes, and is within its dim when that is
 * known; a computed index is an int32 or int64 value
 *   - only a reduction or scan that keeps its index has one
 *   - a scan goes along an enclosing axis, whose extent it names
 *   - arguments of a call agree in type, and values have their target's type */
#include "loop/loop.h"
#include <string.h>

typedef struct {
    cr_loop *l;
    const cr_def *d;
    cr_axis axis[CR_LOOP_DIMS + 32];
    int axes;
} scope;

CR_NORETURN static void broken(scope *s, const char *what, const char *name)
{
    cr_bail(s->l->session, CR_RUNTIME, "in '%s': %s '%s'", s->d->target->name, what, name);
}

static bool is_size(const cr_loop *l, const cr_sym *name)
{
    for (size_t i = 0; i < l->buffers.len; i++)
        for (int k = 0; k < l->buffers.at[i]->ndim; k++)
            if (cr_sym_uses(l->buffers.at[i]->size[k], name))
                return true;
    return false;
}

static void check_names(scope *s, const cr_sym *e)
{
    bool known = e->kind != CR_SYM_NAME;

    for (int i = 0; i < s->axes && !known; i++)
        known = s->axis[i].index == e;
    if (!known && !is_size(s->l, e))
        broken(s, "no axis and no size is called", e->name);
    for (int i = 0; i < e->count; i++)
        check_names(s, e->args[i]);
}

/* The largest value of an index: each axis has its last value.  NULL when the index does not
 * grow with an axis. */
static const cr_sym *at_most(scope *s, const cr_sym *e)
{
    cr_syms *t = s->l->syms;

    for (int i = s->axes - 1; i >= 0; i--) {
        const cr_sym *next, *step;
        if (!cr_sym_uses(e, s->axis[i].index))
            continue;
        next = cr_sym_replace(t, e, s->axis[i].index,
                              cr_sym_add(t, s->axis[i].index, cr_sym_int(t, 1)));
        step = cr_sym_sub(t, next, e);
        if (step->low < 0)
            return NULL;
        e = cr_sym_replace(t, e, s->axis[i].index,
                           cr_sym_sub(t, s->axis[i].extent, cr_sym_int(t, 1)));
    }
    return e;
}

static void check_load(scope *s, const cr_expr *e)
{
    bool defined = e->buffer->role == CR_BUFFER_INPUT;

    for (size_t i = 0; i < s->l->defs.len && s->l->defs.at[i] != s->d; i++)
        defined = defined || s->l->defs.at[i]->target == e->buffer;
    if (!defined)
        broken(s, "read before it is defined:", e->buffer->name);
    if (e->dtype != e->buffer->dtype)
        broken(s, "read in another type than it has:", e->buffer->name);
    for (int k = 0; k < e->buffer->ndim; k++) {
        const cr_sym *most;
        if (cr_load_computed(e, k))
            continue;
        check_names(s, e->index[k]);
        most = at_most(s, e->index[k]);
        if (most && cr_sym_lt(s->l->syms, most, e->buffer->size[k]) == CR_SYM_NO)
            broken(s, "an index leaves", e->buffer->name);
    }
}

static void verify_call_types(scope *s, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    int first = info->kind == CR_FN_SELECT ? 1 : 0;

    if (e->count != info->args)
        broken(s, "wrong number of arguments for", info->name);
    for (int i = first; i < e->count; i++)
        if (e->args[i]->dtype != e->args[first]->dtype)
            broken(s, "arguments of several types for", info->name);
    if (info->kind == CR_FN_SAME && e->dtype != e->args[0]->dtype)
        broken(s, "a result of another type than its arguments for", info->name);
    if (!cr_fn_has((cr_fn)e->fn, (cr_dtype)e->args[first]->dtype))
        broken(s, "no such function for the type:", info->name);
}

static void verify_scan(scope *s, const cr_expr *e)
{
    bool found = false;

    for (int i = 0; i < s->axes; i++)
        found =
            found || (s->axis[i].index == e->axis.index && s->axis[i].extent == e->axis.extent);
    if (!found)
        broken(s, "a scan along no axis with its extent:", e->axis.index->name);
}

static void verify_expr(scope *s, cr_expr_set *seen, const cr_expr *e)
{
    if (e->kind != CR_EXPR_REDUCE && !cr_expr_set_add(seen, e))
        return;
    for (int i = 0; i < e->count; i++)
        if (e->args[i]->id >= e->id)
            broken(s, "an argument was made after its call:", cr_fn_infos[e->fn].name);
    if (e->kind == CR_EXPR_LOAD)
        check_load(s, e);
    if (e->kind == CR_EXPR_INTEGER)
        check_names(s, e->index[0]);
    if (e->kind == CR_EXPR_CALL)
        verify_call_types(s, e);
    if (e->kind == CR_EXPR_SCAN)
        verify_scan(s, e);
    if (e->kind == CR_EXPR_INDEX_OF && !cr_fn_keeps_index((cr_fn)e->args[0]->fn))
        broken(s, "the index of a reduction that keeps none in", s->d->target->name);
    if (e->kind == CR_EXPR_REDUCE) {
        cr_expr_set inside = cr_expr_set_new(s->l);
        if (!cr_expr_set_add(seen, e))
            return;
        check_names(s, e->axis.extent);
        if (s->axes == (int)CR_LEN(s->axis))
            broken(s, "reductions are nested too deeply in", s->d->target->name);
        s->axis[s->axes++] = e->axis;
        verify_expr(s, &inside, e->args[0]);
        s->axes--;
        return;
    }
    for (int i = 0; i < e->count; i++)
        verify_expr(s, seen, e->args[i]);
}

static void check_def(cr_loop *l, const cr_def *d)
{
    scope s = {.l = l, .d = d, .axes = d->axes};
    cr_expr_set seen = cr_expr_set_new(l);

    if (d->axes != d->target->ndim)
        broken(&s, "not one axis a dimension of", d->target->name);
    for (int k = 0; k < d->axes; k++) {
        s.axis[k] = d->axis[k];
        if (d->axis[k].extent != d->target->size[k])
            broken(&s, "axes do not cover", d->target->name);
    }
    if (d->value->dtype != d->target->dtype)
        broken(&s, "a value of another type for", d->target->name);
    if (d->target->role == CR_BUFFER_INPUT)
        broken(&s, "an input is defined:", d->target->name);
    verify_expr(&s, &seen, d->value);
}

void cr_loop_verify(cr_loop *l)
{
    for (size_t i = 0; i < l->defs.len; i++)
        check_def(l, l->defs.at[i]);
}
