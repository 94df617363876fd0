/* Construction of integer expressions.
 *
 * Invariant: every node is canonical.  The terms of a sum are products of atoms with a
 * coefficient, sorted by the ids of their atoms.  Each list of atoms occurs once, and the
 * integer is last.  An atom is any expression except an integer, a sum or a product. */
#include "base/integer.h"
#include "base/map.h"
#include "sym/sym.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHAINS = 64 };

cr_syms *cr_syms_new(cr_session *s)
{
    cr_syms *t = CR_NEW(s, cr_syms);

    t->session = s;
    t->chains = FIRST_CHAINS;
    t->chain = CR_NEW_N(s, const cr_sym *, t->chains);
    return t;
}

static uint64_t hash_node(const cr_sym *e)
{
    uint64_t h = (uint64_t)e->kind * 0x9E3779B97F4A7C15u + (uint64_t)e->integer;

    if (e->name)
        h ^= cr_hash(e->name, strlen(e->name));
    for (int i = 0; i < e->count; i++)
        h = (h ^ e->args[i]->id) * 0x100000001B3u;
    return h ^ (h >> 29);
}

static bool same_node(const cr_sym *a, const cr_sym *b)
{
    if (a->kind != b->kind || a->count != b->count || a->integer != b->integer)
        return false;
    if (a->kind == CR_SYM_NAME)
        return !strcmp(a->name, b->name);
    return !a->count || !memcmp(a->args, b->args, sizeof *a->args * (size_t)a->count);
}

static void sym_rehash(cr_syms *t)
{
    size_t chains = t->chains * 2;
    const cr_sym **chain = CR_NEW_N(t->session, const cr_sym *, chains);

    for (size_t i = 0; i < t->chains; i++) {
        const cr_sym *next;
        for (const cr_sym *e = t->chain[i]; e; e = next) {
            const cr_sym **place = &chain[hash_node(e) & (chains - 1)];
            next = e->next;
            ((cr_sym *)e)->next = *place;
            *place = e;
        }
    }
    t->chain = chain;
    t->chains = chains;
}

static const cr_sym *sym_lookup(cr_syms *t, const cr_sym *like)
{
    const cr_sym *e = t->chain[hash_node(like) & (t->chains - 1)];

    while (e && !same_node(e, like))
        e = e->next;
    return e;
}

__extension__ typedef __int128 wide;

static int64_t clamp(wide v)
{
    return v < CR_SYM_LOW ? CR_SYM_LOW : v > CR_SYM_HIGH ? CR_SYM_HIGH : (int64_t)v;
}

static void range_add(cr_sym *e)
{
    int64_t low = 0, high = 0;

    for (int i = 0; i < e->count; i++) {
        const cr_sym *a = e->args[i];
        low =
            a->low <= CR_SYM_LOW || low <= CR_SYM_LOW ? CR_SYM_LOW : clamp((wide)low + a->low);
        high = a->high >= CR_SYM_HIGH || high >= CR_SYM_HIGH ? CR_SYM_HIGH
                                                             : clamp((wide)high + a->high);
    }
    e->low = low;
    e->high = high;
}

/* A product with an unbounded factor is unbounded on that side.  clamp() ensures this, because
 * a bound at the limit means "this much or more". */
static void range_mul(cr_sym *e)
{
    int64_t low = 1, high = 1;

    for (int i = 0; i < e->count; i++) {
        const cr_sym *a = e->args[i];
        int64_t v[4] = {clamp((wide)low * a->low), clamp((wide)low * a->high),
                        clamp((wide)high * a->low), clamp((wide)high * a->high)};
        low = high = v[0];
        for (int k = 1; k < 4; k++) {
            low = v[k] < low ? v[k] : low;
            high = v[k] > high ? v[k] : high;
        }
    }
    e->low = low;
    e->high = high;
}

static void range_floordiv(cr_sym *e)
{
    const cr_sym *a = e->args[0], *b = e->args[1];

    e->low = CR_SYM_LOW;
    e->high = CR_SYM_HIGH;
    if (b->low < 1)
        return;
    if (a->low > CR_SYM_LOW)
        e->low = cr_floor_div(a->low, a->low < 0 ? b->low : b->high);
    if (a->high < CR_SYM_HIGH)
        e->high = cr_floor_div(a->high, a->high < 0 ? b->high : b->low);
}

