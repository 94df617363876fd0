/* Clause `axes` of functions: `(n, k), (k, m) -> (n, m)`.
 *
 * A group in brackets for each tensor parameter, then for each result.  A name is an axis, `_`
 * a dim that is needed whole, `*` any dims, which are broadcast, and `_*` any dims that are
 * needed whole.  Names that no result has are summed; a result without a name that another
 * one has does not need the dims of this name.  A group with `+` is added to that sum;
 * its first dims may be missing.  Several forms, separated by `|`, are tried in order.
 * `each`: the tensors at one position of all lists are computed element by element; positions
 * have their own placements, so the call has no strategies here.  `along DIM`: all dims of the
 * first tensor but those that parameter DIM names are dims of the results. */
#include "dist/axes.h"
#include "ops/ops.h"
#include <ctype.h>
#include <string.h>

enum { CLAUSE_NAMES = 16, CLAUSE_NAME = 16, CLAUSE_ITEMS = 12 };

typedef struct {
    cr_axes_maker *m;
    cr_axes *a;
    const char *at, *end;
    char name[CLAUSE_NAMES][CLAUSE_NAME];
    int id[CLAUSE_NAMES], names;
    bool in_result[CLAUSE_NAMES];
    int pack[CR_AXES_DIMS]; /* axes of `*`, counted from the last dim; -1: not made */
    bool failed, plus;
    int items;
    char item[CLAUSE_ITEMS][CLAUSE_NAME];
} clause;

static void skip_blanks(clause *c)
{
    while (c->at < c->end && (isspace((unsigned char)*c->at) || *c->at == ','))
        c->at++;
}

static bool clause_takes(clause *c, const char *text)
{
    size_t n = strlen(text);

    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n))
        return false;
    c->at += n;
    return true;
}

static void read_word(clause *c, char *word)
{
    size_t n = 0;

    skip_blanks(c);
    while (c->at < c->end && (isalnum((unsigned char)*c->at) || *c->at == '_' || *c->at == '*'))
        if (n + 1 < CLAUSE_NAME)
            word[n++] = *c->at++;
        else
            c->at++;
    word[n] = 0;
    c->failed |= !n;
}

/* Reads `(a, b)+` into items. */
static void read_group(clause *c)
{
    c->items = 0;
    c->failed |= !clause_takes(c, "(");
    while (!c->failed && !clause_takes(c, ")"))
        if (c->items < CLAUSE_ITEMS)
            read_word(c, c->item[c->items++]);
        else
            c->failed = true;
    c->plus = c->at < c->end && *c->at == '+';
    c->at += c->plus;
}

static int name_axis(clause *c, const char *name, bool in_result)
{
    int k = 0;

    while (k < c->names && strcmp(c->name[k], name))
        k++;
    if (k == CLAUSE_NAMES) {
        c->failed = true;
        return -1;
    }
    if (k == c->names) {
        strcpy(c->name[c->names++], name);
        c->id[k] = cr_axes_add(c->m, c->a, CR_AXIS_SUM);
    }
    c->in_result[k] |= in_result;
    return c->id[k];
}

/* The axis of `*` at a distance from the last of its dims. */
static int pack_axis(clause *c, int back)
{
    if (c->pack[back] < 0)
        c->pack[back] = cr_axes_add(c->m, c->a, CR_AXIS_ALONG);
    return c->pack[back];
}

static void put_group(clause *c, cr_axes_tensor *t, bool in_result)
{
    int wide = 0, at = 0, packs = 0, lacking;

    for (int i = 0; i < c->items; i++)
        packs += strchr(c->item[i], '*') != NULL;
    lacking = c->plus && t->t->ndim < c->items ? c->items - t->t->ndim : 0;
    wide = t->t->ndim - (c->items - lacking - packs);
    if (wide < 0 || packs > 1 || (wide && !packs) || wide > CR_AXES_DIMS) {
        c->failed = true;
        return;
    }
    t->added = c->plus;
    for (int i = lacking; i < c->items; i++) {
        const char *word = c->item[i];
        bool pack = strchr(word, '*') != NULL;
        for (int j = 0; pack && j < wide; j++)
            if (*word == '*')
                cr_axes_put(c->a, t, at + j, pack_axis(c, wide - 1 - j));
        if (!pack && strcmp(word, "_"))
            cr_axes_put(c->a, t, at, name_axis(c, word, in_result));
        at += pack ? wide : 1;
    }
}

