/* Logs graphs and groups: the topics graph, aot, fusion and code of CR_LOG. */
#include "base/log.h"
#include "compile/compile.h"

void cr_show_graph(const char *topic, const char *title, const cr_graph *g)
{
    cr_text t = {0};

    if (!cr_log_wants(topic, 1))
        return;
    cr_graph_print(&t, g);
    cr_log_line(topic, 1, "%s:\n%s", title, cr_text_str(&t));
    cr_text_drop(&t);
}

static void put_node(cr_text *out, const cr_gnode *n)
{
    cr_text_printf(out, " * %%%s = %s%s%s\n", n->result[0]->name,
                   n->op ? n->op->name : "constant", n->source ? ", " : "",
                   n->source ? n->source : "");
}

void cr_show_code(cr_text *out, const cr_gnode *group, const cr_fused *f)
{
    const cr_gblock *b = group->block[0];

    cr_text_put(out, "/*\n");
    for (size_t i = 0; i < b->len; i++)
        put_node(out, b->at[i]);
    cr_text_put(out, " */\n");
    cr_text_put(out, cr_fused_source(f));
}

void cr_show_group(const cr_gnode *group, const cr_fused *f)
{
    cr_text t = {0};

    if (!cr_log_wants("code", 1))
        return;
    cr_show_code(&t, group, f);
    cr_log_line("code", 1, "%%%s is computed by\n%s", group->result[0]->name, cr_text_str(&t));
    cr_text_drop(&t);
}
