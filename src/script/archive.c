/* Reading TorchScript archives: runs the steps of data.pkl (io/pickle.h) to make values.
 *
 * A global name `__torch__.a.B` is a class, compiled from the record code/__torch__/a.py when
 * the pickle first uses it.  All other names are functions of a short list.
 *
 * Invariant: at the end every slot of every object has a value of its attribute's type, so a
 * cycle goes through an object.  When an archive is refused, all containers that it made are
 * cleared, so that no cycle is left behind. */
#include "script/archive.h"
#include "autograd/autograd.h"
#include "base/map.h"
#include "io/checkpoint.h"
#include "script/execute.h"
#include <string.h>

typedef struct {
    cr_sunit *unit;
    cr_zip *zip;
    cr_sarchive code;
} archive_reader;

/* The reader of one pickle of the archive. */
typedef struct {
    archive_reader *archive;
    const cr_checkpoint *c;
    const cr_pickle *p;
    cr_ivalue *value; /* by step */
    cr_storage **storage;
    cr_map types; /* by the text of a type tag */
} archive_loader;

/* --- extra records --- */

void cr_sextras_drop(cr_sextras *e)
{
    for (size_t i = 0; i < e->len; i++) {
        cr_free(e->at[i].name);
        cr_free(e->at[i].bytes);
    }
    cr_vec_drop(e);
}

/* Takes `bytes`, also on failure. */
static cr_status archive_add_extra(cr_sextras *e, const char *name, char *bytes, size_t len)
{
    char *copy = cr_strdup(name);
    cr_status st = copy ? cr_vec_reserve(e, 1) : CR_MEMORY;

    if (st) {
        cr_free(copy);
        cr_free(bytes);
        return st;
    }
    cr_vec_put(e, ((cr_sextra){copy, bytes, len}));
    return CR_OK;
}

static cr_status archive_read_extras(cr_sextras *e, const cr_zip *zip)
{
    const cr_zip_entry *entry;
    char *bytes;
    size_t len;

    for (size_t i = 0; (entry = cr_zip_at(zip, i)) != NULL; i++) {
        if (strncmp(entry->name, "extra/", 6))
            continue;
        CR_TRY(cr_zip_text(&bytes, &len, zip, entry->name));
        CR_TRY(archive_add_extra(e, entry->name + 6, bytes, len));
    }
    return CR_OK;
}

/* --- names and source texts --- */

/* The record of a qualifier: "__torch__.a.b" is code/__torch__/a/b.py. */
static cr_status archive_code_record(cr_text *out, const char *qualifier)
{
    cr_text_put(out, "code/");
    for (const char *p = qualifier; *p; p++)
        cr_text_char(out, *p == '.' ? '/' : *p);
    cr_text_put(out, ".py");
    return cr_text_status(out);
}

/* cr_sarchive.read: the text is in the unit's session. */
static cr_status archive_code(void *context, const char *qualifier, const char **text,
                              size_t *len)
{
    archive_reader *a = context;
    cr_text name = {0};
    char *bytes = NULL;
    cr_status st;

    *text = NULL;
    CR_GO(archive_code_record(&name, qualifier));
    if (!cr_zip_find(a->zip, name.at))
        goto done;
    CR_GO(cr_zip_text(&bytes, len, a->zip, name.at));
    *text = cr_arena_text(&cr_sunit_session(a->unit)->keep, bytes, *len);
    st = *text ? CR_OK : CR_MEMORY;
done:
    cr_free(bytes);
    cr_text_drop(&name);
    return st;
}

static bool archive_is_class_name(const char *module)
{
    return !strncmp(module, "__torch__", 9) && (!module[9] || module[9] == '.');
}

/* cr_pickle_rules.ask: names outside globals.def. */
static cr_status archive_ask(void *who, const char *module, const char *name, bool *allowed)
{
    (void)who;
    (void)name;
    *allowed = archive_is_class_name(module) || !strcmp(module, "torch.jit._pickle");
    return CR_OK;
}

