/* Builtin functions of programs on strings.  Positions count bytes, as in torch. */
#include "script/builtin.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool text_is(const cr_scall *c, int i)
{
    return c->count > i && c->arg[i].kind == CR_IV_STRING;
}
static const cr_istring *text_arg(const cr_scall *c, int i) { return c->arg[i].string; }

static cr_status text_give(cr_scall *c, const char *at, size_t len)
{
    return cr_istring_new(&c->out[0], at, len);
}

static cr_status text_give_value(cr_scall *c, cr_ivalue v)
{
    c->out[0] = v;
    return CR_OK;
}

int64_t cr_builtin_text_len(const cr_istring *s) { return (int64_t)s->len; }

cr_status cr_builtin_text_at(cr_scall *c)
{
    const cr_istring *s = text_arg(c, 0);
    int64_t i = c->arg[1].i < 0 ? c->arg[1].i + (int64_t)s->len : c->arg[1].i;

    if (c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    if (i < 0 || i >= (int64_t)s->len)
        return cr_fail(CR_RUNTIME,
                       "basic_string::at: __n (which is %llu) >= this->size() (which is %zu)",
                       (unsigned long long)i, s->len);
    return text_give(c, s->at + i, 1);
}

cr_status cr_builtin_text_slice(cr_scall *c)
{
    const cr_istring *s = text_arg(c, 0);
    cr_text made = {0};
    int64_t start, end, step;

    cr_builtin_slice(c, (int64_t)s->len, &start, &end, &step);
    if (!step)
        return cr_fail(CR_RUNTIME, "slice step cannot be zero");
    for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
        cr_text_char(&made, s->at[i]);
        if (CR_ADD_OVERFLOW(i, step, &(int64_t){0}))
            break;
    }
    return cr_istring_of_text(&c->out[0], &made);
}

cr_status cr_builtin_text_list(cr_scall *c)
{
    const cr_istring *s = text_arg(c, 0);

    CR_TRY(cr_ilist_new(&c->out[0], NULL, s->len));
    for (size_t i = 0; i < s->len; i++) {
        cr_ivalue one;
        CR_TRY(cr_istring_new(&one, s->at + i, 1));
        CR_TRY(cr_ilist_append(c->out[0].list, one));
    }
    return CR_OK;
}

/* --- searching --- */

/* Bounds from arguments `at` and `at` + 1, as of a slice; end -1 is the end (torch's
 * default). */
static void text_bounds(const cr_scall *c, int at, int64_t n, int64_t *start, int64_t *end)
{
    *start = c->count > at && c->arg[at].kind == CR_IV_INT ? c->arg[at].i : 0;
    *end = c->count > at + 1 && c->arg[at + 1].kind == CR_IV_INT ? c->arg[at + 1].i : -1;
    *start = *start < 0 ? *start + n : *start;
    *start = *start < 0 ? 0 : *start;
    *end = *end < 0 ? *end + n + 1 : *end;
    *end = *end > n ? n : *end;
}

/* The first (or last) position in [start, end) where `part` begins; -1: nowhere. */
static int64_t text_search(const cr_istring *s, const cr_istring *part, int64_t start,
                           int64_t end, bool last)
{
    int64_t most = end - (int64_t)part->len - start;

    for (int64_t i = 0; i <= most; i++) {
        int64_t at = last ? start + most - i : start + i;
        if (!memcmp(s->at + at, part->at, part->len))
            return at;
    }
    return -1;
}

static cr_status text_position(cr_scall *c, bool last, bool must)
{
    int64_t start, end;

    if (!text_is(c, 0) || !text_is(c, 1))
        return cr_builtin_misfit(c);
    text_bounds(c, 2, (int64_t)text_arg(c, 0)->len, &start, &end);
    int64_t i = text_search(text_arg(c, 0), text_arg(c, 1), start, end, last);
    if (must && i < 0)
        return cr_fail(CR_RUNTIME, "ValueError: substring not found");
    return text_give_value(c, cr_iv_int(i));
}
static cr_status text_find(cr_scall *c) { return text_position(c, false, false); }
static cr_status text_rfind(cr_scall *c) { return text_position(c, true, false); }
cr_status cr_builtin_text_index(cr_scall *c) { return text_position(c, false, true); }
static cr_status text_rindex(cr_scall *c) { return text_position(c, true, true); }

