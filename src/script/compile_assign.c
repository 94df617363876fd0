/* Assignments to variables, attributes, items and several targets. */
#include "script/compile.h"
#include <string.h>

/* An attribute that __init__ sets first gets the type of its value. */
static bool type_contains(const cr_stype *type, const cr_sclass *cls)
{
    bool found = type->cls == cls;

    for (int i = 0; !found && i < type->count; i++)
        found = type_contains(type->item[i], cls);
    return found;
}

static int assign_new_attribute(compiler *c, cr_sclass *cls, const char *name,
                                const cr_stype *type, cr_srange range)
{
    if (!c->function || c->function->owner != cls || strcmp(c->function->name, "__init__") ||
        cls->is_module)
        cr_srange_bail(
            c->s, CR_RUNTIME, range,
            "Tried to set nonexistent attribute: %s. Did you forget to initialize it "
            "in __init__()?",
            name);
    if (type_contains(type, cls))
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Assignment to attribute '%s' cannot be of a type that contains class "
                       "'%s'.\nClasses that recursively contain instances of themselves are "
                       "not yet supported",
                       name, cls->name);
    if (c->block->by)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "First assignment cannot be in a control-flow block. Initialize the "
                       "field at the top level first");
    cr_sclass_add_attribute(cls, (cr_sattribute){.name = name, .type = type});
    return cr_sclass_attribute(cls, name);
}

/* x.name = v of a property: its setter is called.  False: there is no property. */
static bool assign_property(compiler *c, cr_svalue *object, const char *name, cr_svalue *v,
                            cr_srange range)
{
    cr_sclass *cls = object->type->cls;
    const char *full = cr_session_printf(c->s, "__%s_setter", name);
    cr_sfunction *set = compile_method(c, cls, full, range);
    arguments args = {0};

    if (!set && compile_method(c, cls, cr_session_printf(c->s, "__%s_getter", name), range))
        cr_srange_bail(c->s, CR_RUNTIME, range, "Tried to set read-only attribute: %s", name);
    if (!set)
        return false;
    CR_PUSH(c->s, &args, ((argument){.value = v, .range = range}));
    compile_call(c, set, object, &args, range);
    return true;
}

static void assign_attribute(compiler *c, const cr_sast *target, cr_svalue *v, cr_srange range)
{
    cr_svalue *object = compile_value(c, target->at[0], NULL);
    const cr_stype *type;
    cr_snode *n;
    int slot = object->type->cls ? cr_sclass_attribute(object->type->cls, target->text) : -1;

    if (object->type->kind != CR_STYPE_CLASS)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Tried to set an attribute: %s on a non-class: %s", target->text,
                       cr_stype_annotation(object->type));
    if (slot < 0 && assign_property(c, object, target->text, v, range))
        return;
    if (slot < 0)
        slot = assign_new_attribute(c, object->type->cls, target->text, v->type, range);
    type = object->type->cls->attributes.at[slot].type;
    v = compile_convert(c, v, type, true, target->range);
    if (!cr_stype_is_subtype(v->type, type))
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Wrong type for attribute assignment. Expected %s but got %s",
                       cr_stype_annotation(type), cr_stype_annotation(v->type));
    n = cr_snode_new(c->block, CR_SPRIM_SET_ATTR, target->range);
    n->name = object->type->cls->attributes.at[slot].name;
    cr_sclass_note_set(object->type->cls, slot);
    cr_snode_input(n, object);
    cr_snode_input(n, v);
}

static void assign_subscript(compiler *c, const cr_sast *target, cr_svalue *v, cr_srange whole)
{
    cr_svalue *object = compile_value(c, target->at[0], NULL);

    if (object->type->kind == CR_STYPE_CLASS) {
        cr_svalue *at = compile_value(c, target->at[1], NULL);
        compile_magic(c, "__setitem__", object, 2, (cr_svalue *[]){at, v}, target->range);
        return;
    }
    if (object->type->kind != CR_STYPE_LIST && object->type->kind != CR_STYPE_DICT) {
        if (object->type->kind != CR_STYPE_TENSOR)
            cr_srange_bail(c->s, CR_RUNTIME, target->range,
                           "%s does not support subscripted assignment",
                           cr_stype_annotation(object->type));
        compile_tensor_store(c, object, target, v);
        return;
    }
    if (target->count != 2 || target->at[1]->kind == CR_SAST_SLICE) {
        cr_srange range = target->range;
        range.end -= c->env != NULL; /* without the bracket */
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Sliced expression not yet supported for subscripted assignment. File a "
                       "bug if you want this");
    }
    compile_one(c, "aten::_set_item", c->env ? whole : target->range, 3,
                (cr_svalue *[]){object, compile_value(c, target->at[1], NULL), v});
}

