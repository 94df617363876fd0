/* The C API of TorchScript programs: include/cresset_script.h. */
#include "io/safetensors.h"
#include "io/source.h"
#include "nn/nn.h"
#include "script/archive.h"
#include "script/execute.h"
#include "script/exported.h"
#include <string.h>

#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view
#include "cresset_script.h"

static cr_status script_need(const void *p, const char *function, const char *what,
                             const char *type)
{
    return p ? CR_OK
             : cr_fail(CR_TYPE, "%s(): argument '%s' must be %s, not NoneType", function, what,
                       type);
}

/* --- values --- */

/* Whether the value has what its kind refers to: callers may fill in the struct by hand. */
static bool script_is_whole(const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_TENSOR:
    case CR_IV_STRING:
    case CR_IV_LIST:
    case CR_IV_TUPLE:
    case CR_IV_DICT:
    case CR_IV_OBJECT:
    case CR_IV_ENUM:
    case CR_IV_GENERATOR: return v->t != NULL;
    default: return v->kind < CR_IV_KIND_COUNT;
    }
}

static const char *script_kind(const cr_ivalue *v)
{
    return v->kind >= CR_IV_KIND_COUNT ? "?"
           : script_is_whole(v)        ? cr_ivalue_kind_name(v)
                                       : "NoneType";
}

static cr_status script_need_whole(const cr_ivalue *v, size_t count, const char *function)
{
    for (size_t i = 0; i < count; i++)
        if (!script_is_whole(&v[i]))
            return cr_fail(CR_TYPE, "%s(): value %zu has no content: it is a %s", function, i,
                           script_kind(&v[i]));
    return CR_OK;
}

cr_ivalue cr_ivalue_hold(cr_ivalue v) { return script_is_whole(&v) ? cr_ivalue_keep(v) : v; }
void cr_ivalue_free(cr_ivalue v)
{
    if (script_is_whole(&v))
        cr_ivalue_drop(v);
}

cr_status cr_ivalue_of_text(cr_ivalue *out, const char *text)
{
    CR_TRY(script_need(out, "str", "out", "a value"));
    CR_TRY(script_need(text, "str", "text", "str"));
    return cr_istring_new(out, text, strlen(text));
}

cr_status cr_ivalue_of_device(cr_ivalue *out, const char *name)
{
    CR_TRY(script_need(out, "device", "out", "a value"));
    CR_TRY(script_need(name, "device", "name", "str"));
    return cr_ivalue_device(out, name);
}

static cr_status script_items(cr_ivalue *out, const cr_ivalue *items, size_t count, bool tuple)
{
    cr_ivalue made;

    CR_TRY(script_need(out, "list", "out", "a value"));
    CR_TRY(script_need(count ? items : out, "list", "items", "a list"));
    CR_TRY(script_need_whole(items, count, "list"));
    CR_TRY(tuple ? cr_ituple_new(&made, NULL, count) : cr_ilist_new(&made, NULL, count));
    for (size_t i = 0; i < count; i++) {
        cr_ivalue item = cr_ivalue_keep(items[i]);
        if (tuple) {
            made.list->at[i] = item;
            continue;
        }
        cr_status st = cr_ilist_append(made.list, item);
        if (st)
            return cr_ivalue_drop(made), st;
    }
    *out = made;
    return CR_OK;
}

cr_status cr_ivalue_list(cr_ivalue *out, const cr_ivalue *items, size_t count)
{
    return script_items(out, items, count, false);
}

cr_status cr_ivalue_tuple(cr_ivalue *out, const cr_ivalue *items, size_t count)
{
    return script_items(out, items, count, true);
}

static bool script_is_key(const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_INT:
    case CR_IV_FLOAT:
    case CR_IV_BOOL:
    case CR_IV_COMPLEX:
    case CR_IV_STRING:
    case CR_IV_TENSOR: return true;
    default: return false;
    }
}