cr_status cr_builtin_text_count(cr_scall *c)
{
    int64_t start, end, n = 0, i;

    if (!text_is(c, 0) || !text_is(c, 1))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0), *part = text_arg(c, 1);
    text_bounds(c, 2, (int64_t)s->len, &start, &end);
    while (start <= end && (i = text_search(s, part, start, end, false)) >= 0) {
        n++;
        start = i + (part->len ? (int64_t)part->len : 1);
    }
    return text_give_value(c, cr_iv_int(n));
}

/* Whether the part stands at the begin, or at the end, of the text within bounds. */
static cr_status text_fits(cr_scall *c, bool at_end)
{
    int64_t start, end;

    if (!text_is(c, 0) || !text_is(c, 1))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0), *part = text_arg(c, 1);
    if (c->count > 2 && c->arg[2].kind == CR_IV_INT && c->arg[2].i > (int64_t)s->len)
        return cr_fail(
            CR_RUNTIME,
            "basic_string::substr: __pos (which is %lld) > this->size() (which is %zu)",
            (long long)c->arg[2].i, s->len);
    text_bounds(c, 2, (int64_t)s->len, &start, &end);
    int64_t at = at_end ? end - (int64_t)part->len : start;
    return text_give_value(c, cr_iv_bool(start + (int64_t)part->len <= end &&
                                         !memcmp(s->at + at, part->at, part->len)));
}

static cr_status text_begins(cr_scall *c) { return text_fits(c, false); }
static cr_status text_ends(cr_scall *c) { return text_fits(c, true); }

/* --- kinds of characters --- */

static cr_status text_all(cr_scall *c, int (*is)(int))
{
    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    bool all = s->len > 0;
    for (size_t i = 0; i < s->len; i++)
        all &= is((unsigned char)s->at[i]) != 0;
    return text_give_value(c, cr_iv_bool(all));
}
static cr_status text_isalnum(cr_scall *c) { return text_all(c, isalnum); }
static cr_status text_isalpha(cr_scall *c) { return text_all(c, isalpha); }
static cr_status text_isdigit(cr_scall *c) { return text_all(c, isdigit); }
static cr_status text_isspace(cr_scall *c) { return text_all(c, isspace); }

/* True when there is a letter and all letters have the case. */
static cr_status text_case(cr_scall *c, int (*is)(int), int (*opposite)(int))
{
    bool some = false, other = false;

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    for (size_t i = 0; i < text_arg(c, 0)->len; i++) {
        some |= is((unsigned char)text_arg(c, 0)->at[i]) != 0;
        other |= opposite((unsigned char)text_arg(c, 0)->at[i]) != 0;
    }
    return text_give_value(c, cr_iv_bool(some && !other));
}
static cr_status text_islower(cr_scall *c) { return text_case(c, islower, isupper); }
static cr_status text_isupper(cr_scall *c) { return text_case(c, isupper, islower); }

/* Letters and digits, as of Python 2 without `_`: torch's answer. */
static cr_status text_isidentifier(cr_scall *c)
{
    CR_TRY(text_all(c, isalnum));
    return text_give_value(
        c, cr_iv_bool(c->out[0].i && !isdigit((unsigned char)text_arg(c, 0)->at[0])));
}

static cr_status text_isprintable(cr_scall *c)
{
    CR_TRY(text_all(c, isprint));
    return text_give_value(c, cr_iv_bool(c->out[0].i || !text_arg(c, 0)->len));
}

