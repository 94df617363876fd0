/* Tagged values: boxes, their refcounts and containers.
 *
 * Freeing is iterative: boxes whose refcount became zero wait in a list, so a chain of a
 * million objects needs no C stack. */
#include "script/value.h"
#include "base/map.h"
#include "script/unit.h"
#include <pthread.h>
#include <string.h>

/* --- locks --- */

/* Slots and containers share locks, by their addresses.  One thread has one lock at a time. */
enum { VALUE_LOCKS = 16 };
#define VALUE_LOCKS_4                                                                          \
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,           \
        PTHREAD_MUTEX_INITIALIZER
static pthread_mutex_t value_locks[VALUE_LOCKS] = {VALUE_LOCKS_4, VALUE_LOCKS_4, VALUE_LOCKS_4,
                                                   VALUE_LOCKS_4};

static pthread_mutex_t *value_lock_of(const void *at)
{
    return &value_locks[((uintptr_t)at / sizeof(cr_ivalue)) % VALUE_LOCKS];
}

cr_ivalue cr_islot_get(cr_ivalue *slot)
{
    pthread_mutex_t *lock = value_lock_of(slot);

    pthread_mutex_lock(lock);
    cr_ivalue v = cr_ivalue_keep(*slot);
    pthread_mutex_unlock(lock);
    return v;
}

void cr_islot_set(cr_ivalue *slot, cr_ivalue v)
{
    pthread_mutex_t *lock = value_lock_of(slot);

    pthread_mutex_lock(lock);
    cr_ivalue old = *slot;
    *slot = v;
    pthread_mutex_unlock(lock);
    cr_ivalue_drop(old);
}

/* --- refcounts --- */

/* Adds the value's box to the list when its last reference is dropped here. */
static void value_release(cr_ivalue v, cr_ibox **waiting)
{
    if (v.kind == CR_IV_TENSOR)
        cr_drop(v.t);
    if (!cr_iv_is_boxed(&v) ||
        atomic_fetch_sub_explicit(&v.box->count, 1, memory_order_acq_rel) != 1)
        return;
    v.box->next = *waiting;
    *waiting = v.box;
}

static void value_release_dict(cr_idict *d, cr_ibox **waiting)
{
    for (size_t i = 0; i < d->len; i++) {
        value_release(d->at[i].key, waiting);
        value_release(d->at[i].value, waiting);
    }
    cr_free(d->at);
    cr_free(d->slot);
}

static void value_release_object(cr_iobject *o, cr_ibox **waiting)
{
    for (size_t i = 0; i < o->len; i++)
        value_release(o->slot[i], waiting);
    if (o->unit)
        cr_sunit_release(o->unit);
}

static void value_release_items(cr_ilist *l, cr_ibox **waiting)
{
    for (size_t i = 0; i < l->len; i++)
        value_release(l->at[i], waiting);
    cr_free(l->at);
}

static void value_free(cr_ibox *b, cr_ibox **waiting)
{
    switch (b->kind) {
    case CR_IV_LIST:
    case CR_IV_TUPLE: value_release_items((cr_ilist *)b, waiting); break;
    case CR_IV_DICT: value_release_dict((cr_idict *)b, waiting); break;
    case CR_IV_OBJECT: value_release_object((cr_iobject *)b, waiting); break;
    case CR_IV_ENUM:
        value_release(((cr_imember *)b)->name, waiting);
        value_release(((cr_imember *)b)->value, waiting);
        break;
    default: break;
    }
    cr_free(b);
}

void cr_ibox_drop(cr_ibox *b)
{
    cr_ibox *waiting = NULL;

    if (atomic_fetch_sub_explicit(&b->count, 1, memory_order_acq_rel) != 1)
        return;
    b->next = NULL;
    waiting = b;
    while (waiting) {
        cr_ibox *first = waiting;
        waiting = first->next;
        value_free(first, &waiting);
    }
}

