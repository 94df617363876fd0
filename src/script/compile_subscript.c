/* Subscripts: items of tensors, lists, dicts, tuples, text and modules. */
#include "script/compile.h"
#include <string.h>

/* The bounds of a slice: start, stop and step, NULL where absent; the range of the
 * subscript. */
typedef struct {
    cr_svalue *part[3];
    cr_srange range;
} slice_parts;

static slice_parts slice_of(compiler *c, const cr_sast *a, cr_srange range)
{
    slice_parts s = {.range = range};

    for (int i = 0; i < 3 && i < a->count; i++)
        s.part[i] = a->at[i] ? compile_value(c, a->at[i], NULL) : NULL;
    return s;
}

static slice_parts term_slice(const term *t, cr_srange range)
{
    slice_parts s = {.range = range};

    for (int i = 0; i < 3; i++)
        s.part[i] = t->items[i] ? t->items[i]->value : NULL;
    return s;
}

/* x[a:b:c] of a list or a string; of a tensor along `dim`. */
static cr_svalue *compile_slice(compiler *c, cr_svalue *v, cr_svalue *dim, const slice_parts *s)
{
    cr_svalue *step = s->part[2] ? s->part[2] : compile_int(c, 1, s->range), *arg[5];
    int n = 0;

    arg[n++] = v;
    if (dim)
        arg[n++] = dim;
    for (int i = 0; i < 2; i++)
        arg[n++] = s->part[i] ? s->part[i] : compile_none(c, (cr_srange){0});
    arg[n++] = step;
    return compile_one(c, "aten::slice", s->range, n, arg);
}

static bool constant_int(const cr_svalue *v, int64_t *out)
{
    if (!v->by || v->by->prim != CR_SPRIM_CONSTANT || v->type->kind != CR_STYPE_INT)
        return false;
    *out = v->by->value->i;
    return true;
}

static bool tuple_is_uniform(const cr_stype *t)
{
    for (int i = 1; i < t->count; i++)
        if (!cr_stype_equal(t->item[0], t->item[i]))
            return false;
    return true;
}

static cr_svalue *compile_tuple_index(compiler *c, cr_svalue *v, cr_svalue *index,
                                      const cr_sast *a)
{
    cr_svalue *both[] = {v, index};
    int64_t i, n = v->type->count;

    if (!constant_int(index, &i) && index->type->kind == CR_STYPE_INT && n &&
        tuple_is_uniform(v->type))
        return compile_construct(c, CR_SPRIM_TUPLE_INDEX, v->type->item[0], 2, both, a->range);
    if (!constant_int(index, &i))
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Cannot index into a %s with a non-integer literal because we cannot "
                       "resolve the output type",
                       cr_stype_annotation(v->type));
    if (i < -n || i >= n)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Tuple index out of range. Tuple is length %lld and index is %lld",
                       (long long)n, (long long)i);
    return compile_construct(c, CR_SPRIM_TUPLE_INDEX, v->type->item[i < 0 ? i + n : i], 2, both,
                             a->range);
}

/* The constant bounds of a slice of n items, as Python's slice.indices. */
static void slice_indices(compiler *c, const slice_parts *s, int64_t n, int64_t *bound)
{
    for (int i = 0; i < 3; i++)
        if (s->part[i] && s->part[i]->type->kind != CR_STYPE_NONE &&
            !constant_int(s->part[i], &bound[i]))
            cr_srange_bail(c->s, CR_RUNTIME, s->range,
                           "tuple slice indices must be integer constants");
    bool down = bound[2] < 0;
    if (!bound[2])
        cr_srange_bail(c->s, CR_RUNTIME, s->range, "List slice should have non-zero step");
    for (int i = 0; i < 2; i++) {
        if (bound[i] == INT64_MIN) {
            bound[i] = i ? (down ? -1 : n) : (down ? n - 1 : 0);
            continue;
        }
        bound[i] += bound[i] < 0 ? n : 0;
        bound[i] = bound[i] < 0    ? (down ? -1 : 0)
                   : bound[i] >= n ? (down ? n - 1 : n)
                                   : bound[i];
    }
}

