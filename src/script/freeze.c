/* Freezing modules: attributes become constants of the graphs.
 *
 * A walk over the graphs, from which calls are gone, follows the objects that are reached from
 * the module, and the attributes that values may share memory with.  An attribute stays when a
 * node may change it.  The others are constants; what reads them is computed, and branches that
 * are not taken go.  At the end each object that is still read gets a class with its remaining
 * attributes. */
#include "script/freeze.h"
#include "autograd/autograd.h"
#include "script/execute.h"
#include "script/inline.h"
#include "script/passes.h"
#include <string.h>

/* An object that the module reaches; `stays`, `used` and `written` by slot. */
typedef struct {
    cr_iobject *object;
    bool *stays, *used;
    bool *written;  /* itself, not an item of it */
    bool whole;     /* it remains as it is, with its class */
    cr_ivalue made; /* the new object, once it is made */
} frozen;

/* An attribute whose value a value may share. */
typedef struct site site;
struct site {
    const site *next;
    int object, slot;
};

typedef CR_VEC(frozen) frozen_list;

typedef struct {
    cr_session *s;
    cr_sunit *unit;
    frozen_list objects;
    bool all_stay;   /* an object is not known: every attribute stays */
    bool parameters; /* parameters and buffers that are read stay */
    bool trains;     /* these and the modes stay */
    bool opening;    /* calls of known modules through interfaces will be in place */
    int graphs;
    cr_sgraph **graph;
    const cr_sfunction **method;
    int *method_of;        /* by method: number of the object whose method it is */
    int *object_of;        /* by value: 1 + the object's number; 0: none */
    const site **sites_of; /* by value */
} freezer;

static int freeze_object(freezer *f, cr_iobject *o)
{
    frozen made = {.object = o};

    for (size_t i = 0; i < f->objects.len; i++)
        if (f->objects.at[i].object == o)
            return (int)i;
    made.stays = CR_NEW_N(f->s, bool, o->len + 1);
    made.used = CR_NEW_N(f->s, bool, o->len + 1);
    made.written = CR_NEW_N(f->s, bool, o->len + 1);
    CR_PUSH(f->s, &f->objects, made);
    return (int)f->objects.len - 1;
}

/* --- which attributes stay --- */

/* The attributes inside stay, too. */
static void freeze_keep(freezer *f, int object, int slot)
{
    const cr_ivalue *v = &f->objects.at[object].object->slot[slot];

    if (f->objects.at[object].stays[slot])
        return;
    f->objects.at[object].stays[slot] = true;
    if (v->kind != CR_IV_OBJECT)
        return;
    int inside = freeze_object(f, v->object);
    f->objects.at[inside].whole = true;
    for (size_t i = 0; i < v->object->len; i++)
        freeze_keep(f, inside, (int)i);
}

static void freeze_keep_sites(freezer *f, const cr_svalue *v)
{
    for (const site *at = f->sites_of[v->id]; at; at = at->next)
        freeze_keep(f, at->object, at->slot);
    int object = f->object_of[v->id];
    for (size_t i = 0; object > 0 && i < f->objects.at[object - 1].object->len; i++)
        freeze_keep(f, object - 1, (int)i);
    if (object > 0)
        f->objects.at[object - 1].whole = true;
}

static void freeze_add_site(freezer *f, const cr_svalue *v, int object, int slot)
{
    site *made;

    for (const site *at = f->sites_of[v->id]; at; at = at->next)
        if (at->object == object && at->slot == slot)
            return;
    made = CR_NEW(f->s, site);
    *made = (site){f->sites_of[v->id], object, slot};
    f->sites_of[v->id] = made;
}

static void freeze_share(freezer *f, const cr_svalue *to, const cr_svalue *from)
{
    for (const site *at = f->sites_of[from->id]; at; at = at->next)
        freeze_add_site(f, to, at->object, at->slot);
    if (!f->object_of[from->id] || f->object_of[from->id] == f->object_of[to->id])
        return;
    if (!f->object_of[to->id]) {
        f->object_of[to->id] = f->object_of[from->id];
        return;
    }
    freeze_keep_sites(f, to); /* one of several objects */
    freeze_keep_sites(f, from);
    f->object_of[to->id] = -1;
}

