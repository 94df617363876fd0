/* Runs passes on the texts of TorchScript's graphs. */
#include "autograd/autograd.h"
#include "crc.h"
#include "script/passes.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    cr_sunit *unit;
    const char *text;
    char passes[128];
    cr_text *out;
} script_job;

bool crc_is_script(const char *text)
{
    while (*text == '#')
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : "";
    return !strncmp(text, "graph(", 6) && strstr(text, "):\n");
}

static void script_passes(cr_session *s, void *context)
{
    script_job *j = context;
    cr_sgraph *g = cr_sgraph_parse(j->unit, j->text);
    char *rest = j->passes, *name;

    while ((name = strtok_r(rest, " ", &rest))) {
        cr_spass pass = cr_spass_find(name);
        if (pass)
            pass(g);
        else if (strcmp(name, "print"))
            cr_bail(s, CR_VALUE, "no pass is called '%s'", name);
    }
    cr_sgraph_print(j->out, g, false);
}

cr_status crc_script_pass(cr_text *out, const char *passes, const char *text)
{
    script_job j = {.unit = cr_sunit_new(), .text = text, .out = out};
    cr_status st = j.unit ? cr_tensor_start() : CR_MEMORY;

    snprintf(j.passes, sizeof j.passes, "%s", passes);
    st = st ? st : cr_autograd_start();
    if (!st)
        st = cr_session_run(cr_sunit_session(j.unit), script_passes, &j);
    if (j.unit)
        cr_sunit_release(j.unit);
    return st;
}
