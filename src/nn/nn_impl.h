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
    /* of layers with several inputs or results: inputs after the first may be NULL */
    cr_status (*many)(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                      size_t inputs);
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
    void (*release)(void *context); /* or NULL */
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

/* --- what the files of layers share --- */

/* The argument `name`; none when the layer has no such argument. */
cr_value nn_arg(const cr_module *m, const char *name);
bool nn_is_on(const cr_module *m, const char *name);
/* Adds a parameter that `op` (empty, zeros, ones) makes, with the dtype of the layer. */
CR_MUST cr_status nn_add_param(cr_module *m, const char *name, const cr_op *op,
                               const int64_t *size, int ndim);
/* The same, or an empty entry of this name when it is not wanted. */
CR_MUST cr_status nn_add_optional(cr_module *m, const char *name, bool wanted, const cr_op *op,
                                  const int64_t *size, int ndim);
/* Calls the random operator `uniform_` or `normal_` on `t` without recording. */
CR_MUST cr_status nn_fill_random(cr_tensor *t, const cr_op *op, double a, double b);

/* A list of tensors. */
cr_value nn_list(cr_value *item, size_t n);
/* Makes a layer and adds it as a child. */
CR_MUST cr_status nn_add_child(cr_module *m, const char *name, const char *kind,
                               const cr_arg *args);
/* Fails with CR_TYPE for other numbers of inputs and results: "LSTM.forward() takes 1 to 3
 * inputs and has 1 to 3 results, but ...". */
CR_MUST cr_status nn_check_counts(const cr_module *m, size_t inputs, size_t least, size_t most,
                                  size_t outs, size_t results);

/* Draws a matrix uniformly, with bounds from its sizes; NULL is left alone. */
CR_MUST cr_status nn_draw_xavier(cr_tensor *t);
/* Copies lists and strings to the arena, because the caller's may be freed. */
CR_MUST cr_status nn_copy_value(cr_value *v, cr_arena *arena);

cr_status nn_make_recurrent(cr_module *m);
cr_status nn_recurrent(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                       size_t inputs);
cr_status nn_make_attention(cr_module *m);
cr_status nn_attention(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                       size_t inputs);
cr_status nn_make_encoder_layer(cr_module *m);
cr_status nn_encoder_layer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                           size_t inputs);
cr_status nn_make_decoder_layer(cr_module *m);
cr_status nn_decoder_layer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                           size_t inputs);

cr_status nn_encoder(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                     size_t inputs);
cr_status nn_decoder(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                     size_t inputs);
cr_status nn_make_transformer(cr_module *m);
cr_status nn_transformer(cr_tensor **out, size_t outs, cr_module *m, cr_tensor *const *input,
                         size_t inputs);

/* The layer's tensor `name`, such as "weight"; borrowed.  NULL when the layer has none. */
cr_tensor *nn_own(const cr_module *m, const char *name);

/* Visits `m` and all modules below it, parents first.  `prefix` is "" or ends with a dot. */
typedef cr_status (*nn_visit)(void *context, cr_module *m, const char *prefix);
CR_MUST cr_status nn_walk(cr_module *m, nn_visit visit, void *context);

#endif