/* True when every word begins with its only capital letter. */
static cr_status text_istitle(cr_scall *c)
{
    bool inside = false, some = false, wrong = false;

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    for (size_t i = 0; i < text_arg(c, 0)->len; i++) {
        int ch = (unsigned char)text_arg(c, 0)->at[i];
        wrong |= inside ? isupper(ch) != 0 : islower(ch) != 0;
        inside = isalpha(ch) != 0;
        some |= inside;
    }
    return text_give_value(c, cr_iv_bool(some && !wrong));
}

static cr_status text_map(cr_scall *c, int (*map)(int))
{
    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    CR_TRY(text_give(c, text_arg(c, 0)->at, text_arg(c, 0)->len));
    for (size_t i = 0; i < c->out[0].string->len; i++)
        c->out[0].string->at[i] = (char)map((unsigned char)c->out[0].string->at[i]);
    return CR_OK;
}
static int text_swap_letter(int ch) { return isupper(ch) ? tolower(ch) : toupper(ch); }
static cr_status text_lower(cr_scall *c) { return text_map(c, tolower); }
static cr_status text_upper(cr_scall *c) { return text_map(c, toupper); }
static cr_status text_swapcase(cr_scall *c) { return text_map(c, text_swap_letter); }

static cr_status text_capitalize(cr_scall *c)
{
    CR_TRY(text_map(c, tolower));
    if (c->out[0].string->len)
        c->out[0].string->at[0] = (char)toupper((unsigned char)c->out[0].string->at[0]);
    return CR_OK;
}

static cr_status text_title(cr_scall *c)
{
    bool inside = false;

    CR_TRY(text_map(c, tolower));
    cr_istring *s = c->out[0].string;
    for (size_t i = 0; i < s->len; i++) {
        bool letter = isalpha((unsigned char)s->at[i]) != 0;
        if (letter && !inside)
            s->at[i] = (char)toupper((unsigned char)s->at[i]);
        inside = letter;
    }
    return CR_OK;
}

/* --- padding and stripping --- */