/* The names that a pickle may call.  Others are refused with their name. */
typedef enum {
    ARCHIVE_CLASS,
    ARCHIVE_TENSOR,
    ARCHIVE_TYPED, /* restore_type_tag(value, "List[str]") */
    ARCHIVE_ITEMS, /* build_intlist([...]): the list */
    ARCHIVE_DEVICE,
    ARCHIVE_COMPLEX,
    ARCHIVE_OTHER
} archive_function;

static archive_function archive_function_of(const cr_pickle_name *n)
{
    if (archive_is_class_name(n->module))
        return ARCHIVE_CLASS;
    if (!strcmp(n->module, "torch.jit._pickle")) {
        if (!strcmp(n->name, "restore_type_tag"))
            return ARCHIVE_TYPED;
        return !strncmp(n->name, "build_", 6) && strcmp(n->name, "build_tensor_from_id")
                   ? ARCHIVE_ITEMS
                   : ARCHIVE_OTHER;
    }
    switch (n->global.id) {
    case CR_GLOBAL_REBUILD_TENSOR_V2: return ARCHIVE_TENSOR;
    case CR_GLOBAL_DEVICE: return ARCHIVE_DEVICE;
    case CR_GLOBAL_COMPLEX: return ARCHIVE_COMPLEX;
    default: return ARCHIVE_OTHER;
    }
}

/* --- steps --- */

static const cr_step *archive_step(const archive_loader *l, uint32_t i)
{
    return &l->p->steps.at[i];
}

static uint32_t archive_number(const archive_loader *l, const cr_step *s, uint32_t i)
{
    return cr_step_operands(l->p, s)[i];
}

static const cr_step *archive_operand(const archive_loader *l, const cr_step *s, uint32_t i)
{
    return archive_step(l, archive_number(l, s, i));
}

static cr_ivalue *archive_value(const archive_loader *l, const cr_step *s, uint32_t i)
{
    return &l->value[archive_number(l, s, i)];
}

static cr_status archive_malformed(const char *what)
{
    return cr_fail(CR_RUNTIME, "the archive's pickle is malformed: %s", what);
}

static cr_status archive_qualified(cr_text *out, const cr_pickle_name *n)
{
    cr_text_printf(out, "%s.%s", n->module, n->name);
    return cr_text_status(out);
}

static cr_status archive_class(cr_sclass **out, archive_loader *l, const cr_pickle_name *n)
{
    cr_text name = {0};
    cr_status st;

    CR_GO(archive_qualified(&name, n));
    *out = cr_sunit_class(l->archive->unit, name.at);
    if (!*out)
        st = cr_sunit_import(l->archive->unit, &l->archive->code, name.at, out);
done:
    cr_text_drop(&name);
    return st;
}

/* --- tensors --- */

static cr_status archive_storage(archive_loader *l, size_t i, cr_storage **out)
{
    if (l->p->storages.at[i].root >= 0)
        return archive_malformed("a storage is a part of another one");
    if (!l->storage[i])
        CR_TRY(cr_checkpoint_storage(&l->storage[i], l->c, i, NULL));
    *out = l->storage[i];
    return CR_OK;
}

/* Reads a tuple of at most CR_MAX_DIMS ints. */
static cr_status archive_ints(const archive_loader *l, const cr_step *s, int64_t *out, int *n)
{
    if (s->kind != CR_STEP_TUPLE || s->count > CR_MAX_DIMS)
        return archive_malformed("a tensor's sizes and strides are tuples");
    for (uint32_t i = 0; i < s->count; i++) {
        const cr_ivalue *v = archive_value(l, s, i);
        if (v->kind != CR_IV_INT)
            return archive_malformed("a tensor's sizes and strides are ints");
        out[i] = v->i;
    }
    *n = (int)s->count;
    return CR_OK;
}

static cr_status archive_set_grad(cr_tensor *t, const cr_ivalue *wanted)
{
    if (wanted->kind != CR_IV_BOOL || !wanted->i)
        return CR_OK;
    return cr_set_requires_grad(t, true);
}

