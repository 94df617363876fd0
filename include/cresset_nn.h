/* cresset_nn.h - modules, optimizers and data for C programs.
 *
 *     cr_module *net = NULL;
 *     cr_tensor *y = NULL;
 *
 *     if (cr_module_new(&net, "Linear", CR_ARGS(2, 3)) || cr_module_forward(&y, net, x))
 *         fprintf(stderr, "%s\n", cr_error_message());
 *     cr_drop(y);
 *     cr_module_drop(net);
 *
 * Modules and optimizers take the arguments that their Python twins take, by place or by
 * name (cresset_call.h), and say the same of wrong ones.  A seed gives the same weights and
 * the same order of samples as in Python.  Arguments are borrowed, results are owned by the
 * caller, results stay as they were on failure.  NULL where a module, an optimizer, a tensor
 * or a text is needed is CR_TYPE. */
#ifndef CRESSET_NN_H
#define CRESSET_NN_H

#ifndef CR_INSIDE
#include "cresset.h"
#endif
#include "cresset_call.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- modules --------------------------------------------------------------------- */

/* Counted; holds parameters, buffers and child modules under names. */
typedef struct cr_module cr_module;

/* A layer by its name in torch.nn: Linear, Conv1d, Conv2d, Conv3d, BatchNorm1d, BatchNorm2d,
 * BatchNorm3d, LayerNorm, GroupNorm, RMSNorm, Embedding, Dropout, Flatten, Identity, the
 * pooling layers and activations of src/nn/layers.def, and Sequential, which starts empty.
 * CR_ATTRIBUTE for other names, CR_TYPE and CR_VALUE for wrong arguments. */
CR_API CR_MUST cr_status cr_module_new(cr_module **out, const char *kind, const cr_arg *args);

/* Computes *out (owned by the caller) from the input. */
typedef cr_status (*cr_forward)(cr_tensor **out, cr_module *m, cr_tensor *input, void *context);
/* A module of the program's own, empty, called `kind` when printed.  `forward` may be NULL:
 * the program then calls the children itself. */
CR_API CR_MUST cr_status cr_module_define(cr_module **out, const char *kind, cr_forward forward,
                                          void *context);

/* Counts one more owner and returns m. */
CR_API cr_module *cr_module_hold(cr_module *m);
CR_API void cr_module_drop(cr_module *m);

/* Puts `child` (counted) under `name`; one that is there is replaced.  CR_KEY for names that
 * torch refuses, CR_VALUE where m would come to contain itself. */
CR_API CR_MUST cr_status cr_module_add(cr_module *m, const char *name, cr_module *child);
/* Appends to a Sequential (or any module): the name is the number of children. */
CR_API CR_MUST cr_status cr_module_append(cr_module *m, cr_module *child);
/* A parameter (counted; requires a gradient from now on) or a buffer; NULL reserves the name.
 * Buffers that are not persistent are left out of the state. */
CR_API CR_MUST cr_status cr_module_set_parameter(cr_module *m, const char *name, cr_tensor *t);
CR_API CR_MUST cr_status cr_module_set_buffer(cr_module *m, const char *name, cr_tensor *t,
                                              bool persistent);

/* "Linear". */
CR_API const char *cr_module_kind(const cr_module *m);
/* The module or tensor at a dotted path ("layers.0", "layers.0.weight"), borrowed; NULL when
 * there is none.  "" is m itself. */
CR_API cr_module *cr_module_at(cr_module *m, const char *path);
CR_API cr_tensor *cr_module_tensor(cr_module *m, const char *path);
/* The children in order; NULL past the last. */
CR_API cr_module *cr_module_child(cr_module *m, size_t i, const char **name);
/* Every parameter once, in torch's order: *out is an array to free with cr_free; its tensors
 * are borrowed. */
CR_API CR_MUST cr_status cr_module_parameters(cr_tensors *out, cr_module *m);
/* As Python prints the module; *out is freed with cr_free. */
CR_API CR_MUST cr_status cr_module_text(char **out, cr_module *m);

/* CR_NOT_IMPLEMENTED for a module without forward. */
CR_API CR_MUST cr_status cr_module_forward(cr_tensor **out, cr_module *m, cr_tensor *input);
/* Training (how modules start) or evaluation, for m and all below. */
CR_API CR_MUST cr_status cr_module_train(cr_module *m, bool on);
CR_API bool cr_module_training(const cr_module *m);
/* Whether the parameters want gradients. */
CR_API CR_MUST cr_status cr_module_requires_grad(cr_module *m, bool on);
/* Forgets the parameters' gradients. */
CR_API CR_MUST cr_status cr_module_zero_grad(cr_module *m);
/* Converts parameters and buffers of floating types, in place of the old ones. */
CR_API CR_MUST cr_status cr_module_to(cr_module *m, cr_dtype dtype);