static void range_mod(cr_sym *e)
{
    const cr_sym *a = e->args[0], *b = e->args[1];

    e->low = b->low >= 0 ? 0 : CR_SYM_LOW;
    e->high = b->low >= 0 && b->high < CR_SYM_HIGH ? b->high - 1 : CR_SYM_HIGH;
    if (a->low >= 0 && a->high < e->high)
        e->high = a->high;
}

static void set_range(cr_sym *e)
{
    const cr_sym *a = e->count ? e->args[0] : NULL, *b = e->count > 1 ? e->args[1] : NULL;

    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INT: e->low = e->high = e->integer; break;
    case CR_SYM_NAME: break;
    case CR_SYM_ADD: range_add(e); break;
    case CR_SYM_MUL: range_mul(e); break;
    case CR_SYM_FLOORDIV: range_floordiv(e); break;
    case CR_SYM_MOD: range_mod(e); break;
    case CR_SYM_MIN:
        e->low = a->low < b->low ? a->low : b->low;
        e->high = a->high < b->high ? a->high : b->high;
        break;
    case CR_SYM_FRACTION:
        e->low = CR_SYM_LOW;
        e->high = CR_SYM_HIGH;
        break;
    case CR_SYM_MAX:
        e->low = a->low > b->low ? a->low : b->low;
        e->high = a->high > b->high ? a->high : b->high;
        break;
    }
}

/* Returns the node equal to `like`; makes it when there is none. */
static const cr_sym *sym_intern(cr_syms *t, const cr_sym *like)
{
    const cr_sym *found = sym_lookup(t, like), **place;
    cr_sym *e;

    if (found)
        return found;
    if (t->nodes >= t->chains)
        sym_rehash(t);
    e = CR_NEW(t->session, cr_sym);
    *e = *like;
    e->id = (unsigned)++t->nodes;
    if (like->count)
        e->args =
            cr_session_copy(t->session, like->args, sizeof *like->args * (size_t)like->count);
    if (like->name)
        e->name = cr_session_text(t->session, like->name);
    set_range(e);
    place = &t->chain[hash_node(e) & (t->chains - 1)];
    e->next = *place;
    return *place = e;
}

const cr_sym *cr_sym_int(cr_syms *t, int64_t value)
{
    return sym_intern(t, &(cr_sym){.kind = CR_SYM_INT, .integer = value});
}

const cr_sym *cr_sym_name(cr_syms *t, const char *name, int64_t low, int64_t high)
{
    return sym_intern(t,
                      &(cr_sym){.kind = CR_SYM_NAME, .name = name, .low = low, .high = high});
}

const cr_sym *cr_sym_find(cr_syms *t, const char *name)
{
    return sym_lookup(t, &(cr_sym){.kind = CR_SYM_NAME, .name = name});
}

static const cr_sym *sym_node(cr_syms *t, cr_sym_kind kind, const cr_sym **args, int count)
{
    return sym_intern(t, &(cr_sym){.kind = (uint8_t)kind, .args = args, .count = count});
}

static const cr_sym *node2(cr_syms *t, cr_sym_kind kind, const cr_sym *a, const cr_sym *b)
{
    return sym_node(t, kind, (const cr_sym *[]){a, b}, 2);
}

/* --- sums --- */

/* One term: coefficient times the product of `count` atoms. */
typedef struct {
    int64_t factor;
    const cr_sym *const *atoms;
    int count;
} term;

typedef CR_VEC(term) terms;

static int64_t checked_add(cr_syms *t, int64_t a, int64_t b)
{
    int64_t r;

    if (CR_ADD_OVERFLOW(a, b, &r))
        cr_bail(t->session, CR_OVERFLOW, "an integer expression overflows 64 bits");
    return r;
}

static int64_t checked_mul(cr_syms *t, int64_t a, int64_t b)
{
    int64_t r;

    if (CR_MUL_OVERFLOW(a, b, &r))
        cr_bail(t->session, CR_OVERFLOW, "an integer expression overflows 64 bits");
    return r;
}

/* Converts a summand to a term. */
static term term_of(cr_syms *t, const cr_sym *e)
{
    const cr_sym **one;

    if (e->kind == CR_SYM_INT)
        return (term){e->integer, NULL, 0};
    if (e->kind == CR_SYM_MUL && e->args[0]->kind == CR_SYM_INT)
        return (term){e->args[0]->integer, e->args + 1, e->count - 1};
    if (e->kind == CR_SYM_MUL)
        return (term){1, e->args, e->count};
    one = CR_NEW(t->session, const cr_sym *);
    *one = e;
    return (term){1, one, 1};
}