/* _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks) */
static cr_status archive_tensor(archive_loader *l, const cr_step *args, cr_ivalue *out)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    int ndim = 0, strides = 0;
    cr_storage *storage = NULL;
    cr_tensor *t;

    if (args->kind != CR_STEP_TUPLE || args->count < 5 ||
        archive_operand(l, args, 0)->kind != CR_STEP_STORAGE ||
        archive_value(l, args, 1)->kind != CR_IV_INT)
        return archive_malformed(
            "a tensor is described by storage, offset, sizes, strides and requires_grad");
    CR_TRY(archive_ints(l, archive_operand(l, args, 2), size, &ndim));
    CR_TRY(archive_ints(l, archive_operand(l, args, 3), stride, &strides));
    if (ndim != strides)
        return cr_fail(CR_RUNTIME, "unequal size length (%d) and stride length (%d)", ndim,
                       strides);
    size_t i = (size_t)archive_operand(l, args, 0)->i;
    CR_TRY(archive_storage(l, i, &storage));
    CR_TRY(cr_checkpoint_tensor(&t, storage, l->p->storages.at[i].dtype,
                                archive_value(l, args, 1)->i, ndim, size, stride));
    *out = cr_iv_tensor(t);
    return archive_set_grad(t, archive_value(l, args, 4));
}

/* --- calls of the pickle --- */

/* The type that a tag names; tags are few and repeated. */
static cr_status archive_type(archive_loader *l, const cr_ivalue *tag, const cr_stype **out)
{
    const cr_istring *s = tag->string;

    *out = cr_map_get(&l->types, s->at, s->len);
    if (*out)
        return CR_OK;
    CR_TRY(cr_sunit_import_type(l->archive->unit, &l->archive->code, s->at, out));
    return cr_map_set(&l->types, s->at, s->len, (void *)(uintptr_t)*out);
}

static cr_status archive_typed(archive_loader *l, const cr_step *args, cr_ivalue *out)
{
    const cr_stype *type = NULL;

    if (args->count != 2 || archive_value(l, args, 1)->kind != CR_IV_STRING)
        return archive_malformed("restore_type_tag takes a value and the text of its type");
    CR_TRY(archive_type(l, archive_value(l, args, 1), &type));
    cr_ivalue *v = archive_value(l, args, 0);
    if (v->kind == CR_IV_LIST && type->kind == CR_STYPE_LIST)
        v->list->type = type;
    else if (v->kind == CR_IV_DICT && type->kind == CR_STYPE_DICT)
        v->dict->type = type;
    else if (v->kind == CR_IV_LIST || v->kind == CR_IV_DICT)
        return archive_malformed("a type tag is not of its value's kind");
    *out = cr_ivalue_keep(*v);
    return CR_OK;
}

static cr_status archive_device(archive_loader *l, const cr_step *args, cr_ivalue *out)
{
    if (!args->count || archive_value(l, args, 0)->kind != CR_IV_STRING)
        return archive_malformed("a device is a string");
    return cr_ivalue_device(out, archive_value(l, args, 0)->string->at);
}

static cr_status archive_complex(archive_loader *l, const cr_step *args, cr_ivalue *out)
{
    if (args->count != 2 || archive_value(l, args, 0)->kind != CR_IV_FLOAT ||
        archive_value(l, args, 1)->kind != CR_IV_FLOAT)
        return archive_malformed("a complex number is two floats");
    *out =
        cr_iv_complex((cr_complex){archive_value(l, args, 0)->d, archive_value(l, args, 1)->d});
    return CR_OK;
}

static cr_status archive_named_tuple(archive_loader *l, const cr_sclass *cls,
                                     const cr_step *args, cr_ivalue *out)
{
    if (args->count != cls->attributes.len)
        return archive_malformed("a named tuple has another number of fields than its class");
    CR_TRY(cr_ituple_new(out, cls->type, args->count));
    for (uint32_t i = 0; i < args->count; i++)
        out->list->at[i] = cr_ivalue_keep(*archive_value(l, args, i));
    return CR_OK;
}