/* The place of a starred target, or -1. */
static int assign_star(compiler *c, const cr_sast *target)
{
    int star = -1;

    for (int i = 0; i < target->count; i++) {
        if (target->at[i]->kind != CR_SAST_STAR)
            continue;
        if (star >= 0)
            cr_srange_bail(c->s, CR_RUNTIME, target->at[i]->range,
                           "Only one starred expression is allowed on the lhs");
        star = i;
    }
    return star;
}

/* Assigns the items of a tuple or list; a starred target gets a tuple of the rest. */
static void assign_parts(compiler *c, const cr_sast *target, cr_svalue *const *part, int count,
                         int star)
{
    int rest = star < 0 ? 0 : count - (target->count - 1), at = 0;

    for (int i = 0; i < target->count; i++) {
        const cr_sast *to = target->at[i];
        if (i != star) {
            compile_target(c, to, compile_term_value(c, part[at++]), to->range);
            continue;
        }
        cr_svalue *made = compile_tuple_of(c, rest, part + at, to->range);
        compile_target(c, to->at[0], compile_term_value(c, made), to->range);
        at += rest;
    }
}

/* a, b = v, where v is the result of a missing operator: as many results as there are names. */
static void assign_missing(compiler *c, const cr_sast *target, cr_svalue *v, int star)
{
    cr_snode *n = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, target->range);

    cr_snode_input(n, v);
    for (int i = 0; i < target->count; i++)
        cr_snode_output(n, NULL, CR_STYPE_OF(NEVER));
    assign_parts(c, target, n->output, n->output_count, star);
}

/* a, b = v */
static void assign_tuple(compiler *c, const cr_sast *target, cr_svalue *v, cr_srange range)
{
    bool list = v->type->kind == CR_STYPE_LIST;
    int star = assign_star(c, target);
    cr_snode *n;

    if (v->type->kind == CR_STYPE_NEVER) {
        assign_missing(c, target, v, star);
        return;
    }
    if (!list && v->type->kind != CR_STYPE_TUPLE)
        cr_srange_bail(c->s, CR_RUNTIME, range, "%s cannot be used as a tuple",
                       cr_stype_annotation(v->type));
    if (star >= 0 && list)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "cannot statically infer the expected size of a list in this context");
    if (!list &&
        (star < 0 ? v->type->count != target->count : v->type->count < target->count - 1))
        cr_srange_bail(c->s, CR_RUNTIME, target->range,
                       v->type->count < target->count
                           ? "need %d values to unpack but found only %d"
                           : "too many values to unpack: need %d but found %d",
                       target->count, v->type->count);
    if (c->env && v->by && v->by->prim == CR_SPRIM_TUPLE_CONSTRUCT && !v->name) {
        assign_parts(c, target, v->by->input, v->by->input_count, star);
        return;
    }
    n = cr_snode_new(c->block, list ? CR_SPRIM_LIST_UNPACK : CR_SPRIM_TUPLE_UNPACK,
                     target->range);
    cr_snode_input(n, v);
    for (int i = 0; i < (list ? target->count : v->type->count); i++)
        cr_snode_output(n, NULL, list ? v->type->item[0] : v->type->item[i]);
    assign_parts(c, target, n->output, n->output_count, star);
}

