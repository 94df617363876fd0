/* Prints and parses integer expressions. */
#include "sym/sym.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_sum(const cr_sym *e)
{
    return e->kind == CR_SYM_ADD || (e->kind == CR_SYM_INT && e->integer < 0);
}

static bool prints_as_product(const cr_sym *e)
{
    return e->kind == CR_SYM_MUL || e->kind == CR_SYM_FLOORDIV || e->kind == CR_SYM_MOD ||
           e->kind == CR_SYM_FRACTION;
}

static void print_factor(cr_text *out, const cr_sym *e, bool product_too)
{
    bool bracket = is_sum(e) || (product_too && prints_as_product(e));

    if (bracket)
        cr_text_char(out, '(');
    cr_sym_print(out, e);
    if (bracket)
        cr_text_char(out, ')');
}

/* Prints a summand after the first one; its sign becomes the operator. */
static void print_more(cr_text *out, const cr_sym *e)
{
    cr_text one = {0};
    const char *s;

    cr_sym_print(&one, e);
    s = cr_text_str(&one);
    cr_text_put(out, *s == '-' ? " - " : " + ");
    cr_text_put(out, s + (*s == '-'));
    cr_text_drop(&one);
}

static void print_mul(cr_text *out, const cr_sym *e)
{
    int i = 0;

    if (e->args[0]->kind == CR_SYM_INT && e->args[0]->integer == -1) {
        cr_text_char(out, '-');
        i = 1;
    }
    for (int first = i; i < e->count; i++) {
        if (i > first)
            cr_text_char(out, '*');
        if (i == 0 && e->args[0]->kind == CR_SYM_INT)
            cr_text_printf(out, "%" PRId64, e->args[0]->integer);
        else
            print_factor(out, e->args[i], true);
    }
}

void cr_sym_print(cr_text *out, const cr_sym *e)
{
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INT: cr_text_printf(out, "%" PRId64, e->integer); break;
    case CR_SYM_NAME: cr_text_put(out, e->name); break;
    case CR_SYM_MUL: print_mul(out, e); break;
    case CR_SYM_ADD:
        cr_sym_print(out, e->args[0]);
        for (int i = 1; i < e->count; i++)
            print_more(out, e->args[i]);
        break;
    case CR_SYM_FRACTION:
    case CR_SYM_FLOORDIV:
    case CR_SYM_MOD:
        print_factor(out, e->args[0], false);
        cr_text_put(out, e->kind == CR_SYM_MOD        ? " % "
                         : e->kind == CR_SYM_FLOORDIV ? " // "
                                                      : " / ");
        print_factor(out, e->args[1], true);
        break;
    case CR_SYM_MIN:
    case CR_SYM_MAX:
        cr_text_put(out, e->kind == CR_SYM_MIN ? "min(" : "max(");
        cr_sym_print(out, e->args[0]);
        cr_text_put(out, ", ");
        cr_sym_print(out, e->args[1]);
        cr_text_char(out, ')');
        break;
    }
}

static void sym_skip(const char **p)
{
    while (**p == ' ' || **p == '\t')
        ++*p;
}

static bool sym_take(const char **p, const char *sign)
{
    size_t n = strlen(sign);

    sym_skip(p);
    if (strncmp(*p, sign, n))
        return false;
    *p += n;
    return true;
}

static void sym_expect(cr_syms *t, const char **p, const char *sign)
{
    if (!sym_take(p, sign))
        cr_bail(t->session, CR_VALUE, "expected '%s' at '%.20s'", sign, *p);
}

static const cr_sym *parse_integer(cr_syms *t, const char **p)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(*p, &end, 10);
    if (errno)
        cr_bail(t->session, CR_VALUE, "the integer at '%.20s' does not fit 64 bits", *p);
    *p = end;
    return cr_sym_int(t, v);
}

static const cr_sym *parse_pair(cr_syms *t, const char **p, bool least)
{
    const cr_sym *a, *b;

    a = cr_sym_parse(t, p);
    sym_expect(t, p, ",");
    b = cr_sym_parse(t, p);
    sym_expect(t, p, ")");
    return least ? cr_sym_min(t, a, b) : cr_sym_max(t, a, b);
}

static const cr_sym *parse_sym_name(cr_syms *t, const char **p)
{
    const char *from = *p;
    char name[64];
    size_t n;

    while (isalnum((unsigned char)**p) || **p == '_' || **p == '.')
        ++*p;
    n = (size_t)(*p - from);
    if (!n || n >= sizeof name)
        cr_bail(t->session, CR_VALUE, "expected an integer expression at '%.20s'", from);
    memcpy(name, from, n);
    name[n] = 0;
    if ((!strcmp(name, "min") || !strcmp(name, "max")) && sym_take(p, "("))
        return parse_pair(t, p, name[1] == 'i');
    return cr_sym_name(t, name, 0, CR_SYM_HIGH);
}

static const cr_sym *parse_sym_atom(cr_syms *t, const char **p)
{
    const cr_sym *e;

    sym_skip(p);
    if (sym_take(p, "(")) {
        e = cr_sym_parse(t, p);
        sym_expect(t, p, ")");
        return e;
    }
    if (sym_take(p, "-"))
        return cr_sym_sub(t, cr_sym_int(t, 0), parse_sym_atom(t, p));
    return isdigit((unsigned char)**p) ? parse_integer(t, p) : parse_sym_name(t, p);
}

static const cr_sym *parse_sym_product(cr_syms *t, const char **p)
{
    const cr_sym *e = parse_sym_atom(t, p);

    for (;;) {
        if (sym_take(p, "//"))
            e = cr_sym_floordiv(t, e, parse_sym_atom(t, p));
        else if (sym_take(p, "/"))
            e = cr_sym_fraction(t, e, parse_sym_atom(t, p));
        else if (sym_take(p, "%"))
            e = cr_sym_mod(t, e, parse_sym_atom(t, p));
        else if (sym_take(p, "*"))
            e = cr_sym_mul(t, e, parse_sym_atom(t, p));
        else
            return e;
    }
}

const cr_sym *cr_sym_parse(cr_syms *t, const char **text)
{
    const cr_sym *e = parse_sym_product(t, text);

    for (;;) {
        if (sym_take(text, "+"))
            e = cr_sym_add(t, e, parse_sym_product(t, text));
        else if (sym_take(text, "-"))
            e = cr_sym_sub(t, e, parse_sym_product(t, text));
        else
            return e;
    }
}
