/* Writing TorchScript archives: classes as source text, objects as pickles, storages as
 * records.
 *
 * The classes and functions that the module's class reaches are found first, each behind those
 * that it names; then each file of sources has its classes in that order.  Of two with one
 * name, from two units, the later one gets another name in the archive. */
#include "autograd/autograd.h"
#include "base/map.h"
#include "io/zip.h"
#include "script/archive.h"
#include "script/code.h"
#include "script/execute.h"
#include "script/operators.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const cr_sclass *cls;
    const cr_sfunction *function;
    const char *name; /* in the archive */
} save_item;

/* What `__getstate__` of an object returned, which is saved in place of its attributes. */
typedef struct {
    cr_ivalue value;
    const cr_stype *type;
} save_state;

/* Of archives whose operators never changed. */
enum { SAVE_LOWEST_VERSION = 3 };

/* Writes an archive of TorchScript.
 * Invariant: an item follows those that it names. names and taken agree: each name of an
 * address is taken. storages, memo and open are of the pickle that is being written. */
typedef struct {
    cr_zip_writer zip;
    int version;             /* the lowest one in which all operators mean what they do today */
    CR_VEC(save_item) items; /* what is named comes before what names it */
    cr_map seen;             /* classes and functions by address */
    cr_map names, taken;     /* names in the archive, by address; those that are taken */
    unsigned mangled;        /* number of the next name that is made */
    CR_VEC(char *) made;     /* names that are made */
    cr_scode_tensors tensors;
    cr_map state_of; /* objects with a state, by address: its number + 1 */
    CR_VEC(save_state) states;
    /* of the pickle that is written: */
    const char *folder; /* data or constants */
    cr_text pickle;
    cr_map storages; /* by address: number + 1 */
    CR_VEC(cr_tensor *) kept;
    cr_map memo; /* boxes and tensors that are written, by address: number + 1 */
    cr_map open; /* objects whose attributes are being written */
    uint32_t memo_count;
} saver;

/* --- what the module reaches --- */

static cr_status save_class(saver *s, const cr_sclass *c);
static cr_status save_function(saver *s, const cr_sfunction *f);

static bool save_is_new(saver *s, const void *at, cr_status *st)
{
    bool is = !cr_map_get(&s->seen, (const char *)&at, sizeof at);

    *st = is ? cr_map_set(&s->seen, (const char *)&at, sizeof at, s) : CR_OK;
    return is && !*st;
}

static cr_status save_type(saver *s, const cr_stype *t)
{
    for (int i = 0; i < t->count; i++)
        CR_TRY(save_type(s, t->item[i]));
    return t->cls ? save_class(s, t->cls) : CR_OK;
}

static cr_status save_refuse_python(const cr_snode *n)
{
    cr_text where = {0};

    cr_srange_mark(&where, n->from.range);
    cr_status st = cr_fail(
        CR_RUNTIME,
        "\nCould not export Python function call '%s'. Remove calls to Python functions "
        "before export. Did you forget to add @script or @script_method annotation? If "
        "this is a nn.ModuleList, add it to __constants__:\n%s",
        n->name, cr_text_str(&where));
    cr_text_drop(&where);
    return st;
}

static cr_status save_block(saver *s, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->output_count; i++)
            CR_TRY(save_type(s, n->output[i]->type));
        for (int i = 0; i < n->tests.type_count; i++)
            CR_TRY(save_type(s, n->tests.types[i]));
        if (n->prim == CR_SPRIM_PYTHON)
            return save_refuse_python(n);
        if (n->prim == CR_SPRIM_OPERATOR && s->version < cr_slibrary_version(n->schema->name))
            s->version = cr_slibrary_version(n->schema->name);
        if (n->prim == CR_SPRIM_CONSTANT && n->value->type->kind == CR_STYPE_FUNCTION)
            CR_TRY(n->value->function->owner ? save_class(s, n->value->function->owner)
                                             : save_function(s, n->value->function));
        for (int i = 0; i < n->block_count; i++)
            CR_TRY(save_block(s, n->block[i]));
    }
    return CR_OK;
}

