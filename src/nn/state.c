/* State dicts: named tensors, to and from modules and files. */
#include "base/map.h"
#include "entry.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "nn/nn_impl.h"
#include <stdio.h>
#include <string.h>

struct cr_state {
    CR_VEC(nn_tensor) entries; /* tensors are never NULL */
};

cr_status cr_state_new(cr_state **out)
{
    cr_state *s = cr_alloc_zero(sizeof *s);

    CR_NEED(s);
    *out = s;
    return CR_OK;
}

void cr_state_drop(cr_state *s)
{
    for (size_t i = 0; s && i < s->entries.len; i++) {
        cr_free(s->entries.at[i].name);
        cr_drop(s->entries.at[i].t);
    }
    if (s)
        cr_vec_drop(&s->entries);
    cr_free(s);
}

static nn_tensor *state_find(const cr_state *s, const char *name)
{
    for (size_t i = 0; i < s->entries.len; i++)
        if (!strcmp(s->entries.at[i].name, name))
            return &s->entries.at[i];
    return NULL;
}

cr_status cr_state_set(cr_state *s, const char *name, cr_tensor *t)
{
    CR_TRY(nn_need(s, "state", "state", "dict"));
    CR_TRY(nn_need(name, "state", "name", "str"));
    CR_TRY(nn_need(t, "state", "tensor", "Tensor"));
    nn_tensor *old = state_find(s, name);
    if (old) {
        cr_keep(t);
        cr_drop(old->t);
        old->t = t;
        return CR_OK;
    }
    CR_TRY(cr_vec_reserve(&s->entries, 1));
    char *own = cr_strdup(name);
    CR_NEED(own);
    cr_vec_put(&s->entries, ((nn_tensor){own, cr_keep(t), true}));
    return CR_OK;
}

size_t cr_state_count(const cr_state *s) { return s ? s->entries.len : 0; }

const char *cr_state_name(const cr_state *s, size_t i)
{
    return i < cr_state_count(s) ? s->entries.at[i].name : NULL;
}

cr_tensor *cr_state_tensor(const cr_state *s, size_t i)
{
    return i < cr_state_count(s) ? s->entries.at[i].t : NULL;
}

cr_tensor *cr_state_find(const cr_state *s, const char *name)
{
    nn_tensor *found = s && name ? state_find(s, name) : NULL;

    return found ? found->t : NULL;
}

static cr_status copy_under(cr_state *to, const cr_state *s, const char *prefix)
{
    size_t len = strlen(prefix);

    for (size_t i = 0; i < s->entries.len; i++) {
        const nn_tensor *e = &s->entries.at[i];
        if (!strncmp(e->name, prefix, len) && e->name[len] == '.')
            CR_TRY(cr_state_set(to, e->name + len + 1, e->t));
    }
    return to->entries.len ? CR_OK : cr_fail(CR_KEY, "'%s'", prefix);
}

cr_status cr_state_under(cr_state **out, const cr_state *s, const char *prefix)
{
    cr_state *made = NULL;

    CR_TRY(nn_need(s, "state", "state", "dict"));
    CR_TRY(nn_need(prefix, "state", "prefix", "str"));
    CR_TRY(cr_state_new(&made));
    cr_status st = copy_under(made, s, prefix);
    CR_GIVE(st, out, made, cr_state_drop);
}

/* --- of a module --- */

/* Calls `each` for a module's parameters, then its persistent buffers. */
typedef cr_status (*tensor_visit)(void *context, cr_module *m, const char *name, cr_tensor *t);
typedef struct {
    tensor_visit each;
    void *context;
} tensors_walk;

