/* Modules as text, in Python's format. */
#include "nn/nn_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints a float as Python does: the shortest digits that read back as d, with a decimal point,
 * or with an exponent when d is very large or small. */
static void print_float_arg(cr_text *out, double d)
{
    char text[40];
    int digits = 0, exponent;

    do
        snprintf(text, sizeof text, "%.*e", digits, d);
    while (strtod(text, NULL) != d && ++digits < 17);
    exponent = strchr(text, 'e') ? atoi(strchr(text, 'e') + 1) : 0;
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", digits > exponent ? digits - exponent : 0, d);
    cr_text_put(out, text);
    if (!strpbrk(text, ".en"))
        cr_text_put(out, ".0");
}

static void print_int_list(cr_text *out, const cr_value *v, bool join)
{
    bool same = join && v->len;

    for (uint32_t i = 1; i < v->len; i++)
        same = same && v->ints[i] == v->ints[0];
    if (same) {
        cr_text_printf(out, "%lld", (long long)v->ints[0]);
        return;
    }
    cr_text_char(out, '(');
    for (uint32_t i = 0; i < v->len; i++)
        cr_text_printf(out, "%s%lld", i ? ", " : "", (long long)v->ints[i]);
    cr_text_put(out, v->len == 1 ? ",)" : ")");
}

static void print_arg_value(cr_text *out, const cr_value *v, bool join)
{
    switch ((cr_tag)v->tag) {
    case CR_INT: cr_text_printf(out, "%lld", (long long)v->i); break;
    case CR_TRUTH: cr_text_put(out, v->i ? "True" : "False"); break;
    case CR_FLOAT: print_float_arg(out, v->d); break;
    case CR_NUMBER:
        if (v->number.category == CR_CAT_INT)
            cr_text_printf(out, "%lld", (long long)v->number.i);
        else
            print_float_arg(out, cr_scalar_as_double(v->number));
        break;
    case CR_STRING: cr_text_printf(out, "'%.*s'", (int)v->len, v->s); break;
    case CR_INTS: print_int_list(out, v, join); break;
    default: cr_text_put(out, "None");
    }
}

static int print_find_arg(const cr_module *m, const char *name, size_t len)
{
    for (int i = 0; i < m->signature->param_count; i++)
        if (strlen(m->signature->param[i].name) == len &&
            !memcmp(m->signature->param[i].name, name, len))
            return i;
    return -1;
}

static bool print_is_default(const cr_module *m, int i)
{
    const cr_value *v = &m->arg[i], *preset = &m->signature->param[i].preset;

    if (v->tag != CR_INTS)
        return v->tag == preset->tag && v->i == preset->i;
    for (uint32_t k = 0; k < v->len; k++)
        if (v->ints[k] != preset->ints[0])
            return false;
    return true;
}

/* Prints a layer's text of layers.def with its arguments. */
static void print_layer(cr_text *out, const cr_module *m)
{
    for (const char *p = m->layer->repr; *p; p++) {
        size_t len = strcspn(p + 1, " }*");
        int i = *p == '{' || *p == '[' ? print_find_arg(m, p + 1, len) : -1;
        if (*p == '[' && print_is_default(m, i))
            p += strcspn(p, "]");
        else if (*p == '[')
            p += len + 1;
        else if (*p == '{') {
            print_arg_value(out, &m->arg[i], p[len + 1] == '*');
            p += strcspn(p, "}");
        } else if (*p != ']')
            cr_text_char(out, *p);
    }
}

static void print_module(cr_text *out, const cr_module *m, size_t indent);

/* How many children from number i on have one text: Python prints equal items of lists once. */
static size_t print_repeats(const cr_module *m, size_t i)
{
    cr_text first = {0};
    size_t n = 1;
    bool same = !strcmp(m->kind, "ModuleList");

    if (same)
        print_module(&first, m->children.at[i].m, 0);
    for (; same && i + n < m->children.len; n += same) {
        cr_text next = {0};
        print_module(&next, m->children.at[i + n].m, 0);
        same =
            first.len == next.len && !memcmp(cr_text_str(&first), cr_text_str(&next), next.len);
        cr_text_drop(&next);
    }
    cr_text_drop(&first);
    return n;
}

static void print_module(cr_text *out, const cr_module *m, size_t indent)
{
    cr_text_printf(out, "%s(", m->kind);
    if (m->layer)
        print_layer(out, m);
    for (size_t i = 0, n; i < m->children.len; i += n) {
        n = print_repeats(m, i);
        cr_text_char(out, '\n');
        cr_text_pad(out, indent + 2, ' ');
        if (n > 1)
            cr_text_printf(out, "(%zu-%zu): %zu x ", i, i + n - 1, n);
        else
            cr_text_printf(out, "(%s): ", m->children.at[i].name);
        print_module(out, m->children.at[i].m, indent + 2);
    }
    if (m->children.len) {
        cr_text_char(out, '\n');
        cr_text_pad(out, indent, ' ');
    }
    cr_text_char(out, ')');
}

cr_status cr_module_text(char **out, cr_module *m)
{
    cr_text text = {0};

    CR_TRY(nn_need(m, "repr", "self", "Module"));
    print_module(&text, m, 0);
    cr_status st = cr_text_status(&text);
    if (st)
        cr_text_drop(&text);
    else
        *out = text.at;
    return st;
}