static cr_status save_signature(saver *s, const cr_sfunction *f)
{
    for (int i = 0; i < f->schema.param_count; i++)
        CR_TRY(save_type(s, f->schema.param[i].type));
    for (int i = 0; i < f->schema.result_count; i++)
        CR_TRY(save_type(s, f->schema.result[i].type));
    return f->graph ? save_block(s, f->graph->body) : CR_OK;
}

static void save_hooks(cr_text *out, const char *name, cr_sfunction *const *hook, size_t count)
{
    if (!count)
        return;
    cr_text_printf(out, "  %s = [", name);
    for (size_t i = 0; i < count; i++)
        cr_text_printf(out, "\"%s\", ", hook[i]->name);
    cr_text_put(out, "]\n");
}

/* a.B -> a.___torch_mangle_0.B, a.___torch_mangle_0.B -> a.___torch_mangle_1.B, as torch
 * does. */
static cr_status save_mangle(saver *s, const char *name, char **out)
{
    static const char mark[] = "___torch_mangle_";
    const char *at = strstr(name, mark);
    const char *rest = at ? at + strcspn(at, ".") : strrchr(name, '.') + 1;
    cr_text made = {0};

    cr_text_printf(&made, "%.*s%s%u%s%s", (int)((at ? at : rest) - name), name, mark,
                   s->mangled++, at ? "" : ".", rest);
    cr_status st = cr_text_status(&made);
    if (!st && !(st = cr_vec_reserve(&s->made, 1))) {
        cr_vec_put(&s->made, made.at);
        *out = made.at;
        return CR_OK;
    }
    cr_text_drop(&made);
    return st;
}

/* Gives an item, whose name is `own`, a name that no other one has in the archive. */
static cr_status save_put_item(saver *s, save_item item, const void *of, const char *own)
{
    char *made = NULL;

    for (item.name = own; cr_map_get(&s->taken, item.name, strlen(item.name)); item.name = made)
        CR_TRY(save_mangle(s, item.name, &made));
    CR_TRY(cr_map_set(&s->taken, item.name, strlen(item.name), s));
    if (made)
        CR_TRY(cr_map_set(&s->names, (const char *)&of, sizeof of, made));
    CR_TRY(cr_vec_reserve(&s->items, 1));
    cr_vec_put(&s->items, item);
    return CR_OK;
}

static cr_status save_function(saver *s, const cr_sfunction *f)
{
    cr_status st;

    if (f->stands_for || !save_is_new(s, f, &st))
        return f->stands_for ? CR_OK : st;
    if (strncmp(f->qualified, "__torch__.", 10))
        return cr_fail(CR_RUNTIME,
                       "'%s' cannot be saved: it stands for an operator that was "
                       "read from another archive",
                       f->qualified);
    CR_TRY(save_signature(s, f));
    return save_put_item(s, (save_item){.function = f}, f, f->qualified);
}

static cr_status save_class(saver *s, const cr_sclass *c)
{
    cr_status st;

    if (!save_is_new(s, c, &st))
        return st;
    for (size_t i = 0; i < c->attributes.len; i++)
        CR_TRY(save_type(s, c->attributes.at[i].type));
    for (size_t i = 0; i < c->methods.len; i++)
        if (!c->methods.at[i]->caller)
            CR_TRY(save_signature(s, c->methods.at[i]));
    return save_put_item(s, (save_item){.cls = c}, c, c->name);
}

static cr_status save_reach(saver *s, const cr_ivalue *v);

static cr_status save_reach_all(saver *s, const cr_ivalue *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CR_TRY(save_reach(s, &at[i]));
    return CR_OK;
}

/* `__getstate__` of a class, where the state that it returns is what `__setstate__` takes. */
static cr_sfunction *save_state_function(const cr_sclass *c)
{
    cr_sfunction *get = cr_sclass_method(c, "__getstate__");
    const cr_sfunction *set = cr_sclass_method(c, "__setstate__");
    bool both = get && set && get->schema.param_count == 1 && get->schema.result_count == 1 &&
                set->schema.param_count == 2;
    bool fit = both && cr_stype_equal(get->schema.result[0].type, set->schema.param[1].type);

    return fit ? get : NULL;
}

