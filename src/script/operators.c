/* Schemas of operators, read at first use from the text that the table prints and from
 * builtins.def.  They belong to one unit that is never freed. */
#include "script/operators.h"
#include "base/map.h"
#include "script/lex.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reading --- */

typedef struct {
    cr_session *session;
    cr_sunit *unit;
    cr_ssource source;
    cr_stokens tokens;
    size_t at;
} schema_reader;

static const char *schema_text(const schema_reader *r, size_t *len)
{
    const cr_stoken *t = &r->tokens.at[r->at];

    *len = t->end - t->start;
    return r->source.text + t->start;
}

static bool schema_is(const schema_reader *r, const char *word)
{
    size_t len;
    const char *text = schema_text(r, &len);

    return len == strlen(word) && !strncmp(text, word, len);
}

static bool schema_take(schema_reader *r, const char *word)
{
    bool is = schema_is(r, word);

    r->at += is;
    return is;
}

static CR_NORETURN void schema_wrong(schema_reader *r)
{
    cr_bail(r->session, CR_RUNTIME, "the schema '%s' cannot be read at character %u",
            r->source.text, (unsigned)r->tokens.at[r->at].start);
}

static void schema_want(schema_reader *r, const char *word)
{
    if (!schema_take(r, word))
        schema_wrong(r);
}

static char *schema_word(schema_reader *r)
{
    size_t len;
    const char *text = schema_text(r, &len);
    char *copy;

    if (r->tokens.at[r->at].kind != STOKEN_NAME)
        schema_wrong(r);
    copy = cr_arena_text(&r->session->keep, text, len);
    if (!copy)
        cr_session_check(r->session, CR_MEMORY);
    r->at++;
    return copy;
}

/* (a!), (b -> *), (a|b). */
static void schema_alias(schema_reader *r, cr_sparam *p)
{
    size_t len;

    if (!schema_take(r, "("))
        return;
    p->alias = *schema_text(r, &len);
    while (!schema_is(r, ")")) {
        p->written |= schema_is(r, "!");
        if (r->tokens.at[r->at].kind == STOKEN_END)
            schema_wrong(r);
        r->at++;
    }
    r->at++;
}

static const cr_stype *schema_type(schema_reader *r, cr_sparam *p);

static const cr_stype *schema_items(schema_reader *r)
{
    const cr_stype *item[32];
    cr_sparam ignored;
    int n = 0;

    while (!schema_take(r, ")")) {
        if (n == 32)
            schema_wrong(r);
        item[n++] = schema_type(r, &ignored);
        if (r->tokens.at[r->at].kind == STOKEN_NAME)
            r->at++;
        schema_take(r, ",");
    }
    return cr_stype_tuple(r->unit, n, item, NULL);
}

static const cr_stype *schema_named_type(const char *name)
{
    static const struct {
        const char *name;
        cr_stype_kind kind;
    } known[] = {{"Tensor", CR_STYPE_TENSOR},       {"int", CR_STYPE_INT},
                 {"SymInt", CR_STYPE_INT},          {"ScalarType", CR_STYPE_INT},
                 {"Layout", CR_STYPE_INT},          {"MemoryFormat", CR_STYPE_INT},
                 {"float", CR_STYPE_FLOAT},         {"complex", CR_STYPE_COMPLEX},
                 {"bool", CR_STYPE_BOOL},           {"str", CR_STYPE_STR},
                 {"Scalar", CR_STYPE_NUMBER},       {"Device", CR_STYPE_DEVICE},
                 {"Generator", CR_STYPE_GENERATOR}, {"Any", CR_STYPE_ANY},
                 {"NoneType", CR_STYPE_NONE},       {"Storage", CR_STYPE_STORAGE},
                 {"Stream", CR_STYPE_STREAM},       {"AnyClassType", CR_STYPE_ANY_CLASS},
                 {"AnyEnumType", CR_STYPE_ANY_ENUM}};

    for (size_t i = 0; i < CR_LEN(known); i++)
        if (!strcmp(known[i].name, name))
            return &cr_stype_plain[known[i].kind];
    return NULL;
}