static void freeze_get(freezer *f, const cr_snode *n)
{
    int object = f->object_of[n->input[0]->id] - 1;
    const cr_ivalue *v;

    if (object < 0) {
        f->all_stay |=
            n->input[0]->type->kind == CR_STYPE_CLASS && n->input[0]->type->cls->is_module;
        return;
    }
    int slot = cr_sclass_attribute(f->objects.at[object].object->type->cls, n->name);
    CR_ASSERT(slot >= 0); /* the node was compiled for the object's class */
    v = &f->objects.at[object].object->slot[slot];
    freeze_add_site(f, n->output[0], object, slot);
    if (v->kind == CR_IV_OBJECT) {
        int inside = freeze_object(f, v->object); /* it may move the objects */
        f->object_of[n->output[0]->id] = 1 + inside;
    }
}

static void freeze_set(freezer *f, const cr_snode *n)
{
    int object = f->object_of[n->input[0]->id] - 1;
    const cr_sclass *cls =
        object < 0 ? n->input[0]->type->cls : f->objects.at[object].object->type->cls;
    int slot = cls ? cr_sclass_attribute(cls, n->name) : -1;

    if (slot >= 0 && cls->is_module &&
        cls->attributes.at[slot].type->kind == CR_STYPE_INTERFACE)
        cr_bail(f->s, CR_RUNTIME,
                "Freezing does not support SetAttr on an interface type. SetAttr is attempted "
                "on '%s'",
                n->name);

    if (object < 0) {
        f->all_stay |= n->input[0]->type->cls && n->input[0]->type->cls->is_module;
        return;
    }
    freeze_keep(f, object,
                cr_sclass_attribute(f->objects.at[object].object->type->cls, n->name));
    freeze_keep_sites(f, n->input[1]);
}

/* Notes attributes that a node writes to, where the value is one itself and no item of it. */
static void freeze_write(freezer *f, const cr_svalue *v)
{
    for (const site *at = f->sites_of[v->id]; at; at = at->next) {
        frozen *o = &f->objects.at[at->object];
        cr_iv_kind kind = o->object->slot[at->slot].kind;
        o->written[at->slot] |= kind == (v->type->kind == CR_STYPE_TENSOR ? CR_IV_TENSOR
                                         : v->type->kind == CR_STYPE_LIST ? CR_IV_LIST
                                                                          : CR_IV_DICT);
    }
    freeze_keep_sites(f, v);
}

static void freeze_operator(freezer *f, const cr_snode *n)
{
    const cr_sschema *s = n->schema;

    for (int i = 0; i < n->input_count; i++) {
        const cr_sparam *p = i < s->param_count ? &s->param[i] : NULL;
        if (p && p->written)
            freeze_write(f, n->input[i]);
        for (int k = 0; k < n->output_count && k < s->result_count; k++)
            if ((s->result[k].alias && (!p || p->alias)) || cr_stype_has_var(s->result[k].type))
                freeze_share(f, n->output[k], n->input[i]);
    }
}

static void freeze_walk(freezer *f, const cr_sblock *b);

static void freeze_inside(freezer *f, const cr_snode *n)
{
    bool loop = n->prim == CR_SPRIM_LOOP;

    for (int round = 0; round < (loop ? 2 : 1); round++) {
        for (int i = 2; loop && i < n->input_count; i++)
            freeze_share(f, n->block[0]->input[i - 1], n->input[i]);
        for (int k = 0; k < n->block_count; k++) {
            freeze_walk(f, n->block[k]);
            for (int i = loop; i < n->block[k]->output_count; i++) {
                if (i - loop < n->output_count)
                    freeze_share(f, n->output[i - loop], n->block[k]->output[i]);
                if (loop)
                    freeze_share(f, n->block[0]->input[i], n->block[k]->output[i]);
            }
        }
    }
}

static bool freeze_is_inside(const cr_sblock *b, const cr_sblock *of)
{
    while (b && b != of)
        b = b->by ? b->by->owner : NULL;
    return b != NULL;
}