void compile_target(compiler *c, const cr_sast *target, term *t, cr_srange range)
{
    switch (target->kind) {
    case CR_SAST_NAME: compile_set(c, target->text, t, c->env ? target->range : range); break;
    case CR_SAST_ATTRIBUTE:
        assign_attribute(c, target, compile_as_value(c, t, range), range);
        break;
    case CR_SAST_SUBSCRIPT:
        assign_subscript(c, target, compile_as_value(c, t, range), range);
        break;
    case CR_SAST_TUPLE:
    case CR_SAST_LIST:
        if (t->kind == TERM_ITEMS && t->count == target->count)
            for (int i = 0; i < t->count; i++)
                compile_target(c, target->at[i], t->items[i], range);
        else
            assign_tuple(c, target, compile_as_value(c, t, range), range);
        break;
    default:
        cr_srange_bail(c->s, CR_RUNTIME, target->range,
                       "unexpected expression on left-hand "
                       "side of assignment");
    }
}

/* a, b = x, y: no tuple is made. */
static bool assign_is_items(const cr_sast *a)
{
    if (a->at[0]->kind != CR_SAST_TUPLE)
        return false;
    for (int i = 2; i < a->count; i++)
        if (a->at[i]->kind != CR_SAST_TUPLE || a->at[i]->count != a->at[0]->count)
            return false;
    return true;
}

static term *assign_items(compiler *c, const cr_sast *tuple)
{
    term *made = CR_NEW(c->s, term);

    *made = (term){.kind = TERM_ITEMS, .count = tuple->count};
    made->items = CR_NEW_N(c->s, term *, tuple->count + 1);
    for (int i = 0; i < tuple->count; i++)
        made->items[i] = compile_term_value(c, compile_value(c, tuple->at[i], NULL));
    return made;
}

/* A variable with an annotation has that type; the graph has the value itself. */
static cr_svalue *assign_widen(compiler *c, cr_svalue *v, const cr_stype *type, cr_srange range)
{
    if (cr_stype_equal(v->type, type))
        return v;
    v = compile_construct(c, CR_SPRIM_UNCHECKED_CAST, type, 1, &v, range);
    v->by->widens = true;
    return v;
}

/* Attributes are annotated in __init__, variables in the block that first sets them. */
static void assign_check_annotation(compiler *c, const cr_sast *a)
{
    const cr_sast *target = a->at[2];
    cr_srange range = target->range;

    if (a->at[1]->kind == CR_SAST_NAME)
        range.end = a->at[1]->range.end;
    if (target->kind == CR_SAST_ATTRIBUTE && target->at[0]->kind == CR_SAST_NAME &&
        !strcmp(target->at[0]->text, "self") && strcmp(c->function->name, "__init__"))
        define_refuse(
            c, "ValueError", range,
            cr_session_printf(c->s,
                              "Type annotations on instance attributes must be declared in "
                              "__init__, not '%s': SourceRange at",
                              c->function->name));
    if (target->kind != CR_SAST_NAME)
        return;
    const variable *v = compile_variable(c, target->text);
    if (v->now && v->depth < c->depth)
        cr_srange_bail(c->s, CR_RUNTIME, target->range,
                       "Attempting to declare and annotate the type of variable '%s' but it is "
                       "already defined in an outer block",
                       target->text);
}

void compile_assign(compiler *c, const cr_sast *a)
{
    const cr_stype *type;
    term *t;

    if (a->at[1] && c->env)
        assign_check_annotation(c, a);
    type = a->at[1] ? compile_type(c, a->at[1]) : NULL;

    if (!a->at[0])
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Variables declared without a value are not supported here");
    t = !type && assign_is_items(a) ? assign_items(c, a->at[0])
                                    : compile_term(c, a->at[0], type);
    if (type) {
        cr_svalue *v = compile_as_value(c, t, a->range);
        v = compile_convert(c, v, type, true, a->range);
        if (!cr_stype_is_subtype(v->type, type))
            cr_srange_bail(c->s, CR_RUNTIME, a->at[2]->range,
                           "Variable '%s' is annotated with type %s but is being assigned to a "
                           "value of type %s",
                           a->at[2]->text ? a->at[2]->text : "", cr_stype_annotation(type),
                           cr_stype_annotation(v->type));
        if (a->at[2]->kind == CR_SAST_NAME)
            compile_variable(c, a->at[2]->text)->declared = type;
        t = compile_term_value(c, assign_widen(c, v, type, a->range));
    }
    for (int i = 2; i < a->count; i++)
        compile_target(c, a->at[i], t,
                       a->at[i]->kind == CR_SAST_TUPLE ? a->at[0]->range : a->range);
}

