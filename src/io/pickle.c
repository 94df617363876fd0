/* Reading pickles: one pass over the instructions, with a stack of step numbers.
 *
 * With weights_only the reader follows torch's restricted unpickler, its messages included.
 * Without it the reader accepts protocols 0 to 5 and follows Python's unpickler. */
#include "io/pickle.h"
#include "base/map.h"
#include <stdlib.h>
#include <string.h>

/* Limits of tuples.  Hashing a tuple beyond them could overflow the stack or not end. */
enum { MOST_DEPTH = 1000, MOST_WEIGHT = 1 << 26, MOST_BYTES = 1 << 30, MOST_NAME = 400 };

typedef struct {
    cr_pickle *p;
    const cr_pickle_rules *rules;
    const unsigned char *start, *at, *end;
    CR_VEC(uint32_t) stack;
    CR_VEC(uint32_t) marks; /* stack heights */
    CR_VEC(uint32_t) memo;  /* step + 1; 0: no entry */
    cr_map far_memo;        /* entries whose number is too large for `memo` */
    uint32_t next_memo;     /* the number of the next MEMOIZE */
    cr_map keys;            /* key to storage + 1 */
    bool stopped;
} reader;

/* --- failures: weights_only gives the message of torch's reader, else Python's --- */
static cr_status fail(const reader *r, cr_status kind, const char *weights_text,
                      const char *full_text)
{
    if (r->rules->weights_only)
        return cr_fail(kind, "%s", weights_text);
    return cr_fail(CR_UNPICKLING, "%s", full_text);
}

static cr_status no_item(const reader *r)
{
    return fail(r, CR_INDEX, "pop from empty list", "unpickling stack underflow");
}
static cr_status no_top(const reader *r)
{
    return fail(r, CR_INDEX, "list index out of range", "unpickling stack underflow");
}
static cr_status no_mark(const reader *r)
{
    return fail(r, CR_INDEX, "pop from empty list", "could not find MARK");
}
static cr_status no_byte(const reader *r)
{
    return fail(r, CR_INDEX, "index out of range", "pickle data was truncated");
}

static cr_status no_more(const reader *r)
{
    return cr_fail(CR_END, "%s", r->rules->weights_only ? "" : "Ran out of input");
}

static cr_status no_memo(const reader *r, uint64_t i)
{
    if (r->rules->weights_only)
        return cr_fail(CR_KEY, "%llu", (unsigned long long)i);
    return cr_fail(CR_UNPICKLING, "Memo value not found at index %llu", (unsigned long long)i);
}

static cr_status unknown(const reader *r, unsigned op)
{
    if (r->rules->weights_only)
        return cr_fail(CR_UNPICKLING, "Unsupported operand %u", op);
    if (op >= 0x20 && op < 0x7F && op != '\'')
        return cr_fail(CR_UNPICKLING, "invalid load key, '%c'.", (int)op);
    return cr_fail(CR_UNPICKLING, "invalid load key, '\\x%02x'.", op);
}

/* --- bytes --- */
static size_t left(const reader *r) { return (size_t)(r->end - r->at); }

static cr_status byte(reader *r, uint64_t *out)
{
    if (r->at == r->end)
        return no_byte(r);
    *out = *r->at++;
    return CR_OK;
}

/* Reads an unsigned number of n bytes, least significant byte first. */
static cr_status pickle_number(reader *r, unsigned n, uint64_t *out)
{
    if (n == 1)
        return byte(r, out);
    if (left(r) < n) {
        if (!r->rules->weights_only)
            return cr_fail(CR_UNPICKLING, "pickle data was truncated");
        return cr_fail(CR_STRUCT, "unpack requires a buffer of %u bytes", n);
    }
    *out = 0;
    for (unsigned i = 0; i < n; i++)
        *out |= (uint64_t)r->at[i] << 8 * i;
    r->at += n;
    return CR_OK;
}

static cr_status bytes(reader *r, uint64_t n, const char **out)
{
    if (n > left(r)) {
        r->at = r->end;
        return r->rules->weights_only ? no_more(r)
                                      : cr_fail(CR_UNPICKLING, "pickle data was truncated");
    }
    *out = (const char *)r->at;
    r->at += n;
    return CR_OK;
}

/* Reads a line without its end.  torch's reader drops the last byte of an unfinished line,
 * too. */
static cr_status pickle_line(reader *r, const char **out, size_t *len)
{
    const unsigned char *end = left(r) ? memchr(r->at, '\n', left(r)) : NULL;

    if (!end && !r->rules->weights_only)
        return cr_fail(CR_UNPICKLING, "pickle data was truncated");
    *out = (const char *)r->at;
    const unsigned char *stop = end ? end : r->end > r->at ? r->end - 1 : r->end;
    *len = (size_t)(stop - r->at);
    r->at = end ? end + 1 : r->end;
    return CR_OK;
}