/* The class of ranges, made at its first use. */
static const cr_stype *schema_range_class(schema_reader *r)
{
    cr_sclass *c = cr_sunit_class(r->unit, CR_SRANGE_CLASS);
    static const char dots[] = CR_SRANGE_CLASS;

    for (const char *at = dots; at; at = strchr(at + 1, '.'))
        r->at += at == dots ? 1 : 2;
    if (!c) {
        c = cr_sunit_add_class(r->unit, CR_SRANGE_CLASS, CR_STYPE_CLASS);
        cr_sclass_add_attribute(
            c, (cr_sattribute){.name = "capsule", .type = CR_STYPE_OF(CAPSULE)});
        c->source_file = "__torch__.torch.classes.profiler";
    }
    return c->type;
}

static const cr_stype *schema_base(schema_reader *r)
{
    const cr_stype *t, *key;
    cr_sparam ignored;
    char *name;

    if (schema_take(r, "("))
        return schema_items(r);
    if (schema_is(r, "__torch__"))
        return schema_range_class(r);
    name = schema_word(r);
    if ((t = schema_named_type(name)))
        return t;
    if (!schema_is(r, "(") || (strcmp(name, "Dict") && strcmp(name, "Future")))
        return cr_stype_var(r->unit, name);
    r->at++;
    key = schema_type(r, &ignored);
    if (strcmp(name, "Future")) {
        schema_want(r, ",");
        t = cr_stype_dict(r->unit, key, schema_type(r, &ignored));
    } else {
        t = cr_stype_future(r->unit, key);
    }
    schema_want(r, ")");
    return t;
}

static const cr_stype *schema_type(schema_reader *r, cr_sparam *p)
{
    const cr_stype *t = schema_base(r);

    *p = (cr_sparam){0};
    schema_alias(r, p);
    for (;;) {
        if (schema_take(r, "?")) {
            t = cr_stype_optional(r->unit, t);
        } else if (schema_take(r, "[")) {
            size_t len;
            if (!schema_is(r, "]"))
                p->fixed = atoi(schema_text(r, &len));
            r->at += !schema_is(r, "]");
            schema_want(r, "]");
            t = cr_stype_list(r->unit, t);
            schema_alias(r, p);
        } else {
            return t;
        }
    }
}

static cr_sconstant *schema_constant(schema_reader *r, const cr_stype *type);

static void schema_list_preset(schema_reader *r, cr_sconstant *c)
{
    cr_sconstant item[32];

    c->count = 0;
    while (!schema_take(r, "]")) {
        if (c->count == 32)
            schema_wrong(r);
        item[c->count++] = *schema_constant(r, c->type->item[0]);
        schema_take(r, ",");
    }
    c->item = cr_session_copy(r->session, item, (size_t)c->count * sizeof *item);
}

/* Reads a default value.  The default of `int[2]` may be one number, used for each element. */
static cr_sconstant *schema_constant(schema_reader *r, const cr_stype *type)
{
    cr_sconstant *c = CR_NEW(r->session, cr_sconstant);
    const cr_stype *plain = type->kind == CR_STYPE_OPTIONAL ? type->item[0] : type;
    const cr_stoken *t = &r->tokens.at[r->at];
    size_t len;
    bool minus = schema_take(r, "-");
    const char *text = schema_text(r, &len);

    c->type = plain;
    if (schema_take(r, "None")) {
        c->type = CR_STYPE_OF(NONE);
    } else if (schema_is(r, "True") || schema_is(r, "False")) {
        c->type = CR_STYPE_OF(BOOL);
        c->i = *text == 'T';
        r->at++;
    } else if (schema_take(r, "[")) {
        schema_list_preset(r, c);
    } else if (t->kind == STOKEN_STRING) {
        c->type = CR_STYPE_OF(STR);
        c->s = cr_script_decode(r->session, (cr_srange){&r->source, t->start, t->end}, text + 1,
                                len - 2, false, &c->len);
        r->at++;
    } else if (plain->kind == CR_STYPE_LIST) {
        c->count = 1;
        c->item = schema_constant(r, plain->item[0]);
    } else {
        if (plain->kind == CR_STYPE_FLOAT ||
            (plain->kind == CR_STYPE_NUMBER && memchr(text, '.', len))) {
            c->type = CR_STYPE_OF(FLOAT);
            c->d[0] = strtod(text, NULL) * (minus ? -1 : 1);
        } else {
            c->type = CR_STYPE_OF(INT);
            c->i = strtoll(text, NULL, 10) * (minus ? -1 : 1);
        }
        r->at++;
    }
    return c;
}

