/* Builtin functions of programs on lists, tuples and dicts. */
#include "script/builtin.h"
#include "script/unit.h"
#include <stdlib.h>
#include <string.h>

static bool list_is(const cr_scall *c, int i)
{
    return c->count > i && c->arg[i].kind == CR_IV_LIST;
}
static bool dict_is(const cr_scall *c) { return c->count > 0 && c->arg->kind == CR_IV_DICT; }

static cr_status list_give(cr_scall *c, cr_ivalue v)
{
    if (c->outs)
        c->out[0] = v;
    else
        cr_ivalue_drop(v);
    return CR_OK;
}

/* The position for an index that may count from the end; -1 outside. */
static int64_t list_position(const cr_ilist *l, const cr_ivalue *index)
{
    int64_t n = (int64_t)l->len, i = index->i < 0 ? index->i + n : index->i;

    return index->kind == CR_IV_INT && i >= 0 && i < n ? i : -1;
}

static cr_status list_out_of_range(void)
{
    return cr_fail(CR_RUNTIME, "list index out of range");
}

static cr_status list_copy_into(cr_ilist *to, const cr_ilist *from)
{
    for (size_t i = 0, n = from->len; i < n; i++)
        CR_TRY(cr_ilist_append(to, cr_ivalue_keep(from->at[i])));
    return CR_OK;
}

static cr_status list_copy(cr_scall *c, const cr_ilist *from)
{
    cr_ivalue made;

    CR_TRY(cr_ilist_new(&made, from->type, from->len));
    cr_status st = list_copy_into(made.list, from);
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}

cr_status cr_builtin_join(cr_scall *c)
{
    cr_text text = {0};
    cr_ivalue made;

    if (c->count >= 2 && c->arg[0].kind == CR_IV_STRING && c->arg[1].kind == CR_IV_STRING) {
        cr_text_put_n(&text, c->arg[0].string->at, c->arg[0].string->len);
        cr_text_put_n(&text, c->arg[1].string->at, c->arg[1].string->len);
        return cr_istring_of_text(&c->out[0], &text);
    }
    if (!list_is(c, 0) || !list_is(c, 1))
        return cr_builtin_misfit(c);
    const cr_ilist *a = c->arg[0].list, *b = c->arg[1].list;
    CR_TRY(cr_ilist_new(&made, a->type, a->len + b->len));
    cr_status st = list_copy_into(made.list, a);
    st = st ? st : list_copy_into(made.list, b);
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}

enum { LIST_MOST = 1 << 28 };

