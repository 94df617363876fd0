/* Runs passes on the texts of graphs. */
#include "autograd/autograd.h"
#include "compile/commands.h"
#include "compile/compile.h"
#include "crc.h"
#include "graph/cost.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *text;
    char passes[128];
    cr_text *out;
    cr_graph *last; /* owns the constants */
} graph_job;

bool crc_is_graph(const char *text)
{
    while (*text == '#')
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : "";
    return !strncmp(text, "graph", 5);
}

/* An input for `run`: 1, 2, 3, ... with the stated type. */
static cr_tensor *ramp(cr_session *s, const cr_gvalue *v)
{
    cr_tensor *t = NULL;

    if (!v->type.known)
        cr_bail(s, CR_VALUE, "%%%s needs a type", v->name);
    cr_session_check(
        s, cr_tensor_new(&t, (cr_dtype)v->type.dtype, CR_HOST, v->type.ndim, v->type.size));
    for (int64_t i = 0; i < t->numel; i++)
        cr_scalar_store(cr_scalar_int(i + 1), (cr_dtype)t->dtype,
                        t->address + (size_t)i * cr_dtype_size((cr_dtype)t->dtype));
    return t;
}

static void print_tensor(cr_text *out, const cr_tensor *t)
{
    for (int64_t i = 0; t && i < t->numel; i++)
        cr_text_printf(out, "%s%.9g", i ? " " : "",
                       cr_scalar_as_double(cr_scalar_load(
                           (cr_dtype)t->dtype,
                           t->address + (size_t)i * cr_dtype_size((cr_dtype)t->dtype))));
    cr_text_put(out, t ? "\n" : "None\n");
}

static cr_tensor **ramps(cr_session *s, const cr_graph *g)
{
    cr_tensor **in = CR_NEW_N(s, cr_tensor *, g->input_count);

    for (int i = 0; i < g->input_count; i++)
        in[i] = ramp(s, g->input[i]);
    return in;
}

static void drop_ramps(const cr_graph *g, cr_tensor **in)
{
    for (int i = 0; i < g->input_count; i++)
        cr_drop(in[i]);
}

static void run(cr_session *s, graph_job *j, const cr_graph *g)
{
    cr_tensor **in = ramps(s, g);
    cr_tensor **out = CR_NEW_N(s, cr_tensor *, g->body->output_count);
    cr_status st;

    st = cr_graph_run(g, in, out);
    drop_ramps(g, in);
    cr_session_check(s, st);
    for (int i = 0; i < g->body->output_count; i++) {
        print_tensor(j->out, out[i]);
        cr_drop(out[i]);
    }
}

/* The commands of a run of the graph, by nodes or by groups.  The text must read back as the
 * same plan. */
static void plan(cr_session *s, graph_job *j, const cr_graph *g, bool groups)
{
    cr_tensor **in = ramps(s, g);
    cr_plan p = {.arena = {0}}, again = {.arena = {0}};
    cr_text text = {0};
    cr_status st = groups ? cr_graph_group_plan(&p, g, in) : cr_graph_plan(&p, g, in);

    drop_ramps(g, in);
    if (!st) {
        cr_plan_print(j->out, &p);
        st = cr_plan_parse(&again, cr_text_str(j->out));
    }
    if (!st) {
        cr_plan_print(&text, &again);
        if (strcmp(cr_text_str(&text), cr_text_str(j->out)))
            st = cr_fail(CR_ASSERTION, "the plan is read back as\n%s", cr_text_str(&text));
    }
    cr_text_drop(&text);
    cr_plan_drop(&again);
    cr_plan_drop(&p);
    cr_session_check(s, st);
}

/* Runs "instantiate(0=4,1=0.5)": the graph for these values of its symbols.  Other symbols keep
 * the values of the recording. */
static cr_graph *instantiate(cr_session *s, const cr_graph *g, const char *at)
{
    cr_scalar *symbol = CR_NEW_N(s, cr_scalar, g->numbers.list.len + 1);
    cr_graph *out = NULL;

    for (size_t k = 0; k < g->numbers.list.len; k++)
        symbol[k] = g->numbers.list.at[k].value;
    while (*at && *at != ')') {
        char *end;
        long k = strtol(at, &end, 10);
        if (*end != '=' || k < 0 || (size_t)k >= g->numbers.list.len)
            cr_bail(s, CR_VALUE, "symbols and their values are expected at '%s'", at);
        double d = strtod(end + 1, &end);
        symbol[k] =
            symbol[k].category == CR_CAT_FLOAT ? cr_scalar_float(d) : cr_scalar_int((int64_t)d);
        at = *end == ',' ? end + 1 : end;
    }
    cr_session_check(s, cr_graph_instantiate_at(&out, s, g, symbol, false));
    if (!out)
        cr_bail(s, CR_VALUE, "a guard does not hold for these values");
    return out;
}

static cr_graph_pass find_pass(const char *name)
{
    static const struct {
        const char *name;
        cr_graph_pass pass;
    } own[] = {{"group", cr_compile_group},
               {"beside", cr_compile_beside},
               {"heads", cr_compile_heads},
               {"norm_relu", cr_compile_norm_relu}};

    for (size_t i = 0; i < CR_LEN(own); i++)
        if (!strcmp(own[i].name, name))
            return own[i].pass;
    return cr_graph_find_pass(name);
}

static void run_passes(cr_session *s, void *context)
{
    graph_job *j = context;
    cr_graph *g = j->last = cr_graph_parse(s, j->text);
    char *rest = j->passes, *name;

    while ((name = strtok_r(rest, " ", &rest))) {
        cr_graph_pass pass = find_pass(name);
        cr_graph_verify(g);
        if (!strcmp(name, "run")) {
            run(s, j, g);
            return;
        }
        if (!strcmp(name, "plan") || !strcmp(name, "group_plan")) {
            plan(s, j, g, *name == 'g');
            return;
        }
        if (!strcmp(name, "cost")) {
            cr_graph_print_cost(j->out, g);
            return;
        }
        if (!strcmp(name, "print") || !strcmp(name, "verify"))
            continue;
        bool instance = !strncmp(name, "instantiate(", 12);
        if (!pass && !instance)
            cr_bail(s, CR_VALUE, "no pass is called '%s'", name);
        cr_graph *next = instance ? instantiate(s, g, name + 12) : pass(g);
        if (next != g) {
            cr_graph_drop(g);
            j->last = g = next;
        }
        cr_graph_verify(g);
    }
    cr_graph_print(j->out, g);
}

cr_status crc_graph_pass(cr_text *out, const char *passes, const char *text)
{
    graph_job j = {.text = text, .out = out};
    cr_session s = {.status = CR_OK};
    cr_status st = cr_tensor_start();

    snprintf(j.passes, sizeof j.passes, "%s", passes);
    if (!st)
        st = cr_autograd_start();
    cr_graph_start();
    if (!st)
        st = cr_session_run(&s, run_passes, &j);
    cr_graph_drop(j.last);
    cr_session_drop(&s);
    return st;
}
