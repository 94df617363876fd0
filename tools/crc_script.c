/* Runs passes on the texts of TorchScript's graphs. */
#include "autograd/autograd.h"
#include "crc.h"
#include "script/passes.h"
#include <string.h>

bool crc_is_script(const char *text)
{
    while (*text == '#')
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : "";
    return !strncmp(text, "graph(", 6) && strstr(text, "):\n");
}

cr_status crc_script_pass(cr_text *out, const char *passes, const char *text)
{
    cr_status st = cr_tensor_start();

    st = st ? st : cr_autograd_start();
    return st ? st : cr_sgraph_print_after(out, text, strcmp(passes, "print") ? passes : "");
}
