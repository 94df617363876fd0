/* Views whose geometry is known when the program is made.
 *
 * The rule of a map runs once, on a tensor without bytes; a reshape of a row-major tensor is a
 * view of it.  The run checks that its tensor has this type. */
#include "compile/program_impl.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <string.h>

static bool is_row_major(const cr_gtype *t) { return t->known && !t->stride; }

static bool reshapes(const cr_step *s)
{
    const cr_gtype *from = &s->values.node->arg[0].value->type,
                   *to = &s->values.made_value[0]->type;

    if (s->call.op->does != CR_DOES_WHOLE || !(s->call.op->words & CR_WORD_RESHAPE))
        return false;
    if ((s->call.op->words & CR_WORD_ITSELF) && from->ndim == to->ndim)
        return false; /* returns the tensor itself */
    return is_row_major(from) && is_row_major(to) && from->dtype == to->dtype &&
           cr_numel(from->ndim, from->size) == cr_numel(to->ndim, to->size);
}

/* Runs the rule of a map entry on a fake tensor; false if the rule fails. */
static bool ask(cr_geometry *out, const cr_step *s, const cr_value *given, const cr_gtype *from)
{
    cr_value arg[CR_MAX_ARGS];
    cr_tensor *fake = NULL;
    cr_view view;
    cr_status st;

    memcpy(arg, given, s->call.arg_count * sizeof *arg);
    if (cr_gtype_fake(&fake, from))
        return false;
    arg[0] = cr_of_tensor(fake);
    view = cr_view_of(fake);
    st = s->call.op->fn.on_geometry(arg, &view, out);
    cr_drop(fake);
    return !st;
}

static bool maps(const cr_step *s)
{
    return s->call.op->does == CR_DOES_MAP && s->call.patches == 1 &&
           !(s->call.op->words & CR_WORD_ABSOLUTE);
}

static void row_major(cr_geometry *g, const cr_gtype *t)
{
    *g = (cr_geometry){.ndim = t->ndim};
    memcpy(g->size, t->size, t->ndim * sizeof *t->size);
    cr_row_major_strides(g->stride, t->ndim, t->size);
}

/* A dim of one element may have any stride, and views may inherit it. */
const int64_t *cr_assumed_strides(cr_session *s, const cr_gtype *from)
{
    int64_t stride[CR_MAX_DIMS];
    bool any = false;

    for (int d = 0; d < from->ndim; d++)
        any = any || from->size[d] == 1;
    if (!any)
        return NULL;
    cr_row_major_strides(stride, from->ndim, from->size);
    return cr_session_copy(s, from->stride ? from->stride : stride,
                           from->ndim * sizeof *stride);
}

static const cr_static_view *new_view(cr_session *s, const cr_gtype *from, const cr_geometry *g)
{
    cr_static_view *v = CR_NEW(s, cr_static_view);

    *v = (cr_static_view){.from = from,
                          .assumed = cr_assumed_strides(s, from),
                          .ndim = g->ndim,
                          .offset = g->offset};
    v->size = cr_session_copy(s, g->size, (size_t)g->ndim * sizeof *g->size);
    v->stride = cr_session_copy(s, g->stride, (size_t)g->ndim * sizeof *g->stride);
    return v;
}

static bool same_sizes(const cr_geometry *g, const cr_gtype *t)
{
    return !t->known ||
           (g->ndim == t->ndim && !memcmp(g->size, t->size, (size_t)g->ndim * sizeof *t->size));
}

/* NULL if the types do not determine the geometry. */
static const cr_static_view *view_of_step(cr_session *to, const cr_step *s)
{
    const cr_gtype *from = &s->values.node->arg[0].value->type;
    cr_geometry g;

    if (reshapes(s))
        row_major(&g, &s->values.made_value[0]->type);
    else if (!maps(s) || !ask(&g, s, s->call.arg, from))
        return NULL;
    return same_sizes(&g, &s->values.made_value[0]->type) ? new_view(to, from, &g) : NULL;
}

void cr_program_views(cr_program_steps *p)
{
    for (size_t i = 0; i < p->steps.len; i++) {
        cr_step *s = &p->steps.at[i];
        if (s->kind != CR_STEP_CALL || s->call.tracked || s->call.symbols || s->results != 1 ||
            s->call.list_result || !s->reads || s->values.node->arg[0].tag != CR_TENSOR ||
            !s->values.node->arg[0].value->type.known)
            continue;
        s->view = view_of_step(p->s, s);
        if (s->view)
            s->kind = CR_STEP_VIEW;
    }
}