static cr_svalue *compile_tuple_slice(compiler *c, cr_svalue *v, const slice_parts *s)
{
    int64_t bound[3] = {INT64_MIN, INT64_MIN, 1}, n = v->type->count, count = 0;
    cr_svalue **item = CR_NEW_N(c->s, cr_svalue *, n + 1);

    slice_indices(c, s, n, bound);
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1]; i += bound[2]) {
        cr_svalue *both[] = {v, compile_int(c, i, s->range)};
        item[count++] =
            compile_construct(c, CR_SPRIM_TUPLE_INDEX, v->type->item[i], 2, both, s->range);
    }
    return compile_tuple_of(c, (int)count, item, s->range);
}

/* Tensor indexing: integers select, slices slice, None unsqueezes, tensors index. */
typedef struct {
    compiler *c;
    cr_svalue *v;
    int64_t dim;       /* of the next index; behind an ellipsis counted from the end */
    bool behind;       /* an ellipsis */
    arguments indices; /* for aten::index: None or a tensor for each dim */
    bool indexed;
    cr_srange whole; /* of the subscript */
} indexing;

static void index_skip_to(indexing *x, cr_svalue *with, cr_srange range)
{
    while ((int64_t)x->indices.len < x->dim)
        CR_PUSH(x->c->s, &x->indices,
                ((argument){.value = compile_none(x->c, range), .range = range}));
    CR_PUSH(x->c->s, &x->indices, ((argument){.value = with, .range = range}));
}

/* A list of numbers as an index: a tensor of them. */
static cr_svalue *index_tensor(compiler *c, cr_svalue *list, cr_srange range)
{
    argument args[] = {
        {.value = list, .range = range},
        {.name = "dtype",
         .value = compile_int(
             c, cr_dtype_number(list->type->item[0]->kind == CR_STYPE_BOOL ? CR_BOOL : CR_I64),
             range),
         .range = range}};

    return compile_operator(c, "aten::tensor", &(arguments){args, 2, 2}, range)->value;
}

/* None: a new dim before the next. */
static void index_new_dim(indexing *x)
{
    cr_svalue *dim = compile_int(x->c, x->dim - x->behind, x->whole);

    x->v = compile_one(x->c, "aten::unsqueeze", x->whole, 2, (cr_svalue *[]){x->v, dim});
    x->dim += !x->behind;
}

/* What an index means, before views are made: NULL of a slice of the source or an ellipsis. */
static term *index_term(compiler *c, const cr_sast *a)
{
    term *t;

    if (a->kind == CR_SAST_SLICE || a->kind == CR_SAST_ELLIPSIS)
        return NULL;
    t = compile_term(c, a, NULL);
    if (t->kind == TERM_SLICE)
        return t;
    cr_svalue *i = compile_as_value(c, t, a->range);
    return compile_term_value(
        c, i->type->kind == CR_STYPE_LIST && c->env ? index_tensor(c, i, a->range) : i);
}

static void index_value(indexing *x, cr_svalue *i, cr_srange range)
{
    compiler *c = x->c;
    cr_svalue *dim;

    if (i->type->kind == CR_STYPE_NONE) {
        index_new_dim(x);
    } else if (i->type->kind == CR_STYPE_INT) {
        dim = compile_int(c, x->dim, x->whole);
        x->v = compile_one(c, "aten::select", x->whole, 3, (cr_svalue *[]){x->v, dim, i});
        x->dim += x->behind;
    } else if (!cr_stype_is_subtype(i->type, cr_stype_optional(c->unit, CR_STYPE_OF(TENSOR)))) {
        cr_srange_bail(c->s, CR_RUNTIME, x->whole,
                       "Unsupported operation: indexing tensor with unsupported index type "
                       "'%s'. Only ints, slices, lists and tensors are supported",
                       cr_stype_annotation(i->type));
    } else {
        if (x->behind)
            cr_srange_bail(c->s, CR_RUNTIME, x->whole,
                           "Ellipses followed by tensor indexing is currently not supported");
        index_skip_to(x, i, range);
        x->indexed = true;
        x->dim++;
    }
}