/* A call of a class: a named tuple with its fields, or an enum with a value. */
static cr_status archive_instance(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    const cr_step *f = archive_operand(l, s, 0), *args = archive_operand(l, s, 1);
    cr_sclass *cls = NULL;

    CR_TRY(archive_class(&cls, l, &l->p->names.at[f->i]));
    if (cls->type->kind == CR_STYPE_ENUM)
        return cr_imember_of(out, cls, archive_value(l, s, 1));
    if (cls->type->kind == CR_STYPE_TUPLE && args->kind == CR_STEP_TUPLE)
        return archive_named_tuple(l, cls, args, out);
    return archive_malformed("a class is called");
}

static cr_status archive_reduce(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    const cr_step *f = archive_operand(l, s, 0), *args = archive_operand(l, s, 1);

    if (f->kind != CR_STEP_GLOBAL)
        return archive_malformed("only names are called");
    const cr_pickle_name *n = &l->p->names.at[f->i];
    archive_function function = archive_function_of(n);
    if (function != ARCHIVE_CLASS && args->kind != CR_STEP_TUPLE)
        return archive_malformed("a function's arguments are a tuple");
    switch (function) {
    case ARCHIVE_CLASS: return archive_instance(l, s, out);
    case ARCHIVE_TENSOR: return archive_tensor(l, args, out);
    case ARCHIVE_TYPED: return archive_typed(l, args, out);
    case ARCHIVE_DEVICE: return archive_device(l, args, out);
    case ARCHIVE_COMPLEX: return archive_complex(l, args, out);
    case ARCHIVE_ITEMS:
        if (args->count != 1 || archive_value(l, args, 0)->kind != CR_IV_LIST)
            return archive_malformed("a typed list is a list");
        *out = cr_ivalue_keep(*archive_value(l, args, 0));
        return CR_OK;
    case ARCHIVE_OTHER: break;
    }
    if (n->global.id == CR_GLOBAL_ORDERED_DICT)
        return CR_OK; /* the hooks of a tensor: not used */
    return cr_fail(CR_RUNTIME, "the archive uses %s.%s, which is not supported", n->module,
                   n->name);
}

static cr_status archive_new_object(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    const cr_step *f = archive_operand(l, s, 0);
    cr_sclass *cls;

    if (f->kind != CR_STEP_GLOBAL || !archive_is_class_name(l->p->names.at[f->i].module))
        return archive_malformed("an object's class is not a name of the archive's code");
    CR_TRY(archive_class(&cls, l, &l->p->names.at[f->i]));
    if (cls->type->kind != CR_STYPE_CLASS)
        return archive_malformed("an object's class is a tuple, an enum or an interface");
    return cr_iobject_new(out, cls->type, l->archive->unit, cls->attributes.len);
}

/* --- steps that change a value --- */

static cr_status archive_append(archive_loader *l, const cr_step *s)
{
    cr_ivalue *list = archive_value(l, s, 0);

    if (list->kind != CR_IV_LIST)
        return archive_malformed("an item is appended to a value that is no list");
    for (uint32_t i = 1; i < s->count; i++)
        CR_TRY(cr_ilist_append(list->list, cr_ivalue_keep(*archive_value(l, s, i))));
    return CR_OK;
}

static bool archive_is_key(const cr_ivalue *v)
{
    return v->kind == CR_IV_STRING || v->kind == CR_IV_INT || v->kind == CR_IV_FLOAT ||
           v->kind == CR_IV_BOOL || v->kind == CR_IV_COMPLEX || v->kind == CR_IV_TENSOR;
}

/* Sets items from operand `from` on. */
static cr_status archive_set_items(archive_loader *l, const cr_step *s, uint32_t from,
                                   cr_ivalue *dict)
{
    if (dict->kind != CR_IV_DICT)
        return archive_malformed("an item is set in a value that is no dict");
    for (uint32_t i = from; i + 1 < s->count; i += 2) {
        if (!archive_is_key(archive_value(l, s, i)))
            return archive_malformed("the key of a dict is not of a kind that keys have");
        CR_TRY(cr_idict_set(dict->dict, cr_ivalue_keep(*archive_value(l, s, i)),
                            cr_ivalue_keep(*archive_value(l, s, i + 1))));
    }
    return CR_OK;
}