typedef CR_VEC(cr_sparam) schema_params;

/* Reads a type and keeps its text. */
static const cr_stype *schema_shown_type(schema_reader *r, cr_sparam *p)
{
    size_t len, begin = r->tokens.at[r->at].start;
    const char *text = schema_text(r, &len);
    const cr_stype *type = schema_type(r, p);
    char *shown = cr_arena_text(&r->session->keep, text, r->tokens.at[r->at - 1].end - begin);

    if (!shown)
        cr_session_check(r->session, CR_MEMORY);
    p->shown = shown;
    return type;
}

static void schema_read_params(schema_reader *r, cr_sschema *s)
{
    schema_params list = {0};
    bool keywords = false;

    schema_want(r, "(");
    while (!schema_take(r, ")")) {
        cr_sparam p = {0};
        if (schema_take(r, "...")) {
            s->any_params = true;
        } else if (schema_take(r, "*")) {
            keywords = true;
        } else {
            const cr_stype *type = schema_shown_type(r, &p);
            p.type = type;
            p.name = schema_word(r);
            p.keyword_only = keywords;
            if (schema_take(r, "="))
                p.preset = schema_constant(r, p.type);
            CR_PUSH(r->session, &list, p);
        }
        schema_take(r, ",");
    }
    s->param = list.at;
    s->param_count = (int)list.len;
}

static void schema_read_result(schema_reader *r, schema_params *list)
{
    cr_sparam p = {0};
    const cr_stype *type = schema_shown_type(r, &p);

    p.type = type;
    p.name = r->tokens.at[r->at].kind == STOKEN_NAME ? schema_word(r) : "";
    CR_PUSH(r->session, list, p);
}

/* "(int, int)" are two results, "(int, int)[]" is one: something stands behind the
 * parentheses. */
static bool schema_is_results(schema_reader *r)
{
    size_t start = r->at;
    int depth = 0;

    do {
        depth += schema_is(r, "(");
        depth -= schema_is(r, ")");
        r->at++;
    } while (depth && r->tokens.at[r->at].kind != STOKEN_END);
    bool all = r->tokens.at[r->at].kind == STOKEN_END;
    r->at = start;
    return all;
}

static void schema_read_results(schema_reader *r, cr_sschema *s)
{
    schema_params list = {0};

    schema_want(r, "->");
    if (schema_is(r, "(") && schema_is_results(r) && schema_take(r, "(")) {
        while (!schema_take(r, ")")) {
            schema_read_result(r, &list);
            schema_take(r, ",");
        }
    } else {
        schema_read_result(r, &list);
    }
    s->result = list.at;
    s->result_count = (int)list.len;
}

/* The name up to the parenthesis: "aten::add.Tensor". */
static size_t schema_read_name(schema_reader *r, cr_sschema *s, const char *text)
{
    const char *open = strchr(text, '('), *colons = strstr(text, "::"), *dot;
    char *name;

    if (!open)
        cr_bail(r->session, CR_RUNTIME, "the schema '%s' has no parameters", text);
    name = cr_arena_text(&r->session->keep, text, (size_t)(open - text));
    if (!name)
        cr_session_check(r->session, CR_MEMORY);
    dot = strchr(colons && colons < open ? name + (colons - text) : name, '.');
    s->overload = dot ? dot + 1 : "";
    if (dot)
        name[dot - name] = '\0';
    s->name = name;
    return (size_t)(open - text);
}

