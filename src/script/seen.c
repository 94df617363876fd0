/* Notes what a call reads, and whether it is plain. */
#include "script/seen.h"
#include "script/execute_impl.h"
#include <string.h>

/* A call that reads more attributes, or that has more constants, is not plain. */
enum { SEEN_MOST = 2048 };

/* --- values --- */

static bool seen_same_items(const cr_ilist *a, const cr_ilist *b)
{
    if (a->len != b->len)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (!cr_ivalue_same(&a->at[i], &b->at[i]))
            return false;
    return true;
}

bool cr_ivalue_same(const cr_ivalue *a, const cr_ivalue *b)
{
    if (a->kind != b->kind)
        return false;
    switch ((cr_iv_kind)a->kind) {
    case CR_IV_NONE: return true;
    case CR_IV_FLOAT: return !memcmp(&a->d, &b->d, sizeof a->d);
    case CR_IV_COMPLEX: return !memcmp(&a->c, &b->c, sizeof a->c);
    case CR_IV_STRING:
        return a->string->len == b->string->len &&
               !memcmp(a->string->at, b->string->at, a->string->len);
    case CR_IV_TUPLE: return seen_same_items(a->list, b->list);
    case CR_IV_LIST:
    case CR_IV_DICT:
    case CR_IV_GENERATOR:
    case CR_IV_KIND_COUNT: return false;
    default: return a->i == b->i; /* numbers and addresses */
    }
}

/* Whether an equal value has equal contents whatever ran in between. */
static bool seen_stays(const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_LIST:
    case CR_IV_DICT:
    case CR_IV_GENERATOR:
    case CR_IV_KIND_COUNT: return false;
    case CR_IV_TUPLE:
        for (size_t i = 0; i < v->list->len; i++)
            if (v->list->at[i].kind == CR_IV_TENSOR || v->list->at[i].kind == CR_IV_OBJECT ||
                !seen_stays(&v->list->at[i]))
                return false;
        return true;
    default: return true;
    }
}

static bool seen_owns(const cr_ivalue *v)
{
    return v->kind != CR_IV_TENSOR && v->kind != CR_IV_OBJECT;
}

void cr_sseen_refuse(cr_sseen *x, const char *why) { x->why = x->why ? x->why : why; }

/* --- attributes --- */

/* The argument or read that gave the object. */
static bool seen_find(const cr_sseen *x, const cr_iobject *o, int *from)
{
    for (int i = 0; i < x->count; i++)
        if (x->arg[i].kind == CR_IV_OBJECT && x->arg[i].object == o) {
            *from = i;
            return true;
        }
    for (size_t i = 0; i < x->read.len; i++)
        if (x->read.at[i].value.kind == CR_IV_OBJECT && x->read.at[i].value.object == o) {
            *from = ~(int)i;
            return true;
        }
    return false;
}

void cr_sseen_attribute(cr_sseen *x, const cr_iobject *o, int slot, const cr_ivalue *v)
{
    cr_sread made = {.slot = slot, .number = cr_ivalue_class(v), .value = *v};

    if (!seen_find(x, o, &made.from) || !seen_stays(v)) {
        cr_sseen_refuse(x, "it reads an attribute that may change");
        return;
    }
    for (size_t i = 0; i < x->read.len; i++)
        if (x->read.at[i].from == made.from && x->read.at[i].slot == slot)
            return;
    if (x->read.len == SEEN_MOST || cr_vec_reserve(&x->read, 1)) {
        cr_sseen_refuse(x, "it reads too many attributes");
        return;
    }
    if (seen_owns(v)) {
        made.value = cr_ivalue_keep(*v);
    } else if (cr_vec_reserve(&x->held, 1)) {
        cr_sseen_refuse(x, "it reads too many attributes");
        return;
    } else {
        cr_vec_put(&x->held, cr_ivalue_keep(*v));
        made.version = v->kind == CR_IV_TENSOR ? v->t->storage->version : 0;
    }
    cr_vec_put(&x->read, made);
}

bool cr_sseen_wrote(const cr_sseen *x)
{
    for (size_t i = 0; i < x->read.len; i++) {
        const cr_sread *r = &x->read.at[i];
        if (r->value.kind == CR_IV_TENSOR && r->value.t->storage->version != r->version)
            return true;
    }
    return false;
}

uint64_t cr_ivalue_class(const cr_ivalue *v)
{
    return v->kind == CR_IV_OBJECT ? v->object->type->cls->number : 0;
}

const cr_ivalue *cr_sread_again(const cr_sread *r, const cr_ivalue *arg,
                                const cr_ivalue *const *value)
{
    const cr_ivalue *of = r->from >= 0 ? &arg[r->from] : value[~r->from];

    if (of->kind != CR_IV_OBJECT || (size_t)r->slot >= of->object->len)
        return NULL;
    return &of->object->slot[r->slot];
}

void cr_sseen_let_go(cr_sseen *x)
{
    for (size_t i = 0; i < x->held.len; i++)
        cr_ivalue_drop(x->held.at[i]);
    cr_vec_drop(&x->held);
}