void cr_ivalues_drop(cr_ivalue *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cr_ivalue_drop(v[i]);
}

/* --- making --- */

static cr_ibox *value_box(size_t size, cr_iv_kind kind)
{
    cr_ibox *b = cr_alloc_zero(size);

    if (b) {
        atomic_init(&b->count, 1);
        b->kind = (uint8_t)kind;
    }
    return b;
}

static cr_status value_of_box(cr_ivalue *out, cr_ibox *b)
{
    CR_NEED(b);
    *out = (cr_ivalue){.kind = b->kind, .box = b};
    return CR_OK;
}

cr_status cr_istring_new(cr_ivalue *out, const char *at, size_t len)
{
    CR_TRY(value_of_box(out, value_box(sizeof(cr_istring) + len + 1, CR_IV_STRING)));
    out->string->len = len;
    if (len)
        memcpy(out->string->at, at, len);
    return CR_OK;
}

cr_status cr_istring_of_text(cr_ivalue *out, cr_text *text)
{
    cr_status st = cr_text_status(text);

    st = st ? st : cr_istring_new(out, cr_text_str(text), text->len);
    cr_text_drop(text);
    return st;
}

static cr_status value_reserve(cr_ilist *l, size_t more)
{
    return cr_vec_reserve_bytes((void **)&l->at, l->len, &l->cap, more, sizeof *l->at);
}

static cr_status value_sequence(cr_ivalue *out, cr_iv_kind kind, const struct cr_stype *type,
                                size_t room)
{
    CR_TRY(value_of_box(out, value_box(sizeof(cr_ilist), kind)));
    out->list->type = type;
    cr_status st = value_reserve(out->list, room);
    if (st)
        cr_ivalue_drop(*out);
    return st;
}

cr_status cr_ilist_new(cr_ivalue *out, const struct cr_stype *type, size_t room)
{
    return value_sequence(out, CR_IV_LIST, type, room);
}

cr_status cr_ituple_new(cr_ivalue *out, const struct cr_stype *type, size_t n)
{
    CR_TRY(value_sequence(out, CR_IV_TUPLE, type, n));
    for (size_t i = 0; i < n; i++)
        out->list->at[i] = cr_iv_none();
    out->list->len = n;
    return CR_OK;
}

cr_status cr_idict_new(cr_ivalue *out, const struct cr_stype *type)
{
    CR_TRY(value_of_box(out, value_box(sizeof(cr_idict), CR_IV_DICT)));
    out->dict->type = type;
    return CR_OK;
}

cr_status cr_iobject_new(cr_ivalue *out, const struct cr_stype *type, struct cr_sunit *unit,
                         size_t n)
{
    cr_ibox *b = value_box(sizeof(cr_iobject) + n * sizeof(cr_ivalue), CR_IV_OBJECT);

    CR_TRY(value_of_box(out, b));
    out->object->type = type;
    out->object->unit = unit ? cr_sunit_keep(unit) : NULL;
    out->object->len = n;
    return CR_OK;
}

cr_status cr_imember_new(cr_ivalue *out, const struct cr_stype *type, int index, cr_ivalue name,
                         cr_ivalue value)
{
    cr_status st = value_of_box(out, value_box(sizeof(cr_imember), CR_IV_ENUM));

    if (st) {
        cr_ivalue_drop(name);
        cr_ivalue_drop(value);
        return st;
    }
    out->member->type = type;
    out->member->index = index;
    out->member->name = name;
    out->member->value = value;
    return CR_OK;
}

/* --- lists --- */

cr_status cr_ilist_append(cr_ilist *l, cr_ivalue v) { return cr_ilist_insert(l, l->len, v); }

cr_status cr_ilist_insert(cr_ilist *l, size_t at, cr_ivalue v)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    cr_status st = value_reserve(l, 1);
    if (!st) {
        memmove(l->at + at + 1, l->at + at, (l->len - at) * sizeof *l->at);
        l->at[at] = v;
        l->len++;
    }
    pthread_mutex_unlock(lock);
    if (st)
        cr_ivalue_drop(v);
    return st;
}