static cr_status text_pad(cr_scall *c, bool left, bool right)
{
    cr_text made = {0};

    if (!text_is(c, 0) || c->count < 2 || c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    char fill = text_is(c, 2) && text_arg(c, 2)->len ? text_arg(c, 2)->at[0] : ' ';
    int64_t room = c->arg[1].i - (int64_t)s->len;
    room = room < 0 ? 0 : room > 1 << 24 ? 1 << 24 : room;
    size_t before = (size_t)(left && right ? room / 2 + (room & c->arg[1].i & 1)
                             : left        ? room
                                           : 0);
    cr_text_pad(&made, before, fill);
    cr_text_put_n(&made, s->at, s->len);
    cr_text_pad(&made, (size_t)room - before, fill);
    return cr_istring_of_text(&c->out[0], &made);
}
static cr_status text_center(cr_scall *c) { return text_pad(c, true, true); }
static cr_status text_ljust(cr_scall *c) { return text_pad(c, false, true); }
static cr_status text_rjust(cr_scall *c) { return text_pad(c, true, false); }

static cr_status text_zfill(cr_scall *c)
{
    cr_text made = {0};

    if (!text_is(c, 0) || c->count < 2 || c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    size_t sign = s->len && (s->at[0] == '-' || s->at[0] == '+');
    int64_t room = c->arg[1].i - (int64_t)s->len;
    cr_text_put_n(&made, s->at, sign);
    cr_text_pad(&made, (size_t)(room < 0 ? 0 : room > 1 << 24 ? 1 << 24 : room), '0');
    cr_text_put_n(&made, s->at + sign, s->len - sign);
    return cr_istring_of_text(&c->out[0], &made);
}

/* Tabs end at multiples of the size, counted from the start of the text: torch's rule. */
static cr_status text_expandtabs(cr_scall *c)
{
    int64_t size = c->count > 1 && c->arg[1].kind == CR_IV_INT ? c->arg[1].i : 8;
    cr_text made = {0};

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    size_t most = s->len + (1 << 24), tab = size > 0 ? (size_t)size : 0;
    for (size_t i = 0; i < s->len && made.len <= most; i++)
        if (s->at[i] != '\t')
            cr_text_char(&made, s->at[i]);
        else if (tab)
            cr_text_pad(&made, tab > most ? most + 1 : tab - made.len % tab, ' ');
    if (made.len <= most)
        return cr_istring_of_text(&c->out[0], &made);
    cr_text_drop(&made);
    return cr_fail(CR_RUNTIME, "expandtabs() made a text that is too long");
}

static cr_status text_trim(cr_scall *c, bool left, bool right)
{
    static const char blanks[] = " \n\t\f\v";

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const char *chars = text_is(c, 1) ? text_arg(c, 1)->at : blanks;
    size_t count = text_is(c, 1) ? text_arg(c, 1)->len : sizeof blanks - 1;
    const cr_istring *s = text_arg(c, 0);
    size_t from = 0, to = s->len;
    while (left && from < to && memchr(chars, s->at[from], count))
        from++;
    while (right && to > from && memchr(chars, s->at[to - 1], count))
        to--;
    return text_give(c, s->at + from, to - from);
}
static cr_status text_strip(cr_scall *c) { return text_trim(c, true, true); }
static cr_status text_lstrip(cr_scall *c) { return text_trim(c, true, false); }
static cr_status text_rstrip(cr_scall *c) { return text_trim(c, false, true); }

/* --- splitting and joining --- */

static cr_status text_add_part(cr_scall *c, const char *at, size_t len)
{
    cr_ivalue part;

    CR_TRY(cr_istring_new(&part, at, len));
    return cr_ilist_append(c->out[0].list, part);
}

static cr_status text_split_blanks(cr_scall *c, const cr_istring *s, int64_t most)
{
    size_t at = 0;

    for (int64_t parts = 0;; parts++) {
        while (at < s->len && isspace((unsigned char)s->at[at]))
            at++;
        size_t end = at;
        while (end < s->len && !isspace((unsigned char)s->at[end]))
            end++;
        if (at == s->len)
            return CR_OK;
        if (most >= 0 && parts == most)
            return text_add_part(c, s->at + at, s->len - at);
        CR_TRY(text_add_part(c, s->at + at, end - at));
        at = end;
    }
}

static cr_status text_split(cr_scall *c)
{
    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    int64_t most = c->count > 2 && c->arg[2].kind == CR_IV_INT ? c->arg[2].i : -1, at = 0, i;
    CR_TRY(cr_ilist_new(&c->out[0], NULL, 4));
    if (!text_is(c, 1))
        return text_split_blanks(c, s, most);
    const cr_istring *by = text_arg(c, 1);
    if (!by->len)
        return cr_fail(CR_RUNTIME, "ValueError: empty separator");
    for (int64_t n = 0;
         (most < 0 || n < most) && (i = text_search(s, by, at, (int64_t)s->len, false)) >= 0;
         n++) {
        CR_TRY(text_add_part(c, s->at + at, (size_t)(i - at)));
        at = i + (int64_t)by->len;
    }
    return text_add_part(c, s->at + at, s->len - (size_t)at);
}

static void text_reverse(cr_ilist *l)
{
    for (size_t i = 0; i < l->len / 2; i++) {
        cr_ivalue v = l->at[i];
        l->at[i] = l->at[l->len - 1 - i];
        l->at[l->len - 1 - i] = v;
    }
}

static cr_status text_rsplit(cr_scall *c)
{
    if (!text_is(c, 0) || !text_is(c, 1))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0), *by = text_arg(c, 1);
    int64_t most = c->count > 2 && c->arg[2].kind == CR_IV_INT ? c->arg[2].i : -1, i;
    int64_t end = (int64_t)s->len;
    if (!by->len)
        return cr_fail(CR_RUNTIME, "ValueError: empty separator");
    CR_TRY(cr_ilist_new(&c->out[0], NULL, 4));
    for (int64_t n = 0; (most < 0 || n < most) && (i = text_search(s, by, 0, end, true)) >= 0;
         n++) {
        int64_t from = i + (int64_t)by->len;
        CR_TRY(text_add_part(c, s->at + from, (size_t)(end - from)));
        end = i;
    }
    CR_TRY(text_add_part(c, s->at, (size_t)end));
    text_reverse(c->out[0].list);
    return CR_OK;
}

static cr_status text_splitlines(cr_scall *c)
{
    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    bool keep = c->count > 1 && c->arg[1].i;
    CR_TRY(cr_ilist_new(&c->out[0], NULL, 4));
    for (size_t at = 0; at < s->len;) {
        size_t end = at;
        while (end < s->len && s->at[end] != '\n' && s->at[end] != '\r')
            end++;
        CR_TRY(text_add_part(c, s->at + at, end - at));
        if (keep && end < s->len)
            CR_TRY(text_add_part(c, s->at + end, 1));
        at = end + 1;
    }
    return CR_OK;
}

static cr_status text_join(cr_scall *c)
{
    cr_text made = {0};

    if (!text_is(c, 0) || c->count < 2 || c->arg[1].kind != CR_IV_LIST)
        return cr_builtin_misfit(c);
    const cr_ilist *l = c->arg[1].list;
    for (size_t i = 0; i < l->len; i++) {
        if (l->at[i].kind != CR_IV_STRING) {
            cr_text_drop(&made);
            return cr_builtin_misfit(c);
        }
        if (i)
            cr_text_put_n(&made, text_arg(c, 0)->at, text_arg(c, 0)->len);
        cr_text_put_n(&made, l->at[i].string->at, l->at[i].string->len);
    }
    return cr_istring_of_text(&c->out[0], &made);
}

static cr_status text_replace(cr_scall *c)
{
    cr_text made = {0};
    int64_t at = 0, i;

    if (!text_is(c, 0) || !text_is(c, 1) || !text_is(c, 2))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0), *old = text_arg(c, 1), *new = text_arg(c, 2);
    int64_t most = c->count > 3 && c->arg[3].kind == CR_IV_INT ? c->arg[3].i : -1;
    for (int64_t n = 0; old->len && (most < 0 || n < most) &&
                        (i = text_search(s, old, at, (int64_t)s->len, false)) >= 0;
         n++) {
        cr_text_put_n(&made, s->at + at, (size_t)(i - at));
        cr_text_put_n(&made, new->at, new->len);
        at = i + (int64_t)old->len;
    }
    cr_text_put_n(&made, s->at + at, s->len - (size_t)at);
    return cr_istring_of_text(&c->out[0], &made);
}