/* Reads a schema, "aten::len.t(t[] a) -> int", into `u`; bails. */
static cr_sschema *schema_parse(cr_sunit *u, const char *text)
{
    schema_reader r = {.session = cr_sunit_session(u), .unit = u};
    cr_sschema *s = CR_NEW(r.session, cr_sschema);
    size_t start;

    s->text = cr_session_text(r.session, text);
    s->builtin = -1;
    r.source = (cr_ssource){.text = s->text, .len = strlen(text), .first_line = 1};
    start = schema_read_name(&r, s, text);
    cr_script_lex(r.session, &r.tokens, &r.source, (uint32_t)start, (uint32_t)r.source.len,
                  true);
    schema_read_params(&r, s);
    schema_read_results(&r, s);
    return s;
}

/* --- the table of operators --- */

static struct {
    pthread_mutex_t lock;
    cr_sunit *unit;
    cr_map names;    /* cr_sschemas */
    cr_map also;     /* the entry of each word of the clauses `also` */
    cr_map builtins; /* names of builtins.def */
    bool read;       /* these two are complete */
} operators = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const builtins[] = {
#define CR_SBUILTIN(schema) schema,
#include "script/builtins.def"
#undef CR_SBUILTIN
};

static void operators_add(cr_sunit *u, cr_sschemas *list, const char *text, const cr_op *op,
                          int builtin)
{
    cr_sschema *s = schema_parse(u, text);

    s->op = op;
    s->builtin = builtin;
    CR_PUSH(cr_sunit_session(u), list, s);
}

static void operators_add_text(cr_sunit *u, cr_sschemas *list, cr_text *text, const cr_op *op)
{
    operators_add(u, list, cr_session_take_text(cr_sunit_session(u), text), op, -1);
}

/* Whether scripts lack an entry, as in torch: a dtype, which is an int of programs, would be
 * read as a size where the first entry of the name takes sizes. */
static bool operators_lack(const cr_op *first, const cr_op *op)
{
    int last = op->param_count - 1;

    return last > 0 && last < first->param_count && op->param[last].type == CR_T_DTYPE &&
           !op->param[last].keyword_only && first->param[last].type == CR_T_INTS;
}

/* Scripts write one result to a given tensor. */
static bool operators_have_out(const cr_op *op)
{
    return op->result_count == 1 && op->result[0].type == CR_T_TENSOR;
}

/* The entry that has this name, or has it in its clause `also`: of "clip", also of "clip_". */
static const cr_op *operators_entry(const char *name)
{
    const cr_op *op = cr_ops_find(name);

    return op ? op : cr_map_get(&operators.also, name, strlen(name));
}

static void operators_set_word(cr_session *s, const char *word, size_t len, const cr_op *op)
{
    char *key = cr_session_printf(s, "%.*s%s", (int)len, word, op->inplace_of ? "_" : "");

    if (!cr_map_get(&operators.also, key, strlen(key)))
        cr_session_check(
            s, cr_map_set(&operators.also, key, strlen(key), (void *)cr_ops_find(op->name)));
}

/* Files have many unknown names, so a look-up does not go through all entries. */
static void operators_read_names(cr_session *s, void *context)
{
    (void)context;
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        const char *word = (op->inplace_of ? op->inplace_of : op)->text.also;
        for (word += strspn(word, " "); *word; word += strspn(word, " ")) {
            size_t len = strcspn(word, " ");
            operators_set_word(s, word, len, op);
            word += len;
        }
    }
    for (size_t i = 0; i < CR_LEN(builtins); i++)
        cr_session_check(s, cr_map_set(&operators.builtins, builtins[i],
                                       strcspn(builtins[i], "(."), (void *)builtins[i]));
    operators.read = true;
}

/* Operators whose entries are in the order in which Python tries the overloads: torch's scripts
 * try the last one first. */
static bool operators_reversed(const cr_op *first, const cr_sschemas *list)
{
    return (first && first->aten.backwards) ||
           (list->len && !strcmp(list->at[list->len - 1]->overload, "vec"));
}

