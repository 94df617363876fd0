/* Modules as C files and as files of the runtime: include/cresset_export.h. */
#include "api/export_impl.h"
#include "autograd/autograd.h"
#include "compile/c_text.h"
#include "compile/commands.h"
#include "compile/rt_file.h"
#include "graph/graph.h"
#include "io/safetensors.h"
#include "nn/nn.h"
#include "num/convert.h"
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CR_INSIDE
#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view
#include "cresset_export.h"
#include "cresset_nn.h"

void cr_exported_drop(cr_exported *e)
{
    for (size_t i = 0; e && i < e->input.len; i++) {
        cr_free(e->input.at[i].name);
        cr_free(e->input.at[i].path);
        cr_drop(e->input.at[i].t);
        cr_drop(e->input.at[i].first);
    }
    if (!e)
        return;
    cr_vec_drop(&e->input);
    cr_recorder_drop(e->recorder);
    cr_free(e);
}

/* --- recording --- */

static bool export_has(const cr_exported *e, const cr_tensor *t)
{
    for (size_t i = 0; i < e->input.len; i++)
        if (e->input.at[i].t == t)
            return true;
    return false;
}

/* A name of C: other signs become _. */
static char *export_name(const char *from)
{
    char *name = cr_strdup(from);

    for (char *c = name; c && *c; c++)
        *c = isalnum((unsigned char)*c) ? *c : '_';
    return name;
}

static cr_status export_add(cr_exported *e, cr_tensor *t, const char *name,
                            cr_export_input kind)
{
    cr_export_input in = kind;

    if (!t->contiguous || !cr_is_host(t->device))
        return cr_fail(CR_VALUE, "export(): '%s' must be contiguous and on the host", name);
    in.name = export_name(name);
    in.path = cr_strdup(name);
    cr_status st = in.name && in.path ? cr_clone(&in.first, t) : CR_MEMORY;
    st = st ? st : cr_vec_reserve(&e->input, 1);
    if (st) {
        cr_free(in.name);
        cr_free(in.path);
        cr_drop(in.first);
        return st;
    }
    in.t = cr_keep(t);
    in.version = t->storage->version;
    cr_vec_put(&e->input, in);
    return CR_OK;
}

static cr_status export_inputs(cr_exported *e, cr_module *m, cr_tensor *const *inputs,
                               size_t count)
{
    cr_state *state = NULL;
    char name[24];
    cr_status st = CR_OK;

    for (size_t i = 0; i < count && !st; i++) {
        cr_tensor *dense = NULL, *own = NULL;
        snprintf(name, sizeof name, "%zu", i);
        if (!inputs || !inputs[i])
            return cr_fail(CR_TYPE, "export(): input %zu must be Tensor, not NoneType", i);
        CR_TRY(cr_contiguous(&dense, inputs[i]));
        st = cr_clone(&own, dense);
        st = st ? st : export_add(e, own, name, (cr_export_input){.argument = true});
        cr_drop(own);
        cr_drop(dense);
    }
    CR_TRY(st);
    CR_TRY(cr_module_state(&state, m));
    for (size_t i = 0; i < cr_state_count(state) && !st; i++) {
        cr_tensor *t = cr_module_tensor(m, cr_state_name(state, i));
        if (t && !export_has(e, t))
            st = export_add(e, t, cr_state_name(state, i),
                            (cr_export_input){.parameter = cr_tensor_requires_grad(t)});
    }
    cr_state_drop(state);
    return st;
}

static cr_status export_call(cr_exported *e, cr_module *m, size_t count)
{
    cr_tensor *result = NULL, **given = cr_alloc((count + 1) * sizeof *given);
    cr_graph *graph = NULL;
    cr_status st;

    CR_NEED(given);
    for (size_t i = 0; i < count; i++)
        given[i] = e->input.at[i].t;
    CR_GO(cr_recorder_start(e->recorder));
    st = cr_module_call(&result, 1, m, given, count);
    cr_recorder_stop(e->recorder);
    CR_GO(st);
    CR_GO(cr_recorder_finish(&graph, e->recorder, &result, 1));
    e->graph = graph;
done:
    cr_drop(result);
    cr_free(given);
    return st;
}