/* --- the stack --- */
static uint32_t floor_of(const reader *r)
{
    return r->marks.len ? r->marks.at[r->marks.len - 1] : 0;
}

static cr_status pickle_push(reader *r, uint32_t step)
{
    CR_TRY(cr_vec_reserve(&r->stack, 1));
    cr_vec_put(&r->stack, step);
    return CR_OK;
}

static cr_status pickle_pop(reader *r, uint32_t *out)
{
    if (r->stack.len <= floor_of(r))
        return no_item(r);
    *out = r->stack.at[--r->stack.len];
    return CR_OK;
}

static cr_status top(const reader *r, uint32_t *out)
{
    if (r->stack.len <= floor_of(r))
        return no_top(r);
    *out = r->stack.at[r->stack.len - 1];
    return CR_OK;
}

/* Removes the last mark.  The items above it are stack[*first..len). */
static cr_status pop_mark(reader *r, size_t *first)
{
    if (!r->marks.len)
        return no_mark(r);
    *first = r->marks.at[--r->marks.len];
    return CR_OK;
}

/* --- steps --- */
static cr_status pickle_add_step(reader *r, cr_step s, uint32_t *out)
{
    CR_TRY(cr_vec_reserve(&r->p->steps, 1));
    *out = (uint32_t)r->p->steps.len;
    cr_vec_put(&r->p->steps, s);
    return CR_OK;
}

static cr_status push_step(reader *r, cr_step s)
{
    uint32_t step;

    CR_TRY(pickle_add_step(r, s, &step));
    return pickle_push(r, step);
}

static const cr_step *pickle_step_at(const reader *r, uint32_t i) { return &r->p->steps.at[i]; }

static cr_status pickle_add_operands(reader *r, const uint32_t *operand, size_t n,
                                     size_t *first)
{
    CR_TRY(cr_vec_reserve(&r->p->operands, n));
    *first = r->p->operands.len;
    for (size_t i = 0; i < n; i++)
        cr_vec_put(&r->p->operands, operand[i]);
    return CR_OK;
}

static cr_status with_operands(reader *r, cr_step_kind kind, const uint32_t *operand, size_t n,
                               uint32_t *out)
{
    cr_step s = {.kind = (uint8_t)kind, .count = (uint32_t)n};
    size_t first = 0;

    CR_TRY(pickle_add_operands(r, operand, n, &first));
    s.first = first;
    s.weight = 0;
    return pickle_add_step(r, s, out);
}

/* Replaces the top n values by one value made of them. */
static cr_status pickle_combine(reader *r, cr_step_kind kind, size_t n)
{
    uint32_t made = 0;

    if (r->stack.len - floor_of(r) < n)
        return no_top(r);
    r->stack.len -= n;
    CR_TRY(with_operands(r, kind, r->stack.at + r->stack.len, n, &made));
    return pickle_push(r, made);
}

static cr_status pickle_weigh(reader *r, uint32_t tuple)
{
    cr_step *t = &r->p->steps.at[tuple];
    double weight = 1;
    unsigned depth = 0;

    for (uint32_t i = 0; i < t->count; i++) {
        const cr_step *item = pickle_step_at(r, r->p->operands.at[t->first + i]);
        bool nested = item->kind == CR_STEP_TUPLE || item->kind == CR_STEP_FROZENSET;
        weight += nested ? item->weight : 1;
        depth = nested && item->depth > depth ? item->depth : depth;
    }
    t->weight = weight;
    t->depth = (uint16_t)(depth + 1);
    if (depth >= MOST_DEPTH || (weight > MOST_WEIGHT && weight > (double)(r->end - r->start)))
        return cr_fail(CR_UNPICKLING, "a tuple is nested too deeply or holds itself too often");
    return CR_OK;
}

static cr_status make_tuple(reader *r, cr_step_kind kind, size_t n)
{
    CR_TRY(pickle_combine(r, kind, n));
    return pickle_weigh(r, r->stack.at[r->stack.len - 1]);
}

/* Replaces the values above the last mark by one value. */
static cr_status combine_marked(reader *r, cr_step_kind kind)
{
    size_t first = 0;

    CR_TRY(pop_mark(r, &first));
    if (kind == CR_STEP_TUPLE || kind == CR_STEP_FROZENSET)
        return make_tuple(r, kind, r->stack.len - first);
    if (kind == CR_STEP_DICT && (r->stack.len - first) % 2)
        return cr_fail(CR_UNPICKLING, "odd number of items for DICT");
    return pickle_combine(r, kind, r->stack.len - first);
}

/* Adds a step that changes the value below the top n values, and removes these n values. */
static cr_status push_change(reader *r, cr_step_kind kind, size_t n)
{
    uint32_t done;

    if (r->stack.len - floor_of(r) < n)
        return no_item(r);
    if (r->stack.len - floor_of(r) == n)
        return no_top(r);
    r->stack.len -= n;
    return with_operands(r, kind, r->stack.at + r->stack.len - 1, n + 1, &done);
}