/* A dim of size 1 is broadcast where another tensor's dim of this axis is longer. */
static void drop_broadcast(cr_axes *a)
{
    int64_t size[CR_AXES_MOST] = {0};

    for (int i = 0; i < a->operands; i++)
        for (int d = 0; d < a->operand[i].t->ndim; d++)
            if (a->operand[i].axis[d] >= 0 &&
                a->operand[i].t->size[d] > size[a->operand[i].axis[d]])
                size[a->operand[i].axis[d]] = a->operand[i].t->size[d];
    for (int i = 0; i < a->operands; i++)
        for (int d = 0; d < a->operand[i].t->ndim; d++)
            if (a->operand[i].t->size[d] == 1 && a->operand[i].axis[d] >= 0 &&
                size[a->operand[i].axis[d]] > 1)
                a->operand[i].axis[d] = -1;
}

/* The results that have no dim of an axis, as bits. */
static uint32_t results_without(const cr_axes *a, int axis)
{
    uint32_t found = 0;

    for (int k = 0; k < a->results; k++) {
        bool has = false;
        for (int d = 0; d < a->result[k].t->ndim; d++)
            has |= a->result[k].axis[d] == axis;
        found |= has ? 0 : (uint32_t)1 << k;
    }
    return found;
}

static void clause_groups(clause *c)
{
    cr_axes *a = c->a;
    int operand = 0;

    for (int p = 0; p < a->op->param_count && !c->failed; p++) {
        if (a->op->param[p].type != CR_T_TENSOR)
            continue;
        read_group(c);
        if (operand < a->operands && a->operand[operand].param == p && !c->failed)
            put_group(c, &a->operand[operand++], false);
    }
    c->failed |= operand != a->operands || !clause_takes(c, "->");
    for (int k = 0; k < a->results && !c->failed; k++) {
        read_group(c);
        if (!c->failed)
            put_group(c, &a->result[k], true);
    }
    for (int k = 0; k < c->names; k++)
        if (c->in_result[k]) {
            a->axis[c->id[k]].how = CR_AXIS_ALONG;
            a->axis[c->id[k]].apart = results_without(a, c->id[k]);
        }
    drop_broadcast(a);
}

/* The dims of bits `named` of the first operand are whole; the others are dims of the
 * results. */
static void clause_along(clause *c)
{
    char word[CLAUSE_NAME];
    bool grows = c->a->result[0].t->ndim > c->a->operand[0].t->ndim;
    cr_axes_tensor *x = grows ? &c->a->result[0] : &c->a->operand[0];
    const cr_value *v;
    uint64_t named = 0;
    int param;

    read_word(c, word);
    param = cr_op_find_param(c->a->op, word);
    if (param < 0)
        cr_bail(c->m->session, CR_RUNTIME, "%s:%d: axes along no parameter %s",
                c->a->op->text.file, c->a->op->text.line, word);
    v = &c->a->arg[param];
    if (v->tag == CR_INT)
        named = (uint64_t)1 << (v->i < 0 ? v->i + x->t->ndim : v->i);
    for (uint32_t i = 0; v->tag == CR_INTS && i < v->len; i++)
        named |= (uint64_t)1 << (v->ints[i] < 0 ? v->ints[i] + x->t->ndim : v->ints[i]);
    if (!named)
        named = ~(uint64_t)0;
    for (int d = 0, to = 0; d < x->t->ndim; d++) {
        bool whole = named >> d & 1;
        int k = whole ? -1 : cr_axes_add(c->m, c->a, CR_AXIS_ALONG);
        cr_axes_put(c->a, x, d, k);
        if (grows && !whole)
            cr_axes_put(c->a, &c->a->operand[0], to, k);
        for (int r = grows; r < c->a->results && !whole; r++) {
            bool kept = c->a->result[r].t->ndim == x->t->ndim;
            cr_axes_put(c->a, &c->a->result[r], kept ? d : to, k);
        }
        to += !whole;
    }
}

static void clause_form(clause *c)
{
    cr_axes *a = c->a;

    a->count = 0;
    for (int d = 0; d < CR_AXES_DIMS; d++)
        c->pack[d] = -1;
    for (int i = 0; i < a->operands; i++) {
        a->operand[i].added = false;
        memset(a->operand[i].axis, -1, sizeof a->operand[i].axis);
    }
    for (int k = 0; k < a->results; k++)
        memset(a->result[k].axis, -1, sizeof a->result[k].axis);
    if (clause_takes(c, "along"))
        clause_along(c);
    else
        clause_groups(c);
}

void cr_axes_by_clause(cr_axes_maker *m, cr_axes *a)
{
    clause *c = CR_NEW(m->session, clause);
    cr_clause_text text = a->op->text.axes;

    if (text.len >= 4 && !memcmp(text.at, "each", 4))
        return;
    while (text.len && !a->rule) {
        const char *bar = memchr(text.at, '|', text.len);
        size_t n = bar ? (size_t)(bar - text.at) : text.len;
        *c = (clause){.m = m, .a = a, .at = text.at, .end = text.at + n};
        clause_form(c);
        a->rule = c->failed ? NULL : "axes";
        text.at += bar ? n + 1 : n;
        text.len -= bar ? n + 1 : n;
    }
}