static cr_status save_take_state(saver *s, const cr_iobject *o, cr_sfunction *get)
{
    save_state state = {.type = get->schema.result[0].type};
    cr_ivalue self = {.kind = CR_IV_OBJECT, .object = (cr_iobject *)o};

    CR_TRY(cr_vec_reserve(&s->states, 1));
    CR_TRY(cr_sfunction_run(&state.value, get, &self, 1, NULL));
    cr_vec_put(&s->states, state);
    CR_TRY(cr_map_set(&s->state_of, (const char *)&o, sizeof o, (void *)s->states.len));
    return save_reach(s, &state.value);
}

static cr_status save_reach_object(saver *s, const cr_iobject *o)
{
    CR_TRY(save_class(s, o->type->cls));
    cr_sfunction *get = save_state_function(o->type->cls);
    return get ? save_take_state(s, o, get) : save_reach_all(s, o->slot, o->len);
}

static cr_status save_reach_pairs(saver *s, const cr_idict *d)
{
    for (size_t i = 0; i < d->len; i++) {
        CR_TRY(save_reach(s, &d->at[i].key));
        CR_TRY(save_reach(s, &d->at[i].value));
    }
    return CR_OK;
}

/* The classes of a value's objects, which types need not name: Any, and interfaces. */
static cr_status save_reach(saver *s, const cr_ivalue *v)
{
    cr_status st = CR_OK;
    bool box = v->kind == CR_IV_LIST || v->kind == CR_IV_TUPLE || v->kind == CR_IV_DICT ||
               v->kind == CR_IV_OBJECT;

    if (!box || !save_is_new(s, v->box, &st))
        return v->kind == CR_IV_ENUM ? save_class(s, v->member->type->cls) : st;
    if (v->kind == CR_IV_OBJECT)
        return save_reach_object(s, v->object);
    if (v->kind == CR_IV_DICT)
        return save_reach_pairs(s, v->dict);
    return save_reach_all(s, v->list->at, v->list->len);
}

/* --- source text --- */

static bool save_is_identifier(const char *name)
{
    return strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") ==
               strlen(name) &&
           !(*name >= '0' && *name <= '9');
}

static void save_name_list(cr_text *out, const cr_sclass *c, const char *list, bool parameters)
{
    cr_text_printf(out, "  %s = [", list);
    for (size_t i = 0; i < c->attributes.len; i++)
        if (parameters ? c->attributes.at[i].parameter : c->attributes.at[i].buffer)
            cr_text_printf(out, "\"%s\", ", c->attributes.at[i].name);
    cr_text_put(out, "]\n");
}

static void save_attributes(cr_text *out, const cr_sclass *c, const cr_scode *how)
{
    for (size_t i = 0; i < c->attributes.len; i++) {
        const cr_sattribute *a = &c->attributes.at[i];
        cr_text_printf(
            out,
            save_is_identifier(a->name) ? "  %s : " : "  __annotations__[\"%s\"] = ", a->name);
        cr_stype_annotate_as(out, a->type, how->names);
        cr_text_put(out, "\n");
    }
}

/* Archives have no defaults of named tuples: their calls name every field. */
static void save_constants(cr_text *out, const cr_sclass *c, const cr_scode *how)
{
    for (size_t i = 0; c->type->kind != CR_STYPE_TUPLE && i < c->constants.len; i++) {
        const cr_sclass_constant *k = &c->constants.at[i];
        if (c->type->kind == CR_STYPE_ENUM) {
            cr_text_printf(out, "  %s = ", k->name);
        } else {
            cr_text_printf(out, "  %s : Final[", k->name);
            cr_stype_annotate_as(out, k->value->type, how->names);
            cr_text_put(out, "] = ");
        }
        cr_scode_constant(out, k->value, how);
        cr_text_put(out, "\n");
    }
}

/* The text of a function, its lines indented by two blanks. */
static cr_status save_method(cr_text *out, const cr_sfunction *f, const cr_scode *how)
{
    cr_text text = {0};
    cr_status st = cr_scode_function(&text, f, how);

    for (const char *at = cr_text_str(&text), *end; !st && *at; at = end + 1) {
        end = strchr(at, '\n');
        cr_text_put(out, "  ");
        cr_text_put_n(out, at, (size_t)(end - at) + 1);
    }
    cr_text_drop(&text);
    return st;
}