static cr_status visit_tensors(void *context, cr_module *m, const char *prefix)
{
    const tensors_walk *w = context;
    cr_text name = {0};
    cr_status st = CR_OK;

    for (size_t i = 0; !st && i < m->params.len + m->buffers.len; i++) {
        const nn_tensor *e =
            i < m->params.len ? &m->params.at[i] : &m->buffers.at[i - m->params.len];
        if (!e->t || !e->persistent)
            continue;
        name.len = 0;
        cr_text_printf(&name, "%s%s", prefix, e->name);
        st = cr_text_status(&name);
        st = st ? st : w->each(w->context, m, cr_text_str(&name), e->t);
    }
    cr_text_drop(&name);
    return st;
}

static cr_status state_enter(void *context, cr_module *m, const char *name, cr_tensor *t)
{
    cr_tensor *plain = NULL;

    (void)m;
    CR_TRY(cr_detached(&plain, t));
    cr_status st = cr_state_set(context, name, plain);
    cr_drop(plain);
    return st;
}

cr_status cr_module_state(cr_state **out, cr_module *m)
{
    cr_state *s = NULL;

    CR_TRY(nn_need(m, "state_dict", "self", "Module"));
    CR_TRY(cr_state_new(&s));
    tensors_walk w = {state_enter, s};
    cr_status st = nn_walk(m, visit_tensors, &w);
    CR_GIVE(st, out, s, cr_state_drop);
}

/* --- into a module --- */

typedef struct {
    const cr_state *from;
    bool strict;
    cr_map seen; /* names of the module's tensors */
    cr_text missing, unexpected, others;
} loading;

static void put_key(cr_text *out, const char *name)
{
    cr_text_printf(out, "%s\"%s\"", out->len ? ", " : "", name);
}

