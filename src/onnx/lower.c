/* The walk over a graph, and the file that it makes.
 *
 * Each sample's graph is made functional and split into entries that have a form in ONNX.  The
 * graphs then have the same nodes; each node is written once, for all samples. */
#include "onnx/lower.h"
#include <stdarg.h>
#include <string.h>

void ox_refuse(ox *x, const char *fmt, ...)
{
    const cr_gnode *n = x->node[0];
    const char *source = n && n->source ? n->source : "?", *tab = strchr(source, '\t');
    const char *name = n && n->op ? n->op->name : "a graph";
    cr_text why = {0};
    va_list args;

    va_start(args, fmt);
    cr_text_printf_va(&why, fmt, args);
    va_end(args);
    const char *text = cr_session_take_text(x->s, &why);
    if (tab && n->op) /* the call of the program, and the part of it that has no form */
        cr_bail(x->s, CR_NOT_IMPLEMENTED, "%.*s (%s): %s%s%s", (int)(tab - source), source,
                tab + 1, name, ": ", text);
    cr_bail(x->s, CR_NOT_IMPLEMENTED, "aten::%s (%s): %s", name, source, text);
}

/* --- graphs of the samples --- */

typedef struct {
    const cr_graph *from;
    const cr_scalar *const *sample;
    const cr_onnx_input *input;
    cr_text *out;
    cr_onnx_places *places;
    ox x;
    ox_model m;
    cr_graph *held[OX_SAMPLES * 4]; /* dropped at the end */
    int held_count;
} job;

/* Entries that have no form in ONNX, and are made of others. */
static bool splits(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL || n->op->onnx || ox_is_view(n) || ox_is_loop(n))
        return false;
    return n->op->does == CR_DOES_IS ||
           (n->op->does == CR_DOES_WHOLE && !(n->op->words & (CR_WORD_RANDOM | CR_WORD_MEETS)));
}

static cr_graph *hold(job *j, cr_graph *g, const cr_graph *before)
{
    if (g != before)
        j->held[j->held_count++] = g;
    return g;
}

static const cr_graph *prepared(job *j, const cr_graph *g)
{
    const cr_graph *now = hold(j, cr_graph_functional(g), g);

    now = hold(j, cr_graph_split(now, splits), now);
    return hold(j, cr_graph_dead(now), now);
}

static bool alike(const cr_graph *a, const cr_graph *b)
{
    bool same = a->body->len == b->body->len;

    for (size_t i = 0; same && i < a->body->len; i++) {
        const cr_gnode *m = a->body->at[i], *n = b->body->at[i];
        same = m->op == n->op && m->result_count == n->result_count;
        for (int k = 0; same && k < m->result_count; k++)
            same = m->result[k]->type.ndim == n->result[k]->type.ndim;
        for (int k = 0; same && k < m->arg_count; k++)
            same = m->arg[k].tag == n->arg[k].tag &&
                   (!cr_garg_has_len(&m->arg[k]) || m->arg[k].len == n->arg[k].len);
    }
    return same;
}

static void know_twins(job *j, int p)
{
    const cr_graph *g = j->x.graph[0], *other = j->x.graph[p];
    cr_gvalue **twin = CR_NEW_N(j->x.s, cr_gvalue *, g->values + 1);

    for (int i = 0; i < g->input_count; i++)
        twin[g->input[i]->id] = other->input[i];
    for (size_t i = 0; i < g->body->len; i++)
        for (int k = 0; k < g->body->at[i]->result_count; k++)
            twin[g->body->at[i]->result[k]->id] = other->body->at[i]->result[k];
    j->x.twin[p] = twin;
}