cr_status cr_ivalue_dict(cr_ivalue *out, const cr_ivalue *keys, const cr_ivalue *values,
                         size_t count)
{
    cr_ivalue made;
    cr_status st = CR_OK;

    CR_TRY(script_need(out, "dict", "out", "a value"));
    CR_TRY(script_need(count ? keys : out, "dict", "keys", "a list"));
    CR_TRY(script_need(count ? values : out, "dict", "values", "a list"));
    CR_TRY(script_need_whole(keys, count, "dict"));
    CR_TRY(script_need_whole(values, count, "dict"));
    CR_TRY(cr_idict_new(&made, NULL));
    for (size_t i = 0; !st && i < count; i++)
        st = script_is_key(&keys[i])
                 ? cr_idict_set(made.dict, cr_ivalue_keep(keys[i]), cr_ivalue_keep(values[i]))
                 : cr_fail(CR_TYPE, "unhashable type: '%s'", cr_ivalue_kind_name(&keys[i]));
    if (st)
        return cr_ivalue_drop(made), st;
    *out = made;
    return CR_OK;
}

const char *cr_ivalue_string(const cr_ivalue *v, size_t *len)
{
    if (!v || v->kind != CR_IV_STRING || !v->string)
        return NULL;
    if (len)
        *len = v->string->len;
    return v->string->at;
}

size_t cr_ivalue_count(const cr_ivalue *v)
{
    if (!v || !script_is_whole(v))
        return 0;
    return v->kind == CR_IV_LIST || v->kind == CR_IV_TUPLE ? v->list->len
           : v->kind == CR_IV_DICT                         ? v->dict->len
                                                           : 0;
}

const cr_ivalue *cr_ivalue_item(const cr_ivalue *v, size_t i)
{
    if (i >= cr_ivalue_count(v))
        return NULL;
    return v->kind == CR_IV_DICT ? &v->dict->at[i].value : &v->list->at[i];
}

const cr_ivalue *cr_ivalue_key(const cr_ivalue *v, size_t i)
{
    return v && v->kind == CR_IV_DICT && i < cr_ivalue_count(v) ? &v->dict->at[i].key : NULL;
}

const cr_ivalue *cr_ivalue_find(const cr_ivalue *v, const char *key)
{
    for (size_t i = 0; key && v && v->kind == CR_IV_DICT && i < cr_ivalue_count(v); i++) {
        const char *name = cr_ivalue_string(&v->dict->at[i].key, NULL);
        if (name && !strcmp(name, key))
            return &v->dict->at[i].value;
    }
    return NULL;
}

/* Gives the text to the caller, or frees it. */
static cr_status script_give(char **out, cr_text *text, cr_status st)
{
    st = st ? st : cr_text_status(text);
    if (!st)
        cr_text_put(text, ""); /* ends also an empty text */
    if (st)
        cr_text_drop(text);
    else
        *out = text->at;
    return st;
}

cr_status cr_ivalue_text(char **out, const cr_ivalue *v)
{
    cr_text text = {0};

    CR_TRY(script_need(out, "str", "out", "a string"));
    CR_TRY(script_need(v, "str", "value", "a value"));
    CR_TRY(script_need_whole(v, 1, "str"));
    return script_give(out, &text, cr_ivalue_print(&text, v));
}

/* --- reading and writing --- */

static cr_status script_read(cr_script **out, cr_source *source)
{
    cr_ivalue v;

    CR_TRY(cr_init()); /* without operators, sources of archives mean other things */
    CR_TRY(cr_sexported_read(&v, source));
    if (v.kind == CR_IV_NONE)
        CR_TRY(cr_sarchive_read(&v, source, NULL));
    if (v.kind != CR_IV_OBJECT) {
        cr_ivalue_drop(v);
        return cr_fail(CR_RUNTIME, "the archive holds no module");
    }
    *out = v.object;
    return CR_OK;
}

cr_status cr_script_load(cr_script **out, const char *path)
{
    cr_source *source = NULL;

    CR_TRY(script_need(out, "load", "out", "a program"));
    CR_TRY(script_need(path, "load", "f", "str"));
    CR_TRY(cr_source_open(&source, path));
    cr_status st = script_read(out, source);
    cr_source_drop(source);
    return st;
}

cr_status cr_script_parse(cr_script **out, const void *bytes, size_t len)
{
    cr_source *source = NULL;
    void *copy;

    CR_TRY(script_need(out, "load", "out", "a program"));
    CR_TRY(script_need(bytes, "load", "bytes", "bytes"));
    copy = cr_alloc(len + !len);
    CR_NEED(copy);
    memcpy(copy, bytes, len);
    cr_status st = cr_source_memory(&source, copy, len, cr_free, copy);
    if (st)
        return cr_free(copy), st;
    st = script_read(out, source);
    cr_source_drop(source);
    return st;
}