static cr_status change_marked(reader *r, cr_step_kind kind)
{
    size_t first = 0;

    CR_TRY(pop_mark(r, &first));
    size_t n = r->stack.len - first;
    if (kind == CR_STEP_SETITEMS && n % 2)
        return fail(r, CR_INDEX, "list index out of range", "odd number of items for SETITEMS");
    return push_change(r, kind, n);
}

/* --- the memo --- */
static cr_status pickle_remember(reader *r, uint64_t i)
{
    uint32_t value = 0;

    CR_TRY(top(r, &value));
    if (i >= (uint64_t)(r->end - r->start)) {
        uint64_t key = i;
        return cr_map_set(&r->far_memo, (char *)&key, sizeof key,
                          (void *)(uintptr_t)(value + 1));
    }
    if (i >= r->memo.len) {
        size_t more = (size_t)i + 1 - r->memo.len;
        CR_TRY(cr_vec_reserve(&r->memo, more));
        memset(r->memo.at + r->memo.len, 0, more * sizeof *r->memo.at);
        r->memo.len += more;
    }
    r->memo.at[i] = value + 1;
    return CR_OK;
}

static cr_status pickle_recall(reader *r, uint64_t i)
{
    uint64_t key = i;
    uint32_t value =
        i < r->memo.len
            ? r->memo.at[i]
            : (uint32_t)(uintptr_t)cr_map_get(&r->far_memo, (char *)&key, sizeof key);

    return value ? pickle_push(r, value - 1) : no_memo(r, i);
}

/* --- names --- */
static cr_status blocked(const char *module, const char *name)
{
    static const char *const never[] = {"sys", "os", "posix", "nt"};

    for (size_t i = 0; i < CR_LEN(never); i++)
        if (!strcmp(module, never[i]))
            return cr_fail(CR_UNPICKLING,
                           "Trying to load unsupported GLOBAL %s.%s whose module %s "
                           "is blocked.",
                           module, name, module);
    return CR_OK;
}

static cr_status not_allowed(const reader *r, const char *module, const char *name)
{
    bool builtin = !strcmp(module, "builtins");
    const char *dot = builtin ? "" : ".", *prefix = builtin ? "" : module;

    if (r->rules->weights_only)
        return cr_fail(
            CR_UNPICKLING,
            "Unsupported global: GLOBAL %s%s%s was not an allowed global by default. "
            "Please use `torch.serialization.add_safe_globals([%s%s%s])` or the "
            "`torch.serialization.safe_globals([%s%s%s])` context manager to allowlist "
            "this global if you trust this class/function.",
            prefix, dot, name, prefix, dot, name, prefix, dot, name);
    return cr_fail(
        CR_UNPICKLING,
        "GLOBAL %s%s%s is not allowed: also with weights_only=False, only classes and "
        "functions that you have allowed are used. If you trust it, use "
        "`torch.serialization.add_safe_globals([%s%s%s])` or the "
        "`torch.serialization.safe_globals([%s%s%s])` context manager.",
        prefix, dot, name, prefix, dot, name, prefix, dot, name);
}

static cr_status ask_leave(const reader *r, const char *module, const char *name)
{
    bool allowed = false;

    if (r->rules->ask)
        CR_TRY(r->rules->ask(r->rules->who, module, name, &allowed));
    return allowed ? CR_OK : not_allowed(r, module, name);
}

static cr_status pickle_check_name(const reader *r, const cr_pickle_name *n)
{
    switch (n->global.use) {
    case CR_USE_FULL:
    case CR_USE_TYPE: return r->rules->weights_only ? ask_leave(r, n->module, n->name) : CR_OK;
    case CR_USE_NONE: return ask_leave(r, n->module, n->name);
    case CR_USE_ABSENT:
        return cr_fail(CR_UNPICKLING,
                       "Unsupported global: GLOBAL %s.%s has no counterpart in Cresset",
                       n->module, n->name);
    default: return CR_OK;
    }
}

static cr_status pickle_add_name(reader *r, const char *module, const char *name)
{
    char buffer[MOST_NAME + 8];
    cr_pickle_name n = {0};

    cr_global_rename(&module, &name, buffer, sizeof buffer);
    n.global = cr_global_find(module, name);
    n.module = cr_arena_text(&r->p->arena, module, strlen(module));
    n.name = cr_arena_text(&r->p->arena, name, strlen(name));
    CR_NEED(n.module && n.name);
    if (r->rules->listing) {
        if (n.global.use == CR_USE_NONE || n.global.use == CR_USE_FULL ||
            n.global.use == CR_USE_TYPE)
            CR_TRY(ask_leave(r, module, name));
    } else {
        CR_TRY(blocked(n.module, n.name));
        CR_TRY(pickle_check_name(r, &n));
    }
    CR_TRY(cr_vec_reserve(&r->p->names, 1));
    cr_vec_put(&r->p->names, n);
    return push_step(r, (cr_step){.kind = CR_STEP_GLOBAL, .i = (int64_t)r->p->names.len - 1});
}