/* A call through an interface of a module that is known, while these become its own calls. */
static bool freeze_is_opened(const freezer *f, const cr_snode *n)
{
    int object = f->opening ? f->object_of[n->input[0]->id] - 1 : -1;

    return object >= 0 && n->prim == CR_SPRIM_CALL_METHOD &&
           n->input[0]->type->kind == CR_STYPE_INTERFACE &&
           cr_sclass_method(f->objects.at[object].object->type->cls, n->name);
}

/* Attributes that a forked block gets from outside stay, as in torch. */
static void freeze_keep_forked(freezer *f, const cr_sblock *b, const cr_sblock *forked)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->input_count; i++) {
            const cr_svalue *v = n->input[i];
            if (!f->object_of[v->id] &&
                !freeze_is_inside(v->by ? v->by->owner : v->block, forked))
                freeze_keep_sites(f, v);
        }
        for (int i = 0; i < n->block_count; i++)
            freeze_keep_forked(f, n->block[i], forked);
    }
}

static void freeze_node(freezer *f, const cr_snode *n)
{
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_FORK: freeze_keep_forked(f, n->block[0], n->block[0]); break;
    case CR_SPRIM_GET_ATTR: freeze_get(f, n); return;
    case CR_SPRIM_SET_ATTR: freeze_set(f, n); return;
    case CR_SPRIM_OPERATOR: freeze_operator(f, n); return;
    case CR_SPRIM_CALL_METHOD:
    case CR_SPRIM_CALL_FUNCTION:
    case CR_SPRIM_INTERFACE_METHOD:
    case CR_SPRIM_MODULE_INDEX:
    case CR_SPRIM_ENTER:
    case CR_SPRIM_EXIT:
        for (int i = 0; i < n->input_count && !freeze_is_opened(f, n); i++)
            freeze_keep_sites(f, n->input[i]);
        return;
    case CR_SPRIM_PYTHON: return; /* torch keeps no attribute for it */
    default: break;
    }
    for (int k = 0; k < n->output_count && !n->block_count; k++)
        for (int i = 0; i < n->input_count; i++)
            freeze_share(f, n->output[k], n->input[i]);
    if (n->block_count)
        freeze_inside(f, n);
}

static void freeze_walk(freezer *f, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next)
        freeze_node(f, n);
}

/* Follows the objects of a graph whose first input is the module. */
static void freeze_follow(freezer *f, int method)
{
    const cr_sgraph *g = f->graph[method];

    f->object_of = CR_NEW_N(f->s, int, g->values + 1);
    f->sites_of = CR_NEW_N(f->s, const site *, g->values + 1);
    f->object_of[g->body->input[0]->id] = f->method_of[method] + 1;
    freeze_walk(f, g->body);
    for (int i = 0; i < g->body->output_count; i++)
        if (f->object_of[g->body->output[i]->id])
            freeze_keep_sites(f, g->body->output[i]);
}

/* --- memory that attributes share --- */

enum { FREEZE_DEEPEST = 100 };

/* Storages and boxes of a value. */
typedef CR_VEC(const void *) memory_list;

static void freeze_memory(freezer *f, const cr_ivalue *v, memory_list *out, int depth)
{
    if (depth > FREEZE_DEEPEST) /* or a list that has itself as an item */
        cr_bail(f->s, CR_RUNTIME, "an attribute's containers are nested more than %d deep",
                FREEZE_DEEPEST);
    if (v->kind == CR_IV_TENSOR)
        CR_PUSH(f->s, out, (const void *)v->t->storage);
    if (v->kind == CR_IV_LIST || v->kind == CR_IV_DICT)
        CR_PUSH(f->s, out, (const void *)v->box);
    for (size_t i = 0; (v->kind == CR_IV_LIST || v->kind == CR_IV_TUPLE) && i < v->list->len;
         i++)
        freeze_memory(f, &v->list->at[i], out, depth + 1);
    for (size_t i = 0; v->kind == CR_IV_DICT && i < v->dict->len; i++)
        freeze_memory(f, &v->dict->at[i].value, out, depth + 1);
}

/* Every object that the module reaches. */
static void freeze_find_objects(freezer *f)
{
    for (size_t i = 0; i < f->objects.len; i++) {
        const cr_iobject *o = f->objects.at[i].object;
        for (size_t k = 0; k < o->len; k++)
            if (o->slot[k].kind == CR_IV_OBJECT)
                freeze_object(f, o->slot[k].object);
    }
}

