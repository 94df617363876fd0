/* Deep copies of values: of objects with all that they hold.
 *
 * A container's copy is made empty and noted before its items are copied, so values that
 * several places hold have one copy, and cycles end.  Items are copied from a list of jobs,
 * because chains of objects may be long.
 *
 * Invariant: every copy that is noted is held by a place of the result. */
#include "autograd/autograd.h"
#include "base/map.h"
#include "base/memory.h"
#include "entry.h"
#include "script/execute.h"
#include "script/unit.h"
#include "script/value.h"

/* A value of the original, owned, and the place of its copy. */
typedef struct {
    cr_ivalue from, *to;
} copy_job;

typedef struct {
    cr_map made; /* by address of a tensor or box: its copy, borrowed */
    size_t len, cap;
    copy_job *at; /* values that are not copied yet */
} copier;

static cr_status copy_note(copier *c, const void *from, void *made)
{
    return cr_map_set(&c->made, (const char *)&from, sizeof from, made);
}

static void *copy_known(const copier *c, const void *from)
{
    return cr_map_get(&c->made, (const char *)&from, sizeof from);
}

/* Leaves stay leaves; other tensors have the copied tensor as their input. */
static cr_status copy_tensor(cr_tensor **out, cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t);
    cr_tensor *detached = NULL;
    bool leaf = cr_is_leaf(t);
    cr_status st;

    if (leaf) {
        CR_GO(cr_detached(&detached, t));
        arg = cr_of_tensor(detached);
    }
    CR_GO(cr_call_tensor(out, cr_entry.clone, &arg, 1));
    if (leaf && t->requires_grad)
        st = cr_set_requires_grad(*out, true);
done:
    cr_drop(detached);
    return st;
}

/* Takes `from`, also on failure. */
static cr_status copy_later(copier *c, cr_ivalue from, cr_ivalue *to)
{
    cr_status st = cr_vec_reserve(c, 1);

    if (st)
        cr_ivalue_drop(from);
    else
        cr_vec_put(c, ((copy_job){.from = from, .to = to}));
    return st;
}

/* The copy takes its place before its items are copied: a failure then frees it.  The items are
 * those of one time: a program of another thread may change the list meanwhile. */
static cr_status copy_list(copier *c, cr_ilist *from, cr_ivalue *to)
{
    bool tuple = from->box.kind == CR_IV_TUPLE;
    cr_ivalue *item = NULL;
    size_t n = 0;
    cr_status st;

    CR_GO(cr_ilist_snapshot(from, &item, &n));
    CR_GO(tuple ? cr_ituple_new(to, from->type, n) : cr_ilist_new(to, from->type, n));
    for (size_t i = 0; !tuple && i < n; i++)
        CR_GO(cr_ilist_append(to->list, cr_iv_none()));
    while (n) {
        n--;
        CR_GO(copy_later(c, item[n], &to->list->at[n]));
    }
done:
    if (item)
        cr_ivalues_drop(item, n);
    cr_free(item);
    return st;
}

static cr_status copy_one(copier *c, const cr_ivalue *from, cr_ivalue *to);

/* Keys have no items. */
static cr_status copy_keys(copier *c, const cr_iitem *item, size_t n, cr_idict *to)
{
    for (size_t i = 0; i < n; i++) {
        cr_ivalue key = cr_iv_none();
        CR_TRY(copy_one(c, &item[i].key, &key));
        CR_TRY(cr_idict_set(to, key, cr_iv_none()));
    }
    return CR_OK;
}

/* As copy_list(). */
static cr_status copy_dict(copier *c, cr_idict *from, cr_ivalue *to)
{
    cr_iitem *item = NULL;
    size_t n = 0;
    cr_status st;

    CR_GO(cr_idict_snapshot(from, &item, &n));
    CR_GO(cr_idict_new(to, from->type));
    CR_GO(copy_keys(c, item, n, to->dict));
    for (size_t i = n; i-- > 0;)
        CR_GO(copy_later(c, cr_ivalue_keep(item[i].value), &to->dict->at[i].value));
done:
    for (size_t i = 0; i < n; i++) {
        cr_ivalue_drop(item[i].key);
        cr_ivalue_drop(item[i].value);
    }
    cr_free(item);
    return st;
}

/* Gives the copy the state of the original, which both then share, as in torch. */
static cr_status copy_state(cr_iobject *from, cr_sfunction *get, cr_sfunction *set,
                            cr_ivalue *to)
{
    cr_ivalue original = {.kind = CR_IV_OBJECT, .object = from}, result = cr_iv_none();
    cr_ivalue args[] = {*to, cr_iv_none()};
    cr_status st;

    CR_GO(cr_sfunction_run(&args[1], get, &original, 1, NULL));
    CR_GO(cr_sfunction_run(&result, set, args, 2, NULL));
done:
    cr_ivalue_drop(args[1]);
    cr_ivalue_drop(result);
    return st;
}

/* An object whose class has `__getstate__` and `__setstate__` is copied by these. */
static cr_status copy_object(copier *c, cr_iobject *from, cr_ivalue *to)
{
    const cr_sclass *of = from->type ? from->type->cls : NULL;
    cr_sfunction *get = of ? cr_sclass_method(of, "__getstate__") : NULL;
    cr_sfunction *set = of ? cr_sclass_method(of, "__setstate__") : NULL;

    CR_TRY(cr_iobject_new(to, from->type, from->unit, from->len));
    if (get && set)
        return copy_state(from, get, set, to);
    for (size_t i = from->len; i-- > 0;) {
        CR_TRY(copy_later(c, cr_islot_get(&from->slot[i]), &to->object->slot[i]));
    }
    return CR_OK;
}

static cr_status copy_one(copier *c, const cr_ivalue *from, cr_ivalue *to)
{
    void *known;

    switch ((cr_iv_kind)from->kind) {
    case CR_IV_TENSOR:
        if ((known = copy_known(c, from->t))) {
            *to = cr_iv_tensor(cr_keep(known));
            return CR_OK;
        }
        *to = cr_iv_tensor(NULL);
        CR_TRY(copy_tensor(&to->t, from->t));
        to->kind = CR_IV_TENSOR;
        return copy_note(c, from->t, to->t);
    case CR_IV_LIST:
    case CR_IV_TUPLE:
    case CR_IV_DICT:
    case CR_IV_OBJECT:
        if ((known = copy_known(c, from->box))) {
            *to = cr_ivalue_keep((cr_ivalue){.kind = from->kind, .box = known});
            return CR_OK;
        }
        CR_TRY(from->kind == CR_IV_DICT     ? copy_dict(c, from->dict, to)
               : from->kind == CR_IV_OBJECT ? copy_object(c, from->object, to)
                                            : copy_list(c, from->list, to));
        return copy_note(c, from->box, to->box);
    default: *to = cr_ivalue_keep(*from); return CR_OK;
    }
}

cr_status cr_ivalue_deepcopy(cr_ivalue *out, const cr_ivalue *v)
{
    copier c = {0};
    cr_ivalue made = cr_iv_none();
    cr_status st = copy_one(&c, v, &made);

    while (!st && c.len) {
        copy_job job = c.at[--c.len];
        st = copy_one(&c, &job.from, job.to);
        cr_ivalue_drop(job.from);
    }
    while (c.len)
        cr_ivalue_drop(c.at[--c.len].from);
    cr_vec_drop(&c);
    cr_map_drop(&c.made);
    CR_GIVE(st, out, made, cr_ivalue_drop);
}