static cr_status script_put(void *to, const void *bytes, size_t len)
{
    cr_text_put_n(to, bytes, len);
    return cr_text_status(to);
}

static cr_ivalue script_value(const cr_script *m)
{
    return (cr_ivalue){.kind = CR_IV_OBJECT, .object = (cr_script *)m};
}

/* The name of the archive's folder: that of the file, without what follows its dot. */
static void script_folder(cr_text *out, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    cr_text_put_n(out, name, strcspn(name, "."));
    if (!out->len)
        cr_text_put(out, "archive");
}

cr_status cr_script_save(cr_script *m, const char *path)
{
    cr_text bytes = {0}, folder = {0};

    CR_TRY(script_need(m, "save", "self", "a program"));
    CR_TRY(script_need(path, "save", "f", "str"));
    cr_ivalue v = script_value(m);
    script_folder(&folder, path);
    cr_status st = cr_text_status(&folder);
    st = st ? st : cr_sarchive_write(&v, cr_text_str(&folder), NULL, 0, script_put, &bytes);
    st = st ? st : cr_write_file(path, bytes.at, bytes.len);
    cr_text_drop(&folder);
    cr_text_drop(&bytes);
    return st;
}

cr_script *cr_script_hold(cr_script *m)
{
    if (m)
        (void)cr_ivalue_keep(script_value(m));
    return m;
}

void cr_script_drop(cr_script *m)
{
    if (m)
        cr_ivalue_drop(script_value(m));
}

/* --- what a program has --- */

const char *cr_script_class(const cr_script *m) { return m ? m->type->cls->name : NULL; }

const char *cr_script_method(const cr_script *m, size_t i)
{
    return m && i < m->type->cls->methods.len ? m->type->cls->methods.at[i]->name : NULL;
}

const char *cr_script_attribute(const cr_script *m, size_t i)
{
    return m && i < m->type->cls->attributes.len ? m->type->cls->attributes.at[i].name : NULL;
}

static cr_status script_find_method(cr_sfunction **out, const cr_script *m, const char *method)
{
    CR_TRY(script_need(m, "method", "self", "a program"));
    CR_TRY(script_need(method, "method", "name", "str"));
    cr_sfunction *f = cr_sclass_method(m->type->cls, method);
    if (!f)
        return cr_fail(CR_ATTRIBUTE, "'%s' object has no method '%s'", m->type->cls->name,
                       method);
    *out = f;
    return CR_OK;
}

const char *cr_script_argument(const cr_script *m, const char *method, size_t i)
{
    const cr_sfunction *f = m && method ? cr_sclass_method(m->type->cls, method) : NULL;

    return f && i + 1 < (size_t)f->schema.param_count ? f->schema.param[i + 1].name : NULL;
}

cr_status cr_script_schema(char **out, const cr_script *m, const char *method)
{
    cr_sfunction *f;
    cr_text text = {0};

    CR_TRY(script_find_method(&f, m, method));
    cr_sschema_print(&text, &f->schema);
    return script_give(out, &text, CR_OK);
}

cr_status cr_script_code(char **out, const cr_script *m, const char *method)
{
    cr_sfunction *f;
    cr_text text = {0};

    CR_TRY(script_find_method(&f, m, method));
    return script_give(out, &text, cr_sarchive_method_text(&text, f));
}

cr_status cr_script_graph(char **out, const cr_script *m, const char *method)
{
    cr_sfunction *f;
    cr_text text = {0};

    CR_TRY(script_find_method(&f, m, method));
    if (!f->graph)
        return cr_fail(CR_RUNTIME, "'%s' is not compiled", method);
    cr_sgraph_print(&text, f->graph, true);
    return script_give(out, &text, CR_OK);
}

/* --- attributes --- */

/* The slot of the attribute at a path through modules; NULL when there is none. */
static cr_ivalue *script_slot(const cr_script *m, const char *path,
                              const cr_sattribute **attribute)
{
    cr_ivalue *slot = NULL;
    char name[256];

    for (const char *at = path; m; at += *at == '.') {
        size_t len = strcspn(at, ".");
        if (len >= sizeof name)
            return NULL;
        memcpy(name, at, len);
        name[len] = 0;
        int i = cr_sclass_attribute(m->type->cls, name);
        if (i < 0 || (size_t)i >= m->len)
            return NULL;
        slot = (cr_ivalue *)&m->slot[i];
        *attribute = &m->type->cls->attributes.at[i];
        at += len;
        if (!*at)
            return slot;
        m = slot->kind == CR_IV_OBJECT ? slot->object : NULL;
    }
    return NULL;
}