/* Adds a name.  The two strings need no NUL at the end. */
static cr_status add_name_n(reader *r, const char *module, size_t module_len, const char *name,
                            size_t name_len)
{
    char module_text[MOST_NAME + 1], name_text[MOST_NAME + 1];

    if (module_len > MOST_NAME || name_len > MOST_NAME || memchr(module, 0, module_len) ||
        memchr(name, 0, name_len))
        return cr_fail(CR_UNPICKLING,
                       "a global's name is longer than %d bytes or has a NUL in it", MOST_NAME);
    memcpy(module_text, module, module_len);
    memcpy(name_text, name, name_len);
    module_text[module_len] = name_text[name_len] = 0;
    return pickle_add_name(r, module_text, name_text);
}

static cr_status global(reader *r)
{
    const char *module = NULL, *name = NULL;
    size_t module_len = 0, name_len = 0;

    CR_TRY(pickle_line(r, &module, &module_len));
    CR_TRY(pickle_line(r, &name, &name_len));
    return add_name_n(r, module, module_len, name, name_len);
}

static cr_status stack_global(reader *r)
{
    uint32_t name = 0, module = 0;

    CR_TRY(pickle_pop(r, &name));
    CR_TRY(pickle_pop(r, &module));
    const cr_step *n = pickle_step_at(r, name), *m = pickle_step_at(r, module);
    if (n->kind != CR_STEP_TEXT || m->kind != CR_STEP_TEXT)
        return cr_fail(CR_UNPICKLING, "STACK_GLOBAL requires str");
    return add_name_n(r, m->text.at, m->text.len, n->text.at, n->text.len);
}

/* --- storages: ("storage", type, key, location, numel[, view]) --- */
static bool pickle_is_text(const cr_step *s)
{
    return s->kind == CR_STEP_TEXT || s->kind == CR_STEP_STRING;
}

static bool text_is(const cr_step *s, const char *what)
{
    return pickle_is_text(s) && s->text.len == strlen(what) &&
           !memcmp(s->text.at, what, s->text.len);
}

static const char *pickle_class_of(const cr_step *s)
{
    static const char *const names[] = {[CR_STEP_NONE] = "NoneType",
                                        [CR_STEP_FALSE] = "bool",
                                        [CR_STEP_TRUE] = "bool",
                                        [CR_STEP_INT] = "int",
                                        [CR_STEP_LONG] = "int",
                                        [CR_STEP_DIGITS] = "int",
                                        [CR_STEP_FLOAT] = "float",
                                        [CR_STEP_TEXT] = "str",
                                        [CR_STEP_STRING] = "str",
                                        [CR_STEP_BYTES] = "bytes",
                                        [CR_STEP_BYTEARRAY] = "bytearray",
                                        [CR_STEP_TUPLE] = "tuple",
                                        [CR_STEP_LIST] = "list",
                                        [CR_STEP_DICT] = "dict",
                                        [CR_STEP_SET] = "set",
                                        [CR_STEP_FROZENSET] = "frozenset"};

    return s->kind < CR_LEN(names) && names[s->kind] ? names[s->kind] : "object";
}

static cr_status small_int(const cr_step *s, const char *what, int64_t *out)
{
    uint64_t v = 0;

    if (s->kind == CR_STEP_INT) {
        *out = s->i;
    } else if (s->kind == CR_STEP_LONG && s->text.len <= 8) {
        for (size_t i = 0; i < s->text.len; i++)
            v |= (uint64_t)(unsigned char)s->text.at[i] << 8 * i;
        if (s->text.len && s->text.len < 8 && s->text.at[s->text.len - 1] & 0x80)
            v |= UINT64_MAX << 8 * s->text.len;
        *out = (int64_t)v;
    } else {
        return cr_fail(CR_UNPICKLING, "%s of a storage must be an int of 64 bits, not %s", what,
                       pickle_class_of(s));
    }
    if (*out < 0)
        return cr_fail(CR_UNPICKLING, "%s of a storage must not be negative, but got %lld",
                       what, (long long)*out);
    return CR_OK;
}

static const cr_step *pickle_item(const reader *r, const cr_step *tuple, uint32_t i)
{
    return pickle_step_at(r, r->p->operands.at[tuple->first + i]);
}

