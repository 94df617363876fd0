/* nn_impl.h - what the files of nn/ share. */
#ifndef CR_NN_NN_IMPL_H
#define CR_NN_NN_IMPL_H

#include "nn/nn.h"

/* A tensor or a child under its name. */
typedef struct {
    char *name;
    cr_tensor *t;     /* NULL: the name is reserved */
    bool persistent;
} nn_tensor;

typedef struct {
    char *name;
    cr_module *m;
} nn_child;

/* A kind of layer (layers.def). */
typedef struct {
    const char *kind, *schema, *repr;
    cr_status (*make)(cr_module *m);
    cr_status (*forward)(cr_tensor **out, cr_module *m, cr_tensor *x);
    const char *op;   /* operator that forward_operator calls, with the layer's arguments */
} nn_layer;

struct cr_module {
    _Atomic int32_t count;
    bool training;
    char *kind;
    const nn_layer *layer;  /* NULL: the program's own */
    const cr_op *signature; /* of the layer's arguments */
    cr_value *arg;          /* they, their lists in `arena` */
    cr_arena arena;
    cr_forward forward;     /* of the program's own */
    void *context;
    CR_VEC(nn_tensor) params;
    CR_VEC(nn_tensor) buffers;
    CR_VEC(nn_child) children;
};

/* CR_TYPE when a needed handle is NULL: "NAME(): argument 'WHAT' must be TYPE, not NoneType".
 */
CR_MUST cr_status nn_need(const void *p, const char *function, const char *what,
                          const char *type);

/* Binds arguments to the schema (read once, kept for the process's life), copying lists to
 * `arena`; value has CR_MAX_ARGS entries. */
CR_MUST cr_status nn_bind(const cr_op **signature, cr_value *value, cr_arena *arena,
                          const char *schema, const char *name, const cr_arg *args);

/* An argument of a layer by its name. */
cr_value nn_arg(const cr_module *m, const char *name);
/* The layer's own tensor "weight"; borrowed, NULL when it has none. */
cr_tensor *nn_own(const cr_module *m, const char *name);

/* Visits m and all below, parents first; `prefix` is "" or ends with a dot. */
typedef cr_status (*nn_visit)(void *context, cr_module *m, const char *prefix);
CR_MUST cr_status nn_walk(cr_module *m, nn_visit visit, void *context);

/* The layer called `kind`, or NULL. */
const nn_layer *nn_find_layer(const char *kind);

/* Calls an operator by name with the first `n` arguments given; the first result. */
CR_MUST cr_status nn_call(cr_tensor **out, const char *op, const cr_value *arg, int n);

/* Reads a whole file, gzip or plain; *out is owned.  CR_IO. */
CR_MUST cr_status nn_read_bytes(char **out, size_t *len, const char *path);

#endif