void cr_sseen_drop(cr_sseen *x)
{
    cr_sseen_let_go(x);
    for (size_t i = 0; i < x->read.len; i++)
        if (seen_owns(&x->read.at[i].value))
            cr_ivalue_drop(x->read.at[i].value);
    cr_vec_drop(&x->read);
    cr_vec_drop(&x->constant);
}

void cr_sseen_constants(cr_sseen *x, const cr_ivalue *v, size_t n)
{
    for (size_t i = 0; i < n && !x->why; i++) {
        if (v[i].kind != CR_IV_TENSOR)
            continue;
        if (x->constant.len == SEEN_MOST || cr_vec_reserve(&x->constant, 1))
            cr_sseen_refuse(x, "it has too many constants");
        else
            cr_vec_put(&x->constant, v[i].t);
    }
}

/* --- steps --- */

/* The builtins that read sizes and kinds of tensors, not elements. */
static bool seen_reads_kinds(const char *name)
{
    static const char *const all[] = {
#define CR_SBUILTIN(schema)
#define CR_SBUILTIN_KIND(schema) schema,
#include "script/builtins.def"
#undef CR_SBUILTIN
#undef CR_SBUILTIN_KIND
    };

    for (size_t i = 0; i < CR_LEN(all); i++) {
        size_t n = strcspn(all[i], ".(");
        if (!strncmp(all[i], name, n) && !name[n])
            return true;
    }
    return false;
}

static bool seen_has_tensor(const cr_ivalue *v)
{
    if (v->kind == CR_IV_TENSOR || v->kind == CR_IV_DICT)
        return true;
    if (v->kind != CR_IV_LIST && v->kind != CR_IV_TUPLE)
        return false;
    for (size_t i = 0; i < v->list->len; i++)
        if (seen_has_tensor(&v->list->at[i]))
            return true;
    return false;
}

static bool seen_makes(const cr_snode *n, int kind)
{
    for (int i = 0; i < n->output_count; i++) {
        const cr_stype *t = n->output[i]->type;
        t = t->kind == CR_STYPE_LIST ? t->item[0] : t;
        if ((int)t->kind != kind)
            return false;
    }
    return n->output_count > 0;
}

static bool seen_makes_tensors(const cr_snode *n) { return seen_makes(n, CR_STYPE_TENSOR); }

/* The builtins that make tensors of gradients or with a version of their own, or an order of
 * elements. */
static bool seen_reads_more(const char *name)
{
    return !strcmp(name, "prim::grad") || !strcmp(name, "prim::data") ||
           !strcmp(name, "aten::sorted");
}

/* A function of the executor: on numbers and containers, or on what tensors are. */
static void seen_builtin(cr_sseen *x, const cr_scall *c)
{
    const cr_sschema *s = c->node->schema;
    bool tensors = false, objects = false;

    for (int i = 0; i < c->count; i++) {
        tensors = tensors || seen_has_tensor(&c->arg[i]);
        objects = objects || c->arg[i].kind == CR_IV_OBJECT;
        if (i < s->param_count && s->param[i].written && c->arg[i].kind != CR_IV_LIST)
            cr_sseen_refuse(x, "a step changes a value");
    }
    if (!c->count || s->any_params || (!c->outs && !s->param[0].written))
        cr_sseen_refuse(x, "a step has an effect");
    if (tensors && !seen_makes_tensors(c->node) && !seen_reads_kinds(s->name))
        cr_sseen_refuse(x, "a step may read elements");
    if (objects && !seen_makes(c->node, CR_STYPE_CLASS) && !seen_reads_kinds(s->name))
        cr_sseen_refuse(x, "a step reads an object");
    if (seen_reads_more(s->name) && tensors)
        cr_sseen_refuse(x, "a step reads more than sizes and kinds");
}

static void seen_entry(cr_sseen *x, const cr_scall *c)
{
    if (c->node->schema->op->custom || !seen_makes_tensors(c->node))
        cr_sseen_refuse(x, "a step is no operator of the table, or makes no tensor");
}

void cr_sseen_call(cr_sseen *x, const cr_scall *c)
{
    if (x->why)
        return;
    x->step = c->node->schema->name;
    if (c->node->schema->op)
        seen_entry(x, c);
    else
        seen_builtin(x, c);
}

void cr_sseen_step(cr_sseen *x, const cr_snode *n)
{
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_SET_ATTR:
    case CR_SPRIM_CREATE_OBJECT:
    case CR_SPRIM_FORK:
    case CR_SPRIM_ENTER:
    case CR_SPRIM_EXIT: cr_sseen_refuse(x, "a step has an effect"); break;
    case CR_SPRIM_CONSTANT:
        if (n->value->live)
            cr_sseen_refuse(x, "a list or dict may change");
        break;
    case CR_SPRIM_MODULE_INDEX: cr_sseen_refuse(x, "a step chooses a module"); break;
    default: break;
    }
}