static cr_status storage_type(const reader *r, const cr_step *s, cr_dtype *out)
{
    if (s->kind != CR_STEP_GLOBAL)
        return cr_fail(CR_ATTRIBUTE, "'%s' object has no attribute 'dtype'",
                       pickle_class_of(s));
    const cr_pickle_name *n = &r->p->names.at[s->i];
    if (n->global.use != CR_USE_STORAGE)
        return cr_fail(CR_ATTRIBUTE, "'%s' object has no attribute 'dtype'",
                       n->global.use == CR_USE_DTYPE ? "torch.dtype" : "type");
    *out = n->global.dtype;
    return CR_OK;
}

static cr_status copy_text(reader *r, const cr_step *s, const char *what, const char **out)
{
    if (!pickle_is_text(s) || memchr(s->text.at, 0, s->text.len))
        return cr_fail(CR_UNPICKLING, "%s of a storage must be a str without NUL, not %s", what,
                       pickle_class_of(s));
    *out = cr_arena_text(&r->p->arena, s->text.at, s->text.len);
    return *out ? CR_OK : CR_MEMORY;
}

static cr_status storage_bytes(cr_dtype t, const cr_step *s, const char *what, uint64_t *out)
{
    int64_t n = 0;

    CR_TRY(small_int(s, what, &n));
    if (CR_MUL_OVERFLOW((uint64_t)n, (uint64_t)cr_dtype_size(t), out))
        return cr_fail(CR_UNPICKLING, "%s of a storage is too large: %lld", what, (long long)n);
    return CR_OK;
}

/* *out: the number of the storage with this key.  A new key gets a new storage. */
static cr_status storage_of_key(reader *r, cr_pickle_storage s, size_t *out)
{
    size_t known = (size_t)(uintptr_t)cr_map_get(&r->keys, s.key, strlen(s.key));

    if (known) {
        *out = known - 1;
        return CR_OK;
    }
    CR_TRY(cr_vec_reserve(&r->p->storages, 1));
    cr_vec_put(&r->p->storages, s);
    *out = r->p->storages.len - 1;
    if (!s.bytes && s.root < 0)
        return CR_OK; /* as in torch, empty storages are not shared */
    return cr_map_set(&r->keys, s.key, strlen(s.key), (void *)(uintptr_t)r->p->storages.len);
}

/* Replaces *number by a part of this storage.  `view` is (key, offset, numel) or None. */
static cr_status storage_part(reader *r, const cr_step *view, size_t *number)
{
    const cr_pickle_storage root = r->p->storages.at[*number];
    cr_pickle_storage s = {
        .location = root.location, .dtype = root.dtype, .root = (int64_t)*number};

    if (view->kind == CR_STEP_NONE)
        return CR_OK;
    if (view->kind != CR_STEP_TUPLE || view->count != 3)
        return cr_fail(CR_UNPICKLING, "the view of a storage must be a tuple of 3, not %s",
                       pickle_class_of(view));
    CR_TRY(copy_text(r, pickle_item(r, view, 0), "the view's key", &s.key));
    CR_TRY(storage_bytes(s.dtype, pickle_item(r, view, 1), "the view's offset", &s.part_at));
    CR_TRY(storage_bytes(s.dtype, pickle_item(r, view, 2), "the view's size", &s.bytes));
    if (root.root >= 0 || s.part_at > root.bytes || s.bytes > root.bytes - s.part_at)
        return cr_fail(CR_UNPICKLING, "the view of a storage is not inside it");
    return storage_of_key(r, s, number);
}

static cr_status storage(reader *r, const cr_step *pid)
{
    cr_pickle_storage s = {.root = -1};
    cr_step view = pid->count == 6 ? *pickle_item(r, pid, 5) : (cr_step){.kind = CR_STEP_NONE};
    size_t i;

    if (pid->count != 5 && pid->count != 6)
        return cr_fail(CR_VALUE,
                       pid->count < 5 ? "not enough values to unpack (expected 4, got %u)"
                                      : "too many values to unpack (expected 4, got %u)",
                       pid->count - 1);
    CR_TRY(storage_type(r, pickle_item(r, pid, 1), &s.dtype));
    CR_TRY(copy_text(r, pickle_item(r, pid, 2), "the key", &s.key));
    CR_TRY(copy_text(r, pickle_item(r, pid, 3), "the location", &s.location));
    CR_TRY(storage_bytes(s.dtype, pickle_item(r, pid, 4), "the size", &s.bytes));
    CR_TRY(storage_of_key(r, s, &i));
    CR_TRY(storage_part(r, &view, &i));
    return push_step(r, (cr_step){.kind = CR_STEP_STORAGE, .i = (int64_t)i});
}

/* ("module", class, file, source): the value is the class; file and source are ignored. */
static cr_status container(reader *r, const cr_step *pid)
{
    uint32_t cls = r->p->operands.at[pid->first + 1], made;

    CR_TRY(with_operands(r, CR_STEP_SAME, &cls, 1, &made));
    return pickle_push(r, made);
}