/* (before, separator, after) */
static cr_status text_parts(cr_scall *c, bool last)
{
    if (!text_is(c, 0) || !text_is(c, 1) || c->outs < 3)
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0), *by = text_arg(c, 1);
    int64_t i = text_search(s, by, 0, (int64_t)s->len, last);
    size_t before = i >= 0 ? (size_t)i : last ? 0 : s->len, cut = i >= 0 ? by->len : 0;
    CR_TRY(cr_istring_new(&c->out[0], s->at, before));
    CR_TRY(cr_istring_new(&c->out[1], by->at, cut));
    return cr_istring_new(&c->out[2], s->at + before + cut, s->len - before - cut);
}
static cr_status text_partition(cr_scall *c) { return text_parts(c, false); }
static cr_status text_rpartition(cr_scall *c) { return text_parts(c, true); }

/* --- formatting --- */

/* "{} of {}".format(...): the places in order; further arguments are not used, as in torch. */
static cr_status text_format(cr_scall *c)
{
    cr_text made = {0};
    int next = 1;
    cr_status st = CR_OK;

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    for (size_t i = 0; !st && i < s->len; i++) {
        if (s->at[i] != '{' || i + 1 >= s->len || s->at[i + 1] != '}') {
            cr_text_char(&made, s->at[i]);
            continue;
        }
        st = next < c->count
                 ? cr_ivalue_print(&made, &c->arg[next++])
                 : cr_fail(CR_RUNTIME, "Too few arguments for format string: %s", s->at);
        i++;
    }
    if (!st)
        return cr_istring_of_text(&c->out[0], &made);
    cr_text_drop(&made);
    return st;
}