void cr_ilist_set(cr_ilist *l, size_t at, cr_ivalue v)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    cr_ivalue old = l->at[at];
    l->at[at] = v;
    pthread_mutex_unlock(lock);
    cr_ivalue_drop(old);
}

cr_ivalue cr_ilist_take(cr_ilist *l, size_t at)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    cr_ivalue v = l->at[at];
    l->len--;
    memmove(l->at + at, l->at + at + 1, (l->len - at) * sizeof *l->at);
    pthread_mutex_unlock(lock);
    return v;
}

void cr_ilist_clear(cr_ilist *l)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    size_t n = l->len;
    cr_ivalue *at = l->at;
    l->at = NULL;
    l->len = l->cap = 0;
    pthread_mutex_unlock(lock);
    cr_ivalues_drop(at, n);
    cr_free(at);
}

void cr_ilist_reverse(cr_ilist *l)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    for (size_t i = 0; i < l->len / 2; i++) {
        cr_ivalue kept = l->at[i];
        l->at[i] = l->at[l->len - 1 - i];
        l->at[l->len - 1 - i] = kept;
    }
    pthread_mutex_unlock(lock);
}

bool cr_ilist_exchange(cr_ilist *l, cr_ivalue *item, size_t n)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    bool fits = l->len == n;
    for (size_t i = 0; fits && i < n; i++) {
        cr_ivalue old = l->at[i];
        l->at[i] = item[i];
        item[i] = old;
    }
    pthread_mutex_unlock(lock);
    return fits;
}

cr_status cr_ilist_snapshot(cr_ilist *l, cr_ivalue **at, size_t *len)
{
    pthread_mutex_t *lock = value_lock_of(l);

    pthread_mutex_lock(lock);
    cr_ivalue *made = cr_alloc((l->len + 1) * sizeof *made);
    *len = made ? l->len : 0;
    for (size_t i = 0; i < *len; i++)
        made[i] = cr_ivalue_keep(l->at[i]);
    pthread_mutex_unlock(lock);
    *at = made;
    return made ? CR_OK : CR_MEMORY;
}

void cr_iobject_clear(cr_iobject *o)
{
    for (size_t i = 0; i < o->len; i++)
        cr_ivalue_set(&o->slot[i], cr_iv_none());
}

/* --- keys --- */

static uint64_t value_hash_items(const cr_ilist *items)
{
    uint64_t h = items->len;

    for (size_t i = 0; i < items->len; i++) {
        uint64_t both[2] = {h, cr_ivalue_hash(&items->at[i])};
        h = cr_hash(both, sizeof both);
    }
    return h;
}

uint64_t cr_ivalue_hash(const cr_ivalue *v)
{
    double d = v->d;

    switch (v->kind) {
    case CR_IV_STRING: return cr_hash(v->string->at, v->string->len);
    case CR_IV_FLOAT:
        if (d == 0)
            d = 0; /* -0.0 equals 0.0 */
        return cr_hash(&d, sizeof d);
    case CR_IV_COMPLEX: return cr_hash(&v->c, sizeof v->c);
    case CR_IV_TENSOR: return cr_hash(&v->t, sizeof v->t);
    case CR_IV_NONE: return 0;
    case CR_IV_TUPLE: return value_hash_items(v->list);
    case CR_IV_ENUM: return cr_ivalue_hash(&v->member->name);
    default: return cr_hash(&v->i, sizeof v->i);
    }
}

static bool value_equal_items(const cr_ilist *a, const cr_ilist *b)
{
    bool equal = a->len == b->len;

    for (size_t i = 0; equal && i < a->len; i++)
        equal = cr_ivalue_equal(&a->at[i], &b->at[i]);
    return equal;
}