/* What the call wrote is noted, and undone. */
static cr_status export_restore(cr_exported *e)
{
    cr_status st = CR_OK;

    for (size_t i = 0; i < e->input.len; i++) {
        cr_export_input *in = &e->input.at[i];
        in->written = in->t->storage->version != in->version;
        if (in->written && !in->argument && !st)
            st = cr_copy_(in->t, in->first, false);
    }
    return st;
}

static cr_status export_record(cr_exported *e, cr_module *m, cr_tensor *const *inputs,
                               size_t count)
{
    CR_TRY(export_inputs(e, m, inputs, count));
    CR_TRY(cr_recorder_new(&e->recorder, false));
    for (size_t i = 0; i < e->input.len; i++)
        CR_TRY(cr_recorder_input(e->recorder, e->input.at[i].t, e->input.at[i].name));
    cr_status st = export_call(e, m, count), back = export_restore(e);
    return st ? st : back;
}

static pthread_once_t export_once = PTHREAD_ONCE_INIT;

cr_status cr_export(cr_exported **out, cr_module *m, cr_tensor *const *inputs, size_t count)
{
    if (!out || !m)
        return cr_fail(CR_TYPE, "export(): argument '%s' must not be NULL", m ? "out" : "mod");
    CR_TRY(cr_init());
    pthread_once(&export_once, cr_graph_start);
    cr_exported *e = cr_alloc_zero(sizeof *e);
    CR_NEED(e);
    bool before = cr_set_grad_enabled(false);
    cr_status st = export_record(e, m, inputs, count);
    cr_set_grad_enabled(before);
    CR_GIVE(st, out, e, cr_exported_drop);
}

/* --- files --- */

typedef struct {
    const cr_exported *e;
    const cr_export_options *options; /* NULL: a file of the runtime */
    cr_tensor **first, **half;
    cr_c_input *c;
    cr_rt_input *rt;
    char (*name)[256];
    cr_text text, weights;
} export_job;

static bool export_is_finite(cr_tensor *t, cr_tensor *half)
{
    const float *from = cr_tensor_data(t);
    const uint16_t *to = cr_tensor_data(half);
    bool small = half->dtype == CR_F16;

    for (int64_t i = 0; i < t->numel; i++)
        if (isfinite(from[i]) &&
            (to[i] & (small ? 0x7c00 : 0x7f80)) == (small ? 0x7c00 : 0x7f80))
            return false;
    return true;
}

/* A parameter in the half dtype of the options. */
static cr_status export_half(export_job *j, size_t i)
{
    const cr_export_input *in = &j->e->input.at[i];
    cr_dtype half = j->options->dtype;

    if (!half || !in->parameter || in->written || in->t->dtype != CR_F32)
        return CR_OK;
    CR_TRY(cr_tensor_new(&j->half[i], half, CR_HOST, in->t->ndim, in->t->size));
    CR_TRY(cr_copy_(j->half[i], in->first, false));
    if (!export_is_finite(in->first, j->half[i]))
        return cr_fail(CR_VALUE, "to_c: the parameter %s has numbers that %s cannot hold",
                       in->name, cr_dtype_name(half));
    j->c[i].half = half;
    j->c[i].values = cr_tensor_data(j->half[i]);
    return CR_OK;
}

static cr_status export_describe(export_job *j, size_t i)
{
    const cr_export_input *in = &j->e->input.at[i];
    const void *values = in->argument   ? NULL
                         : in->t->numel ? cr_tensor_data(in->first)
                                        : (const void *)"";

    j->first[i] = in->first;
    snprintf(j->name[i], sizeof j->name[i], "%s%.200s",
             in->argument || !j->options ? in->argument ? "in_" : ""
             : in->written               ? "state_"
                                         : "w_",
             in->name);
    if (!j->options) {
        j->rt[i] = (cr_rt_input){j->name[i],  in->t->dtype, in->t->ndim,
                                 in->t->size, values,       in->written};
        return CR_OK;
    }
    j->c[i] = (cr_c_input){.name = j->name[i],
                           .dtype = in->t->dtype,
                           .count = in->t->numel,
                           .values = values,
                           .from_file = j->options->weights_file && !in->argument,
                           .state = in->written};
    return export_half(j, i);
}

