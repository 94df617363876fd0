/* Values of constants, of text, and tests of types. */
#include "script/archive.h"
#include "script/execute_impl.h"
#include <string.h>

/* --- constants --- */

static cr_status constant_items(cr_ivalue *out, const cr_sconstant *c)
{
    if (c->type->kind == CR_STYPE_LIST)
        CR_TRY(cr_ilist_new(out, c->type, (size_t)c->count));
    else
        CR_TRY(cr_ituple_new(out, c->type, (size_t)c->count));
    out->list->len = (size_t)c->count;
    for (int i = 0; i < c->count; i++)
        out->list->at[i] = cr_iv_none();
    for (int i = 0; i < c->count; i++)
        CR_TRY(cr_ivalue_of_constant(&out->list->at[i], &c->item[i]));
    return CR_OK;
}

static cr_status constant_dict(cr_ivalue *out, const cr_sconstant *c)
{
    CR_TRY(cr_idict_new(out, c->type));
    for (int i = 0; i + 1 < c->count; i += 2) {
        cr_ivalue key = {0}, value = {0};
        CR_TRY(cr_ivalue_of_constant(&key, &c->item[i]));
        cr_status st = cr_ivalue_of_constant(&value, &c->item[i + 1]);
        if (st) {
            cr_ivalue_drop(key);
            cr_ivalue_drop(value);
            return st;
        }
        CR_TRY(cr_idict_set(out->dict, key, value));
    }
    return CR_OK;
}

/* The member of the enum with this number. */
static cr_status constant_member(cr_ivalue *out, cr_sclass *cls, size_t i)
{
    const cr_sclass_constant *m = &cls->constants.at[i];
    cr_ivalue name, value = {0};

    CR_TRY(cr_istring_new(&name, m->name, strlen(m->name)));
    cr_status st = cr_ivalue_of_constant(&value, m->value);
    if (st) {
        cr_ivalue_drop(name);
        cr_ivalue_drop(value);
        return st;
    }
    return cr_imember_new(out, cls->type, (int)i, name, value);
}

static cr_status constant_enum(cr_ivalue *out, const cr_sconstant *c)
{
    cr_sclass *cls = c->type->cls;

    for (size_t i = 0; i < cls->constants.len; i++)
        if (strlen(cls->constants.at[i].name) == c->len &&
            !memcmp(cls->constants.at[i].name, c->s, c->len))
            return constant_member(out, cls, i);
    return cr_fail(CR_RUNTIME, "%s has no member '%.*s'", cls->name, (int)c->len, c->s);
}

/* On failure the caller drops *out, which is None or a value that is not complete. */
static cr_status constant_make(cr_ivalue *out, const cr_sconstant *c)
{
    if (c->live) {
        *out = cr_ivalue_keep(*c->live);
        return CR_OK;
    }
    switch (c->type->kind) {
    case CR_STYPE_INT: *out = cr_iv_int(c->i); return CR_OK;
    case CR_STYPE_BOOL: *out = cr_iv_bool(c->i != 0); return CR_OK;
    case CR_STYPE_FLOAT: *out = cr_iv_float(c->d[0]); return CR_OK;
    case CR_STYPE_COMPLEX: *out = cr_iv_complex((cr_complex){c->d[0], c->d[1]}); return CR_OK;
    case CR_STYPE_STR: return cr_istring_new(out, c->s, c->len);
    case CR_STYPE_DEVICE: return cr_ivalue_device(out, c->s);
    case CR_STYPE_TENSOR: *out = cr_iv_tensor(cr_keep(c->tensor)); return CR_OK;
    case CR_STYPE_LIST:
    case CR_STYPE_TUPLE: return constant_items(out, c);
    case CR_STYPE_DICT: return constant_dict(out, c);
    case CR_STYPE_ENUM: return constant_enum(out, c);
    case CR_STYPE_NONE:
    case CR_STYPE_OPTIONAL:
    case CR_STYPE_FUNCTION: return CR_OK;
    default:
        return cr_fail(CR_RUNTIME, "a constant of type '%s' is not supported",
                       cr_stype_text(c->type));
    }
}

cr_status cr_ivalue_of_constant(cr_ivalue *out, const cr_sconstant *c)
{
    cr_ivalue made = {0};
    cr_status st = constant_make(&made, c);

    CR_GIVE(st, out, made, cr_ivalue_drop);
}

cr_status cr_imember_of(cr_ivalue *out, cr_sclass *cls, const cr_ivalue *value)
{
    for (size_t i = 0; i < cls->constants.len; i++) {
        cr_ivalue v;
        CR_TRY(cr_ivalue_of_constant(&v, cls->constants.at[i].value));
        bool equal = v.kind == value->kind && cr_ivalue_equal(&v, value);
        cr_ivalue_drop(v);
        if (equal)
            return constant_member(out, cls, i);
    }
    return cr_fail(CR_RUNTIME, "No enum class member of %s has this value", cls->name);
}

/* --- devices --- */

static int constant_device_kind(const char *name, size_t len)
{
#define CR_DEVICE_KIND(NAME, text)                                                             \
    if (strlen(text) == len && !memcmp(text, name, len))                                       \
        return CR_##NAME;
#include "num/device.def"
#undef CR_DEVICE_KIND
    return -1;
}