static bool value_equal_dicts(const cr_idict *a, const cr_idict *b)
{
    bool equal = a->len == b->len;

    for (size_t i = 0; equal && i < a->len; i++) {
        const cr_ivalue *other = cr_idict_find(b, &a->at[i].key);
        equal = other && cr_ivalue_equal(&a->at[i].value, other);
    }
    return equal;
}

static bool value_equal_boxes(const cr_ivalue *a, const cr_ivalue *b)
{
    switch (a->kind) {
    case CR_IV_STRING:
        return a->string->len == b->string->len &&
               !memcmp(a->string->at, b->string->at, a->string->len);
    case CR_IV_LIST:
    case CR_IV_TUPLE: return value_equal_items(a->list, b->list);
    case CR_IV_DICT: return value_equal_dicts(a->dict, b->dict);
    case CR_IV_ENUM:
        return a->member->type == b->member->type && a->member->index == b->member->index;
    default: return a->box == b->box;
    }
}

/* Numbers of different kinds are compared as Python does: True == 1 == 1.0. */
static bool value_as_double(const cr_ivalue *v, double *out)
{
    *out = v->kind == CR_IV_FLOAT ? v->d : (double)v->i;
    return v->kind == CR_IV_FLOAT || v->kind == CR_IV_INT || v->kind == CR_IV_BOOL;
}

bool cr_ivalue_equal(const cr_ivalue *a, const cr_ivalue *b)
{
    double x, y;

    if (a->kind != b->kind)
        return value_as_double(a, &x) && value_as_double(b, &y) && x == y;
    if (cr_iv_is_boxed(a))
        return a->box == b->box || value_equal_boxes(a, b);
    switch (a->kind) {
    case CR_IV_NONE: return true;
    case CR_IV_FLOAT: return a->d == b->d;
    case CR_IV_COMPLEX: return a->c.re == b->c.re && a->c.im == b->c.im;
    case CR_IV_TENSOR: return a->t == b->t;
    default: return a->i == b->i;
    }
}

const char *cr_ivalue_kind_name(const cr_ivalue *v)
{
    static const char *const names[CR_IV_KIND_COUNT] = {
        [CR_IV_NONE] = "NoneType", [CR_IV_TENSOR] = "Tensor",      [CR_IV_INT] = "int",
        [CR_IV_FLOAT] = "float",   [CR_IV_COMPLEX] = "complex",    [CR_IV_BOOL] = "bool",
        [CR_IV_DEVICE] = "Device", [CR_IV_STRING] = "str",         [CR_IV_LIST] = "List",
        [CR_IV_TUPLE] = "Tuple",   [CR_IV_DICT] = "Dict",          [CR_IV_OBJECT] = "Object",
        [CR_IV_ENUM] = "Enum",     [CR_IV_GENERATOR] = "Generator"};

    return v->kind < CR_IV_KIND_COUNT ? names[v->kind] : "?";
}

/* --- dicts: items in order, and above DICT_SHORT items a hash table of their numbers --- */
enum { DICT_SHORT = 8 };

/* The slot of the key, or the free slot where it belongs. */
static size_t dict_slot(const cr_idict *d, const cr_ivalue *key)
{
    size_t i = cr_ivalue_hash(key) & (d->slots - 1);

    while (d->slot[i] && !cr_ivalue_equal(&d->at[d->slot[i] - 1].key, key))
        i = (i + 1) & (d->slots - 1);
    return i;
}

static size_t dict_index(const cr_idict *d, const cr_ivalue *key)
{
    size_t i = 0;

    if (d->slot) {
        uint32_t number = d->slot[dict_slot(d, key)];
        return number ? number - 1 : d->len;
    }
    while (i < d->len && !cr_ivalue_equal(&d->at[i].key, key))
        i++;
    return i;
}

static void dict_fill_slots(cr_idict *d)
{
    memset(d->slot, 0, d->slots * sizeof *d->slot);
    for (size_t i = 0; i < d->len; i++)
        d->slot[dict_slot(d, &d->at[i].key)] = (uint32_t)i + 1;
}