static const char *save_base(const cr_sclass *c)
{
    return c->type->kind == CR_STYPE_INTERFACE
               ? (c->is_module ? "(ModuleInterface)" : "(Interface)")
           : c->is_module                    ? "(Module)"
           : c->type->kind == CR_STYPE_TUPLE ? "(NamedTuple)"
           : c->type->kind == CR_STYPE_ENUM  ? "(Enum)"
                                             : "";
}

/* A method of an interface, which has no body. */
static void save_declaration(cr_text *out, const cr_sfunction *f, const cr_scode *how)
{
    const cr_sschema *s = &f->schema;

    cr_text_printf(out, "  def %s(self", f->name);
    for (int i = 1; i < s->param_count; i++) {
        cr_text_printf(out, ", %s: ", s->param[i].name);
        cr_stype_annotate_as(out, s->param[i].type, how->names);
    }
    cr_text_put(out, ") -> ");
    cr_stype_annotate_as(out, s->result_count ? s->result->type : CR_STYPE_OF(NONE),
                         how->names);
    cr_text_put(out, ":\n    pass\n");
}

static cr_status save_class_text(cr_text *out, const cr_sclass *c, const cr_scode *how)
{
    const char *name = cr_sname_as(c, c->name, how->names), *dot = strrchr(name, '.');
    size_t before = out->len;

    cr_text_printf(out, "class %s%s:\n", dot ? dot + 1 : name, save_base(c));
    if (c->is_module && c->type->kind != CR_STYPE_INTERFACE) {
        save_name_list(out, c, "__parameters__", true);
        save_name_list(out, c, "__buffers__", false);
        save_hooks(out, "__forward_pre_hooks__", c->prehooks.at, c->prehooks.len);
        save_hooks(out, "__forward_hooks__", c->hooks.at, c->hooks.len);
    }
    save_attributes(out, c, how);
    save_constants(out, c, how);
    for (size_t i = 0; i < c->methods.len; i++)
        if (c->type->kind == CR_STYPE_INTERFACE)
            save_declaration(out, c->methods.at[i], how);
        else if (c->methods.at[i]->graph)
            CR_TRY(save_method(out, c->methods.at[i], how));
    if (!strchr(out->at + before, '\n')[1])
        cr_text_put(out, "  pass\n");
    return CR_OK;
}

static size_t save_qualifier(const save_item *item)
{
    return (size_t)(strrchr(item->name, '.') - item->name);
}

static bool save_same_file(const save_item *a, const save_item *b)
{
    size_t n = save_qualifier(a);

    return n == save_qualifier(b) && !strncmp(a->name, b->name, n);
}

/* Writes the file of item i with all items of that file. */
static cr_status save_file(saver *s, size_t i)
{
    cr_scode how = {.tensors = &s->tensors, .self_type = true, .names = &s->names};
    cr_text text = {0}, name = {0};
    cr_status st = CR_OK;

    for (size_t k = i; k < s->items.len; k++) {
        const save_item *item = &s->items.at[k];
        if (!save_same_file(item, &s->items.at[i]))
            continue;
        if (item->cls)
            CR_GO(save_class_text(&text, item->cls, &how));
        else
            CR_GO(cr_scode_function(&text, item->function, &how));
    }
    cr_text_printf(&name, "code/%.*s.py", (int)save_qualifier(&s->items.at[i]),
                   s->items.at[i].name);
    CR_GO(cr_text_status(&name));
    CR_GO(cr_text_status(&text));
    for (char *p = name.at + 5; p < name.at + name.len - 3; p++)
        *p = *p == '.' ? '/' : *p;
    CR_GO(cr_zip_add(&s->zip, name.at, text.at, text.len));
done:
    cr_text_drop(&text);
    cr_text_drop(&name);
    return st;
}

static cr_status save_files(saver *s)
{
    for (size_t i = 0; i < s->items.len; i++) {
        bool written = false;
        for (size_t k = 0; k < i && !written; k++)
            written = save_same_file(&s->items.at[k], &s->items.at[i]);
        if (!written)
            CR_TRY(save_file(s, i));
    }
    return CR_OK;
}

