/* Compilation units: classes and functions by qualified name. */
#include "script/unit.h"
#include "base/map.h"
#include "script/value.h"
#include <stdatomic.h>
#include <string.h>

struct cr_sunit {
    cr_session *session;
    _Atomic int32_t holders;
    cr_map classes, functions;
    CR_VEC(cr_sclass *) class_list;
    CR_VEC(cr_sfunction *) function_list;
    CR_VEC(cr_tensor *) tensor_list;
    CR_VEC(cr_ivalue *) value_list;
    CR_VEC(cr_sunit *) used_list;
    void (*drop)(void *code);
    struct cr_sfile *files;
    const struct cr_senv *env;
};

cr_sunit *cr_sunit_new(void)
{
    cr_sunit *u = cr_alloc_zero(sizeof *u);

    if (!u)
        return NULL;
    u->session = cr_session_new();
    if (!u->session) {
        cr_free(u);
        return NULL;
    }
    atomic_store(&u->holders, 1);
    return u;
}

cr_sunit *cr_sunit_keep(cr_sunit *u)
{
    atomic_fetch_add_explicit(&u->holders, 1, memory_order_relaxed);
    return u;
}

void cr_sunit_release(cr_sunit *u)
{
    if (!u || atomic_fetch_sub_explicit(&u->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; u->drop && i < u->function_list.len; i++)
        u->drop(u->function_list.at[i]->code);
    for (size_t i = 0; i < u->tensor_list.len; i++)
        cr_drop(u->tensor_list.at[i]);
    for (size_t i = 0; i < u->value_list.len; i++)
        cr_ivalue_drop(*u->value_list.at[i]);
    for (size_t i = 0; i < u->used_list.len; i++)
        cr_sunit_release(u->used_list.at[i]);
    cr_map_drop(&u->classes);
    cr_map_drop(&u->functions);
    cr_session_release(u->session);
    cr_free(u);
}

cr_session *cr_sunit_session(cr_sunit *u) { return u->session; }

void cr_sunit_set_drop(cr_sunit *u, void (*drop)(void *code)) { u->drop = drop; }

#define UNIT_PUSH(u, list, item) CR_PUSH((u)->session, &(u)->list##_list, item)

void cr_sunit_set_env(cr_sunit *u, const struct cr_senv *env) { u->env = env; }
const struct cr_senv *cr_sunit_env(const cr_sunit *u) { return u->env; }

void cr_sunit_keep_unit(cr_sunit *u, cr_sunit *used)
{
    for (size_t i = 0; i < u->used_list.len; i++)
        if (u->used_list.at[i] == used)
            return;
    UNIT_PUSH(u, used, NULL);
    u->used_list.at[u->used_list.len - 1] = cr_sunit_keep(used);
}

void cr_sunit_keep_tensor(cr_sunit *u, cr_tensor *t)
{
    UNIT_PUSH(u, tensor, NULL);
    u->tensor_list.at[u->tensor_list.len - 1] = cr_keep(t);
}

const cr_ivalue *cr_sunit_keep_value(cr_sunit *u, const cr_ivalue *v)
{
    cr_ivalue *kept = CR_NEW(u->session, cr_ivalue);

    UNIT_PUSH(u, value, kept);
    *kept = cr_ivalue_keep(*v);
    return kept;
}

cr_sclass *cr_sunit_class(const cr_sunit *u, const char *name)
{
    return cr_map_get(&u->classes, name, strlen(name));
}

cr_sfunction *cr_sunit_function(const cr_sunit *u, const char *name)
{
    return cr_map_get(&u->functions, name, strlen(name));
}

cr_sclass *cr_sunit_add_class(cr_sunit *u, const char *name, cr_stype_kind kind)
{
    cr_session *s = u->session;
    static atomic_uint_fast64_t last;
    cr_sclass *c = CR_NEW(s, cr_sclass);
    cr_stype *t = CR_NEW(s, cr_stype);

    CR_ASSERT(!cr_sunit_class(u, name));
    *t = (cr_stype){.kind = (uint8_t)kind, .cls = c, .unit = u, .weight = 1};
    c->name = cr_session_text(s, name);
    c->number = atomic_fetch_add(&last, 1) + 1;
    c->type = t;
    c->unit = u;
    UNIT_PUSH(u, class, c);
    cr_session_check(s, cr_map_set(&u->classes, name, strlen(name), c));
    return c;
}

typedef struct {
    cr_sunit *unit;
    const char *name;
    cr_stype_kind kind;
    cr_sclass *cls;
} class_job;

static void class_make(cr_session *s, void *context)
{
    class_job *job = context;

    (void)s;
    job->cls = cr_sunit_add_class(job->unit, job->name, job->kind);
}

cr_sclass *cr_sunit_make_class(cr_sunit *u, const char *name, cr_stype_kind kind)
{
    class_job job = {.unit = u, .name = name, .kind = kind};

    return cr_session_run(u->session, class_make, &job) ? NULL : job.cls;
}

static void tuple_make(cr_session *s, void *context)
{
    cr_sclass *c = context;
    const cr_stype **item = CR_NEW_N(s, const cr_stype *, c->attributes.len + 1);

    for (size_t i = 0; i < c->attributes.len; i++)
        item[i] = c->attributes.at[i].type;
    c->type = cr_stype_tuple(c->unit, (int)c->attributes.len, item, c);
}

cr_status cr_sclass_finish_tuple(cr_sclass *c)
{
    return cr_session_run(c->unit->session, tuple_make, c);
}

static const char *name_after_dot(const char *qualified)
{
    const char *dot = strrchr(qualified, '.');

    return dot ? dot + 1 : qualified;
}

cr_sfunction *cr_sunit_add_function(cr_sunit *u, const char *name, cr_sclass *owner)
{
    cr_session *s = u->session;
    cr_sfunction *f = CR_NEW(s, cr_sfunction);

    f->qualified = cr_session_text(s, name);
    f->name = name_after_dot(f->qualified);
    f->owner = owner;
    f->unit = u;
    f->schema.name = f->name;
    f->schema.overload = "";
    f->schema.builtin = -1;
    UNIT_PUSH(u, function, f);
    cr_session_check(s, cr_map_set(&u->functions, name, strlen(name), f));
    return f;
}

size_t cr_sunit_function_count(const cr_sunit *u) { return u->function_list.len; }
cr_sfunction *cr_sunit_function_at(const cr_sunit *u, size_t i)
{
    return u->function_list.at[i];
}
struct cr_sfile **cr_sunit_files(cr_sunit *u) { return &u->files; }

/* Threads that run programs of the unit may read a list meanwhile: its memory is stored before
 * the item, and the item before the count that has it. */
#define CLASS_PUSH(c, list, item)                                                              \
    do {                                                                                       \
        if ((c)->list.len == (c)->list.cap)                                                    \
            __atomic_store_n(&(c)->list.at,                                                    \
                             cr_session_grow((c)->unit->session, (c)->list.at, (c)->list.len,  \
                                             &(c)->list.cap, sizeof *(c)->list.at),            \
                             __ATOMIC_RELEASE);                                                \
        (c)->list.at[(c)->list.len] = (item);                                                  \
        __atomic_store_n(&(c)->list.len, (c)->list.len + 1, __ATOMIC_RELEASE);                 \
    } while (0)
/* The count is read first: the memory read after it has so many items. */
#define CLASS_COUNT(c, list) __atomic_load_n(&(c)->list.len, __ATOMIC_ACQUIRE)
#define CLASS_LIST(c, list)  __atomic_load_n(&(c)->list.at, __ATOMIC_ACQUIRE)

void cr_sclass_add_attribute(cr_sclass *c, cr_sattribute a)
{
    a.name = cr_session_text(c->unit->session, a.name);
    CLASS_PUSH(c, attributes, a);
}

void cr_sclass_add_constant(cr_sclass *c, const char *name, const cr_sconstant *value)
{
    cr_sclass_constant one = {cr_session_text(c->unit->session, name), value};

    CLASS_PUSH(c, constants, one);
}

void cr_sclass_add_method(cr_sclass *c, cr_sfunction *f) { CLASS_PUSH(c, methods, f); }

void cr_sclass_add_hook(cr_sclass *c, cr_sfunction *f, bool before)
{
    f->is_hook = true;
    if (before)
        CLASS_PUSH(c, prehooks, f);
    else
        CLASS_PUSH(c, hooks, f);
}

int cr_sclass_attribute(const cr_sclass *c, const char *name)
{
    size_t n = CLASS_COUNT(c, attributes);
    const cr_sattribute *at = CLASS_LIST(c, attributes);

    for (size_t i = 0; i < n; i++)
        if (!strcmp(at[i].name, name))
            return (int)i;
    return -1;
}

bool cr_sclass_sets(const cr_sclass *c, int slot)
{
    return __atomic_load_n(&CLASS_LIST(c, attributes)[slot].is_set, __ATOMIC_RELAXED);
}

void cr_sclass_note_set(cr_sclass *c, int slot)
{
    __atomic_store_n(&c->attributes.at[slot].is_set, true, __ATOMIC_RELAXED);
}

cr_sconstant cr_sclass_member(const cr_sclass *c, const char *name)
{
    cr_sconstant value = {.type = c->type};

    for (size_t i = 0; i < c->constants.len; i++)
        if (!strcmp(c->constants.at[i].name, name)) {
            value.s = c->constants.at[i].name;
            value.len = strlen(value.s);
        }
    return value;
}

const cr_sconstant *cr_sclass_constant_value(const cr_sclass *c, const char *name)
{
    for (size_t i = 0; i < c->constants.len; i++)
        if (!strcmp(c->constants.at[i].name, name))
            return c->constants.at[i].value;
    return NULL;
}

cr_sfunction *cr_sclass_method(const cr_sclass *c, const char *name)
{
    size_t n = CLASS_COUNT(c, methods);
    cr_sfunction *const *at = CLASS_LIST(c, methods);

    for (size_t i = 0; i < n; i++)
        if (!strcmp(at[i]->name, name))
            return at[i];
    return NULL;
}