static bool freeze_overlaps(freezer *f, const cr_ivalue *v, const memory_list *stays)
{
    memory_list own = {0};

    freeze_memory(f, v, &own, 0);
    for (size_t i = 0; i < own.len; i++)
        for (size_t k = 0; k < stays->len; k++)
            if (own.at[i] == stays->at[k])
                return true;
    return false;
}

/* A value's own memory: what makes it the same as another one. */
static const void *freeze_identity(const cr_ivalue *v)
{
    bool box = v->kind == CR_IV_LIST || v->kind == CR_IV_DICT || v->kind == CR_IV_TUPLE;

    return v->kind == CR_IV_TENSOR ? (const void *)v->t->storage : box ? v->box : NULL;
}

typedef CR_VEC(const cr_ivalue *) value_list;

/* The attributes that a graph reads, each once, in order: without those that share memory with
 * one that was found to change before. */
static void freeze_read_values(freezer *f, const cr_sblock *b, value_list *used,
                               memory_list *changed)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            freeze_read_values(f, n->block[i], used, changed);
        bool get = n->prim == CR_SPRIM_GET_ATTR, set = n->prim == CR_SPRIM_SET_ATTR;
        int object = get || set ? f->object_of[n->input[0]->id] - 1 : -1;
        if (object < 0)
            continue;
        const frozen *o = &f->objects.at[object];
        int slot = cr_sclass_attribute(o->object->type->cls, n->name);
        const cr_ivalue *v = &o->object->slot[slot];
        bool known = !freeze_identity(v) || freeze_overlaps(f, v, changed);
        if (!known && (set || o->written[slot]))
            freeze_memory(f, v, changed, 0);
        for (size_t i = 0; i < used->len; i++)
            known |= freeze_identity(used->at[i]) == freeze_identity(v);
        if (get && !known)
            CR_PUSH(f->s, used, v);
    }
}

/* torch refuses attributes of which one has a part of another one inside. */
static void freeze_check_overlaps(freezer *f, const cr_sgraph *g)
{
    value_list used = {0};
    memory_list seen = {0}, changed = {0};
    cr_text text = {0};

    freeze_read_values(f, g->body, &used, &changed);
    for (size_t i = 0; i < used.len; i++) {
        if (freeze_overlaps(f, used.at[i], &seen)) {
            cr_session_check(f->s, cr_ivalue_print(&text, used.at[i]));
            cr_bail(f->s, CR_RUNTIME, "module contains attributes values that overlaps %s",
                    cr_session_take_text(f->s, &text));
        }
        freeze_memory(f, used.at[i], &seen, 0);
    }
}

/* Attributes that share memory with one that stays stay, too. */
static void freeze_keep_shared(freezer *f)
{
    memory_list stays;
    bool more = true;

    freeze_find_objects(f);
    while (more) {
        more = false;
        stays = (memory_list){0};
        for (size_t i = 0; i < f->objects.len; i++)
            for (size_t k = 0; k < f->objects.at[i].object->len; k++)
                if (f->objects.at[i].stays[k])
                    freeze_memory(f, &f->objects.at[i].object->slot[k], &stays, 0);
        for (size_t i = 0; i < f->objects.len; i++)
            for (size_t k = 0; k < f->objects.at[i].object->len; k++)
                if (!f->objects.at[i].stays[k] &&
                    freeze_overlaps(f, &f->objects.at[i].object->slot[k], &stays)) {
                    freeze_keep(f, (int)i, (int)k);
                    more = true;
                }
    }
}

/* --- constants --- */

/* `unit` keeps what the constant refers to; NULL: the value does. */
static bool freeze_constant(cr_session *s, cr_sunit *unit, const cr_ivalue *v,
                            const cr_stype *type, cr_sconstant *out);