/* --- pickles --- */

static cr_status save_value(saver *s, const cr_ivalue *v, const cr_stype *type);

static void save_byte(saver *s, int b) { cr_text_char(&s->pickle, (char)b); }

static void save_u32(saver *s, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        save_byte(s, (int)(n >> 8 * i & 255));
}

static void save_text(saver *s, const char *text, size_t len)
{
    save_byte(s, 'X');
    save_u32(s, (uint32_t)len);
    cr_text_put_n(&s->pickle, text, len);
}

static void save_int(saver *s, int64_t i)
{
    if (i >= INT32_MIN && i <= INT32_MAX) {
        save_byte(s, 'J');
        save_u32(s, (uint32_t)(int32_t)i);
        return;
    }
    save_byte(s, 0x8a);
    save_byte(s, 8);
    for (int k = 0; k < 8; k++)
        save_byte(s, (int)((uint64_t)i >> 8 * k & 255));
}

static void save_float(saver *s, double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof bits);
    save_byte(s, 'G');
    for (int k = 7; k >= 0; k--)
        save_byte(s, (int)(bits >> 8 * k & 255));
}

static void save_global(saver *s, const char *module, const char *name)
{
    cr_text_printf(&s->pickle, "c%s\n%s\n", module, name);
}

static void save_class_name(saver *s, const cr_sclass *c)
{
    const char *name = cr_sname_as(c, c->name, &s->names), *dot = strrchr(name, '.');

    cr_text_printf(&s->pickle, "c%.*s\n%s\n", (int)(dot - name), name, dot + 1);
}

/* --- values that are written once --- */

static void save_memo_op(saver *s, int byte_op, int u32_op, uint32_t number)
{
    save_byte(s, number < 256 ? byte_op : u32_op);
    if (number < 256)
        save_byte(s, (int)number);
    else
        save_u32(s, number);
}

/* Refers to the box or tensor when it was written before; else false. */
static bool save_recall(saver *s, const void *at)
{
    uintptr_t known = (uintptr_t)cr_map_get(&s->memo, (const char *)&at, sizeof at);

    if (known)
        save_memo_op(s, 'h', 'j', (uint32_t)known - 1);
    return known != 0;
}

/* Numbers the box or tensor that is on top of the reader's stack. */
static cr_status save_remember(saver *s, const void *at)
{
    uint32_t number = s->memo_count++;

    save_memo_op(s, 'q', 'r', number);
    return cr_map_set(&s->memo, (const char *)&at, sizeof at, (void *)((uintptr_t)number + 1));
}

/* --- tensors --- */

static cr_status save_storage_bytes(saver *s, cr_tensor *t, unsigned number)
{
    char name[64], *bytes = NULL;

    snprintf(name, sizeof name, "%s/%u", s->folder, number);
    if (!cr_has_bytes(t->device))
        return cr_zip_add(&s->zip, name, "", 0);
    CR_TRY(cr_reach_storage(&bytes, t->storage));
    return cr_zip_add(&s->zip, name, bytes ? bytes : "", t->storage->size);
}

/* The number of the tensor's storage, which is written when it is new. */
static cr_status save_storage(saver *s, cr_tensor *t, unsigned *number)
{
    const void *at = t->storage;
    uintptr_t known = (uintptr_t)cr_map_get(&s->storages, (const char *)&at, sizeof at);

    *number = known ? (unsigned)known - 1 : (unsigned)s->kept.len;
    if (known)
        return CR_OK;
    CR_TRY(cr_vec_reserve(&s->kept, 1));
    cr_vec_put(&s->kept, cr_keep(t));
    CR_TRY(cr_map_set(&s->storages, (const char *)&at, sizeof at,
                      (void *)(uintptr_t)(*number + 1)));
    return save_storage_bytes(s, t, *number);
}

static void save_ints(saver *s, const int64_t *at, int n)
{
    save_byte(s, '(');
    for (int i = 0; i < n; i++)
        save_int(s, at[i]);
    save_byte(s, 't');
}