static cr_status archive_set_slot(cr_iobject *o, const cr_sattribute *a, size_t i,
                                  const cr_idict *state)
{
    cr_ivalue key;

    CR_TRY(cr_istring_new(&key, a->name, strlen(a->name)));
    const cr_ivalue *v = cr_idict_find(state, &key);
    cr_ivalue_drop(key);
    if (v) {
        cr_ivalue_set(&o->slot[i], cr_ivalue_keep(*v));
        return CR_OK;
    }
    if (a->type->kind == CR_STYPE_OPTIONAL || a->type->kind == CR_STYPE_NONE)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "the archive has no value for attribute '%s' of %s", a->name,
                   o->type->cls->name);
}

static cr_status archive_build(archive_loader *l, const cr_step *s)
{
    cr_ivalue *o = archive_value(l, s, 0), *state = archive_value(l, s, 1);

    if (o->kind != CR_IV_OBJECT)
        return archive_malformed("a state is given to a value that is no object");
    const cr_sclass *cls = o->object->type->cls;
    cr_sfunction *f = cr_sclass_method(cls, "__setstate__");
    if (f) {
        cr_ivalue args[2] = {*o, *state}, result;
        CR_TRY(cr_sfunction_run(&result, f, args, 2, NULL));
        cr_ivalue_drop(result);
        return CR_OK;
    }
    if (state->kind != CR_IV_DICT)
        return archive_malformed("the state of an object is a dict");
    for (size_t i = 0; i < cls->attributes.len; i++)
        CR_TRY(archive_set_slot(o->object, &cls->attributes.at[i], i, state->dict));
    return CR_OK;
}

/* --- plain steps --- */

static cr_status archive_long(const cr_step *s, cr_ivalue *out)
{
    uint64_t v = 0;

    if (s->text.len > 8)
        return archive_malformed("an int of more than 64 bits");
    for (size_t i = 0; i < s->text.len; i++)
        v |= (uint64_t)(unsigned char)s->text.at[i] << 8 * i;
    if (s->text.len && s->text.len < 8 && s->text.at[s->text.len - 1] & 0x80)
        v |= UINT64_MAX << 8 * s->text.len;
    *out = cr_iv_int((int64_t)v);
    return CR_OK;
}

static cr_status archive_sequence(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    if (s->kind == CR_STEP_LIST)
        CR_TRY(cr_ilist_new(out, NULL, s->count));
    else
        CR_TRY(cr_ituple_new(out, NULL, s->count));
    out->list->len = s->count;
    for (uint32_t i = 0; i < s->count; i++)
        out->list->at[i] = cr_ivalue_keep(*archive_value(l, s, i));
    return CR_OK;
}

static cr_status archive_dict(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    CR_TRY(cr_idict_new(out, NULL));
    return archive_set_items(l, s, 0, out);
}

static cr_status archive_run_step(archive_loader *l, const cr_step *s, cr_ivalue *out)
{
    switch ((cr_step_kind)s->kind) {
    case CR_STEP_NONE:
    case CR_STEP_GLOBAL:
    case CR_STEP_STORAGE: return CR_OK;
    case CR_STEP_FALSE:
    case CR_STEP_TRUE: *out = cr_iv_bool(s->kind == CR_STEP_TRUE); return CR_OK;
    case CR_STEP_INT: *out = cr_iv_int(s->i); return CR_OK;
    case CR_STEP_LONG: return archive_long(s, out);
    case CR_STEP_FLOAT: *out = cr_iv_float(s->d); return CR_OK;
    case CR_STEP_TEXT:
    case CR_STEP_STRING: return cr_istring_new(out, s->text.at, s->text.len);
    case CR_STEP_TUPLE:
    case CR_STEP_LIST: return archive_sequence(l, s, out);
    case CR_STEP_DICT: return archive_dict(l, s, out);
    case CR_STEP_REDUCE: return archive_reduce(l, s, out);
    case CR_STEP_NEWOBJ: return archive_new_object(l, s, out);
    case CR_STEP_APPEND: return archive_append(l, s);
    case CR_STEP_SETITEM:
    case CR_STEP_SETITEMS: return archive_set_items(l, s, 1, archive_value(l, s, 0));
    case CR_STEP_BUILD: return archive_build(l, s);
    default: return archive_malformed("an instruction that archives do not have");
    }
}