/* Whether the value has a tensor that requires a gradient, which constants do not. */
static bool freeze_has_gradient(const cr_ivalue *v)
{
    bool found = v->kind == CR_IV_TENSOR && v->t->requires_grad;

    for (size_t i = 0; (v->kind == CR_IV_LIST || v->kind == CR_IV_TUPLE) && i < v->list->len;
         i++)
        found |= freeze_has_gradient(&v->list->at[i]);
    for (size_t i = 0; v->kind == CR_IV_DICT && i < v->dict->len; i++)
        found |= freeze_has_gradient(&v->dict->at[i].value);
    return found;
}

static bool freeze_constant_items(cr_session *s, cr_sunit *unit, const cr_ivalue *v,
                                  const cr_stype *type, cr_sconstant *out)
{
    bool dict = v->kind == CR_IV_DICT;
    size_t n = dict ? v->dict->len * 2 : v->list->len;
    cr_sconstant *item = CR_NEW_N(s, cr_sconstant, n + 1);

    for (size_t i = 0; i < n; i++) {
        const cr_ivalue *at = !dict   ? &v->list->at[i]
                              : i % 2 ? &v->dict->at[i / 2].value
                                      : &v->dict->at[i / 2].key;
        const cr_stype *of = dict                           ? type->item[i % 2]
                             : type->kind == CR_STYPE_TUPLE ? type->item[i]
                                                            : type->item[0];
        if (!freeze_constant(s, unit, at, of, &item[i]))
            return false;
    }
    *out = (cr_sconstant){.type = type};
    out->count = (int)n;
    out->item = item;
    if (unit && v->kind != CR_IV_TUPLE && !freeze_has_gradient(v))
        out->live = cr_sunit_keep_value(unit, v);
    return true;
}

static bool freeze_constant_tensor(cr_session *s, cr_sunit *unit, cr_tensor *t,
                                   cr_sconstant *out)
{
    cr_tensor *detached = NULL;

    *out = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = t};
    if (!unit)
        return true;
    cr_session_check(s, cr_detached(&detached, t));
    cr_sunit_keep_tensor(unit, detached);
    cr_drop(detached);
    out->tensor = detached;
    return true;
}

static bool freeze_constant(cr_session *s, cr_sunit *unit, const cr_ivalue *v,
                            const cr_stype *type, cr_sconstant *out)
{
    if (type->kind == CR_STYPE_OPTIONAL && v->kind != CR_IV_NONE)
        type = type->item[0];
    switch (v->kind) {
    case CR_IV_TENSOR: return freeze_constant_tensor(s, unit, v->t, out);
    case CR_IV_LIST:
    case CR_IV_TUPLE:
    case CR_IV_DICT:
        return type->kind != CR_STYPE_ANY && type->kind != CR_STYPE_UNION &&
               freeze_constant_items(s, unit, v, type, out);
    case CR_IV_ENUM:
        *out = (cr_sconstant){.type = type};
        out->s = cr_session_text(s, v->member->name.string->at);
        out->len = v->member->name.string->len;
        return true;
    default: return cr_sconstant_of(s, v, out);
    }
}

const cr_sconstant *cr_sconstant_now(cr_session *s, const cr_sconstant *c)
{
    cr_sconstant now;

    if (!c->live || !freeze_constant(s, NULL, c->live, c->type, &now))
        return c;
    return cr_session_copy(s, &now, sizeof now);
}

/* Whether an attribute is read where it is, though nothing changes it. */
static bool freeze_is_read(const freezer *f, const cr_sattribute *a)
{
    return ((f->parameters || f->trains) && (a->parameter || a->buffer)) ||
           (f->trains && !strcmp(a->name, "training"));
}

/* Replaces reads of attributes that do not stay. */
static void freeze_replace(freezer *f, cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        cr_sconstant value;
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            freeze_replace(f, n->block[i]);
        int object = n->prim == CR_SPRIM_GET_ATTR ? f->object_of[n->input[0]->id] - 1 : -1;
        if (object < 0)
            continue;
        frozen *o = &f->objects.at[object];
        int slot = cr_sclass_attribute(o->object->type->cls, n->name);
        if (o->stays[slot] || o->object->slot[slot].kind == CR_IV_OBJECT ||
            freeze_is_read(f, &o->object->type->cls->attributes.at[slot]))
            continue;
        if (!freeze_constant(f->s, f->unit, &o->object->slot[slot], n->output[0]->type,
                             &value)) {
            freeze_keep(f, object, slot);
            continue;
        }
        cr_snode *made = cr_snode_before(n, CR_SPRIM_CONSTANT, n->from.range);
        made->value = cr_session_copy(f->s, &value, sizeof value);
        cr_svalue_replace(b->graph, n->output[0], cr_snode_output(made, NULL, value.type));
        cr_snode_remove(n);
    }
}