/* torch's overloads of the entries with this name: "add", or "torchvision::nms". */
static void operators_add_entries(cr_sunit *u, cr_sschemas *list, const char *name)
{
    const cr_op *first_op = operators_entry(name);

    for (const cr_op *op = first_op; op; op = op->next)
        for (int i = 0; i < op->aten.count && !operators_lack(first_op, op); i++) {
            cr_text text = {0};
            cr_op_print_overload(&text, op, name, &op->aten.list[i]);
            operators_add_text(u, list, &text, op);
        }
    for (size_t i = 0; operators_reversed(first_op, list) && i < list->len / 2; i++) {
        const cr_sschema *other = list->at[i];
        list->at[i] = list->at[list->len - 1 - i];
        list->at[list->len - 1 - i] = other;
    }
    for (const cr_op *op = first_op; op; op = op->next)
        for (int i = 0; operators_have_out(op) && i < op->aten.out_count; i++) {
            cr_text text = {0};
            cr_op_print_out_overload(&text, op, name, &op->aten.out[i]);
            operators_add_text(u, list, &text, op);
        }
}

static bool operators_is_named(const char *schema, const char *name)
{
    size_t n = strlen(name);

    return !strncmp(schema, name, n) && (schema[n] == '(' || schema[n] == '.');
}

static void operators_find(cr_session *s, void *context)
{
    const char *name = context;
    cr_sschemas *list = CR_NEW(s, cr_sschemas);
    bool aten = !strncmp(name, "aten::", 6);

    if (strncmp(name, "prim::", 6) && strstr(name, "::"))
        operators_add_entries(operators.unit, list, aten ? name + 6 : name);
    for (size_t i = 0; i < CR_LEN(builtins); i++)
        if (operators_is_named(builtins[i], name))
            operators_add(operators.unit, list, builtins[i], NULL, (int)i);
    cr_session_check(s, cr_map_set(&operators.names, name, strlen(name), list));
}

static const cr_sschemas no_schemas;

static cr_status operators_start(void)
{
    if (!operators.unit)
        operators.unit = cr_sunit_new();
    CR_NEED(operators.unit);
    return operators.read
               ? CR_OK
               : cr_session_run(cr_sunit_session(operators.unit), operators_read_names, NULL);
}

static cr_status operators_get(const cr_sschemas **out, const char *name)
{
    *out = cr_map_get(&operators.names, name, strlen(name));
    if (*out)
        return CR_OK;
    *out = &no_schemas;
    CR_TRY(cr_session_run(cr_sunit_session(operators.unit), operators_find, (void *)name));
    *out = cr_map_get(&operators.names, name, strlen(name));
    return CR_OK;
}

/* True for names that have schemas: unknown names, of which a file may have any number, are not
 * kept. */
static bool operators_known(const char *name)
{
    const char *entry = strncmp(name, "aten::", 6) ? name : name + 6;

    return (strstr(name, "::") && operators_entry(entry)) ||
           cr_map_get(&operators.builtins, name, strlen(name));
}

/* "aten::clamp" of "aten::clip": graphs have the entry's name, as those of torch.  An entry of
 * this package alone, such as _complex, has torch's name in its clause. */
static const char *operators_canonical(const char *name, char *room, size_t size)
{
    const cr_op *op = strncmp(name, "aten::", 6) ? NULL : operators_entry(name + 6);

    if (!op || *op->name == '_' || !strcmp(op->name, name + 6))
        return name;
    snprintf(room, size, "aten::%s", op->name);
    return room;
}

static cr_status operators_look_up(const cr_sschemas **out, const char *name)
{
    char room[128];

    CR_TRY(operators_start());
    return operators_known(name)
               ? operators_get(out, operators_canonical(name, room, sizeof room))
               : CR_OK;
}

cr_status cr_soperators(const cr_sschemas **out, const char *name)
{
    cr_status st;

    *out = &no_schemas;
    pthread_mutex_lock(&operators.lock);
    st = operators_look_up(out, name);
    pthread_mutex_unlock(&operators.lock);
    return st;
}

cr_sclass *cr_soperators_class(const char *name)
{
    const cr_sschemas *all;
    cr_sclass *c = NULL;

    if (strcmp(name, CR_SRANGE_CLASS))
        return NULL;
    if (!cr_soperators(&all, "profiler::_record_function_enter_new") && all->len)
        c = all->at[0]->result[0].type->cls;
    return c;
}