static void terms_gather(cr_syms *t, terms *list, const cr_sym *e, int64_t factor)
{
    if (e->kind == CR_SYM_ADD) {
        for (int i = 0; i < e->count; i++)
            terms_gather(t, list, e->args[i], factor);
        return;
    }
    term one = term_of(t, e);
    one.factor = checked_mul(t, one.factor, factor);
    CR_PUSH(t->session, list, one);
}

/* Orders terms by their atoms; the term without atoms is last. */
static int compare_terms(const void *pa, const void *pb)
{
    const term *a = pa, *b = pb;

    if (!a->count || !b->count)
        return !a->count - !b->count;
    for (int i = 0; i < a->count && i < b->count; i++)
        if (a->atoms[i] != b->atoms[i])
            return a->atoms[i]->id < b->atoms[i]->id ? -1 : 1;
    return a->count - b->count;
}

static const cr_sym *product_of(cr_syms *t, const term *m)
{
    const cr_sym **args;

    if (!m->count)
        return cr_sym_int(t, m->factor);
    if (m->factor == 1 && m->count == 1)
        return m->atoms[0];
    args = CR_NEW_N(t->session, const cr_sym *, m->count + 1);
    memcpy(args + 1, m->atoms, sizeof *args * (size_t)m->count);
    if (m->factor == 1)
        return sym_node(t, CR_SYM_MUL, args + 1, m->count);
    args[0] = cr_sym_int(t, m->factor);
    return sym_node(t, CR_SYM_MUL, args, m->count + 1);
}

static size_t terms_merge(cr_syms *t, terms *list)
{
    size_t n = 0;

    if (list->len)
        qsort(list->at, list->len, sizeof *list->at, compare_terms);
    for (size_t i = 0; i < list->len; i++) {
        if (n && !compare_terms(&list->at[n - 1], &list->at[i]))
            list->at[n - 1].factor = checked_add(t, list->at[n - 1].factor, list->at[i].factor);
        else
            list->at[n++] = list->at[i];
    }
    list->len = n;
    n = 0;
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].factor)
            list->at[n++] = list->at[i];
    return list->len = n;
}

static const cr_sym *terms_sum(cr_syms *t, terms *list)
{
    size_t n = terms_merge(t, list);
    const cr_sym **args;

    if (!n)
        return cr_sym_int(t, 0);
    args = CR_NEW_N(t->session, const cr_sym *, n);
    for (size_t i = 0; i < n; i++)
        args[i] = product_of(t, &list->at[i]);
    return n == 1 ? args[0] : sym_node(t, CR_SYM_ADD, args, (int)n);
}

const cr_sym *cr_sym_add(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    terms list = {0};

    terms_gather(t, &list, a, 1);
    terms_gather(t, &list, b, 1);
    return terms_sum(t, &list);
}

const cr_sym *cr_sym_sub(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    terms list = {0};

    terms_gather(t, &list, a, 1);
    terms_gather(t, &list, b, -1);
    return terms_sum(t, &list);
}

static int compare_ids(const void *pa, const void *pb)
{
    const cr_sym *a = *(const cr_sym *const *)pa, *b = *(const cr_sym *const *)pb;

    return a->id < b->id ? -1 : a->id > b->id;
}

static term multiply(cr_syms *t, const term *a, const term *b)
{
    int n = a->count + b->count;
    const cr_sym **atoms = CR_NEW_N(t->session, const cr_sym *, n);

    if (a->count)
        memcpy(atoms, a->atoms, sizeof *atoms * (size_t)a->count);
    if (b->count)
        memcpy(atoms + a->count, b->atoms, sizeof *atoms * (size_t)b->count);
    if (n)
        qsort(atoms, (size_t)n, sizeof *atoms, compare_ids);
    return (term){checked_mul(t, a->factor, b->factor), atoms, n};
}

const cr_sym *cr_sym_mul(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    terms x = {0}, y = {0}, list = {0};

    terms_gather(t, &x, a, 1);
    terms_gather(t, &y, b, 1);
    for (size_t i = 0; i < x.len; i++)
        for (size_t k = 0; k < y.len; k++)
            CR_PUSH(t->session, &list, multiply(t, &x.at[i], &y.at[k]));
    return terms_sum(t, &list);
}