/* --- the new classes --- */

static void freeze_mark_used(freezer *f, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        bool attribute = n->prim == CR_SPRIM_GET_ATTR || n->prim == CR_SPRIM_SET_ATTR;
        int object = attribute ? f->object_of[n->input[0]->id] - 1 : -1;
        if (object >= 0) {
            frozen *o = &f->objects.at[object];
            o->used[cr_sclass_attribute(o->object->type->cls, n->name)] = true;
        }
        for (int i = 0; i < n->block_count; i++)
            freeze_mark_used(f, n->block[i]);
    }
}

/* Notes the objects that are still read; true: there are more than before. */
static bool freeze_reach(freezer *f, bool *reached)
{
    bool more = false;

    reached[0] = true;
    for (size_t i = 0; i < f->objects.len; i++)
        for (size_t k = 0; reached[i] && k < f->objects.at[i].object->len; k++) {
            const frozen *o = &f->objects.at[i];
            if (o->object->slot[k].kind != CR_IV_OBJECT || !(o->used[k] || o->stays[k]))
                continue;
            int inside = freeze_object(f, o->object->slot[k].object);
            more |= !reached[inside];
            reached[inside] = true;
        }
    return more;
}

/* Objects of one class have the same attributes, as in torch. */
static void freeze_share_classes(freezer *f)
{
    bool *reached, more = true;

    freeze_find_objects(f);
    reached = CR_NEW_N(f->s, bool, f->objects.len + 1);
    while (more) {
        while (freeze_reach(f, reached)) {
        }
        more = false;
        for (size_t i = 0; i < f->objects.len; i++)
            for (size_t k = 0; reached[i] && k < f->objects.len; k++) {
                frozen *a = &f->objects.at[i], *b = &f->objects.at[k];
                if (i == k || !reached[k] || a->object->type->cls != b->object->type->cls)
                    continue;
                for (size_t slot = 0; slot < a->object->len; slot++) {
                    bool kept = a->used[slot] || a->stays[slot] || (a->whole && i);
                    more |= kept && !b->used[slot] && !b->stays[slot];
                    b->used[slot] |= kept;
                }
            }
    }
}

static const char *freeze_name(freezer *f, const char *name)
{
    const char *dot = strrchr(name, '.'), *made;
    int i = 0;

    do {
        made = cr_session_printf(f->s, "%.*s.___torch_frozen_%d%s", (int)(dot ? dot - name : 0),
                                 name, i++, dot ? dot : name);
    } while (cr_sunit_class(f->unit, made));
    return made;
}

static void freeze_make(freezer *f, int object);

/* The object with the attributes that remain, and its class. */
static void freeze_make_object(freezer *f, int object, cr_sclass *made, const int *slots, int n)
{
    const cr_iobject *from = f->objects.at[object].object;
    const cr_sclass *cls = from->type->cls;

    for (int i = 0; i < n; i++) {
        cr_sattribute a = cls->attributes.at[slots[i]];
        if (from->slot[slots[i]].kind == CR_IV_OBJECT) {
            int inside = freeze_object(f, from->slot[slots[i]].object);
            freeze_make(f, inside);
            if (a.type->kind == CR_STYPE_CLASS ||
                (a.type->kind == CR_STYPE_INTERFACE && !f->objects.at[inside].whole))
                a.type = f->objects.at[inside].made.object->type;
        }
        cr_sclass_add_attribute(made, a);
    }
    cr_session_check(f->s, cr_iobject_new(&f->objects.at[object].made, made->type, f->unit,
                                          made->attributes.len));
    for (int i = 0; i < n; i++) {
        const cr_ivalue *v = &from->slot[slots[i]];
        int inside = v->kind == CR_IV_OBJECT ? freeze_object(f, v->object) : 0;
        f->objects.at[object].made.object->slot[i] =
            cr_ivalue_keep(v->kind == CR_IV_OBJECT ? f->objects.at[inside].made : *v);
    }
}

