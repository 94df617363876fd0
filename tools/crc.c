/* crc - runs the compiler on texts: text in, text out.
 *
 *   crc PASS... FILE          a program after print, simplify, contract, fuse, verify,
 *                             schedule, c or cuda;
 *                             a graph after print, verify, dead, common, fold, simplify,
 *                             functional, decompose, group, instantiate(0=4,1=0.5), cost,
 *                             plan or run;
 *                             a graph of TorchScript after print and the passes of
 *                             src/script/passes.def: dead, fold, common, peephole, ...
 *   crc text [-w] FILE...     golden tests; -w writes the results into the files
 *   crc run FILE [N=V]...     runs a program on every tier, compares and measures
 *   crc explain OP            prints everything that is derived from an entry of the table
 *   crc kernels DIALECT [OP...]  kernels of entries in c or cuda, as a file that compiles
 *   crc simulate STEP MACHINE [OPTION...]  the time of a training step on many ranks
 *   crc ops                   the entries of the operator table
 *   crc env                   the environment variables */
#include "crc.h"
#include "base/env.h"
#include "base/log.h"
#include "emit/emit.h"
#include <stdio.h>
#include <string.h>

int crc_failed(void)
{
    fprintf(stderr, "crc: %s\n", cr_error_message());
    return 1;
}

/* --- passes --- */

typedef struct {
    const char *text;
    char passes[128];
    cr_text *out;
} pass_job;

/* True for a pass that prints something other than a program and must therefore be the last. */
static bool last_pass(cr_session *s, pass_job *j, cr_loop *l, const char *pass)
{
    const cr_dialect *d = cr_dialect_named(pass);

    if (!strcmp(pass, "schedule")) {
        cr_nest_print(j->out, cr_nest_schedule(l));
    } else if (d) {
        cr_unit u = {.body = {0}};
        cr_emit(&u, d, cr_nest_schedule(l), l->name, NULL);
        cr_text_put(j->out, cr_text_str(&u.body));
        cr_unit_drop(&u);
    } else {
        cr_bail(s, CR_VALUE, "no pass is called '%s'", pass);
    }
    return true;
}

static void run_passes(cr_session *s, void *context)
{
    pass_job *j = context;
    cr_loop *l = cr_loop_parse(s, j->text);
    char *rest = j->passes, *pass;
    bool printed = false;

    while (!printed && (pass = strtok_r(rest, " ", &rest))) {
        if (!strcmp(pass, "print") || !strcmp(pass, "verify"))
            cr_loop_verify(l);
        else if (!strcmp(pass, "simplify"))
            cr_loop_simplify(l);
        else if (!strcmp(pass, "contract"))
            cr_loop_contract(l);
        else if (!strcmp(pass, "fuse"))
            cr_loop_fuse(l);
        else
            printed = last_pass(s, j, l, pass);
    }
    if (!printed)
        cr_loop_print(j->out, l);
}

cr_status crc_pass(cr_text *out, const char *passes, const char *text)
{
    pass_job j = {.text = text, .out = out};
    cr_session s = {.status = CR_OK};
    cr_status st;

    if (crc_is_script(text))
        return crc_script_pass(out, passes, text);
    if (crc_is_graph(text))
        return crc_graph_pass(out, passes, text);
    snprintf(j.passes, sizeof j.passes, "%s", passes);
    st = cr_session_run(&s, run_passes, &j);
    cr_session_drop(&s);
    return st;
}

static int run_on_file(int argc, char **argv)
{
    cr_text passes = {0}, out = {0};
    char *text = NULL;
    size_t len;
    cr_status st;

    for (int i = 1; i < argc - 1; i++)
        cr_text_printf(&passes, "%s ", argv[i]);
    st = cr_read_file(&text, &len, argv[argc - 1]);
    if (!st)
        st = crc_pass(&out, cr_text_str(&passes), text);
    fputs(cr_text_str(&out), stdout);
    cr_text_drop(&out);
    cr_text_drop(&passes);
    cr_free(text);
    return st ? crc_failed() : 0;
}

static int env(void)
{
    cr_text out = {0};

    cr_env_describe(&out);
    cr_text_put(&out, "\nCR_LOG's topics:\n");
    cr_log_describe(&out);
    fputs(cr_text_str(&out), stdout);
    cr_text_drop(&out);
    return 0;
}

static int usage(void)
{
    fputs(
        "usage: crc PASS... FILE | text [-w] FILE... | run FILE [N=V]... | explain OP |"
        " kernels DIALECT [OP...] | simulate STEP MACHINE | ops | host DEVICE | env\n"
        "passes: print simplify contract fuse verify schedule c across cuda; of a graph: "
        "print verify "
        "dead common fold"
        " simplify functional decompose group instantiate(K=V,...) cost plan group_plan run\n",
        stderr);
    return 2;
}

/* The package's extension has this file, too, with main renamed (src/py/bind/crc.c). */
int main(int argc, char **argv);
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"text", crc_text},        {"run", crc_run},
                    {"explain", crc_explain},  {"ops", crc_ops},
                    {"kernels", crc_kernels},  {"host", crc_host},
                    {"simulate", crc_simulate}};

    if (argc < 2)
        return usage();
    for (size_t i = 0; i < CR_LEN(commands); i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    if (!strcmp(argv[1], "env"))
        return env();
    return argc < 3 ? usage() : run_on_file(argc, argv);
}