/* `after`: how many dims the indices behind this one take. */
static void index_one(indexing *x, const cr_sast *a, const term *t, int after)
{
    if (a->kind == CR_SAST_ELLIPSIS) {
        if (x->behind)
            cr_srange_bail(x->c->s, CR_RUNTIME, x->whole,
                           "An index can only have a single ellipsis ('...')");
        x->dim = -after;
        x->behind = true;
        return;
    }
    if (t && t->kind != TERM_SLICE) {
        index_value(x, t->value, a->range);
        return;
    }
    /* before the bounds: the order of constants follows */
    cr_svalue *dim = compile_int(x->c, x->dim, x->whole);
    slice_parts s = t ? term_slice(t, x->whole) : slice_of(x->c, a, x->whole);
    for (int i = 0; t && i < 2; i++) /* slice(None): from 0 to the end, in numbers */
        s.part[i] = s.part[i] ? s.part[i] : compile_int(x->c, i ? INT64_MAX : 0, x->whole);
    x->v = compile_slice(x->c, x->v, dim, &s);
    x->dim++;
}

/* A value of None takes no dim of the tensor. */
static bool index_takes_dim(const term *t)
{
    return !t || t->kind == TERM_SLICE || t->value->type->kind != CR_STYPE_NONE;
}

/* Makes the views; true when elements are indexed, too. x[(i, j)] is x[i, j]. */
static bool index_views(indexing *x, const cr_sast *a)
{
    bool in_tuple = a->count == 2 && a->at[1]->kind == CR_SAST_TUPLE;
    int n = in_tuple ? a->at[1]->count : a->count - 1, after = 0;
    cr_sast **index = in_tuple ? a->at[1]->at : a->at + 1;
    term **t = CR_NEW_N(x->c->s, term *, n + 1);

    for (int i = 0; i < n; i++) {
        t[i] = index_term(x->c, index[i]);
        after += index_takes_dim(t[i]);
    }
    for (int i = 0; i < n; i++) {
        after -= index_takes_dim(t[i]);
        index_one(x, index[i], t[i], after);
    }
    return x->indexed;
}

/* The list of indices for aten::index. */
static cr_svalue *index_list(indexing *x, cr_srange range)
{
    const cr_stype *maybe = cr_stype_optional(x->c->unit, CR_STYPE_OF(TENSOR));

    return compile_construct(x->c, CR_SPRIM_LIST_CONSTRUCT, cr_stype_list(x->c->unit, maybe),
                             (int)x->indices.len, compile_item_values(x->c, &x->indices),
                             range);
}

static cr_svalue *compile_tensor_index(compiler *c, cr_svalue *v, const cr_sast *a)
{
    indexing x = {.c = c, .v = v, .whole = a->range};

    if (!index_views(&x, a))
        return x.v;
    return compile_one(c, "aten::index", a->range, 2,
                       (cr_svalue *[]){x.v, index_list(&x, a->range)});
}

/* A value for elements of a tensor: numbers as a tensor of its dtype. */
static cr_svalue *index_stored(compiler *c, cr_svalue *into, cr_svalue *v, cr_srange range)
{
    argument args[3] = {{.value = v, .range = range},
                        {.name = "dtype", .range = range},
                        {.name = "device", .range = range}};

    if (v->type->kind == CR_STYPE_TENSOR)
        return v;
    args[1].value = compile_one(c, "prim::dtype", range, 1, &into);
    args[2].value = compile_one(c, "prim::device", range, 1, &into);
    return compile_operator(c, "aten::tensor", &(arguments){args, 3, 3}, range)->value;
}

void compile_tensor_store(compiler *c, cr_svalue *v, const cr_sast *a, cr_svalue *value)
{
    indexing x = {.c = c, .v = v, .whole = a->range};
    bool indexed = index_views(&x, a);

    if (c->env || indexed)
        value = index_stored(c, x.v, value, (cr_srange){0});
    if (indexed)
        compile_one(c, "aten::index_put_", a->range, 3,
                    (cr_svalue *[]){x.v, index_list(&x, a->range), value});
    else
        compile_one(c, value->type->kind == CR_STYPE_TENSOR ? "aten::copy_" : "aten::fill_",
                    a->range, 2, (cr_svalue *[]){x.v, value});
}

void compile_tensor_update(compiler *c, cr_svalue *v, const cr_sast *a, const char *name,
                           const cr_sast *by, cr_srange range)
{
    indexing x = {.c = c, .v = v, .whole = a->range};
    bool indexed = index_views(&x, a);
    cr_svalue *value = compile_value(c, by, NULL), *list;

    if (!indexed) {
        compile_one(c, name, range, 2, (cr_svalue *[]){x.v, value});
        return;
    }
    list = index_list(&x, a->range);
    v = compile_one(c, "aten::index", range, 2, (cr_svalue *[]){x.v, list});
    v = compile_one(c, name, range, 2, (cr_svalue *[]){v, value});
    compile_one(c, "aten::index_put_", range, 3, (cr_svalue *[]){x.v, list, v});
}