static void take_sample(job *j, int p)
{
    cr_graph *g = NULL;
    ox *x = &j->x;

    cr_session_check(x->s, cr_graph_instantiate_at(&g, x->s, j->from, j->sample[p], false));
    if (!g)
        cr_bail(x->s, CR_VALUE, "the graph does not take the sizes of a sample");
    hold(j, g, NULL);
    x->graph[x->samples] = prepared(j, g);
    if (!alike(x->graph[0], x->graph[x->samples]))
        cr_bail(x->s, CR_NOT_IMPLEMENTED,
                "the operators that the program calls depend on sizes that vary");
    x->samples++;
}

static void take_samples(job *j, int samples)
{
    for (int p = 0; p < samples && p < OX_SAMPLES; p++)
        take_sample(j, p);
    if (!samples) {
        j->x.graph[0] = prepared(j, j->from);
        j->x.samples = 1;
    }
    for (int p = 0; p < j->x.samples; p++)
        know_twins(j, p);
}

/* --- inputs and outputs --- */

static const int64_t *lasting_sizes(ox *x, const cr_gtype *t)
{
    return cr_session_copy(x->s, t->size, t->ndim * sizeof *t->size);
}

static void add_weight(ox *x, const char *name, cr_gvalue *v, cr_tensor *t)
{
    char *at;

    cr_session_check(x->s, cr_reach(&at, t));
    if (!ox_dtype((cr_dtype)t->dtype))
        cr_bail(x->s, CR_NOT_IMPLEMENTED, "ONNX has no dtype %s",
                cr_dtype_name((cr_dtype)t->dtype));
    ox_weight w = {name,         (cr_dtype)t->dtype,
                   t->ndim,      cr_session_copy(x->s, t->size, t->ndim * sizeof *t->size),
                   at ? at : "", t};
    CR_PUSH(x->s, &x->m->weights, w);
    x->now[v->id] = (ox_value){name, (cr_dtype)t->dtype};
}

static void add_input(job *j, int k)
{
    ox *x = &j->x;
    cr_gvalue *v = x->graph[0]->input[k];
    const cr_onnx_input *in = &j->input[k];

    ox_take_name(x->m, in->name);
    if (in->values) {
        add_weight(x, in->name, v, in->values);
        return;
    }
    ox_port port = {in->name, (cr_dtype)v->type.dtype, v->type.ndim, lasting_sizes(x, &v->type),
                    in->dim};
    if (!ox_dtype(port.dtype))
        cr_bail(x->s, CR_NOT_IMPLEMENTED, "ONNX has no dtype %s", cr_dtype_name(port.dtype));
    CR_PUSH(x->s, &x->m->inputs, port);
    x->now[v->id] = (ox_value){in->name, port.dtype};
    ox_know(x, v);
}

/* The name of a dim of an input with the same size in all samples; "" without one. */
static const char *dim_name(job *j, const ox_arg *size)
{
    ox *x = &j->x;

    for (int k = 0; k < x->graph[0]->input_count; k++)
        for (int d = 0; j->input[k].dim && d < x->graph[0]->input[k]->type.ndim; d++) {
            ox_arg own = ox_size(x, x->graph[0]->input[k], d);
            if (j->input[k].dim[d] && own.at &&
                !memcmp(own.at, size->at, (size_t)x->samples * sizeof *own.at))
                return j->input[k].dim[d];
        }
    return "";
}

static void add_output(job *j, int k)
{
    ox *x = &j->x;
    const cr_garg *a = &x->graph[0]->body->output[k];
    const char *name = x->m->how->output[k];

    if (a->tag != CR_TENSOR)
        cr_bail(x->s, CR_NOT_IMPLEMENTED, "a result of the program is None");
    if (!x->now[a->value->id].name)
        cr_bail(x->s, CR_NOT_IMPLEMENTED, "result %d of the program has no value in ONNX", k);
    const cr_gtype *t = &a->value->type;
    const char **dim = CR_NEW_N(x->s, const char *, t->ndim + 1);
    for (int d = 0; d < t->ndim; d++) {
        ox_arg size = ox_size(x, a->value, d);
        dim[d] = size.at ? dim_name(j, &size) : NULL;
    }
    ox_port port = {name, x->now[a->value->id].dtype, t->ndim, lasting_sizes(x, t), dim};
    CR_PUSH(x->s, &x->m->outputs, port);
    ox_put_output(x->m, name, x->now[a->value->id]);
}