static cr_status export_print(export_job *j)
{
    static const char *const results[] = {"out0"};
    int n = (int)j->e->input.len;
    cr_session s = {.status = CR_OK};
    cr_plan p = {.arena = {0}};
    cr_status st;

    CR_GO(cr_graph_file_plan(&p, j->e->graph, j->first));
    if (j->options) {
        cr_c_how how = {.name = j->options->name ? j->options->name : "model",
                        .threads = j->options->threads};
        CR_GO(cr_c_file(&s, &j->text, &p, &how, j->c, n));
        for (int i = 0; i < n; i++)
            if (j->c[i].from_file)
                cr_c_weight_bytes(&j->weights, &j->c[i]);
    } else {
        CR_GO(cr_rt_file(&s, &j->text, &p, j->rt, n, results));
    }
    CR_GO(cr_text_status(&j->text));
    st = cr_text_status(&j->weights);
done:
    cr_session_drop(&s);
    cr_plan_drop(&p);
    return st;
}

static cr_status export_write(const export_job *j, const char *path)
{
    cr_text beside = {0};
    cr_status st;

    CR_GO(cr_write_file(path, cr_text_str(&j->text), j->text.len));
    if (j->options && j->options->weights_file) {
        cr_text_printf(&beside, "%s.weights", path);
        CR_GO(cr_text_status(&beside));
        CR_GO(cr_write_file(beside.at, cr_text_str(&j->weights), j->weights.len));
    }
done:
    cr_text_drop(&beside);
    return st;
}

static cr_status export_file(const cr_exported *e, const char *path,
                             const cr_export_options *options)
{
    size_t n = e->input.len + 1;
    export_job j = {.e = e, .options = options};
    cr_status st = CR_OK;

    j.first = cr_alloc_zero(n * sizeof *j.first);
    j.half = cr_alloc_zero(n * sizeof *j.half);
    j.c = cr_alloc_zero(n * sizeof *j.c);
    j.rt = cr_alloc_zero(n * sizeof *j.rt);
    j.name = cr_alloc_zero(n * sizeof *j.name);
    if (!j.first || !j.half || !j.c || !j.rt || !j.name)
        st = CR_MEMORY;
    for (size_t i = 0; i < e->input.len && !st; i++)
        st = export_describe(&j, i);
    st = st ? st : export_print(&j);
    st = st ? st : export_write(&j, path);
    for (size_t i = 0; j.half && i < n; i++)
        cr_drop(j.half[i]);
    cr_free(j.first);
    cr_free(j.half);
    cr_free(j.c);
    cr_free(j.rt);
    cr_free(j.name);
    cr_text_drop(&j.text);
    cr_text_drop(&j.weights);
    return st;
}

static cr_status export_check(const cr_exported *e, const char *path, const char *function)
{
    return e && path ? CR_OK
                     : cr_fail(CR_TYPE, "%s: argument '%s' must not be NULL", function,
                               e ? "path" : "program");
}

cr_status cr_export_to_c(const cr_exported *e, const char *path,
                         const cr_export_options *options)
{
    static const cr_export_options none = {.dtype = 0};
    const cr_export_options *o = options ? options : &none;

    CR_TRY(export_check(e, path, "to_c"));
    if (o->name && !cr_is_identifier(o->name))
        return cr_fail(CR_VALUE, "to_c: '%.100s' is no name of C", o->name);
    if (o->dtype && o->dtype != CR_F16 && o->dtype != CR_BF16)
        return cr_fail(CR_VALUE, "to_c: dtype is 0, CR_F16 or CR_BF16, not %s",
                       o->dtype < CR_DTYPE_COUNT ? cr_dtype_name(o->dtype) : "?");
    return export_file(e, path, o);
}

cr_status cr_export_to_rt(const cr_exported *e, const char *path)
{
    CR_TRY(export_check(e, path, "to_rt"));
    return export_file(e, path, NULL);
}