/* A tensor on the host, or on meta. */
static cr_status save_near_tensor(saver *s, cr_tensor *t)
{
    const cr_dtype_info *info = &cr_dtype_infos[t->dtype];
    const char *place = cr_has_bytes(t->device) ? "cpu" : "meta";
    char key[16], kind[64];
    unsigned number;

    CR_TRY(save_storage(s, t, &number));
    snprintf(key, sizeof key, "%u", number);
    snprintf(kind, sizeof kind, "%sStorage", info->legacy);
    save_global(s, "torch._utils", "_rebuild_tensor_v2");
    cr_text_put(&s->pickle, "((");
    save_text(s, "storage", 7);
    save_global(s, "torch", kind);
    save_text(s, key, strlen(key));
    save_text(s, place, strlen(place));
    save_int(s, (int64_t)(t->storage->size / info->size));
    cr_text_put(&s->pickle, "tQ");
    save_int(s, t->offset);
    save_ints(s, t->size, t->ndim);
    save_ints(s, t->stride, t->ndim);
    save_byte(s, t->requires_grad && cr_is_leaf(t) ? 0x88 : 0x89);
    save_global(s, "collections", "OrderedDict");
    cr_text_put(&s->pickle, ")RtR");
    return CR_OK;
}

static cr_status save_check_tensor(const cr_tensor *t)
{
    if (t->layout != CR_LAYOUT_STRIDED)
        return cr_fail(CR_NOT_IMPLEMENTED,
                       "tensors of layout torch.%s cannot be saved in "
                       "TorchScript archives",
                       cr_layout_names[t->layout]);
    return CR_OK;
}

static cr_status save_tensor(saver *s, cr_tensor *t)
{
    cr_tensor *here = NULL;

    if (save_recall(s, t))
        return CR_OK;
    CR_TRY(save_check_tensor(t));
    if (cr_has_bytes(t->device))
        CR_TRY(cr_tensor_on_host(&here, t));
    else
        here = cr_keep(t);
    cr_status st = save_near_tensor(s, here);
    cr_drop(here);
    return st ? st : save_remember(s, t);
}

/* --- containers --- */

/* value -> restore_type_tag(value, "List[int]"): the value is written between begin and end. */
static void save_tag_begin(saver *s)
{
    save_global(s, "torch.jit._pickle", "restore_type_tag");
    save_byte(s, '(');
}

static void save_tag_end(saver *s, const cr_stype *type)
{
    cr_text text = {0};

    cr_stype_annotate_as(&text, type, &s->names);
    save_text(s, cr_text_str(&text), text.len);
    cr_text_drop(&text);
    cr_text_put(&s->pickle, "tR");
}

static const cr_stype *save_item_type(const cr_stype *t, size_t i)
{
    return !t || !t->count             ? NULL
           : t->kind == CR_STYPE_TUPLE ? (i < (size_t)t->count ? t->item[i] : NULL)
                                       : t->item[0];
}

static cr_status save_list_items(saver *s, const cr_ilist *l, const cr_stype *type)
{
    save_byte(s, ']');
    CR_TRY(save_remember(s, l));
    save_byte(s, '(');
    for (size_t i = 0; i < l->len; i++)
        CR_TRY(save_value(s, &l->at[i], save_item_type(type, i)));
    save_byte(s, 'e');
    return CR_OK;
}

static cr_status save_list(saver *s, const cr_ilist *l, const cr_stype *type)
{
    if (type)
        save_tag_begin(s);
    if (!save_recall(s, l))
        CR_TRY(save_list_items(s, l, type));
    if (type)
        save_tag_end(s, type);
    return CR_OK;
}

static cr_status save_dict_items(saver *s, const cr_idict *d, const cr_stype *type)
{
    save_byte(s, '}');
    CR_TRY(save_remember(s, d));
    save_byte(s, '(');
    for (size_t i = 0; i < d->len; i++) {
        CR_TRY(save_value(s, &d->at[i].key, type ? type->item[0] : NULL));
        CR_TRY(save_value(s, &d->at[i].value, type ? type->item[1] : NULL));
    }
    save_byte(s, 'u');
    return CR_OK;
}