/* Makes room for one more item; at most half of the slots are in use. */
static cr_status dict_reserve(cr_idict *d)
{
    CR_TRY(cr_vec_reserve_bytes((void **)&d->at, d->len, &d->cap, 1, sizeof *d->at));
    if (d->len < DICT_SHORT || (d->slot && (d->len + 1) * 2 <= d->slots))
        return CR_OK;
    size_t slots = d->slots ? d->slots * 2 : 4 * DICT_SHORT;
    uint32_t *slot = cr_alloc(slots * sizeof *slot);
    CR_NEED(slot);
    cr_free(d->slot);
    d->slot = slot;
    d->slots = slots;
    dict_fill_slots(d);
    return CR_OK;
}

cr_ivalue *cr_idict_find(const cr_idict *d, const cr_ivalue *key)
{
    size_t i = dict_index(d, key);

    return i < d->len ? &d->at[i].value : NULL;
}

/* Puts the item in the dict; *old is what it replaces: the key given and the value before. */
static cr_status dict_put(cr_idict *d, cr_ivalue key, cr_ivalue value, cr_iitem *old)
{
    cr_ivalue *at = cr_idict_find(d, &key);

    if (at) {
        *old = (cr_iitem){key, *at};
        *at = value;
        return CR_OK;
    }
    CR_TRY(dict_reserve(d));
    if (d->slot)
        d->slot[dict_slot(d, &key)] = (uint32_t)d->len + 1;
    d->at[d->len++] = (cr_iitem){key, value};
    return CR_OK;
}

cr_status cr_idict_set(cr_idict *d, cr_ivalue key, cr_ivalue value)
{
    cr_iitem old = {cr_iv_none(), cr_iv_none()};
    pthread_mutex_t *lock = value_lock_of(d);

    pthread_mutex_lock(lock);
    cr_status st = dict_put(d, key, value, &old);
    pthread_mutex_unlock(lock);
    if (st)
        old = (cr_iitem){key, value};
    cr_ivalue_drop(old.key);
    cr_ivalue_drop(old.value);
    return st;
}

bool cr_idict_take(cr_idict *d, const cr_ivalue *key, cr_iitem *out)
{
    pthread_mutex_t *lock = value_lock_of(d);

    pthread_mutex_lock(lock);
    size_t i = dict_index(d, key);
    bool found = i < d->len;
    if (found) {
        *out = d->at[i];
        d->len--;
        memmove(d->at + i, d->at + i + 1, (d->len - i) * sizeof *d->at);
        if (d->slot)
            dict_fill_slots(d);
    }
    pthread_mutex_unlock(lock);
    return found;
}

void cr_idict_clear(cr_idict *d)
{
    pthread_mutex_t *lock = value_lock_of(d);

    pthread_mutex_lock(lock);
    cr_idict old = *d;
    d->at = NULL;
    d->slot = NULL;
    d->len = d->cap = d->slots = 0;
    pthread_mutex_unlock(lock);
    for (size_t i = 0; i < old.len; i++) {
        cr_ivalue_drop(old.at[i].key);
        cr_ivalue_drop(old.at[i].value);
    }
    cr_free(old.at);
    cr_free(old.slot);
}

cr_status cr_idict_snapshot(cr_idict *d, cr_iitem **at, size_t *len)
{
    pthread_mutex_t *lock = value_lock_of(d);

    pthread_mutex_lock(lock);
    cr_iitem *made = cr_alloc((d->len + 1) * sizeof *made);
    *len = made ? d->len : 0;
    for (size_t i = 0; i < *len; i++)
        made[i] = (cr_iitem){cr_ivalue_keep(d->at[i].key), cr_ivalue_keep(d->at[i].value)};
    pthread_mutex_unlock(lock);
    *at = made;
    return made ? CR_OK : CR_MEMORY;
}