static cr_status text_percent_one(cr_text *out, char kind, const cr_ivalue *v)
{
    cr_scalar s;
    bool number = cr_ivalue_scalar(v, &s);

    switch (kind) {
    case 's': return cr_ivalue_print(out, v);
    case 'd':
    case 'i':
        if (!number)
            break;
        cr_text_printf(out, "%lld", (long long)cr_scalar_as_int(s));
        return CR_OK;
    case 'e':
    case 'E':
    case 'f':
    case 'F': {
        const char format[] = {'%', kind, 0};
        char text[400];
        if (!number)
            break;
        snprintf(text, sizeof text, format, cr_scalar_as_double(s));
        cr_text_put(out, text);
        return CR_OK;
    }
    case 'c':
        if (v->kind == CR_IV_STRING && v->string->len == 1)
            return cr_ivalue_print(out, v);
        if (v->kind == CR_IV_INT) {
            cr_text_char(out, (char)v->i);
            return CR_OK;
        }
        break;
    default: break;
    }
    const char *has = v->kind == CR_IV_STRING ? "String" : cr_ivalue_kind_name(v);
    if (!strchr("diefEFc", kind))
        return cr_fail(CR_RUNTIME,
                       "The specifier %%%c is not supported in TorchScript format strings",
                       kind);
    return cr_fail(CR_RUNTIME, "%%%c requires %s for formatting, but got %s", kind,
                   kind == 'c' ? "an int or char" : "a number", has);
}

/* The values of a format: the items of the only argument where that is a tuple. */
static const cr_ivalue *percent_values(const cr_scall *c, size_t *count)
{
    bool tuple = c->count == 2 && c->arg[1].kind == CR_IV_TUPLE;

    *count = tuple ? c->arg[1].list->len : (size_t)c->count - 1;
    return tuple ? c->arg[1].list->at : c->arg + 1;
}

static cr_status text_percent(cr_scall *c)
{
    cr_text made = {0};
    size_t next = 0, count;
    cr_status st = CR_OK;

    if (!text_is(c, 0))
        return cr_builtin_misfit(c);
    const cr_istring *s = text_arg(c, 0);
    const cr_ivalue *value = percent_values(c, &count);
    for (size_t i = 0; !st && i < s->len; i++) {
        if (s->at[i] != '%') {
            cr_text_char(&made, s->at[i]);
        } else if (i + 1 < s->len && s->at[i + 1] == '%') {
            cr_text_char(&made, '%');
            i++;
        } else if (i + 1 >= s->len) {
            st = cr_fail(CR_RUNTIME, "Incomplete format specifier");
        } else {
            st = next < count ? text_percent_one(&made, s->at[++i], &value[next])
                              : cr_fail(CR_RUNTIME, "Too few arguments for format string");
            next++;
        }
    }
    if (!st && next < count)
        st = cr_fail(CR_RUNTIME, "Too many arguments for format string");
    if (!st)
        return cr_istring_of_text(&c->out[0], &made);
    cr_text_drop(&made);
    return st;
}

static cr_status text_str(cr_scall *c)
{
    cr_text made = {0};

    if (c->count < 1)
        return cr_builtin_misfit(c);
    cr_status st = cr_ivalue_print(&made, c->arg);
    if (!st)
        return cr_istring_of_text(&c->out[0], &made);
    cr_text_drop(&made);
    return st;
}

