/* Groups by name. */
#include "comm/named.h"
#include "base/memory.h"
#include <pthread.h>
#include <string.h>

typedef struct {
    char *name;
    cr_comm *group;
} named_group;

static struct {
    pthread_mutex_t lock;
    CR_VEC(named_group) list;
    const cr_comm_host *host;
} named = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cr_comm *named_find(const char *name)
{
    for (size_t i = 0; i < named.list.len; i++)
        if (!strcmp(named.list.at[i].name, name))
            return named.list.at[i].group;
    return NULL;
}

cr_status cr_comm_name(cr_comm *g, const char *name)
{
    char *copy = cr_alloc(strlen(name) + 1);
    cr_status st = copy ? CR_OK : CR_MEMORY;

    pthread_mutex_lock(&named.lock);
    bool taken = named_find(name) != NULL;
    if (!st && !taken)
        st = cr_vec_reserve(&named.list, 1);
    if (!st && !taken) {
        memcpy(copy, name, strlen(name) + 1);
        cr_vec_put(&named.list, ((named_group){copy, cr_comm_keep(g)}));
        copy = NULL;
    }
    pthread_mutex_unlock(&named.lock);
    cr_free(copy);
    return st;
}

void cr_comm_forget(const cr_comm *g)
{
    named_group found = {NULL, NULL};

    pthread_mutex_lock(&named.lock);
    for (size_t i = named.list.len; i-- > 0;)
        if (named.list.at[i].group == g) {
            found = named.list.at[i];
            named.list.at[i] = named.list.at[--named.list.len];
        }
    pthread_mutex_unlock(&named.lock);
    cr_free(found.name);
    cr_comm_drop(found.group);
}

void cr_comm_set_host(const cr_comm_host *host) { named.host = host; }

cr_status cr_comm_find(cr_comm_found *out, const char *name, cr_device_kind kind)
{
    if (named.host)
        return named.host->find(out, name, kind);
    pthread_mutex_lock(&named.lock);
    cr_comm *g = named_find(name);
    if (g)
        *out = (cr_comm_found){cr_comm_keep(g), cr_comm_rank(g)};
    pthread_mutex_unlock(&named.lock);
    if (!g)
        return cr_fail(CR_RUNTIME,
                       "Could not resolve the process group registered under the name %s",
                       name);
    return CR_OK;
}

void cr_comm_where(char *out, size_t size)
{
    out[0] = 0;
    if (named.host)
        named.host->where(out, size);
}

cr_status cr_comm_wait(cr_status (*call)(void *context), void *context)
{
    return named.host ? named.host->wait(call, context) : call(context);
}

/* True for the lower-case form of a reduction's name. */
static bool named_is(const char *lower, const char *name)
{
    for (; *name && (*name == '_' ? '_' : *name + ('a' - 'A')) == *lower; name++)
        lower++;
    return !*name && !*lower;
}

cr_status cr_reduce_named(cr_reduce_op *out, const char *name)
{
    static const char *const names[] = {
#define CR_REDUCE(NAME, name) name,
#include "comm/reduce.def"
#undef CR_REDUCE
    };

    for (int i = 0; i < CR_REDUCE_COUNT; i++)
        if (i != CR_REDUCE_PREMUL_SUM && named_is(name, names[i])) {
            *out = (cr_reduce_op)i;
            return CR_OK;
        }
    return cr_fail(CR_RUNTIME, "Unrecognized reduce_op: %s", name);
}