/* --- the values of the whole pickle --- */

static cr_status archive_check_object(cr_iobject *o)
{
    const cr_sclass *cls = o->type->cls;

    for (size_t i = 0; i < cls->attributes.len; i++)
        if (!cr_ivalue_fit(&o->slot[i], cls->attributes.at[i].type))
            return cr_fail(CR_RUNTIME,
                           "attribute '%s' of %s must be of type '%s', but the archive has a "
                           "value of kind '%s'",
                           cls->attributes.at[i].name, cls->name,
                           cr_stype_text(cls->attributes.at[i].type),
                           cr_ivalue_kind_name(&o->slot[i]));
    return CR_OK;
}

static cr_status archive_run_steps(archive_loader *l)
{
    size_t n = l->p->steps.len;

    l->value = cr_alloc_zero(n * sizeof *l->value);
    l->storage = cr_alloc_zero(l->p->storages.len * sizeof *l->storage + 1);
    CR_NEED(l->value && l->storage);
    for (size_t i = 0; i < n; i++)
        CR_TRY(archive_run_step(l, &l->p->steps.at[i], &l->value[i]));
    for (size_t i = 0; i < n; i++)
        if (l->value[i].kind == CR_IV_OBJECT)
            CR_TRY(archive_check_object(l->value[i].object));
    return CR_OK;
}

static void archive_clear(cr_ivalue *v)
{
    if (v->kind == CR_IV_LIST)
        cr_ilist_clear(v->list);
    else if (v->kind == CR_IV_DICT)
        cr_idict_clear(v->dict);
    else if (v->kind == CR_IV_OBJECT)
        cr_iobject_clear(v->object);
}

static void archive_loader_drop(archive_loader *l, bool failed)
{
    size_t n = l->p ? l->p->steps.len : 0;

    for (size_t i = 0; failed && l->value && i < n; i++)
        archive_clear(&l->value[i]);
    if (l->value)
        cr_ivalues_drop(l->value, n);
    for (size_t i = 0; l->storage && i < l->p->storages.len; i++)
        cr_storage_drop(l->storage[i]);
    cr_free(l->value);
    cr_free(l->storage);
    cr_map_drop(&l->types);
}

/* The value of the pickle NAME.pkl. */
static cr_status archive_read_pickle(cr_ivalue *out, archive_reader *a, const char *name)
{
    cr_checkpoint_options options = {.rules = {.weights_only = true, .ask = archive_ask}};
    archive_loader l = {.archive = a};
    cr_checkpoint *c = NULL;
    cr_status st;

    CR_GO(cr_checkpoint_open_record(&c, a->zip, name, &options));
    l.c = c;
    l.p = cr_checkpoint_pickle(c);
    CR_GO(archive_run_steps(&l));
    *out = cr_ivalue_keep(l.value[l.p->result]);
done:
    archive_loader_drop(&l, st != CR_OK);
    cr_checkpoint_drop(c);
    return st;
}

/* --- constants --- */

static cr_status archive_constant(archive_reader *a, cr_sconstant *out, const cr_ivalue *v)
{
    switch (v->kind) {
    case CR_IV_TENSOR:
        *out = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = v->t};
        cr_sunit_keep_tensor(a->unit, v->t);
        return CR_OK;
    case CR_IV_INT: *out = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = v->i}; return CR_OK;
    case CR_IV_FLOAT:
        *out = (cr_sconstant){.type = CR_STYPE_OF(FLOAT), .d = {v->d}};
        return CR_OK;
    default:
        return cr_fail(CR_RUNTIME, "a constant of an archive of kind '%s' is not supported",
                       cr_ivalue_kind_name(v));
    }
}