/* The modules of a list of modules; NULL for other objects. */
term *compile_modules(compiler *c, cr_svalue *v, cr_srange range)
{
    return v->type->cls->is_module && c->env
               ? define_member(c, v, v->type->cls, "__iter__", range)
               : NULL;
}

/* modules[1] of a list that is known. */
static term *items_slice(compiler *c, const term *t, const cr_sast *a)
{
    int64_t bound[3] = {INT64_MIN, INT64_MIN, 1};
    slice_parts s = slice_of(c, a, a->range);
    term *made = CR_NEW(c->s, term);

    slice_indices(c, &s, t->count, bound);
    *made = (term){.kind = TERM_ITEMS, .items = CR_NEW_N(c->s, term *, t->count + 1)};
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1]; i += bound[2])
        made->items[made->count++] = t->items[i];
    return made;
}

/* modules["name"] */
static term *items_named(compiler *c, cr_svalue *self, const cr_sast *a)
{
    const cr_sast *key = a->at[1];
    term *t = define_member(c, self, self->type->cls, "items", key->range);

    for (int i = 0; t && i < t->count; i++) {
        const cr_sconstant *name = cr_svalue_constant(t->items[i]->items[0]->value);
        if (name && !strcmp(name->s, key->text))
            return t->items[i]->items[1];
    }
    if (t)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Key Error, %s", key->text);
    return NULL;
}

static bool is_literal(const cr_sast *a)
{
    return a->kind == CR_SAST_NUMBER ||
           (a->kind == CR_SAST_UNARY && a->at[0]->kind == CR_SAST_NUMBER);
}

/* modules[key] of a key that is not known: every module inside must be of the interface. */
static term *items_by_interface(compiler *c, cr_svalue *self, const cr_sast *a,
                                const cr_stype *interface)
{
    const cr_sclass *cls = self->type->cls;
    cr_svalue *both[] = {self, compile_value(c, a->at[1], NULL)};
    cr_text why = {0};

    for (size_t i = 0; i < cls->attributes.len; i++) {
        const cr_stype *inner = cls->attributes.at[i].type;
        if (inner->kind != CR_STYPE_CLASS || !inner->cls->is_module ||
            cr_stype_is_subtype(inner, interface))
            continue;
        cr_stype_print_misfit(&why, inner, interface);
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Attribute %s is not of annotated type %s: %s",
                       cls->attributes.at[i].name, cr_stype_annotation(interface),
                       cr_session_take_text(c->s, &why));
    }
    return compile_term_value(
        c, compile_construct(c, CR_SPRIM_MODULE_INDEX, interface, 2, both, a->range));
}

static CR_NORETURN void items_refuse(compiler *c, const cr_sast *a, bool of_dict)
{
    if (of_dict)
        cr_srange_bail(
            c->s, CR_RUNTIME, a->range,
            "Unable to extract string literal index. ModuleDict indexing is only supported "
            "with string literals. For example, 'i = \"a\"; self.layers[i](x)' will fail "
            "because i is not a literal. Enumeration of ModuleDict is supported, e.g. "
            "'for k, v in self.items(): out = v(inp)'");
    cr_srange_bail(
        c->s, CR_RUNTIME, a->range,
        "Expected integer literal for index but got a variable or non-integer. "
        "ModuleList/Sequential indexing is only supported with integer literals. For "
        "example, 'i = 4; self.layers[i](x)' will fail because i is not a literal. "
        "Enumeration is supported, e.g. 'for index, v in enumerate(self): out = v(inp)'");
}

/* Item `a` of these items, by a literal or a slice. */
static term *items_at(compiler *c, const term *t, const cr_sast *a, bool of_dict)
{
    int64_t i;

    if (a->at[1]->kind == CR_SAST_SLICE)
        return items_slice(c, t, a->at[1]);
    if (of_dict || !is_literal(a->at[1]) || !constant_int(compile_value(c, a->at[1], NULL), &i))
        items_refuse(c, a, of_dict);
    if (i < -t->count || i >= t->count)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Index %lld out of range of length %d",
                       (long long)i, t->count);
    return t->items[i < 0 ? i + t->count : i];
}