typedef struct {
    const char *sign, *name, *in_place;
} augmented_operator;

/* The operator of x += y; NULL for those without a form in place. */
static const augmented_operator *augmented_of(const char *sign)
{
    static const augmented_operator all[] = {{"+", "aten::add", "aten::add_"},
                                             {"-", "aten::sub", "aten::sub_"},
                                             {"*", "aten::mul", "aten::mul_"},
                                             {"/", "aten::div", "aten::div_"}};

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (!strcmp(all[i].sign, sign))
            return &all[i];
    return NULL;
}

/* An item of a list or dict: it is read, changed, and stored. */
static void augmented_stored(compiler *c, cr_svalue *object, const cr_sast *a,
                             const augmented_operator *op)
{
    const cr_stype *item = object->type->item[object->type->kind == CR_STYPE_DICT];
    cr_svalue *at = compile_value(c, a->at[0]->at[1], NULL);
    cr_svalue *by = compile_value(c, a->at[1], NULL), *v;

    v = compile_one(c, "aten::__getitem__", a->range, 2, (cr_svalue *[]){object, at});
    v = compile_one(c, item->kind == CR_STYPE_TENSOR ? op->in_place : op->name, a->range, 2,
                    (cr_svalue *[]){v, by});
    compile_one(c, "aten::_set_item", a->range, 3, (cr_svalue *[]){object, at, v});
}

/* x[i] += y of tensors, lists and dicts, whose parts are computed once; false for objects. */
static bool augmented_item(compiler *c, const cr_sast *a, const augmented_operator *op)
{
    const cr_sast *target = a->at[0];
    cr_svalue *object = compile_value(c, target->at[0], NULL);

    switch (object->type->kind) {
    case CR_STYPE_CLASS: return false;
    case CR_STYPE_TENSOR:
        compile_tensor_update(c, object, target, op->in_place, a->at[1], a->range);
        return true;
    case CR_STYPE_LIST:
    case CR_STYPE_DICT:
        if (target->count != 2 || target->at[1]->kind == CR_SAST_SLICE)
            return false;
        augmented_stored(c, object, a, op);
        return true;
    default:
        cr_srange_bail(c->s, CR_RUNTIME, target->range,
                       "%s does not support augmented assignment.",
                       cr_stype_annotation(object->type));
    }
}

/* x += y of tensors and lists changes x itself; false for others. */
static bool augmented_in_place(compiler *c, const cr_sast *a, const augmented_operator *op)
{
    cr_svalue *both[2] = {compile_value(c, a->at[0], NULL)};
    uint8_t kind = both[0]->type->kind;

    if (kind != CR_STYPE_TENSOR && kind != CR_STYPE_LIST)
        return false;
    both[1] = compile_value(c, a->at[1], NULL);
    compile_target(c, a->at[0],
                   compile_term_value(c, compile_one(c, op->in_place, a->range, 2, both)),
                   a->range);
    return true;
}

/* x @= y: torch marks the sign. */
CR_NORETURN static void augmented_refuse(compiler *c, const cr_sast *a)
{
    cr_srange range = a->range;

    range.start = a->at[0]->range.end;
    while (range.source->text[range.start] != '@')
        range.start++;
    range.end = range.start + 2;
    define_refuse(c, "NotSupportedError", range,
                  "unsupported kind of augmented assignment: MatMult");
}

void compile_augmented(compiler *c, const cr_sast *a)
{
    const augmented_operator *op = augmented_of(a->text);
    cr_sast *sum = cr_session_copy(c->s, a, sizeof *a);

    if (*a->text == '@')
        augmented_refuse(c, a);
    if (op && (a->at[0]->kind == CR_SAST_SUBSCRIPT ? augmented_item(c, a, op)
                                                   : augmented_in_place(c, a, op)))
        return;
    sum->kind = CR_SAST_BINARY;
    sum->count = 2;
    compile_target(c, a->at[0], compile_term_value(c, compile_value(c, sum, NULL)), a->range);
}