static cr_status save_dict(saver *s, const cr_idict *d, const cr_stype *type)
{
    if (type)
        save_tag_begin(s);
    if (!save_recall(s, d))
        CR_TRY(save_dict_items(s, d, type));
    if (type)
        save_tag_end(s, type);
    return CR_OK;
}

static cr_status save_tuple(saver *s, const cr_ilist *l, const cr_stype *type)
{
    bool named = type && type->cls;

    if (named)
        save_class_name(s, type->cls);
    save_byte(s, '(');
    for (size_t i = 0; i < l->len; i++)
        CR_TRY(save_value(s, &l->at[i], save_item_type(type, i)));
    cr_text_put(&s->pickle, named ? "tR" : "t");
    return CR_OK;
}

/* torch's reader makes an object after its attributes, so none of them can refer to it. */
static cr_status save_open(saver *s, const cr_iobject *o)
{
    if (cr_map_get(&s->open, (const char *)&o, sizeof o))
        return cr_fail(CR_RUNTIME,
                       "an object of type '%s' refers to itself and cannot be saved",
                       cr_stype_text(o->type));
    return cr_map_set(&s->open, (const char *)&o, sizeof o, s);
}

static cr_status save_slots(saver *s, const cr_iobject *o)
{
    const cr_sclass *c = o->type->cls;

    cr_text_put(&s->pickle, "}(");
    for (size_t i = 0; i < o->len; i++) {
        save_text(s, c->attributes.at[i].name, strlen(c->attributes.at[i].name));
        CR_TRY(save_value(s, &o->slot[i], c->attributes.at[i].type));
    }
    save_byte(s, 'u');
    return CR_OK;
}

static cr_status save_object(saver *s, const cr_iobject *o)
{
    if (save_recall(s, o))
        return CR_OK;
    CR_TRY(save_open(s, o));
    save_class_name(s, o->type->cls);
    save_byte(s, ')');
    save_byte(s, 0x81);
    size_t number = (size_t)cr_map_get(&s->state_of, (const char *)&o, sizeof o);
    const save_state *state = number ? &s->states.at[number - 1] : NULL;
    CR_TRY(state ? save_value(s, &state->value, state->type) : save_slots(s, o));
    save_byte(s, 'b');
    return save_remember(s, o);
}

static cr_status save_device(saver *s, const cr_ivalue *v)
{
    cr_text text = {0};
    cr_status st = cr_ivalue_print(&text, v);

    if (!st) {
        save_global(s, "torch", "device");
        save_byte(s, '(');
        save_text(s, text.at, text.len);
        cr_text_put(&s->pickle, "tR");
    }
    cr_text_drop(&text);
    return st;
}

static cr_status save_member(saver *s, const cr_imember *m)
{
    save_class_name(s, m->type->cls);
    CR_TRY(save_value(s, &m->value, NULL));
    save_byte(s, 'R'); /* of the value itself, not of a tuple */
    return CR_OK;
}

static cr_status save_value(saver *s, const cr_ivalue *v, const cr_stype *type)
{
    const cr_stype *inner = type && type->kind == CR_STYPE_OPTIONAL ? type->item[0] : type;

    switch ((cr_iv_kind)v->kind) {
    case CR_IV_NONE: save_byte(s, 'N'); break;
    case CR_IV_TENSOR: return save_tensor(s, v->t);
    case CR_IV_INT: save_int(s, v->i); break;
    case CR_IV_FLOAT: save_float(s, v->d); break;
    case CR_IV_BOOL: save_byte(s, v->i ? 0x88 : 0x89); break;
    case CR_IV_COMPLEX:
        save_global(s, "builtins", "complex");
        save_byte(s, '(');
        save_float(s, v->c.re);
        save_float(s, v->c.im);
        cr_text_put(&s->pickle, "tR");
        break;
    case CR_IV_STRING: save_text(s, v->string->at, v->string->len); break;
    case CR_IV_DEVICE: return save_device(s, v);
    case CR_IV_LIST:
        return save_list(s, v->list, inner && inner->kind == CR_STYPE_LIST ? inner : NULL);
    case CR_IV_DICT:
        return save_dict(s, v->dict, inner && inner->kind == CR_STYPE_DICT ? inner : NULL);
    case CR_IV_TUPLE:
        return save_tuple(s, v->list, inner && inner->kind == CR_STYPE_TUPLE ? inner : NULL);
    case CR_IV_OBJECT: return save_object(s, v->object);
    case CR_IV_ENUM: return save_member(s, v->member);
    default:
        return cr_fail(CR_RUNTIME, "a value of type '%s' cannot be saved",
                       cr_ivalue_kind_name(v));
    }
    return CR_OK;
}