static bool same_size(const cr_tensor *a, const cr_tensor *b)
{
    return a->ndim == b->ndim && !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

static void put_mismatch(cr_text *out, const char *name, const cr_tensor *from,
                         const cr_tensor *to)
{
    cr_text_printf(out, "\n\tsize mismatch for %s: copying a param with shape torch.Size(",
                   name);
    cr_print_sizes(out, from->ndim, from->size);
    cr_text_put(out, ") from checkpoint, the shape in current model is torch.Size(");
    cr_print_sizes(out, to->ndim, to->size);
    cr_text_put(out, ").");
}

static cr_status state_copy_into(cr_tensor *to, cr_tensor *from)
{
    cr_value arg[] = {cr_of_tensor(to), cr_of_tensor(from)};
    bool before = cr_thread.no_grad;
    cr_tensor *same = NULL;

    cr_thread.no_grad = true;
    cr_status st = cr_call_tensor(&same, cr_entry.copy_, arg, 2);
    cr_thread.no_grad = before;
    if (!st)
        cr_drop(same);
    return st;
}

/* True for num_batches_tracked, which older state dicts lack. */
static bool may_lack(const char *name)
{
    const char *dot = strrchr(name, '.');

    return !strcmp(dot ? dot + 1 : name, "num_batches_tracked");
}

static cr_status load_one(void *context, cr_module *m, const char *name, cr_tensor *t)
{
    loading *l = context;
    cr_tensor *from = cr_state_find(l->from, name);

    (void)m;
    CR_TRY(cr_map_set(&l->seen, name, strlen(name), t));
    if (!from) {
        if (!may_lack(name))
            put_key(&l->missing, name);
        return CR_OK;
    }
    if (!same_size(from, t)) {
        put_mismatch(&l->others, name, from, t);
        return CR_OK;
    }
    return state_copy_into(t, from);
}

static cr_status say_misfits(const loading *l, const cr_module *m)
{
    cr_text text = {0};

    if (l->strict && l->missing.len)
        cr_text_printf(&text, "\n\tMissing key(s) in state_dict: %s. ",
                       cr_text_str(&l->missing));
    if (l->strict && l->unexpected.len)
        cr_text_printf(&text, "\n\tUnexpected key(s) in state_dict: %s. ",
                       cr_text_str(&l->unexpected));
    cr_text_put(&text, cr_text_str(&l->others));
    cr_status st = text.len ? cr_fail(CR_RUNTIME, "Error(s) in loading state_dict for %s:%s",
                                      m->kind, cr_text_str(&text))
                            : CR_OK;
    cr_text_drop(&text);
    return st;
}

cr_status cr_module_load_state(cr_module *m, const cr_state *s, bool strict)
{
    loading l = {.from = s, .strict = strict};
    tensors_walk w = {load_one, &l};
    cr_status st;

    CR_TRY(nn_need(m, "load_state_dict", "self", "Module"));
    CR_TRY(nn_need(s, "load_state_dict", "state_dict", "dict"));
    CR_GO(nn_walk(m, visit_tensors, &w));
    for (size_t i = 0; i < s->entries.len; i++)
        if (!cr_map_get(&l.seen, s->entries.at[i].name, strlen(s->entries.at[i].name)))
            put_key(&l.unexpected, s->entries.at[i].name);
    CR_GO(say_misfits(&l, m));
done:
    cr_map_drop(&l.seen);
    cr_text_drop(&l.missing);
    cr_text_drop(&l.unexpected);
    cr_text_drop(&l.others);
    return st;
}

/* --- files --- */

static cr_status state_fill(cr_state *s, const cr_safetensors *file)
{
    for (int i = 0; i < cr_safetensors_count(file); i++) {
        cr_tensor *t = NULL;
        CR_TRY(cr_safetensors_tensor(&t, file, i));
        cr_status st = cr_state_set(s, cr_safetensors_at(file, i)->name, t);
        cr_drop(t);
        CR_TRY(st);
    }
    return CR_OK;
}

static cr_status read_safetensors(cr_state *s, const char *path)
{
    cr_safetensors *file = NULL;

    CR_TRY(cr_safetensors_open(&file, path));
    cr_status st = state_fill(s, file);
    cr_safetensors_drop(file);
    return st;
}

static cr_status read_checkpoint(cr_state *s, const char *path)
{
    cr_named_tensors *named = NULL;
    cr_status st = cr_checkpoint_load(&named, path);

    for (int i = 0; !st && i < cr_named_tensors_count(named); i++)
        st = cr_state_set(s, cr_named_tensors_name(named, i), cr_named_tensors_at(named, i));
    cr_named_tensors_drop(named);
    return st;
}

/* True when the file begins like an archive (PK) or a pickle.  A safetensors file begins with
 * its header's length, which can be any bytes, and then JSON. */
static bool is_checkpoint(const char *path)
{
    unsigned char head[9] = {0};
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(head, 1, sizeof head, file) : 0;

    if (file)
        fclose(file);
    return n > 2 && head[8] != '{' && ((head[0] == 'P' && head[1] == 'K') || head[0] == 0x80);
}

cr_status cr_state_read(cr_state **out, const char *path)
{
    cr_state *s = NULL;

    CR_TRY(nn_need(path, "load", "path", "str"));
    CR_TRY(cr_state_new(&s));
    cr_status st = is_checkpoint(path) ? read_checkpoint(s, path) : read_safetensors(s, path);
    CR_GIVE(st, out, s, cr_state_drop);
}

cr_status cr_state_write(const cr_state *s, const char *path)
{
    CR_TRY(nn_need(s, "save", "state", "dict"));
    CR_TRY(nn_need(path, "save", "path", "str"));
    size_t n = s->entries.len;
    const char **names = cr_alloc(n * sizeof *names);
    cr_tensor **tensors = cr_alloc(n * sizeof *tensors);
    cr_status st = names && tensors ? CR_OK : CR_MEMORY;

    for (size_t i = 0; !st && i < n; i++) {
        names[i] = s->entries.at[i].name;
        tensors[i] = s->entries.at[i].t;
    }
    st = st ? st : cr_safetensors_write(path, names, tensors, (int)n, NULL);
    cr_free(tensors);
    cr_free(names);
    return st;
}