static cr_status persistent(reader *r)
{
    uint32_t id = 0;

    CR_TRY(pickle_pop(r, &id));
    const cr_step pid = *pickle_step_at(r, id);
    if (pid.kind == CR_STEP_INT || pid.kind == CR_STEP_LONG)
        return cr_fail(CR_ASSERTION, "saved_id must be a tuple, got int");
    if (pid.kind != CR_STEP_TUPLE)
        return cr_fail(CR_UNPICKLING,
                       "persistent_load id must be tuple or int, but got <class '%s'>",
                       pickle_class_of(&pid));
    if (!pid.count)
        return cr_fail(CR_INDEX, "tuple index out of range");
    if (!r->rules->weights_only && pid.count > 1 && text_is(pickle_item(r, &pid, 0), "module"))
        return container(r, &pid);
    if (!text_is(pickle_item(r, &pid, 0), "storage"))
        return cr_fail(CR_UNPICKLING,
                       "Only persistent_load of storage is allowed, but got <class '%s'>",
                       pickle_class_of(pickle_item(r, &pid, 0)));
    return storage(r, &pid);
}

/* --- constants --- */
static cr_status signed32(reader *r)
{
    uint64_t v = 0;

    CR_TRY(pickle_number(r, 4, &v));
    return push_step(r, (cr_step){.kind = CR_STEP_INT, .i = (int32_t)(uint32_t)v});
}

static cr_status unsigned_int(reader *r, unsigned n)
{
    uint64_t v = 0;

    CR_TRY(pickle_number(r, n, &v));
    return push_step(r, (cr_step){.kind = CR_STEP_INT, .i = (int64_t)v});
}

static cr_status binary_float(reader *r)
{
    uint64_t v = 0;
    cr_step s = {.kind = CR_STEP_FLOAT};

    CR_TRY(pickle_number(r, 8, &v));
    uint64_t most_first = 0;
    for (int i = 0; i < 8; i++)
        most_first |= (v >> 8 * i & 0xFF) << 8 * (7 - i);
    memcpy(&s.d, &most_first, sizeof s.d);
    return push_step(r, s);
}

/* Reads a length of `width` bytes, then the text. */
static cr_status counted(reader *r, unsigned width, cr_step_kind kind)
{
    cr_step s = {.kind = (uint8_t)kind};
    uint64_t n = 0;

    CR_TRY(pickle_number(r, width, &n));
    CR_TRY(bytes(r, n, &s.text.at));
    s.text.len = (size_t)n;
    return push_step(r, s);
}

static cr_status push_kind(reader *r, cr_step_kind kind)
{
    cr_step s = {.kind = (uint8_t)kind};

    if (kind == CR_STEP_TUPLE || kind == CR_STEP_FROZENSET)
        s.weight = s.depth = 1;
    return push_step(r, s);
}

/* Protocol 0: "01" and "00" are booleans, a long ends in L. */
static cr_status digits(reader *r)
{
    cr_step s = {.kind = CR_STEP_DIGITS};

    CR_TRY(pickle_line(r, &s.text.at, &s.text.len));
    if (s.text.len == 2 && s.text.at[0] == '0' && (s.text.at[1] == '0' || s.text.at[1] == '1'))
        return push_kind(r, s.text.at[1] == '1' ? CR_STEP_TRUE : CR_STEP_FALSE);
    if (s.text.len && s.text.at[s.text.len - 1] == 'L')
        s.text.len--;
    return push_step(r, s);
}

static cr_status text_float(reader *r)
{
    char text[64], *end;
    const char *at = NULL;
    size_t len = 0;

    CR_TRY(pickle_line(r, &at, &len));
    if (!len || len >= sizeof text)
        return cr_fail(CR_VALUE, "could not convert string to float");
    memcpy(text, at, len);
    text[len] = 0;
    double d = strtod(text, &end);
    if (*end)
        return cr_fail(CR_VALUE, "could not convert string to float: '%s'", text);
    return push_step(r, (cr_step){.kind = CR_STEP_FLOAT, .d = d});
}

/* Reads a quoted Python string without escapes.  Only Python 2 writes these. */
static cr_status quoted(reader *r)
{
    cr_step s = {.kind = CR_STEP_STRING};

    CR_TRY(pickle_line(r, &s.text.at, &s.text.len));
    const char *t = s.text.at;
    size_t n = s.text.len;
    if (n < 2 || t[0] != t[n - 1] || (t[0] != '\'' && t[0] != '"'))
        return cr_fail(CR_UNPICKLING, "the STRING opcode argument must be quoted");
    if (memchr(t, '\\', n))
        return cr_fail(CR_UNPICKLING, "escapes in strings of protocol 0 are not supported");
    s.text.at++;
    s.text.len -= 2;
    return push_step(r, s);
}

static cr_status unicode_line(reader *r)
{
    cr_step s = {.kind = CR_STEP_TEXT};

    CR_TRY(pickle_line(r, &s.text.at, &s.text.len));
    if (memchr(s.text.at, '\\', s.text.len))
        return cr_fail(CR_UNPICKLING, "escapes in strings of protocol 0 are not supported");
    return push_step(r, s);
}