static void freeze_make(freezer *f, int object)
{
    const cr_iobject *from = f->objects.at[object].object;
    int *slots = CR_NEW_N(f->s, int, from->len + 1), n = 0;

    if (f->objects.at[object].made.kind == CR_IV_OBJECT)
        return;
    if (f->objects.at[object].whole && object) {
        f->objects.at[object].made = cr_ivalue_keep(
            (cr_ivalue){.kind = CR_IV_OBJECT, .object = f->objects.at[object].object});
        return;
    }
    for (size_t i = 0; i < from->len; i++)
        if (f->objects.at[object].used[i] || f->objects.at[object].stays[i])
            slots[n++] = (int)i;
    cr_sclass *made =
        cr_sunit_add_class(f->unit, freeze_name(f, from->type->cls->name), CR_STYPE_CLASS);
    made->is_module = from->type->cls->is_module;
    freeze_make_object(f, object, made, slots, n);
}

/* Values of the objects have their new classes. */
static void freeze_retype(freezer *f, cr_svalue *const *v, int n)
{
    for (int i = 0; i < n; i++) {
        int object = f->object_of[v[i]->id] - 1;
        if (object >= 0 && v[i]->type->kind == CR_STYPE_CLASS &&
            f->objects.at[object].made.kind == CR_IV_OBJECT)
            v[i]->type = f->objects.at[object].made.object->type;
    }
}

static void freeze_retype_in(freezer *f, const cr_sblock *b)
{
    freeze_retype(f, b->input, b->input_count);
    for (const cr_snode *n = b->first; n; n = n->next) {
        freeze_retype(f, n->output, n->output_count);
        for (int i = 0; i < n->block_count; i++)
            freeze_retype_in(f, n->block[i]);
    }
}

static void freeze_add_method(freezer *f, int i)
{
    cr_sclass *cls = f->objects.at[f->method_of[i]].made.object->type->cls;
    const char *name = cr_session_printf(f->s, "%s.%s", cls->name, f->method[i]->name);
    cr_sfunction *made = cr_sunit_add_function(f->unit, name, cls);
    int n = f->method[i]->schema.param_count;

    made->schema = f->method[i]->schema;
    made->schema.param = CR_NEW_N(f->s, cr_sparam, n + 1);
    memcpy(made->schema.param, f->method[i]->schema.param, (size_t)n * sizeof(cr_sparam));
    made->schema.param[0].type = cls->type;
    made->graph = f->graph[i];
    cr_sclass_add_method(cls, made);
}

/* --- all of it --- */

typedef struct {
    const cr_ivalue *module;
    const char *const *kept;
    int count;
    freezer f; /* `parameters` is given */
} freeze_job;

static void freeze_keep_name(freezer *f, int object, const char *name)
{
    const cr_iobject *o = f->objects.at[object].object;
    int slot = cr_sclass_attribute(o->type->cls, name);
    const cr_sfunction *method = cr_sclass_method(o->type->cls, name);

    if (slot >= 0) {
        f->objects.at[object].used[slot] = true;
        freeze_keep(f, object, slot);
    } else if (method && method->graph) {
        f->method_of[f->graphs] = object;
        f->method[f->graphs++] = method;
    } else
        cr_bail(f->s, CR_RUNTIME, "Unknown name: %s", name);
}

/* "sub.a": an attribute or method of a module inside. */
static void freeze_keep_path(freezer *f, const char *path)
{
    int object = 0;

    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        const cr_iobject *o = f->objects.at[object].object;
        int slot = cr_sclass_attribute(
            o->type->cls, cr_session_printf(f->s, "%.*s", (int)(dot - path), path));
        if (slot < 0 || o->slot[slot].kind != CR_IV_OBJECT)
            cr_bail(f->s, CR_RUNTIME, "Unknown name: %s", path);
        f->objects.at[object].used[slot] = true;
        object = freeze_object(f, o->slot[slot].object);
    }
    freeze_keep_name(f, object, path);
}