static cr_status text_base(cr_scall *c, unsigned base, const char *prefix)
{
    static const char digits[] = "0123456789abcdef";
    char text[72];
    size_t at = sizeof text;

    if (c->count < 1 || c->arg->kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    bool negative = c->arg->i < 0;
    uint64_t v = negative ? 0 - (uint64_t)c->arg->i : (uint64_t)c->arg->i;
    do {
        text[--at] = digits[v % base];
        v /= base;
    } while (v);
    text[--at] = prefix[1];
    text[--at] = prefix[0];
    if (negative)
        text[--at] = '-';
    return text_give(c, text + at, sizeof text - at);
}
static cr_status text_hex(cr_scall *c) { return text_base(c, 16, "0x"); }
static cr_status text_oct(cr_scall *c) { return text_base(c, 8, "0o"); }
static cr_status text_bin(cr_scall *c) { return text_base(c, 2, "0b"); }

static cr_status text_chr(cr_scall *c)
{
    char one = c->count > 0 ? (char)c->arg->i : 0;

    if (c->count < 1 || c->arg->kind != CR_IV_INT || c->arg->i < 0 || c->arg->i > 255)
        return cr_fail(CR_RUNTIME, "chr() arg not in range(256)");
    return text_give(c, &one, 1);
}

static cr_status text_ord(cr_scall *c)
{
    if (!text_is(c, 0) || text_arg(c, 0)->len != 1)
        return cr_fail(CR_RUNTIME, "ord() expected a character, but a string was found");
    return text_give_value(c, cr_iv_int((unsigned char)text_arg(c, 0)->at[0]));
}

static const struct {
    const char *name;
    cr_builtin_fn fn;
} text_functions[] = {
    {"aten::find", text_find},
    {"aten::rfind", text_rfind},
    {"aten::rindex", text_rindex},
    {"aten::startswith", text_begins},
    {"aten::endswith", text_ends},
    {"aten::isalnum", text_isalnum},
    {"aten::isalpha", text_isalpha},
    {"aten::isdigit", text_isdigit},
    {"aten::isdecimal", text_isdigit},
    {"aten::isnumeric", text_isdigit},
    {"aten::isspace", text_isspace},
    {"aten::isidentifier", text_isidentifier},
    {"aten::isprintable", text_isprintable},
    {"aten::istitle", text_istitle},
    {"aten::expandtabs", text_expandtabs},
    {"aten::rsplit", text_rsplit},
    {"aten::islower", text_islower},
    {"aten::isupper", text_isupper},
    {"aten::lower", text_lower},
    {"aten::upper", text_upper},
    {"aten::swapcase", text_swapcase},
    {"aten::capitalize", text_capitalize},
    {"aten::title", text_title},
    {"aten::center", text_center},
    {"aten::ljust", text_ljust},
    {"aten::rjust", text_rjust},
    {"aten::zfill", text_zfill},
    {"aten::strip", text_strip},
    {"aten::lstrip", text_lstrip},
    {"aten::rstrip", text_rstrip},
    {"aten::split", text_split},
    {"aten::splitlines", text_splitlines},
    {"aten::join", text_join},
    {"aten::replace", text_replace},
    {"aten::partition", text_partition},
    {"aten::rpartition", text_rpartition},
    {"aten::format", text_format},
    {"aten::percentFormat", text_percent},
    {"aten::str", text_str},
    {"aten::hex", text_hex},
    {"aten::oct", text_oct},
    {"aten::bin", text_bin},
    {"aten::chr", text_chr},
    {"aten::ord", text_ord},
};

cr_builtin_fn cr_builtin_text(const char *name)
{
    for (size_t i = 0; i < CR_LEN(text_functions); i++)
        if (!strcmp(text_functions[i].name, name))
            return text_functions[i].fn;
    return NULL;
}