static cr_status archive_set_constants(archive_reader *a, const cr_ivalue *tuple)
{
    if (tuple->kind != CR_IV_TUPLE)
        return archive_malformed("the constants are not a tuple");
    size_t n = tuple->list->len;
    cr_sconstant *made = cr_arena_get(&cr_sunit_session(a->unit)->keep, n * sizeof *made + 1);
    CR_NEED(made);
    for (size_t i = 0; i < n; i++)
        CR_TRY(archive_constant(a, &made[i], &tuple->list->at[i]));
    a->code.constant = made;
    a->code.constant_count = n;
    return CR_OK;
}

static cr_status archive_read_constants(archive_reader *a)
{
    cr_ivalue tuple = {0};

    CR_TRY(archive_read_pickle(&tuple, a, "constants"));
    cr_status st = archive_set_constants(a, &tuple);
    cr_ivalue_drop(tuple);
    return st;
}

/* --- the archive --- */

static cr_status archive_refuse_format(const cr_source *source)
{
    char head[8];

    if (cr_source_size(source) < sizeof head || cr_source_read(source, 0, sizeof head, head) ||
        memcmp(head + 4, "PTMF", 4))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "the file is a FlatBuffer module (PTMF), which is not supported: "
                   "only zip archives are read");
}

static cr_status archive_open(archive_reader *a, cr_source *source)
{
    CR_TRY(archive_refuse_format(source));
    CR_TRY(cr_zip_open(&a->zip, source));
    if (cr_zip_find(a->zip, "model.json"))
        return cr_fail(CR_RUNTIME, "the archive has the format with a record model.json, of "
                                   "PyTorch before 1.4, which is not supported");
    CR_TRY(cr_archive_version(&a->code.version, a->zip));
    a->unit = cr_sunit_new();
    return a->unit ? CR_OK : CR_MEMORY;
}

cr_status cr_sarchive_read(cr_ivalue *out, cr_source *source, cr_sextras *extra)
{
    archive_reader a = {.code = {.read = archive_code}};
    cr_ivalue module = {0};
    cr_status st;

    a.code.context = &a;
    CR_GO(archive_open(&a, source));
    CR_GO(archive_read_constants(&a));
    CR_GO(archive_read_pickle(&module, &a, "data"));
    if (module.kind != CR_IV_OBJECT)
        CR_GO(archive_malformed("the archive's value is not an object"));
    if (extra)
        CR_GO(archive_read_extras(extra, a.zip));
    *out = cr_ivalue_keep(module);
done:
    cr_ivalue_drop(module);
    if (a.unit)
        cr_sunit_release(a.unit);
    cr_zip_drop(a.zip);
    return st;
}

/* --- source texts --- */

static size_t archive_line_end(const cr_ssource *s, size_t at)
{
    while (at < s->len && s->text[at] != '\n')
        at++;
    return at < s->len ? at + 1 : at;
}

static size_t archive_indent(const cr_ssource *s, size_t at, size_t end)
{
    size_t n = 0;

    while (at + n < end && s->text[at + n] == ' ')
        n++;
    return n;
}

cr_status cr_sarchive_method_text(cr_text *out, const cr_sfunction *f)
{
    const cr_ssource *s = f->ast ? f->ast->range.source : NULL;
    size_t at, indent, end;

    if (!s)
        return cr_fail(CR_RUNTIME, "'%s' has no source text", f->qualified);
    for (at = f->ast->range.start; at > 0 && s->text[at - 1] != '\n'; at--)
        ;
    indent = archive_indent(s, at, s->len);
    do {
        end = archive_line_end(s, at);
        size_t own = archive_indent(s, at, end);
        own = own < indent ? own : indent;
        cr_text_put_n(out, s->text + at + own, end - at - own);
        at = end;
    } while (at < s->len && s->text[at] != '\n' && archive_indent(s, at, s->len) > indent);
    return cr_text_status(out);
}