cr_status cr_builtin_repeat(cr_scall *c)
{
    bool swap = list_is(c, 1);
    cr_ivalue made;

    if (!list_is(c, swap) || c->count < 2 || c->arg[!swap].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    const cr_ilist *from = c->arg[swap].list;
    int64_t times = c->arg[!swap].i < 0 || !from->len ? 0 : c->arg[!swap].i, total;
    if (CR_MUL_OVERFLOW(times, (int64_t)from->len, &total) || total > LIST_MOST)
        return cr_fail(CR_MEMORY, "a list of more than %d items", LIST_MOST);
    CR_TRY(cr_ilist_new(&made, from->type, (size_t)total));
    for (int64_t i = 0; i < times; i++)
        for (size_t k = 0; k < from->len; k++)
            made.list->at[made.list->len++] = cr_ivalue_keep(from->at[k]);
    return list_give(c, made);
}

static cr_status list_len(cr_scall *c)
{
    const cr_ivalue *v = c->arg;

    if (c->count < 1)
        return cr_builtin_misfit(c);
    switch (v->kind) {
    case CR_IV_LIST:
    case CR_IV_TUPLE: return list_give(c, cr_iv_int((int64_t)v->list->len));
    case CR_IV_DICT: return list_give(c, cr_iv_int((int64_t)v->dict->len));
    case CR_IV_STRING: return list_give(c, cr_iv_int(cr_builtin_text_len(v->string)));
    case CR_IV_TENSOR:
        if (!v->t->ndim)
            return cr_fail(CR_RUNTIME, "len() of a 0-d tensor");
        return list_give(c, cr_iv_int(v->t->size[0]));
    default: return cr_builtin_misfit(c);
    }
}

static cr_status dict_missing(const cr_ivalue *key)
{
    cr_text text = {0};
    cr_status st = cr_ivalue_print(&text, key);

    st = st ? st : cr_fail(CR_RUNTIME, "KeyError: %s", cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

static cr_status list_get(cr_scall *c)
{
    if (c->count < 2)
        return cr_builtin_misfit(c);
    if (dict_is(c)) {
        const cr_ivalue *found = cr_idict_find(c->arg->dict, &c->arg[1]);
        return found ? list_give(c, cr_ivalue_keep(*found)) : dict_missing(&c->arg[1]);
    }
    if (c->arg->kind == CR_IV_STRING)
        return cr_builtin_text_at(c);
    if (c->arg->kind != CR_IV_LIST && c->arg->kind != CR_IV_TUPLE)
        return cr_builtin_misfit(c);
    int64_t i = list_position(c->arg->list, &c->arg[1]);
    return i < 0 ? list_out_of_range() : list_give(c, cr_ivalue_keep(c->arg->list->at[i]));
}

static cr_status list_set(cr_scall *c)
{
    if (c->count < 3)
        return cr_builtin_misfit(c);
    if (dict_is(c))
        return cr_idict_set(c->arg->dict, cr_ivalue_keep(c->arg[1]), cr_ivalue_keep(c->arg[2]));
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    int64_t i = list_position(c->arg->list, &c->arg[1]);
    if (i < 0)
        return list_out_of_range();
    cr_ilist_set(c->arg->list, (size_t)i, cr_ivalue_keep(c->arg[2]));
    return c->outs ? list_give(c, cr_ivalue_keep(*c->arg)) : CR_OK;
}

static cr_status list_append(cr_scall *c)
{
    if (!list_is(c, 0) || c->count < 2)
        return cr_builtin_misfit(c);
    CR_TRY(cr_ilist_append(c->arg->list, cr_ivalue_keep(c->arg[1])));
    return list_give(c, cr_ivalue_keep(*c->arg));
}

static cr_status list_extend(cr_scall *c)
{
    if (!list_is(c, 0) || !list_is(c, 1))
        return cr_builtin_misfit(c);
    CR_TRY(list_copy_into(c->arg[0].list, c->arg[1].list));
    return c->outs ? list_give(c, cr_ivalue_keep(*c->arg)) : CR_OK;
}

/* l *= n */
static cr_status list_repeat(cr_scall *c)
{
    if (!list_is(c, 0) || c->count < 2 || c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    cr_ilist *l = c->arg->list;
    size_t once = l->len;
    int64_t n = c->arg[1].i;
    if (once && n > LIST_MOST / (int64_t)once)
        return cr_fail(CR_MEMORY, "a list of %zu items cannot be repeated %lld times", once,
                       (long long)n);
    if (n < 1)
        cr_ilist_clear(l);
    for (; n > 1; n--)
        for (size_t i = 0; i < once; i++)
            CR_TRY(cr_ilist_append(l, cr_ivalue_keep(l->at[i])));
    return list_give(c, cr_ivalue_keep(*c->arg));
}

static cr_status list_insert(cr_scall *c)
{
    if (!list_is(c, 0) || c->count < 3 || c->arg[1].kind != CR_IV_INT)
        return cr_builtin_misfit(c);
    int64_t n = (int64_t)c->arg->list->len, i = c->arg[1].i;
    i = i < 0 ? i + n : i;
    i = i < 0 ? 0 : i > n ? n : i;
    return cr_ilist_insert(c->arg->list, (size_t)i, cr_ivalue_keep(c->arg[2]));
}

static cr_status dict_pop(cr_scall *c)
{
    cr_iitem item;

    if (c->count < 2)
        return cr_builtin_misfit(c);
    if (!cr_idict_take(c->arg->dict, &c->arg[1], &item))
        return c->count > 2 ? list_give(c, cr_ivalue_keep(c->arg[2]))
                            : dict_missing(&c->arg[1]);
    cr_ivalue_drop(item.key);
    return list_give(c, item.value);
}

static cr_status list_pop(cr_scall *c)
{
    cr_ivalue last = cr_iv_int(-1);

    if (dict_is(c))
        return dict_pop(c);
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    if (!c->arg->list->len)
        return cr_fail(CR_RUNTIME, "pop from empty list");
    int64_t i = list_position(c->arg->list, c->count > 1 ? &c->arg[1] : &last);
    return i < 0 ? list_out_of_range() : list_give(c, cr_ilist_take(c->arg->list, (size_t)i));
}

static cr_status list_delete(cr_scall *c)
{
    cr_iitem item;

    if (c->count < 2)
        return cr_builtin_misfit(c);
    if (dict_is(c)) {
        if (!cr_idict_take(c->arg->dict, &c->arg[1], &item))
            return dict_missing(&c->arg[1]);
        cr_ivalue_drop(item.key);
        cr_ivalue_drop(item.value);
        return CR_OK;
    }
    int64_t i = list_is(c, 0) ? list_position(c->arg->list, &c->arg[1]) : -1;
    if (i < 0)
        return list_out_of_range();
    cr_ivalue_drop(cr_ilist_take(c->arg->list, (size_t)i));
    return CR_OK;
}

static cr_status list_clear(cr_scall *c)
{
    if (dict_is(c))
        cr_idict_clear(c->arg->dict);
    else if (list_is(c, 0))
        cr_ilist_clear(c->arg->list);
    else
        return cr_builtin_misfit(c);
    return CR_OK;
}

/* --- searching and ordering --- */

/* *out: the position of the first item that equals the value, or -1. */
static cr_status list_search(const cr_scall *c, int64_t *out)
{
    bool equal = false;

    *out = -1;
    if (!list_is(c, 0) || c->count < 2)
        return cr_builtin_misfit(c);
    for (size_t i = 0; *out < 0 && i < c->arg->list->len; i++) {
        CR_TRY(cr_builtin_equal(&c->arg->list->at[i], &c->arg[1], &equal));
        *out = equal ? (int64_t)i : -1;
    }
    return CR_OK;
}

static cr_status list_contains(cr_scall *c)
{
    int64_t i;

    if (c->count < 2)
        return cr_builtin_misfit(c);
    if (dict_is(c))
        return list_give(c, cr_iv_bool(cr_idict_find(c->arg->dict, &c->arg[1]) != NULL));
    if (c->arg->kind == CR_IV_STRING && c->arg[1].kind == CR_IV_STRING)
        return list_give(
            c, cr_iv_bool(memmem(c->arg->string->at, c->arg->string->len, c->arg[1].string->at,
                                 c->arg[1].string->len) != NULL));
    CR_TRY(list_search(c, &i));
    return list_give(c, cr_iv_bool(i >= 0));
}

static cr_status list_index(cr_scall *c)
{
    int64_t i;

    if (c->count > 1 && c->arg[0].kind == CR_IV_STRING)
        return cr_builtin_text_index(c);
    CR_TRY(list_search(c, &i));
    if (i < 0) {
        cr_text text = {0};
        cr_status st = cr_ivalue_print(&text, &c->arg[1]);
        st = st ? st : cr_fail(CR_RUNTIME, "'%s' is not in list", cr_text_str(&text));
        cr_text_drop(&text);
        return st;
    }
    return list_give(c, cr_iv_int(i));
}

static cr_status list_remove(cr_scall *c)
{
    int64_t i;

    CR_TRY(list_search(c, &i));
    if (i < 0)
        return cr_fail(CR_RUNTIME, "list.remove(x): x not in list");
    cr_ivalue_drop(cr_ilist_take(c->arg->list, (size_t)i));
    return CR_OK;
}

static cr_status list_count(cr_scall *c)
{
    int64_t n = 0;
    bool equal;

    if (!list_is(c, 0) || c->count < 2)
        return cr_builtin_text_count(c);
    for (size_t i = 0; i < c->arg->list->len; i++) {
        CR_TRY(cr_builtin_equal(&c->arg->list->at[i], &c->arg[1], &equal));
        n += equal;
    }
    return list_give(c, cr_iv_int(n));
}

static cr_status list_reverse(cr_scall *c)
{
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    cr_ilist_reverse(c->arg->list);
    return CR_OK;
}

/* Merges two sorted halves; equal items keep their order. */
static cr_status list_merge(const cr_scall *c, cr_ivalue *at, cr_ivalue *room, size_t n,
                            bool down)
{
    size_t half = n / 2, a = 0, b = half;

    if (n < 2)
        return CR_OK;
    CR_TRY(list_merge(c, at, room, half, down));
    CR_TRY(list_merge(c, at + half, room, n - half, down));
    for (size_t i = 0; i < n; i++) {
        bool less = false;
        if (a < half && b < n)
            CR_TRY(cr_builtin_less(c, down ? &at[a] : &at[b], down ? &at[b] : &at[a], &less));
        room[i] = a == half || less ? at[b++] : at[a++];
    }
    memcpy(at, room, n * sizeof *at);
    return CR_OK;
}

/* Gives the list the sorted items.  A method __lt__ may have changed its length. */
static cr_status list_replace(cr_ilist *l, cr_ivalue *items, size_t n)
{
    return cr_ilist_exchange(l, items, n) ? CR_OK
                                          : cr_fail(CR_VALUE, "list modified during sort");
}

static bool list_has_less(const cr_sclass *cls)
{
    const cr_sfunction *f = cr_sclass_method(cls, "__lt__");

    return f && f->schema.param_count == 2 && f->schema.result_count == 1 &&
           cr_stype_equal(f->schema.param[1].type, cls->type) &&
           f->schema.result->type->kind == CR_STYPE_BOOL;
}

static bool list_can_be_sorted(const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_TENSOR:
    case CR_STYPE_INT:
    case CR_STYPE_FLOAT:
    case CR_STYPE_BOOL:
    case CR_STYPE_STR: return true;
    case CR_STYPE_CLASS: return list_has_less(t->cls);
    case CR_STYPE_TUPLE:
        for (int i = 0; i < t->count; i++)
            if (!list_can_be_sorted(t->item[i]))
                return false;
        return true;
    default: return false;
    }
}

static cr_status list_check_order(const cr_stype *list)
{
    const cr_stype *t = list && list->kind == CR_STYPE_LIST ? list->item[0] : NULL;

    if (!t || list_can_be_sorted(t))
        return CR_OK;
    const char *name = cr_stype_annotation(t);
    if (t->kind == CR_STYPE_CLASS)
        return cr_fail(CR_RUNTIME,
                       "To sort a list of %s it must define a __lt__ method with two inputs of "
                       "type %s that returns a bool",
                       name, name);
    return cr_fail(CR_RUNTIME,
                   "Only list of Tensors, ints, floats, bools, strs, a User Defined Class that "
                   "defines the __lt__ compare method or Tuples of aforementioned types can be "
                   "sorted, got list of %s\n",
                   name);
}

static cr_status list_order(cr_scall *c, cr_ilist *l, bool down)
{
    size_t n = l->len;
    cr_ivalue *items = cr_alloc(2 * n * sizeof *items + 1); /* and room for merging */
    cr_status st = items ? list_check_order(l->type) : CR_MEMORY;

    if (st)
        return cr_free(items), st;
    for (size_t i = 0; i < n; i++)
        items[i] = cr_ivalue_keep(l->at[i]);
    CR_GO(list_merge(c, items, items + n, n, down));
    CR_GO(list_replace(l, items, n));
done:
    for (size_t i = 0; i < n; i++)
        cr_ivalue_drop(items[i]);
    cr_free(items);
    return st;
}

static cr_status list_sort(cr_scall *c)
{
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    return list_order(c, c->arg->list, c->count > 1 && c->arg[1].i);
}

static cr_status list_sorted(cr_scall *c)
{
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    CR_TRY(list_copy(c, c->arg->list));
    return c->outs ? list_order(c, c->out[0].list, c->count > 1 && c->arg[1].i) : CR_OK;
}

/* Bounds of a slice of n items, as Python's slice.indices. */
void cr_builtin_slice(const cr_scall *c, int64_t n, int64_t *start, int64_t *end, int64_t *step)
{
    const cr_ivalue *a = c->arg;

    *step = c->count > 3 && a[3].kind == CR_IV_INT ? a[3].i : 1;
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    *start = *step < 0 ? high : low;
    *end = *step < 0 ? low : high;
    if (c->count > 1 && a[1].kind == CR_IV_INT)
        *start = a[1].i < 0 ? a[1].i + n : a[1].i;
    if (c->count > 2 && a[2].kind == CR_IV_INT)
        *end = a[2].i < 0 ? a[2].i + n : a[2].i;
    *start = *start < low ? low : *start > high ? high : *start;
    *end = *end < low ? low : *end > high ? high : *end;
}

static cr_status list_slice(cr_scall *c)
{
    int64_t start, end, step;
    cr_ivalue made;

    if (c->count > 0 && c->arg->kind == CR_IV_STRING)
        return cr_builtin_text_slice(c);
    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    cr_builtin_slice(c, (int64_t)c->arg->list->len, &start, &end, &step);
    if (!step)
        return cr_fail(CR_RUNTIME, "slice step cannot be zero");
    CR_TRY(cr_ilist_new(&made, c->arg->list->type, 0));
    cr_status st = CR_OK;
    for (int64_t i = start; !st && (step > 0 ? i < end : i > end); i += step) {
        st = cr_ilist_append(made.list, cr_ivalue_keep(c->arg->list->at[i]));
        if (CR_ADD_OVERFLOW(i, step, &(int64_t){0}))
            break;
    }
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}

static cr_status list_of(cr_scall *c)
{
    if (c->count > 0 && c->arg->kind == CR_IV_STRING)
        return cr_builtin_text_list(c);
    return list_is(c, 0) ? list_copy(c, c->arg->list) : cr_builtin_misfit(c);
}

static cr_status list_rangelist(cr_scall *c)
{
    cr_ivalue made;

    if (c->count < 1 || c->arg->kind != CR_IV_INT || c->arg->i > LIST_MOST)
        return cr_builtin_misfit(c);
    CR_TRY(cr_ilist_new(&made, NULL, c->arg->i > 0 ? (size_t)c->arg->i : 0));
    for (int64_t i = 0; i < c->arg->i; i++)
        made.list->at[made.list->len++] = cr_iv_int(i);
    return list_give(c, made);
}

/* --- reductions --- */

static cr_status list_truth(cr_scall *c, bool all)
{
    bool made = all;

    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    for (size_t i = 0; i < c->arg->list->len; i++) {
        const cr_ivalue *v = &c->arg->list->at[i];
        cr_scalar s;
        bool truth = v->kind == CR_IV_STRING
                         ? v->string->len > 0
                         : cr_ivalue_scalar(v, &s) && cr_scalar_is_nonzero(s);
        made = all ? made && truth : made || truth;
    }
    return list_give(c, cr_iv_bool(made));
}
static cr_status list_all(cr_scall *c) { return list_truth(c, true); }
static cr_status list_any(cr_scall *c) { return list_truth(c, false); }

static cr_status list_sum(cr_scall *c)
{
    cr_complex total = {0, 0};
    int64_t whole = 0;
    cr_category most = CR_CAT_INT;

    if (!list_is(c, 0))
        return cr_builtin_misfit(c);
    for (size_t i = 0; i < c->arg->list->len; i++) {
        cr_scalar s;
        if (!cr_ivalue_scalar(&c->arg->list->at[i], &s))
            return cr_builtin_misfit(c);
        cr_complex one = cr_scalar_as_complex(s);
        total = (cr_complex){total.re + one.re, total.im + one.im};
        whole = s.category <= CR_CAT_INT ? CR_WRAP_ADD(whole, s.i) : whole;
        most = s.category > most ? s.category : most;
    }
    const cr_stype *type = c->node->output_count ? c->node->output[0]->type : NULL;
    if (most == CR_CAT_COMPLEX)
        return list_give(c, cr_iv_complex(total));
    if (most == CR_CAT_FLOAT || (type && type->kind == CR_STYPE_FLOAT))
        return list_give(c, cr_iv_float(total.re));
    return list_give(c, cr_iv_int(whole));
}

/* --- dicts --- */

/* The keys (0), values (1) or pairs (2) of a dict. */
static cr_status dict_list(cr_scall *c, int what)
{
    cr_ivalue made, item;
    cr_status st = CR_OK;

    if (!dict_is(c))
        return cr_builtin_misfit(c);
    const cr_idict *d = c->arg->dict;
    CR_TRY(
        cr_ilist_new(&made, c->node->output_count ? c->node->output[0]->type : NULL, d->len));
    for (size_t i = 0; !st && i < d->len; i++) {
        if (what < 2) {
            item = cr_ivalue_keep(what ? d->at[i].value : d->at[i].key);
        } else {
            st = cr_ituple_new(&item, NULL, 2);
            if (st)
                break;
            item.list->at[0] = cr_ivalue_keep(d->at[i].key);
            item.list->at[1] = cr_ivalue_keep(d->at[i].value);
        }
        st = cr_ilist_append(made.list, item);
    }
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}
static cr_status list_keys(cr_scall *c) { return dict_list(c, 0); }
static cr_status list_values(cr_scall *c) { return dict_list(c, 1); }
static cr_status list_items(cr_scall *c) { return dict_list(c, 2); }

static cr_status list_find(cr_scall *c)
{
    if (!dict_is(c) || c->count < 2)
        return cr_builtin_misfit(c);
    const cr_ivalue *found = cr_idict_find(c->arg->dict, &c->arg[1]);
    cr_ivalue other = c->count > 2 ? c->arg[2] : cr_iv_none();
    return list_give(c, cr_ivalue_keep(found ? *found : other));
}

static cr_status list_setdefault(cr_scall *c)
{
    if (!dict_is(c) || c->count < 3)
        return cr_builtin_misfit(c);
    const cr_ivalue *found = cr_idict_find(c->arg->dict, &c->arg[1]);
    if (found)
        return list_give(c, cr_ivalue_keep(*found));
    CR_TRY(cr_idict_set(c->arg->dict, cr_ivalue_keep(c->arg[1]), cr_ivalue_keep(c->arg[2])));
    return list_give(c, cr_ivalue_keep(c->arg[2]));
}

static cr_status dict_copy_into(cr_idict *to, const cr_idict *from)
{
    for (size_t i = 0, n = from->len; i < n; i++)
        CR_TRY(cr_idict_set(to, cr_ivalue_keep(from->at[i].key),
                            cr_ivalue_keep(from->at[i].value)));
    return CR_OK;
}

static cr_status list_update(cr_scall *c)
{
    if (!dict_is(c) || c->count < 2 || c->arg[1].kind != CR_IV_DICT)
        return cr_builtin_misfit(c);
    return dict_copy_into(c->arg[0].dict, c->arg[1].dict);
}

static cr_status dict_copy(cr_scall *c)
{
    cr_ivalue made;

    CR_TRY(cr_idict_new(&made, c->arg->dict->type));
    cr_status st = dict_copy_into(made.dict, c->arg->dict);
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}

static cr_status list_copied(cr_scall *c) { return dict_is(c) ? dict_copy(c) : list_of(c); }

/* dict(pairs) */
static cr_status dict_of_pairs(cr_scall *c)
{
    const cr_ilist *l = c->arg->list;
    cr_ivalue made;
    cr_status st = CR_OK;

    CR_TRY(cr_idict_new(&made, c->node->output_count ? c->node->output[0]->type : NULL));
    for (size_t i = 0; !st && i < l->len; i++) {
        const cr_ivalue *pair = &l->at[i];
        st = pair->kind == CR_IV_TUPLE && pair->list->len == 2
                 ? cr_idict_set(made.dict, cr_ivalue_keep(pair->list->at[0]),
                                cr_ivalue_keep(pair->list->at[1]))
                 : cr_builtin_misfit(c);
    }
    if (st)
        cr_ivalue_drop(made);
    return st ? st : list_give(c, made);
}

static cr_status list_dict(cr_scall *c)
{
    cr_ivalue made;

    if (dict_is(c))
        return dict_copy(c);
    if (list_is(c, 0))
        return dict_of_pairs(c);
    CR_TRY(cr_idict_new(&made, c->node->output_count ? c->node->output[0]->type : NULL));
    return list_give(c, made);
}

static cr_status list_popitem(cr_scall *c)
{
    cr_ivalue made;
    cr_iitem item;

    if (!dict_is(c) || !c->arg->dict->len)
        return cr_fail(CR_RUNTIME, "popitem(): dictionary is empty");
    CR_TRY(cr_ituple_new(&made, NULL, 2));
    cr_ivalue key = c->arg->dict->at[0].key;
    if (cr_idict_take(c->arg->dict, &key, &item)) {
        made.list->at[0] = item.key;
        made.list->at[1] = item.value;
    }
    return list_give(c, made);
}

static const struct {
    const char *name;
    cr_builtin_fn fn;
} list_functions[] = {
    {"aten::len", list_len},
    {"aten::__getitem__", list_get},
    {"aten::select", list_get},
    {"aten::_set_item", list_set},
    {"aten::append", list_append},
    {"aten::extend", list_extend},
    {"aten::insert", list_insert},
    {"aten::pop", list_pop},
    {"aten::Delete", list_delete},
    {"aten::clear", list_clear},
    {"aten::__contains__", list_contains},
    {"aten::index", list_index},
    {"aten::remove", list_remove},
    {"aten::count", list_count},
    {"aten::reverse", list_reverse},
    {"aten::sort", list_sort},
    {"aten::sorted", list_sorted},
    {"aten::slice", list_slice},
    {"aten::list", list_of},
    {"aten::copy", list_copied},
    {"prim::rangelist", list_rangelist},
    {"aten::all", list_all},
    {"aten::any", list_any},
    {"aten::sum", list_sum},
    {"aten::keys", list_keys},
    {"aten::values", list_values},
    {"aten::items", list_items},
    {"aten::get", list_find},
    {"aten::setdefault", list_setdefault},
    {"aten::update", list_update},
    {"aten::dict", list_dict},
    {"aten::popitem", list_popitem},
    {"aten::add_", list_extend},
    {"aten::mul_", list_repeat},
};

cr_builtin_fn cr_builtin_container(const char *name)
{
    for (size_t i = 0; i < CR_LEN(list_functions); i++)
        if (!strcmp(list_functions[i].name, name))
            return list_functions[i].fn;
    return cr_builtin_text(name);
}