/* --- nodes --- */

static void finish_result(ox *x, const cr_gvalue *v, ox_value out)
{
    if (!v->type.known)
        ox_refuse(x, "the type of a result is not known");
    x->now[v->id] = ox_cast(x->m, out, (cr_dtype)v->type.dtype);
    ox_know(x, v);
}

static void lower_call(ox *x)
{
    const cr_gnode *n = x->node[0];
    ox_value *out = CR_NEW_N(x->s, ox_value, n->result_count + CR_MAX_RESULTS);

    for (int i = 0; i < n->op->param_count; i++)
        if (n->op->param[i].written)
            ox_refuse(x, "it writes to a tensor, which has no form without the write");
    if (!ox_by_clause(x, out)) {
        if (ox_is_view(n))
            ox_by_view(x, out);
        else if (ox_is_loop(n))
            ox_by_loop(x, out);
        else
            ox_refuse(x, "no form in ONNX is known");
    }
    for (int k = 0; k < n->result_count; k++)
        if (out[k].name)
            finish_result(x, n->result[k], out[k]);
}

static void lower_node(ox *x, size_t i)
{
    for (int p = 0; p < x->samples; p++)
        x->node[p] = x->graph[p]->body->at[i];
    const cr_gnode *n = x->node[0];
    const char *tab = n->source ? strchr(n->source, '\t') : NULL;
    x->m->source = tab ? tab + 1 : n->source;
    if (n->kind == CR_GNODE_CALL && cr_gnode_copies_back(n))
        return; /* new contents of buffers and arguments are no results of the file */
    if (n->kind == CR_GNODE_CALL)
        lower_call(x);
    else if (n->kind == CR_GNODE_CONSTANT) {
        const char *name = cr_session_printf(x->s, "constant_%zu", x->m->weights.len);
        ox_take_name(x->m, name);
        add_weight(x, name, n->result[0], n->constant);
    } else
        ox_refuse(x, "nested graphs have no form in ONNX");
}

static void write_file(cr_session *s, void *context)
{
    job *j = context;
    ox *x = &j->x;
    int samples = x->samples;

    (void)s;
    x->samples = 0;
    take_samples(j, samples);
    x->now = CR_NEW_N(x->s, ox_value, x->graph[0]->values + 1);
    for (int k = 0; k < x->graph[0]->body->output_count; k++)
        ox_take_name(x->m, x->m->how->output[k]);
    for (int k = 0; k < x->graph[0]->input_count; k++)
        add_input(j, k);
    for (size_t i = 0; i < x->graph[0]->body->len; i++)
        lower_node(x, i);
    x->m->source = NULL;
    for (int k = 0; k < x->graph[0]->body->output_count; k++)
        add_output(j, k);
    ox_print(x->m, j->out, j->places);
    cr_session_check(x->s, cr_text_status(j->out));
}

void cr_onnx_file(cr_session *s, cr_text *out, cr_onnx_places *places, const cr_graph *g,
                  const cr_scalar *const *sample, int samples, const cr_onnx_input *input,
                  const cr_onnx_how *how)
{
    job *j = CR_NEW(s, job);

    *j = (job){.from = g, .sample = sample, .input = input, .out = out, .places = places};
    j->m = (ox_model){.s = s, .how = how};
    j->x = (ox){.s = s, .m = &j->m, .samples = samples};
    cr_status st = cr_session_run(s, write_file, j);
    cr_map_drop(&j->m.known);
    for (int i = j->held_count - 1; i >= 0; i--)
        cr_graph_drop(j->held[i]);
    cr_session_check(s, st);
}
