/* Plans as C99 files: transposed convolutions, gradients of weights, and resampling. */
#include "compile/c_job.h"
#include "kern/cpu/plane/upsample.h"
#include "rt/format.h"
#include <stdio.h>
#include <string.h>

static const char spread_text[] =
#include "c_spread_text.inc"
    ;
static const char weigh_text[] =
#include "c_weigh_text.inc"
    ;
static const char resample_text[] =
#include "c_resample_text.inc"
    ;

static const char *suffix(const cr_c_job *j, const cr_library *c, const cr_array *a)
{
    if (a->dtype != CR_F32 && a->dtype != CR_F64)
        cr_bail(j->s, CR_VALUE, "to_c: %s of %s has no C99 form", c->entry,
                cr_dtype_name((cr_dtype)a->dtype));
    return a->dtype == CR_F64 ? "f64" : "f32";
}

static int64_t count(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

/* An operand as the next argument: it, or its copy behind `at` elements of scratch memory. */
static void put_operand(cr_c_job *j, const cr_array *a, int64_t at)
{
    cr_text_put(&j->body, ", ");
    cr_c_dense_pointer(j, a, at);
}

static void copy_operand(cr_c_job *j, const cr_array *a, int64_t at)
{
    if (!cr_array_is_dense(a))
        cr_c_dense(j, a, at);
}

/* --- convolutions --- */

static void put_spread(cr_c_job *j, const cr_library *c, const cr_convolution *v)
{
    const char *t = suffix(j, c, v->out);
    const int64_t *n = v->number;
    int64_t at =
        n[0] < RT_MANY_CHANNELS ? CR_C_PANEL + 64 * n[0] * n[4] * n[5] : rt_turned_spread(n);

    j->needs.products |= 1u << v->x->dtype;
    j->needs.spreads |= 1u << v->x->dtype;
    cr_c_geometry(j, v, 0);
    cr_c_scratch(j, at);
    copy_operand(j, v->w, at);
    if (v->bias)
        copy_operand(j, v->bias, at + count(v->w));
    cr_text_printf(&j->body, "        cv_spread_%s(&c, ", t);
    cr_c_pointer(j, v->x->data, v->x->dtype, true);
    cr_text_put(&j->body, ", ");
    cr_c_pointer(j, v->out->data, v->x->dtype, false);
    put_operand(j, v->w, at);
    if (v->bias)
        put_operand(j, v->bias, at + count(v->w));
    else
        cr_text_put(&j->body, ", NULL");
    cr_text_put(&j->body, ", scratch);\n");
}

static void put_weigh(cr_c_job *j, const cr_library *c, const cr_convolution *v)
{
    const char *t = suffix(j, c, v->out);
    const int64_t *n = v->number;

    if (!cr_array_is_dense(v->w))
        cr_bail(j->s, CR_VALUE,
                "to_c: the program calls %s whose result is not row-major, which "
                "has no C99 form",
                c->entry);
    j->needs.products |= 1u << v->x->dtype;
    j->needs.weighs |= 1u << v->x->dtype;
    cr_c_geometry(j, v, 0);
    cr_c_scratch(j, n[0] < RT_MANY_CHANNELS
                        ? CR_C_PANEL + n[0] * n[4] * n[5] + cr_c_image(n) + 1
                        : rt_turned_weigh(n));
    cr_text_printf(&j->body, "        cv_weigh_%s(&c, ", t);
    cr_c_pointer(j, v->w->data, v->x->dtype, true);
    cr_text_put(&j->body, ", ");
    cr_c_pointer(j, v->out->data, v->x->dtype, false);
    cr_text_put(&j->body, ", ");
    cr_c_pointer(j, v->x->data, v->x->dtype, false);
    cr_text_put(&j->body, ", scratch);\n");
}

/* --- resampling --- */

static cr_upsample upsample_of(const cr_array *in, const cr_array *out, const cr_given *arg)
{
    cr_upsample u = {.planes = in->size[0] * in->size[1],
                     .in = {1, 1, 1},
                     .out = {1, 1, 1},
                     .mode = (cr_upsample_mode)arg[0].i,
                     .align_corners = arg[1].i};
    int dims = in->ndim - 2;

    for (int d = 0; d < dims; d++) {
        u.in[3 - dims + d] = in->size[d + 2];
        u.out[3 - dims + d] = out->size[d + 2];
        if (arg[2].kind == CR_GIVEN_FLOATS)
            u.scale[3 - dims + d] = arg[2].floats[d];
    }
    return u;
}

static void put_axis(cr_c_job *j, int d, const cr_upsample_axis *a, cr_dtype t)
{
    char name[32];
    size_t item = cr_dtype_size(t);

    snprintf(name, sizeof name, "index%d", d);
    cr_c_integers(&j->body, name, a->index, a->out * a->taps, 1);
    cr_text_printf(&j->body, "        static const %s weight%d[] = {", cr_c_type(t), d);
    for (int64_t i = 0; i < a->out * a->taps; i++) {
        cr_text_put(&j->body, i ? ", " : "");
        if (a->taps > 1)
            cr_c_literal(&j->body, t, (const char *)a->weight + (size_t)i * item);
        else
            cr_text_put(&j->body, "1");
    }
    cr_text_put(&j->body, "};\n");
}

static void put_axes(cr_c_job *j, const cr_upsample *u, cr_dtype t)
{
    int64_t taps[3];

    for (int d = 0; d < 3; d++) {
        cr_upsample_axis a;
        cr_status st = cr_upsample_axis_make(&a, u, d, t);
        taps[d] = a.taps;
        if (!st)
            put_axis(j, d, &a, t);
        cr_upsample_axis_drop(&a);
        cr_session_check(j->s, st);
    }
    cr_text_printf(&j->body, "        static const cv_axis_%s axes[] = {",
                   t == CR_F64 ? "f64" : "f32");
    for (int d = 0; d < 3; d++)
        cr_text_printf(&j->body, "{%lld, %lld, %lld, index%d, weight%d}%s", (long long)u->in[d],
                       (long long)u->out[d], (long long)taps[d], d, d, d < 2 ? ", " : "};\n");
}

static void put_resample(cr_c_job *j, const cr_library *c, bool back)
{
    const cr_array *from = &c->arg[0].array, *to = &c->result[0];
    cr_upsample u = upsample_of(back ? to : from, back ? from : to, c->arg + 2);
    const char *t = suffix(j, c, from);
    int64_t at = u.in[0] * u.in[1] * u.out[2] + u.in[0] * u.out[1] * u.out[2];

    if (!cr_array_is_dense(to))
        cr_bail(j->s, CR_VALUE,
                "to_c: the program calls %s whose result is not row-major, which "
                "has no C99 form",
                c->entry);
    j->needs.resamples |= 1u << from->dtype;
    put_axes(j, &u, (cr_dtype)from->dtype);
    cr_c_scratch(j, at);
    copy_operand(j, from, at);
    cr_text_printf(&j->body, "        cv_resample_%s(axes, %lld, %d", t, (long long)u.planes,
                   back);
    put_operand(j, from, at);
    cr_text_put(&j->body, ", ");
    cr_c_pointer(j, to->data, to->dtype, true);
    cr_text_put(&j->body, ", scratch);\n");
}

bool cr_c_planes(cr_c_job *j, const cr_library *c)
{
    cr_convolution v;
    const char *why = NULL;

    if (cr_convolution_of(&v, c, &why) && !why && v.kind != CR_CONVOLUTION)
        (v.kind == CR_CONVOLUTION_SPREAD ? put_spread : put_weigh)(j, c, &v);
    else if (!strcmp(c->entry, "_upsample") && c->args > 4)
        put_resample(j, c, false);
    else if (!strcmp(c->entry, "_upsample_backward") && c->args > 4)
        put_resample(j, c, true);
    else
        return false;
    return true;
}

void cr_c_print_planes(const cr_c_job *j, cr_text *out)
{
    static const int dtypes[] = {CR_F32, CR_F64};

    for (size_t i = 0; i < CR_LEN(dtypes); i++) {
        uint32_t bit = 1u << dtypes[i];
        if (j->needs.spreads & bit)
            cr_c_typed(out, spread_text, dtypes[i]);
        if (j->needs.weighs & bit)
            cr_c_typed(out, weigh_text, dtypes[i]);
        if (j->needs.resamples & bit)
            cr_c_typed(out, resample_text, dtypes[i]);
    }
}