/* --- division --- */

/* Divides `m` by the divisor `d`, which has one term.  False when there is a remainder. */
static bool divide_term(cr_syms *t, term *m, const term *d)
{
    const cr_sym **left = CR_NEW_N(t->session, const cr_sym *, m->count);
    int n = 0, k = 0;

    if (!d->factor || m->factor % d->factor)
        return false;
    for (int i = 0; i < m->count; i++) {
        if (k < d->count && m->atoms[i] == d->atoms[k])
            k++;
        else
            left[n++] = m->atoms[i];
    }
    if (k < d->count)
        return false;
    *m = (term){m->factor / d->factor, left, n};
    return true;
}

/* Splits a = quotient * b + rest, where b divides every term of quotient * b. */
static void split_by(cr_syms *t, const cr_sym *a, const cr_sym *b, const cr_sym **quotient,
                     const cr_sym **rest)
{
    terms all = {0}, even = {0}, odd = {0};
    term d = term_of(t, b);

    terms_gather(t, &all, a, 1);
    for (size_t i = 0; i < all.len; i++) {
        term m = all.at[i];
        if (divide_term(t, &m, &d))
            CR_PUSH(t->session, &even, m);
        else
            CR_PUSH(t->session, &odd, all.at[i]);
    }
    *quotient = terms_sum(t, &even);
    *rest = terms_sum(t, &odd);
}

/* True if b, which has one term, divides a: the sign of b does not matter then. */
static bool divides(cr_syms *t, const cr_sym *a, const cr_sym *b, const cr_sym **quotient)
{
    const cr_sym *rest;

    if (b->kind == CR_SYM_ADD)
        return false;
    split_by(t, a, b, quotient, &rest);
    return rest->kind == CR_SYM_INT && !rest->integer;
}

static bool below(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    return a->low >= 0 && cr_sym_lt(t, a, b) == CR_SYM_YES;
}

static void refuse_zero(cr_syms *t, const cr_sym *b)
{
    if (b->kind == CR_SYM_INT && !b->integer)
        cr_bail(t->session, CR_ARITHMETIC, "integer division or modulo by zero");
}

/* A quotient with a remainder is kept whole, so that // and % of the same operands agree. */
const cr_sym *cr_sym_floordiv(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    const cr_sym *quotient, *rest;

    refuse_zero(t, b);
    if (a->kind == CR_SYM_INT && b->kind == CR_SYM_INT)
        return cr_sym_int(t, cr_floor_div(a->integer, b->integer));
    if (b->kind == CR_SYM_ADD && a == b && b->low > 0)
        return cr_sym_int(t, 1);
    if (b->low < 1 && divides(t, a, b, &quotient))
        return quotient;
    if (b->kind == CR_SYM_ADD || b->low < 1)
        return below(t, a, b) ? cr_sym_int(t, 0) : node2(t, CR_SYM_FLOORDIV, a, b);
    split_by(t, a, b, &quotient, &rest);
    if (below(t, rest, b))
        return quotient;
    return cr_sym_add(t, quotient,
                      rest->kind == CR_SYM_INT && b->kind == CR_SYM_INT
                          ? cr_sym_int(t, cr_floor_div(rest->integer, b->integer))
                          : node2(t, CR_SYM_FLOORDIV, rest, b));
}

const cr_sym *cr_sym_mod(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    const cr_sym *quotient, *rest;

    refuse_zero(t, b);
    if (a->kind == CR_SYM_INT && b->kind == CR_SYM_INT)
        return cr_sym_int(t, a->integer - b->integer * cr_floor_div(a->integer, b->integer));
    if (b->low < 1 && divides(t, a, b, &quotient))
        return cr_sym_int(t, 0);
    if (b->kind == CR_SYM_ADD || b->low < 1)
        return below(t, a, b) ? a : a == b ? cr_sym_int(t, 0) : node2(t, CR_SYM_MOD, a, b);
    split_by(t, a, b, &quotient, &rest);
    if (below(t, rest, b))
        return rest;
    if (rest->kind == CR_SYM_INT && b->kind == CR_SYM_INT)
        return cr_sym_mod(t, rest, b);
    return node2(t, CR_SYM_MOD, rest, b);
}

