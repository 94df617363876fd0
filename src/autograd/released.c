/* Histories that a backward pass has used up, of results whose calls ran without the tape. */
#include "autograd/autograd_impl.h"
#include "base/memory.h"
#include <string.h>

typedef struct {
    cr_node node;
    char *name;
} released_node;

static const char *released_name(cr_node *n) { return ((released_node *)n)->name; }

static cr_status released_apply(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out)
{
    (void)n;
    (void)grads;
    (void)grads_out;
    return cr_fail_released();
}

static void released_release(cr_node *n) { (void)n; }

static void released_free(cr_node *n) { cr_free(((released_node *)n)->name); }

static const cr_node_kind released_kind = {.name_of = released_name,
                                           .apply = released_apply,
                                           .release = released_release,
                                           .free = released_free};

bool cr_node_is_released(const cr_node *n) { return n->kind == &released_kind; }

cr_status cr_set_released_history(cr_tensor *t, const char *name)
{
    size_t bytes = strlen(name) + 1;
    cr_node *node;

    CR_TRY(cr_node_new(&node, sizeof(released_node), &released_kind, 0, 1));
    char *copy = ((released_node *)node)->name = cr_alloc(bytes);
    if (copy)
        memcpy(copy, name, bytes);
    cr_status st = copy ? cr_set_history(t, node, 0) : CR_MEMORY;
    cr_node_drop(node);
    return st;
}