static void save_forget_values(saver *s)
{
    for (size_t i = 0; i < s->kept.len; i++)
        cr_drop(s->kept.at[i]);
    cr_vec_drop(&s->kept);
    s->kept.len = 0;
    cr_map_drop(&s->storages);
    s->storages = (cr_map){0};
    cr_map_drop(&s->memo);
    s->memo = (cr_map){0};
    cr_map_drop(&s->open);
    s->open = (cr_map){0};
    s->memo_count = 0;
}

/* Writes the record FOLDER.pkl with the value. */
static cr_status save_pickle(saver *s, const char *folder, const cr_ivalue *v)
{
    char name[32];
    cr_status st;

    s->folder = folder;
    snprintf(name, sizeof name, "%s.pkl", folder);
    cr_text_put_n(&s->pickle, "\x80\x02", 2);
    CR_GO(save_value(s, v, NULL));
    save_byte(s, '.');
    CR_GO(cr_text_status(&s->pickle));
    CR_GO(cr_zip_add(&s->zip, name, s->pickle.at, s->pickle.len));
done:
    cr_text_drop(&s->pickle);
    s->pickle = (cr_text){0};
    save_forget_values(s);
    return st;
}

/* --- the archive --- */

static cr_status save_tensors(saver *s)
{
    cr_ivalue tuple;

    CR_TRY(cr_ituple_new(&tuple, NULL, s->tensors.len));
    for (size_t i = 0; i < s->tensors.len; i++)
        tuple.list->at[i] = cr_iv_tensor(cr_keep(s->tensors.at[i]));
    cr_status st = save_pickle(s, "constants", &tuple);
    cr_ivalue_drop(tuple);
    return st;
}

static cr_status save_all(saver *s, const cr_ivalue *module, const cr_sextra *extra, size_t n)
{
    char version[16];

    CR_TRY(save_reach(s, module));
    CR_TRY(save_pickle(s, "data", module));
    CR_TRY(save_files(s));
    CR_TRY(save_tensors(s));
    for (size_t i = 0; i < n; i++) {
        cr_text name = {0};
        cr_text_printf(&name, "extra/%s", extra[i].name);
        cr_status st = cr_text_status(&name);
        st = st ? st : cr_zip_add(&s->zip, name.at, extra[i].bytes, extra[i].len);
        cr_text_drop(&name);
        CR_TRY(st);
    }
    snprintf(version, sizeof version, "%d\n", s->version);
    s->zip.version = version;
    return cr_zip_end(&s->zip);
}

cr_status cr_sarchive_write(const cr_ivalue *module, const char *folder, const cr_sextra *extra,
                            size_t extras, cr_status (*put)(void *, const void *, size_t),
                            void *to)
{
    saver s = {.version = SAVE_LOWEST_VERSION};

    if (module->kind != CR_IV_OBJECT)
        return cr_fail(CR_RUNTIME, "only modules are saved");
    cr_zip_begin(&s.zip, folder, put, to);
    cr_status st = save_all(&s, module, extra, extras);
    cr_zip_writer_drop(&s.zip);
    cr_vec_drop(&s.items);
    cr_vec_drop(&s.tensors);
    for (size_t i = 0; i < s.states.len; i++)
        cr_ivalue_drop(s.states.at[i].value);
    cr_vec_drop(&s.states);
    cr_map_drop(&s.state_of);
    cr_map_drop(&s.seen);
    cr_map_drop(&s.names);
    cr_map_drop(&s.taken);
    for (size_t i = 0; i < s.made.len; i++)
        cr_free(s.made.at[i]);
    cr_vec_drop(&s.made);
    return st;
}
