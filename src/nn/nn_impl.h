/* nn_impl.h - shared by the files of nn/. */
#ifndef CR_NN_NN_IMPL_H
#define CR_NN_NN_IMPL_H

#include "nn/nn.h"

/* A tensor or a child and its name. */
typedef struct {
    char *name;
    cr_tensor *t; /* NULL: the name is reserved */
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
    const cr_op *const *op; /* the operator of `by_operator` */
} nn_layer;

struct cr_module {
    _Atomic int32_t count;
    bool training;
    char *kind;
    const nn_layer *layer;  /* NULL for a module of the program */
    const cr_op *signature; /* the schema of the layer's arguments */
    cr_value *arg;          /* the arguments; lists are in `arena` */
    cr_arena arena;
    cr_forward forward; /* for a module of the program */
    cr_forward_many many;
    void *context;
    CR_VEC(nn_tensor) params;
    CR_VEC(nn_tensor) buffers;
    CR_VEC(nn_child) children;
};

/* Fails with CR_TYPE when the handle `p` is NULL: "NAME(): argument 'WHAT' must be TYPE, not
 * NoneType". */
CR_MUST cr_status nn_need(const void *p, const char *function, const char *what,
                          const char *type);

/* Binds arguments to the schema, which is parsed once and kept until the process ends.  Lists
 * are copied to `arena`.  `value` must have room for CR_MAX_ARGS entries. */
CR_MUST cr_status nn_bind(const cr_op **signature, cr_value *value, cr_arena *arena,
                          const char *schema, const char *name, const cr_arg *args);

/* The layer's tensor `name`, such as "weight"; borrowed.  NULL when the layer has none. */
cr_tensor *nn_own(const cr_module *m, const char *name);

/* Visits `m` and all modules below it, parents first.  `prefix` is "" or ends with a dot. */
typedef cr_status (*nn_visit)(void *context, cr_module *m, const char *prefix);
CR_MUST cr_status nn_walk(cr_module *m, nn_visit visit, void *context);

#endif