static cr_status decimal_memo(reader *r, uint64_t *out)
{
    const char *at = NULL;
    size_t len = 0;

    CR_TRY(pickle_line(r, &at, &len));
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9' || len > 18)
            return cr_fail(CR_VALUE, "invalid literal for int() with base 10");
        *out = *out * 10 + (uint64_t)(at[i] - '0');
    }
    return CR_OK;
}

/* --- instructions --- */
static cr_status protocol(reader *r)
{
    uint64_t v = 0;

    CR_TRY(byte(r, &v));
    r->p->protocol = (int)v;
    if (v > 5 && !r->rules->weights_only)
        return cr_fail(CR_VALUE, "unsupported pickle protocol: %d", (int)v);
    return CR_OK;
}

static cr_status pickle_mark(reader *r)
{
    CR_TRY(cr_vec_reserve(&r->marks, 1));
    cr_vec_put(&r->marks, (uint32_t)r->stack.len);
    return CR_OK;
}

static cr_status memo_op(reader *r, unsigned n, cr_status (*act)(reader *, uint64_t))
{
    uint64_t i = 0;

    CR_TRY(pickle_number(r, n, &i));
    return act(r, i);
}

static cr_status pickle_stop(reader *r)
{
    r->stopped = true;
    if (!r->rules->weights_only && r->marks.len)
        return cr_fail(CR_UNPICKLING, "unexpected MARK found");
    return pickle_pop(r, &r->p->result);
}

/* The instructions that torch's restricted reader accepts; *known is false for others. */
static cr_status common(reader *r, unsigned op, bool *known)
{
    *known = true;
    switch (op) {
    case 0x80: return protocol(r);
    case '.': return pickle_stop(r);
    case 'c': return global(r);
    case 0x81: return pickle_combine(r, CR_STEP_NEWOBJ, 2);
    case 'R': return pickle_combine(r, CR_STEP_REDUCE, 2);
    case 'b': return push_change(r, CR_STEP_BUILD, 1);
    case 'a': return push_change(r, CR_STEP_APPEND, 1);
    case 'e': return change_marked(r, CR_STEP_APPEND);
    case 's': return push_change(r, CR_STEP_SETITEM, 2);
    case 'u': return change_marked(r, CR_STEP_SETITEMS);
    case '(': return pickle_mark(r);
    case 't': return combine_marked(r, CR_STEP_TUPLE);
    case 0x85: return make_tuple(r, CR_STEP_TUPLE, 1);
    case 0x86: return make_tuple(r, CR_STEP_TUPLE, 2);
    case 0x87: return make_tuple(r, CR_STEP_TUPLE, 3);
    case 'N': return push_kind(r, CR_STEP_NONE);
    case 0x89: return push_kind(r, CR_STEP_FALSE);
    case 0x88: return push_kind(r, CR_STEP_TRUE);
    case ')': return push_kind(r, CR_STEP_TUPLE);
    case ']': return push_kind(r, CR_STEP_LIST);
    case '}': return push_kind(r, CR_STEP_DICT);
    case 0x8F: return push_kind(r, CR_STEP_SET);
    case 'J': return signed32(r);
    case 'K': return unsigned_int(r, 1);
    case 'M': return unsigned_int(r, 2);
    case 'G': return binary_float(r);
    case 'X': return counted(r, 4, CR_STEP_TEXT);
    case 'U': return counted(r, 1, CR_STEP_STRING);
    case 0x8A: return counted(r, 1, CR_STEP_LONG);
    case 'Q': return persistent(r);
    case 'h': return memo_op(r, 1, pickle_recall);
    case 'j': return memo_op(r, 4, pickle_recall);
    case 'q': return memo_op(r, 1, pickle_remember);
    case 'r': return memo_op(r, 4, pickle_remember);
    default: *known = false; return CR_OK;
    }
}

static cr_status drop_top(reader *r)
{
    uint32_t unused = 0;
    size_t first = 0;

    /* POP removes a mark when the mark is on top. */
    if (r->marks.len && r->stack.len == floor_of(r))
        return pop_mark(r, &first);
    return pickle_pop(r, &unused);
}

static cr_status drop_marked(reader *r)
{
    size_t first = 0;

    CR_TRY(pop_mark(r, &first));
    r->stack.len = first;
    return CR_OK;
}

static cr_status duplicate(reader *r)
{
    uint32_t v = 0;

    CR_TRY(top(r, &v));
    return pickle_push(r, v);
}