const cr_sym *cr_sym_min(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    if (cr_sym_le(t, a, b) == CR_SYM_YES)
        return a;
    if (cr_sym_le(t, b, a) == CR_SYM_YES)
        return b;
    return a->id < b->id ? node2(t, CR_SYM_MIN, a, b) : node2(t, CR_SYM_MIN, b, a);
}

const cr_sym *cr_sym_max(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    if (cr_sym_le(t, a, b) == CR_SYM_YES)
        return b;
    if (cr_sym_le(t, b, a) == CR_SYM_YES)
        return a;
    return a->id < b->id ? node2(t, CR_SYM_MAX, a, b) : node2(t, CR_SYM_MAX, b, a);
}

const cr_sym *cr_sym_fraction(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    return node2(t, CR_SYM_FRACTION, a, b);
}

/* --- comparisons --- */

cr_sym_answer cr_sym_le(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    const cr_sym *d = cr_sym_sub(t, a, b);

    return d->high <= 0 ? CR_SYM_YES : d->low > 0 ? CR_SYM_NO : CR_SYM_UNKNOWN;
}

cr_sym_answer cr_sym_lt(cr_syms *t, const cr_sym *a, const cr_sym *b)
{
    const cr_sym *d = cr_sym_sub(t, a, b);

    return d->high < 0 ? CR_SYM_YES : d->low >= 0 ? CR_SYM_NO : CR_SYM_UNKNOWN;
}

bool cr_sym_uses(const cr_sym *e, const cr_sym *name)
{
    for (int i = 0; i < e->count; i++)
        if (cr_sym_uses(e->args[i], name))
            return true;
    return e == name;
}

static const cr_sym *rebuild(cr_syms *t, const cr_sym *e, const cr_sym *a, const cr_sym *b)
{
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_ADD: return cr_sym_add(t, a, b);
    case CR_SYM_MUL: return cr_sym_mul(t, a, b);
    case CR_SYM_FLOORDIV: return cr_sym_floordiv(t, a, b);
    case CR_SYM_MOD: return cr_sym_mod(t, a, b);
    case CR_SYM_MIN: return cr_sym_min(t, a, b);
    case CR_SYM_MAX: return cr_sym_max(t, a, b);
    case CR_SYM_FRACTION: return cr_sym_fraction(t, a, b);
    case CR_SYM_INT:
    case CR_SYM_NAME: break;
    }
    return e;
}

const cr_sym *cr_sym_replace(cr_syms *t, const cr_sym *e, const cr_sym *name, const cr_sym *by)
{
    const cr_sym *r;

    if (e == name)
        return by;
    if (!cr_sym_uses(e, name))
        return e;
    r = cr_sym_replace(t, e->args[0], name, by);
    for (int i = 1; i < e->count; i++)
        r = rebuild(t, e, r, cr_sym_replace(t, e->args[i], name, by));
    return r;
}

static int64_t fold_integers(const cr_sym *e, int64_t a, int64_t b, bool *wrong)
{
    int64_t r = 0;
    bool zero = false, over = false;

    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_ADD: over = CR_ADD_OVERFLOW(a, b, &r); break;
    case CR_SYM_MUL: over = CR_MUL_OVERFLOW(a, b, &r); break;
    case CR_SYM_FLOORDIV:
    case CR_SYM_MOD:
        zero = !b;
        if (!zero)
            r = e->kind == CR_SYM_MOD ? a - b * cr_floor_div(a, b) : cr_floor_div(a, b);
        break;
    case CR_SYM_MIN: r = a < b ? a : b; break;
    case CR_SYM_MAX: r = a > b ? a : b; break;
    case CR_SYM_FRACTION: over = true; break;
    case CR_SYM_INT:
    case CR_SYM_NAME: break;
    }
    *wrong = *wrong || zero || over;
    return zero || over ? 0 : r;
}

int64_t cr_sym_eval(const cr_sym *e, cr_sym_value_fn value, void *context, bool *wrong)
{
    int64_t r;

    if (e->kind == CR_SYM_INT)
        return e->integer;
    if (e->kind == CR_SYM_NAME)
        return value(context, e);
    r = cr_sym_eval(e->args[0], value, context, wrong);
    for (int i = 1; i < e->count; i++)
        r = fold_integers(e, r, cr_sym_eval(e->args[i], value, context, wrong), wrong);
    return r;
}