/* Whether the subscripted expression may be a list of modules or a constant. */
static bool subscript_may_be_items(const compiler *c, const cr_sast *a, const cr_stype *hint)
{
    bool of_interface = hint && hint->kind == CR_STYPE_INTERFACE;

    return a->count == 2 && (c->env || of_interface) &&
           (a->at[0]->kind == CR_SAST_ATTRIBUTE || a->at[0]->kind == CR_SAST_NAME);
}

/* The item of a list of modules or of a constant, `t`; NULL for other terms. */
static term *subscript_items(compiler *c, const cr_sast *a, const cr_stype *hint, term *t)
{
    bool literal, of_interface = hint && hint->kind == CR_STYPE_INTERFACE;
    cr_svalue *self;
    term *keys;

    self = t->kind == TERM_VALUE && t->value->type->kind == CR_STYPE_CLASS &&
                   t->value->type->cls->is_module
               ? t->value
               : NULL;
    literal = a->at[1]->kind == CR_SAST_STRING || a->at[1]->kind == CR_SAST_SLICE ||
              is_literal(a->at[1]);
    if (self && of_interface && !literal)
        return items_by_interface(c, self, a, hint);
    if (!c->env)
        return NULL;
    if (self && a->at[1]->kind == CR_SAST_STRING)
        return items_named(c, self, a);
    if (t->kind == TERM_VALUE && !self)
        return NULL;
    keys = self ? define_member(c, self, self->type->cls, "keys", a->range) : NULL;
    t = self ? compile_modules(c, self, a->range) : t;
    return t && t->kind == TERM_ITEMS ? items_at(c, t, a, keys && keys->kind == TERM_ITEMS)
                                      : NULL;
}

/* x[a:b] of anything but a tensor. */
static cr_svalue *subscript_slice(compiler *c, cr_svalue *v, const slice_parts *s)
{
    return v->type->kind == CR_STYPE_TUPLE ? compile_tuple_slice(c, v, s)
                                           : compile_slice(c, v, NULL, s);
}

static cr_svalue *subscript_item(compiler *c, cr_svalue *v, const cr_sast *a)
{
    term *t = compile_term(c, a->at[1], NULL);
    cr_svalue *at;

    if (t->kind == TERM_SLICE) {
        slice_parts s = term_slice(t, a->range);
        return subscript_slice(c, v, &s);
    }
    at = compile_as_value(c, t, a->at[1]->range);
    switch (v->type->kind) {
    case CR_STYPE_CLASS: return compile_magic(c, "__getitem__", v, 1, &at, a->range);
    case CR_STYPE_TUPLE: return compile_tuple_index(c, v, at, a);
    case CR_STYPE_LIST:
    case CR_STYPE_DICT:
    case CR_STYPE_STR:
        return compile_one(c, "aten::__getitem__", a->range, 2, (cr_svalue *[]){v, at});
    default:
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "'%s' object is not subscriptable",
                       cr_stype_annotation(v->type));
    }
}

static cr_svalue *subscript_value(compiler *c, cr_svalue *v, const cr_sast *a)
{
    if (v->type->kind == CR_STYPE_NEVER)
        return v;
    if (v->type->kind == CR_STYPE_TENSOR)
        return compile_tensor_index(c, v, a);
    if (a->count != 2)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Sliced expression not yet supported for a value of type %s",
                       cr_stype_annotation(v->type));
    if (a->at[1]->kind == CR_SAST_SLICE) {
        slice_parts s = slice_of(c, a->at[1], a->range);
        return subscript_slice(c, v, &s);
    }
    return subscript_item(c, v, a);
}

/* The subscripted expression is compiled once, because it may have effects. */
term *compile_subscript(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    term *of = subscript_may_be_items(c, a, hint) ? compile_term(c, a->at[0], NULL) : NULL;
    term *item = of ? subscript_items(c, a, hint, of) : NULL;
    cr_svalue *v;

    if (item)
        return item;
    v = of && of->kind == TERM_VALUE ? of->value : compile_value(c, a->at[0], NULL);
    return compile_term_value(c, subscript_value(c, v, a));
}