/* INST: the class is named in the text; OBJ: it is the first value above the mark. */
static cr_status instance(reader *r)
{
    size_t first = 0;

    CR_TRY(global(r));
    uint32_t cls = r->stack.at[--r->stack.len];
    CR_TRY(pop_mark(r, &first));
    CR_TRY(pickle_push(r, cls));
    uint32_t *items = r->stack.at + first;
    size_t n = r->stack.len - first;
    memmove(items + 1, items, (n - 1) * sizeof *items);
    items[0] = cls;
    return pickle_combine(r, CR_STEP_OBJECT, n);
}

static cr_status object(reader *r)
{
    size_t first = 0;

    CR_TRY(pop_mark(r, &first));
    if (r->stack.len == first)
        return no_top(r);
    return pickle_combine(r, CR_STEP_OBJECT, r->stack.len - first);
}

static cr_status pickle_skip(reader *r, unsigned n)
{
    uint64_t unused = 0;

    return pickle_number(r, n, &unused);
}

/* Protocol 0 writes persistent ids as text; a storage's id is a tuple. */
static cr_status text_id(reader *r)
{
    const char *at = NULL;
    size_t len = 0;

    CR_TRY(pickle_line(r, &at, &len));
    return cr_fail(CR_ASSERTION, "saved_id must be a tuple, got str");
}

static cr_status text_memo_op(reader *r, cr_status (*act)(reader *, uint64_t))
{
    uint64_t i = 0;

    CR_TRY(decimal_memo(r, &i));
    return act(r, i);
}

/* The other instructions of protocols 0 to 5, except extension codes and external buffers. */
static cr_status rare(reader *r, unsigned op)
{
    switch (op) {
    case '0': return drop_top(r);
    case '1': return drop_marked(r);
    case '2': return duplicate(r);
    case 'F': return text_float(r);
    case 'I':
    case 'L': return digits(r);
    case 'S': return quoted(r);
    case 'V': return unicode_line(r);
    case 'T': return counted(r, 4, CR_STEP_STRING);
    case 'B': return counted(r, 4, CR_STEP_BYTES);
    case 'C': return counted(r, 1, CR_STEP_BYTES);
    case 0x8E: return counted(r, 8, CR_STEP_BYTES);
    case 0x96: return counted(r, 8, CR_STEP_BYTEARRAY);
    case 0x8C: return counted(r, 1, CR_STEP_TEXT);
    case 0x8D: return counted(r, 8, CR_STEP_TEXT);
    case 0x8B: return counted(r, 4, CR_STEP_LONG);
    case 'l': return combine_marked(r, CR_STEP_LIST);
    case 'd': return combine_marked(r, CR_STEP_DICT);
    case 0x90: return change_marked(r, CR_STEP_ADDITEMS);
    case 0x91: return combine_marked(r, CR_STEP_FROZENSET);
    case 'i': return instance(r);
    case 'o': return object(r);
    case 'g': return text_memo_op(r, pickle_recall);
    case 'p': return text_memo_op(r, pickle_remember);
    case 'P': return text_id(r);
    case 0x94: return pickle_remember(r, r->next_memo++);
    case 0x92: return pickle_combine(r, CR_STEP_NEWOBJ_EX, 3);
    case 0x93: return stack_global(r);
    case 0x95: return pickle_skip(r, 8); /* frame length: only for reading ahead */
    default: return unknown(r, op);
    }
}

static cr_status instruction(reader *r)
{
    bool known;

    if (r->at == r->end)
        return no_more(r);
    unsigned op = *r->at++;
    CR_TRY(common(r, op, &known));
    if (known)
        return CR_OK;
    return r->rules->weights_only ? unknown(r, op) : rare(r, op);
}

static cr_status pickle_read_all(reader *r)
{
    if (r->end - r->start > MOST_BYTES)
        return cr_fail(CR_UNPICKLING, "a pickle of more than %d bytes", MOST_BYTES);
    while (!r->stopped)
        CR_TRY(instruction(r));
    r->p->used = (size_t)(r->at - r->start);
    return CR_OK;
}

void cr_pickle_drop(cr_pickle *p)
{
    if (!p)
        return;
    cr_vec_drop(&p->steps);
    cr_vec_drop(&p->operands);
    cr_vec_drop(&p->names);
    cr_vec_drop(&p->storages);
    cr_arena_drop(&p->arena);
    cr_free(p);
}

cr_status cr_pickle_read(cr_pickle **out, const void *from, size_t len,
                         const cr_pickle_rules *rules)
{
    const unsigned char *start = from;
    reader r = {.rules = rules, .start = start, .at = start, .end = start + len};

    r.p = cr_alloc_zero(sizeof *r.p);
    CR_NEED(r.p);
    cr_status st = pickle_read_all(&r);
    if (st)
        cr_pickle_drop(r.p);
    else
        *out = r.p;
    cr_vec_drop(&r.stack);
    cr_vec_drop(&r.marks);
    cr_vec_drop(&r.memo);
    cr_map_drop(&r.far_memo);
    cr_map_drop(&r.keys);
    return st;
}