/* --- state ------------------------------------------------------------------------- */

/* Tensors under names: what a module keeps, or what a file has. */
typedef struct cr_state cr_state;

/* The module's parameters and persistent buffers, sharing its memory, in torch's order. */
CR_API CR_MUST cr_status cr_module_state(cr_state **out, cr_module *m);
/* Copies into the module what has the same name and shape.  Unless everything fitted - and,
 * when `strict`, nothing was missing or left over - CR_RUNTIME with torch's list. */
CR_API CR_MUST cr_status cr_module_load_state(cr_module *m, const cr_state *s, bool strict);

CR_API CR_MUST cr_status cr_state_new(cr_state **out);
/* Counts t; replaces what has the name. */
CR_API CR_MUST cr_status cr_state_set(cr_state *s, const char *name, cr_tensor *t);
/* The tensors below "PREFIX.", without it: the model of {"model": ..., "optimizer": ...}.
 * CR_KEY where there is none. */
CR_API CR_MUST cr_status cr_state_under(cr_state **out, const cr_state *s, const char *prefix);
CR_API void cr_state_drop(cr_state *s);
CR_API size_t cr_state_count(const cr_state *s);
/* Borrowed; NULL past the last and where there is no such name. */
CR_API const char *cr_state_name(const cr_state *s, size_t i);
CR_API cr_tensor *cr_state_tensor(const cr_state *s, size_t i);
CR_API cr_tensor *cr_state_find(const cr_state *s, const char *name);
/* Reads a safetensors file or what torch.save wrote, whose tensors are named by their paths
 * through its dicts; no code of the file is run.  CR_IO where the file cannot be read, CR_VALUE,
 * CR_RUNTIME or CR_UNPICKLING where it is damaged. */
CR_API CR_MUST cr_status cr_state_read(cr_state **out, const char *path);
/* Writes a safetensors file; readers see the old one or the new.  CR_IO. */
CR_API CR_MUST cr_status cr_state_write(const cr_state *s, const char *path);

/* --- optimizers -------------------------------------------------------------------- */

typedef struct cr_optim cr_optim;

/* By its name in torch.optim, for leaves that it counts:
 *     SGD    lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False
 *     Adam   lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False, maximize=False
 *     AdamW  the same with weight_decay=0.01
 *     Adagrad  lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
 *              maximize=False
 *     RMSprop  lr=0.01, alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, centered=False,
 *              maximize=False
 * CR_VALUE for impossible numbers, no parameters, and tensors that are no leaves. */
CR_API CR_MUST cr_status cr_optim_new(cr_optim **out, const char *kind, cr_tensor *const *params,
                                      size_t count, const cr_arg *args);
CR_API void cr_optim_drop(cr_optim *o);
/* Changes the parameters that have gradients. */
CR_API CR_MUST cr_status cr_optim_step(cr_optim *o);
/* Forgets the gradients. */
CR_API CR_MUST cr_status cr_optim_zero_grad(cr_optim *o);
CR_API double cr_optim_lr(const cr_optim *o);
CR_API CR_MUST cr_status cr_optim_set_lr(cr_optim *o, double lr);

/* --- data -------------------------------------------------------------------------- */

/* Minibatches of tensors that have the same first size. */
typedef struct cr_loader cr_loader;

/* Arguments: batch_size=1, shuffle=False, drop_last=False, generator=None, as DataLoader's
 * over a TensorDataset.  Counts the tensors.  CR_ASSERTION where sizes differ. */
CR_API CR_MUST cr_status cr_loader_new(cr_loader **out, cr_tensor *const *tensors, size_t count,
                                       const cr_arg *args);
CR_API void cr_loader_drop(cr_loader *l);
/* Starts an epoch: draws its order. */
CR_API CR_MUST cr_status cr_loader_start(cr_loader *l);
/* The next batch of every tensor, borrowed until the next call; *more is false when the epoch
 * is over.  batch[i] is for tensor i. */
CR_API CR_MUST cr_status cr_loader_next(cr_loader *l, bool *more, cr_tensor **batch);
/* Batches of an epoch. */
CR_API int64_t cr_loader_batches(const cr_loader *l);
CR_API size_t cr_loader_tensors(const cr_loader *l);

/* Numbers from a text file, a row a line: float64 [rows, columns].
 * Arguments: delimiter=None (blanks), skiprows=0; # starts a comment, as for numpy.loadtxt.
 * CR_VALUE with the line where it is no number or the rows differ, CR_IO. */
CR_API CR_MUST cr_status cr_read_text(cr_tensor **out, const char *path, const cr_arg *args);
/* An IDX file (MNIST's), of its own dtype and sizes.  CR_VALUE where it is damaged, CR_IO. */
CR_API CR_MUST cr_status cr_read_idx(cr_tensor **out, const char *path);

#ifdef __cplusplus
}
#endif
#endif