/* Calls of known modules through interfaces become calls of their methods; true: one did. */
static bool freeze_open_in(freezer *f, const cr_sblock *b)
{
    bool opened = false;

    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            opened |= freeze_open_in(f, n->block[i]);
        if (!n->input_count || !freeze_is_opened(f, n))
            continue;
        n->input[0]->type = f->objects.at[f->object_of[n->input[0]->id] - 1].object->type;
        opened = true;
    }
    return opened;
}

static void freeze_open_interfaces(freezer *f)
{
    bool opened = true;

    f->opening = true;
    for (int i = 0; i < f->graphs; i++)
        for (opened = true; opened;) {
            freeze_follow(f, i);
            if ((opened = freeze_open_in(f, f->graph[i]->body)))
                cr_spass_inline(f->graph[i]);
        }
    f->opening = false;
}

static void freeze_rounds(freezer *f)
{
    for (int i = 0; i < f->graphs; i++) {
        freeze_follow(f, i);
        freeze_check_overlaps(f, f->graph[i]);
    }
    if (f->all_stay)
        for (size_t k = 0; k < f->objects.at[0].object->len; k++)
            freeze_keep(f, 0, (int)k);
    freeze_keep_shared(f);
    for (int i = 0; i < f->graphs; i++) {
        freeze_follow(f, i);
        freeze_replace(f, f->graph[i]->body);
        cr_spasses_tidy(f->graph[i]);
        cr_spass_detached(f->graph[i]);
        cr_spass_known(f->graph[i]);
        cr_spasses_freeze(f->graph[i]);
    }
    for (int i = 0; i < f->graphs; i++) {
        freeze_follow(f, i);
        freeze_mark_used(f, f->graph[i]->body);
    }
}

static void freeze_check_results(freezer *f, const cr_sfunction *forward)
{
    const cr_sblock *body = forward && forward->graph ? forward->graph->body : NULL;

    for (int i = 0; body && i < body->output_count; i++)
        if (cr_stype_equal(body->output[i]->type, body->input[0]->type))
            cr_bail(f->s, CR_RUNTIME, "attempted to freeze a module that return itself");
}

static void freeze_it(cr_session *s, void *context)
{
    freeze_job *j = context;
    freezer *f = &j->f;
    const cr_sclass *cls = j->module->object->type->cls;
    int training;

    f->s = s;
    f->unit = cls->unit;
    f->method = CR_NEW_N(s, const cr_sfunction *, j->count + 1);
    f->method_of = CR_NEW_N(s, int, j->count + 1);
    f->graph = CR_NEW_N(s, cr_sgraph *, j->count + 1);
    freeze_object(f, j->module->object);
    training = cr_sclass_attribute(cls, "training");
    f->trains = training >= 0 && j->module->object->slot[training].kind == CR_IV_BOOL &&
                j->module->object->slot[training].i;
    freeze_check_results(f, cr_sclass_method(cls, "forward"));
    if (cr_sclass_method(cls, "forward") || !j->count)
        freeze_keep_name(f, 0, "forward");
    for (int i = 0; i < j->count; i++)
        freeze_keep_path(f, j->kept[i]);
    for (int i = 0; i < f->graphs; i++)
        f->graph[i] = cr_sgraph_inlined(s, f->method[i]);
    freeze_open_interfaces(f);
    freeze_rounds(f);
    freeze_share_classes(f);
    freeze_make(f, 0);
    for (int i = 0; i < f->graphs; i++) {
        freeze_follow(f, i);
        freeze_retype_in(f, f->graph[i]->body);
        freeze_add_method(f, i);
    }
}

cr_status cr_sobject_freeze(cr_ivalue *out, const cr_ivalue *module, const char *const *kept,
                            int count, bool parameters)
{
    freeze_job j = {
        .module = module, .kept = kept, .count = count, .f = {.parameters = parameters}};
    cr_sunit *unit = module->object->type->cls->unit;
    cr_status st = cr_session_run(cr_sunit_session(unit), freeze_it, &j);

    if (!st)
        *out = cr_ivalue_keep(j.f.objects.at[0].made);
    for (size_t i = 0; i < j.f.objects.len; i++)
        cr_ivalue_drop(j.f.objects.at[i].made);
    return st;
}