static cr_status script_find_slot(cr_ivalue **out, const cr_script *m, const char *path,
                                  const cr_sattribute **attribute)
{
    CR_TRY(script_need(m, "attribute", "self", "a program"));
    CR_TRY(script_need(path, "attribute", "name", "str"));
    *out = script_slot(m, path, attribute);
    return *out ? CR_OK
                : cr_fail(CR_ATTRIBUTE, "'%s' object has no attribute '%s'", m->type->cls->name,
                          path);
}

cr_status cr_script_type(char **out, const cr_script *m, const char *path)
{
    const cr_sattribute *attribute;
    cr_text text = {0};
    cr_ivalue *slot;

    CR_TRY(script_find_slot(&slot, m, path, &attribute));
    cr_stype_annotate(&text, attribute->type);
    return script_give(out, &text, CR_OK);
}

cr_status cr_script_get(cr_ivalue *out, const cr_script *m, const char *path)
{
    const cr_sattribute *attribute;
    cr_ivalue *slot;

    CR_TRY(script_need(out, "getattr", "out", "a value"));
    CR_TRY(script_find_slot(&slot, m, path, &attribute));
    *out = cr_islot_get(slot);
    return CR_OK;
}

cr_status cr_script_set(cr_script *m, const char *path, const cr_ivalue *v)
{
    const cr_sattribute *attribute;
    cr_ivalue *slot;

    CR_TRY(script_need(v, "setattr", "value", "a value"));
    CR_TRY(script_find_slot(&slot, m, path, &attribute));
    cr_ivalue held = cr_ivalue_hold(*v);
    if (!script_is_whole(v) || !cr_ivalue_fit(&held, attribute->type)) {
        cr_ivalue_free(held);
        return cr_fail(CR_TYPE, "Could not cast attribute '%s' to type %s: it is a %s", path,
                       cr_stype_annotation(attribute->type), script_kind(v));
    }
    cr_islot_set(slot, held);
    return CR_OK;
}

cr_script *cr_script_at(cr_script *m, const char *path)
{
    const cr_sattribute *attribute;
    cr_ivalue *slot = m && path && *path ? script_slot(m, path, &attribute) : NULL;

    if (path && !*path)
        return m;
    return slot && slot->kind == CR_IV_OBJECT ? slot->object : NULL;
}

cr_tensor *cr_script_tensor(cr_script *m, const char *path)
{
    const cr_sattribute *attribute;
    cr_ivalue *slot = m && path ? script_slot(m, path, &attribute) : NULL;

    return slot && slot->kind == CR_IV_TENSOR ? slot->t : NULL;
}

/* --- calling --- */

/* RuntimeError: "forward() TEXT Declaration: ..." */
static cr_status script_refuse(const cr_sfunction *f, const char *text)
{
    cr_text declared = {0};

    cr_sschema_print(&declared, &f->schema);
    cr_status st =
        cr_fail(CR_RUNTIME, "%s() %sDeclaration: %s", f->name, text, cr_text_str(&declared));
    cr_text_drop(&declared);
    return st;
}