cr_status cr_ivalue_device(cr_ivalue *out, const char *text)
{
    size_t len = strcspn(text, ":");
    int kind = constant_device_kind(text, len), index = -1;

    if (text[len] == ':') {
        size_t digits = strspn(text + len + 1, "0123456789");
        if (!digits || digits > 3 || text[len + 1 + digits])
            kind = -1;
        for (size_t i = 0; i < digits && i < 3; i++)
            index = (index < 0 ? 0 : index * 10) + (text[len + 1 + i] - '0');
    }
    if (kind < 0 || index >= CR_NO_INDEX)
        return cr_fail(CR_RUNTIME, "Invalid device string: '%s'", text);
    *out = (cr_ivalue){.kind = CR_IV_DEVICE, .i = cr_device_pack(kind, index)};
    return CR_OK;
}

/* --- types --- */

static bool constant_fit_items(cr_ilist *l, const cr_stype *item)
{
    for (size_t i = 0; i < l->len; i++)
        if (!cr_ivalue_fit(&l->at[i], item))
            return false;
    return true;
}

static bool constant_fit_tuple(cr_ivalue *v, const cr_stype *type)
{
    if (v->kind != CR_IV_TUPLE || v->list->len != (size_t)type->count)
        return false;
    for (int i = 0; i < type->count; i++)
        if (!cr_ivalue_fit(&v->list->at[i], type->item[i]))
            return false;
    if (!v->list->type || (type->cls && !v->list->type->cls))
        v->list->type = type;
    return !type->cls || v->list->type->cls == type->cls;
}

static bool constant_fit_dict(cr_ivalue *v, const cr_stype *type)
{
    if (v->kind != CR_IV_DICT)
        return false;
    for (size_t i = 0; i < v->dict->len; i++)
        if (!cr_ivalue_fit(&v->dict->at[i].key, type->item[0]) ||
            !cr_ivalue_fit(&v->dict->at[i].value, type->item[1]))
            return false;
    v->dict->type = v->dict->type ? v->dict->type : type;
    return true;
}

static bool constant_fit_any_of(cr_ivalue *v, const cr_stype *type)
{
    for (int i = 0; i < type->count; i++)
        if (cr_ivalue_fit(v, type->item[i]))
            return true;
    return false;
}

static bool constant_fit_list(cr_ivalue *v, const cr_stype *type)
{
    if (v->kind != CR_IV_LIST || !constant_fit_items(v->list, type->item[0]))
        return false;
    v->list->type = v->list->type ? v->list->type : type;
    return true;
}

/* An object of the class, or one that has the interface's methods. */
static bool constant_fit_object(const cr_ivalue *v, const cr_stype *type)
{
    if (v->kind != CR_IV_OBJECT)
        return false;
    return v->object->type->cls == type->cls || cr_stype_is_subtype(v->object->type, type);
}

bool cr_ivalue_fit(cr_ivalue *v, const cr_stype *type)
{
    switch ((cr_stype_kind)type->kind) {
    case CR_STYPE_TENSOR: return v->kind == CR_IV_TENSOR;
    case CR_STYPE_CAPSULE:
    case CR_STYPE_INT: return v->kind == CR_IV_INT;
    case CR_STYPE_FLOAT: return v->kind == CR_IV_FLOAT;
    case CR_STYPE_COMPLEX: return v->kind == CR_IV_COMPLEX;
    case CR_STYPE_BOOL: return v->kind == CR_IV_BOOL;
    case CR_STYPE_STR: return v->kind == CR_IV_STRING;
    case CR_STYPE_NONE: return v->kind == CR_IV_NONE;
    case CR_STYPE_NUMBER:
        return v->kind == CR_IV_INT || v->kind == CR_IV_FLOAT || v->kind == CR_IV_COMPLEX ||
               v->kind == CR_IV_BOOL;
    case CR_STYPE_ANY: return true;
    case CR_STYPE_DEVICE: return v->kind == CR_IV_DEVICE;
    case CR_STYPE_GENERATOR: return v->kind == CR_IV_GENERATOR;
    case CR_STYPE_ANY_LIST: return v->kind == CR_IV_LIST;
    case CR_STYPE_ANY_TUPLE: return v->kind == CR_IV_TUPLE;
    case CR_STYPE_ANY_CLASS: return v->kind == CR_IV_OBJECT;
    case CR_STYPE_OPTIONAL: return v->kind == CR_IV_NONE || cr_ivalue_fit(v, type->item[0]);
    case CR_STYPE_UNION: return constant_fit_any_of(v, type);
    case CR_STYPE_LIST: return constant_fit_list(v, type);
    case CR_STYPE_DICT: return constant_fit_dict(v, type);
    case CR_STYPE_TUPLE: return constant_fit_tuple(v, type);
    case CR_STYPE_FUTURE: return cr_ivalue_fit(v, type->item[0]);
    case CR_STYPE_CLASS:
    case CR_STYPE_INTERFACE: return constant_fit_object(v, type);
    case CR_STYPE_ENUM: return v->kind == CR_IV_ENUM && v->member->type->cls == type->cls;
    default: return false;
    }
}

bool cr_ivalue_is(const cr_ivalue *v, const cr_stype *type)
{
    cr_ivalue copy = *v;

    if (type->kind == CR_STYPE_OPTIONAL)
        return v->kind == CR_IV_NONE || cr_ivalue_is(v, type->item[0]);
    if (v->kind == CR_IV_LIST && v->list->type && type->kind == CR_STYPE_LIST)
        return cr_stype_is_subtype(v->list->type, type);
    if (v->kind == CR_IV_DICT && v->dict->type && type->kind == CR_STYPE_DICT)
        return cr_stype_is_subtype(v->dict->type, type);
    return cr_ivalue_fit(&copy, type);
}