static cr_status script_refuse_value(const cr_sfunction *f, int i, const cr_ivalue *v)
{
    cr_text text = {0};

    cr_text_printf(&text,
                   "Expected a value of type '%s' for argument '%s' but instead found type "
                   "'%s'.\nPosition: %d\n",
                   cr_stype_annotation(f->schema.param[i].type), f->schema.param[i].name,
                   script_kind(v), i);
    cr_status st = script_refuse(f, cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

static cr_status script_check_count(const cr_sfunction *f, size_t count)
{
    const cr_sschema *s = &f->schema;
    cr_text text = {0};

    if (count >= (size_t)s->param_count)
        cr_text_printf(&text, "expected at most %d argument(s) but received %zu argument(s). ",
                       s->param_count, count + (count < SIZE_MAX));
    for (int i = (int)count + 1; !text.len && i < s->param_count; i++)
        if (!s->param[i].preset)
            cr_text_printf(&text, "is missing value for argument '%s'. ", s->param[i].name);
    cr_status st = text.len ? script_refuse(f, cr_text_str(&text)) : CR_OK;
    cr_text_drop(&text);
    return st;
}

cr_status cr_script_call(cr_ivalue *out, cr_script *m, const char *method,
                         const cr_ivalue *args, size_t count)
{
    cr_sfunction *f;
    cr_status st = CR_OK;

    CR_TRY(script_find_method(&f, m, method));
    CR_TRY(script_need(out, method, "out", "a value"));
    CR_TRY(script_need(count ? args : (const void *)m, method, "args", "a list"));
    CR_TRY(script_check_count(f, count));
    cr_ivalue *all = cr_alloc((count + 1) * sizeof *all);
    CR_NEED(all);
    all[0] = script_value(m);
    for (size_t i = 0; !st && i < count; i++) {
        bool whole =
            args[i].kind == CR_IV_INT && f->schema.param[1 + i].type->kind == CR_STYPE_FLOAT;
        all[1 + i] = whole ? cr_iv_float((double)args[i].i) : args[i];
        if (!script_is_whole(&args[i]) ||
            !cr_ivalue_fit(&all[1 + i], f->schema.param[1 + i].type))
            st = script_refuse_value(f, (int)i + 1, &args[i]);
    }
    st = st ? st : cr_sfunction_run(out, f, all, (int)count + 1, NULL);
    cr_free(all);
    return st;
}

/* --- modules inside --- */

/* Calls `each` for m and the modules below it, each once, parents first. */
typedef struct {
    cr_status (*each)(void *context, cr_script *m);
    void *context;
    CR_VEC(cr_script *) seen;
} script_walk;

static cr_status script_visit(script_walk *w, cr_script *m)
{
    for (size_t i = 0; i < w->seen.len; i++)
        if (w->seen.at[i] == m)
            return CR_OK;
    CR_TRY(cr_vec_reserve(&w->seen, 1));
    cr_vec_put(&w->seen, m);
    CR_TRY(w->each(w->context, m));
    for (size_t i = 0; i < m->len; i++)
        if (m->slot[i].kind == CR_IV_OBJECT && m->slot[i].object->type->cls->is_module)
            CR_TRY(script_visit(w, m->slot[i].object));
    return CR_OK;
}

static cr_status script_each(cr_script *m, cr_status (*each)(void *, cr_script *),
                             void *context)
{
    script_walk w = {.each = each, .context = context};
    cr_status st = script_visit(&w, m);

    cr_vec_drop(&w.seen);
    return st;
}

/* Threads may call one program: only a mode that differs is written. */
static cr_status script_set_mode(void *context, cr_script *m)
{
    int i = cr_sclass_attribute(m->type->cls, "training");
    bool on = *(const bool *)context;

    if (i >= 0 && m->type->cls->attributes.at[i].type->kind == CR_STYPE_BOOL &&
        (m->slot[i].kind != CR_IV_BOOL || m->slot[i].i != on))
        cr_ivalue_set(&m->slot[i], cr_iv_bool(on));
    return CR_OK;
}

cr_status cr_script_train(cr_script *m, bool on)
{
    CR_TRY(script_need(m, "train", "self", "a program"));
    return script_each(m, script_set_mode, &on);
}

typedef CR_VEC(cr_tensor *) script_tensors;

static cr_status script_add_parameters(void *context, cr_script *m)
{
    script_tensors *list = context;

    for (size_t i = 0; i < m->len; i++) {
        bool known =
            !m->type->cls->attributes.at[i].parameter || m->slot[i].kind != CR_IV_TENSOR;
        for (size_t k = 0; !known && k < list->len; k++)
            known = list->at[k] == m->slot[i].t;
        if (known)
            continue;
        CR_TRY(cr_vec_reserve(list, 1));
        cr_vec_put(list, m->slot[i].t);
    }
    return CR_OK;
}

cr_status cr_script_parameters(cr_tensors *out, cr_script *m)
{
    script_tensors list = {0};

    CR_TRY(script_need(m, "parameters", "self", "a program"));
    CR_TRY(script_need(out, "parameters", "out", "a list"));
    cr_status st = script_each(m, script_add_parameters, &list);
    if (st) {
        cr_vec_drop(&list);
        return st;
    }
    *out = (cr_tensors){.at = list.at, .len = list.len};
    return CR_OK;
}

/* --- as a module --- */

static cr_status script_results(cr_tensor **out, size_t outs, const cr_ivalue *v,
                                const char *class)
{
    bool one = v->kind == CR_IV_TENSOR && outs == 1, fits = one;

    if (v->kind == CR_IV_TUPLE || v->kind == CR_IV_LIST) {
        fits = v->list->len == outs;
        for (size_t i = 0; fits && i < outs; i++)
            fits = v->list->at[i].kind == CR_IV_TENSOR;
    }
    if (!fits)
        return cr_fail(CR_TYPE, "%s.forward() does not return %zu tensor%s", class, outs,
                       outs == 1 ? "" : "s");
    for (size_t i = 0; i < outs; i++)
        out[i] = cr_keep(one ? v->t : v->list->at[i].t);
    return CR_OK;
}

/* Sets programs to the modes of their modules. */
static void script_follow_mode(cr_script *m, cr_module *as)
{
    const char *name;
    cr_module *child;
    bool on = cr_module_training(as);

    (void)script_set_mode(&on, m);
    for (size_t i = 0; (child = cr_module_child(as, i, &name)); i++) {
        cr_script *below = cr_script_at(m, name);
        if (below)
            script_follow_mode(below, child);
    }
}

static cr_status script_forward(cr_tensor **out, size_t outs, cr_module *as,
                                cr_tensor *const *input, size_t inputs, void *context)
{
    cr_script *m = context;
    cr_ivalue *args = cr_alloc((inputs + 1) * sizeof *args), result;

    CR_NEED(args);
    script_follow_mode(m, as);
    for (size_t i = 0; i < inputs; i++)
        args[i] = cr_iv_tensor(input[i]);
    cr_status st = cr_script_call(&result, m, "forward", args, inputs);
    cr_free(args);
    if (st)
        return st;
    st = script_results(out, outs, &result, m->type->cls->name);
    cr_ivalue_drop(result);
    return st;
}

static void script_release(void *m) { cr_script_drop(m); }

/* A parameter keeps whether it requires a gradient. */
static cr_status script_share(cr_module *as, const cr_sattribute *a, cr_tensor *t)
{
    bool wanted = cr_requires_grad(t);

    if (a->buffer)
        return cr_module_set_buffer(as, a->name, t, true);
    CR_TRY(cr_module_set_parameter(as, a->name, t));
    return wanted ? CR_OK : cr_set_requires_grad(t, false);
}

enum { SCRIPT_DEPTH = 256 };

static cr_status script_wrap(cr_module **out, cr_script *m, int depth);

static cr_status script_fill(cr_module *as, cr_script *m, int depth)
{
    const cr_sclass *cls = m->type->cls;

    for (size_t i = 0; i < m->len; i++) {
        const cr_sattribute *a = &cls->attributes.at[i];
        const cr_ivalue *v = &m->slot[i];
        if (v->kind == CR_IV_TENSOR && (a->parameter || a->buffer))
            CR_TRY(script_share(as, a, v->t));
        if (v->kind != CR_IV_OBJECT || !v->object->type->cls->is_module)
            continue;
        cr_module *child = NULL;
        CR_TRY(script_wrap(&child, v->object, depth + 1));
        cr_status st = cr_module_add(as, a->name, child);
        cr_module_drop(child);
        if (st)
            return st;
    }
    return CR_OK;
}

static cr_status script_wrap(cr_module **out, cr_script *m, int depth)
{
    const char *name = strrchr(m->type->cls->name, '.');
    int mode = cr_sclass_attribute(m->type->cls, "training");
    cr_module *as = NULL;

    if (depth > SCRIPT_DEPTH)
        return cr_fail(CR_RUNTIME, "modules are inside of each other more than %d times",
                       SCRIPT_DEPTH);
    CR_TRY(cr_module_define_many(&as, name ? name + 1 : m->type->cls->name, script_forward, m));
    cr_status st = cr_module_own_context(as, script_release);
    cr_script_hold(m);
    if (!st && mode >= 0 && m->slot[mode].kind == CR_IV_BOOL)
        st = cr_module_train(as, m->slot[mode].i); /* before it has children with other modes */
    st = st ? st : script_fill(as, m, depth);
    CR_GIVE(st, out, as, cr_module_drop);
}

cr_status cr_script_as_module(cr_module **out, cr_script *m)
{
    CR_TRY(script_need(out, "Module", "out", "Module"));
    CR_TRY(script_need(m, "Module", "self", "a program"));
    return script_wrap(out, m, 0);
}

cr_script *cr_script_of_module(cr_module *m) { return cr_module_context(m, script_release); }
