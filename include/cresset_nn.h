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
 * Modules and optimizers take the same arguments as in Python, by position or by name
 * (cresset_call.h), and give the same errors.  A seed gives the same weights and the same order
 * of samples as in Python.  Arguments are borrowed and results are owned by the caller.
 * Results do not change on failure.  A NULL module, optimizer, tensor or string fails with
 * CR_TYPE. */
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

/* A module: named parameters, buffers and child modules.  It has a refcount. */
typedef struct cr_module cr_module;

/* Makes a layer by its name in torch.nn: Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d,
 * ConvTranspose2d, ConvTranspose3d, BatchNorm1d,
 * BatchNorm2d, BatchNorm3d, LayerNorm, GroupNorm, RMSNorm, Embedding, Dropout, Flatten,
 * Identity, the pooling layers and activations of src/nn/layers.def, and Sequential, which
 * starts empty.  Fails with CR_ATTRIBUTE for other names, CR_TYPE and CR_VALUE for wrong
 * arguments.
 *
 * Layers with several inputs and results, which cr_module_call calls (inputs in brackets may be
 * NULL or left out; further results need not be asked for):
 *     RNN, GRU                 input, [h_0]                     output, h_n
 *     LSTM                     input, [h_0], [c_0]              output, h_n, c_n
 *     MultiheadAttention       query, key, value, [key_padding_mask], [attn_mask]
 *                                                               output, weights (mean of heads)
 *     TransformerEncoderLayer  src, [src_mask], [src_key_padding_mask]       output
 *     TransformerDecoderLayer  tgt, memory, [tgt_mask], [memory_mask],
 *                              [tgt_key_padding_mask], [memory_key_padding_mask]   output
 *     Transformer              src, tgt, [src_mask], [tgt_mask], [memory_mask],
 *                              [src_key_padding_mask], [tgt_key_padding_mask],
 *                              [memory_key_padding_mask]                 output
 * cr_module_stack makes TransformerEncoder (src, [mask], [src_key_padding_mask]) and
 * TransformerDecoder (as its layers).  add_bias_kv and add_zero_attn exist in Python only. */
CR_API CR_MUST cr_status cr_module_new(cr_module **out, const char *kind, const cr_arg *args);

/* Computes *out (owned by the caller) from the input. */
typedef cr_status (*cr_forward)(cr_tensor **out, cr_module *m, cr_tensor *input, void *context);
/* Makes an empty module of the program, printed as `kind`.  When `forward` is NULL, the program
 * calls the children itself. */
CR_API CR_MUST cr_status cr_module_define(cr_module **out, const char *kind, cr_forward forward,
                                          void *context);

/* The same for a module with several inputs or results, which cr_module_call calls: computes
 * out[0] to out[outs - 1], owned by the caller. */
typedef cr_status (*cr_forward_many)(cr_tensor **out, size_t outs, cr_module *m,
                                     cr_tensor *const *input, size_t inputs, void *context);
CR_API CR_MUST cr_status cr_module_define_many(cr_module **out, const char *kind,
                                               cr_forward_many forward, void *context);

/* Makes m the owner of its context: release(context) is called once, when m is freed. */
CR_API CR_MUST cr_status cr_module_own_context(cr_module *m, void (*release)(void *context));
/* The context of a module that has this release function; else NULL. */
CR_API void *cr_module_context(const cr_module *m, void (*release)(void *context));

/* Adds an owner and returns m. */
CR_API cr_module *cr_module_hold(cr_module *m);
CR_API void cr_module_drop(cr_module *m);

/* Adds `child` as `name` and holds a reference on it; replaces an earlier child.  Fails with
 * CR_KEY for names that torch refuses, CR_VALUE when m would contain itself. */
CR_API CR_MUST cr_status cr_module_add(cr_module *m, const char *name, cr_module *child);
/* Copies a module and all modules below it with their tensors; tensors that occur twice are
 * copied once.  Fails with CR_NOT_IMPLEMENTED for a module of the program. */
CR_API CR_MUST cr_status cr_module_copy(cr_module **out, cr_module *m);
/* Makes a "TransformerEncoder" or "TransformerDecoder": num_layers copies of a layer, then
 * `norm`, or nothing where it is NULL.  Fails with CR_ATTRIBUTE for other kinds. */
CR_API CR_MUST cr_status cr_module_stack(cr_module **out, const char *kind, cr_module *layer,
                                         int64_t num_layers, cr_module *norm);
/* Appends to a Sequential or another module.  The name is the number of children. */
CR_API CR_MUST cr_status cr_module_append(cr_module *m, cr_module *child);
/* Sets a parameter, which then requires a gradient, or a buffer, and holds a reference on it.
 * NULL reserves the name.  Only persistent buffers are part of the state. */
CR_API CR_MUST cr_status cr_module_set_parameter(cr_module *m, const char *name, cr_tensor *t);
CR_API CR_MUST cr_status cr_module_set_buffer(cr_module *m, const char *name, cr_tensor *t,
                                              bool persistent);

/* The kind, as in "Linear". */
CR_API const char *cr_module_kind(const cr_module *m);
/* The module or tensor at a path ("layers.0", "layers.0.weight"), borrowed; NULL when there is
 * none.  The path "" is m itself. */
CR_API cr_module *cr_module_at(cr_module *m, const char *path);
CR_API cr_tensor *cr_module_tensor(cr_module *m, const char *path);
/* Child i, in order; NULL after the last. */
CR_API cr_module *cr_module_child(cr_module *m, size_t i, const char **name);
/* All parameters, or all buffers, each once, in torch's order.  Free the array out->at with
 * cr_free; its tensors are borrowed. */
CR_API CR_MUST cr_status cr_module_parameters(cr_tensors *out, cr_module *m);
CR_API CR_MUST cr_status cr_module_buffers(cr_tensors *out, cr_module *m);
/* The module as Python prints it.  Free *out with cr_free. */
CR_API CR_MUST cr_status cr_module_text(char **out, cr_module *m);

/* Computes *out.  Fails with CR_NOT_IMPLEMENTED for a module without forward. */
CR_API CR_MUST cr_status cr_module_forward(cr_tensor **out, cr_module *m, cr_tensor *input);
/* Calls a module with several inputs or results.  A module of another kind has one of each;
 * other numbers fail with CR_TYPE. */
CR_API CR_MUST cr_status cr_module_call(cr_tensor **out, size_t outs, cr_module *m,
                                        cr_tensor *const *input, size_t inputs);
/* Sequences of several lengths, for recurrent layers: `data` has the steps one after the other,
 * batch_sizes[t] of them at step t.  `sorted` is the order in which the sequences were put, the
 * longest first, and `unsorted` its inverse; both are NULL when they were in order.  The owner
 * calls cr_packed_drop. */
typedef struct {
    cr_tensor *data, *batch_sizes, *sorted, *unsorted;
} cr_packed;
CR_API void cr_packed_drop(cr_packed *p);
/* torch's pack_padded_sequence: `input` is (length, batch, ...), or (batch, length, ...) with
 * batch_first, and `lengths` a vector of integers on the host.  enforce_sorted refuses lengths
 * that increase. */
CR_API CR_MUST cr_status cr_pack_padded(cr_packed *out, cr_tensor *input, cr_tensor *lengths,
                                        bool batch_first, bool enforce_sorted);
/* Its inverse.  *lengths, unless `lengths` is NULL, are the sequences' lengths; total_length -1
 * means that of the longest. */
CR_API CR_MUST cr_status cr_pad_packed(cr_tensor **out, cr_tensor **lengths,
                                       const cr_packed *packed, bool batch_first,
                                       double padding_value, int64_t total_length);
/* Calls an RNN, LSTM or GRU.  `hx` has h_0 (and c_0 of an LSTM), or is NULL; state[0] is h_n,
 * state[1] c_n, as far as `states` says. */
CR_API CR_MUST cr_status cr_module_call_packed(cr_packed *out, cr_tensor **state, size_t states,
                                               cr_module *m, const cr_packed *input,
                                               cr_tensor *const *hx);
/* Sets training mode (the initial mode) or evaluation mode for m and all modules below it. */
CR_API CR_MUST cr_status cr_module_train(cr_module *m, bool on);
CR_API bool cr_module_training(const cr_module *m);
/* Sets requires_grad of all parameters. */
CR_API CR_MUST cr_status cr_module_requires_grad(cr_module *m, bool on);
/* Clears the gradients of all parameters. */
CR_API CR_MUST cr_status cr_module_zero_grad(cr_module *m);
/* Converts parameters and buffers of floating dtypes in place. */
CR_API CR_MUST cr_status cr_module_to(cr_module *m, cr_dtype dtype);
/* Moves parameters and buffers to a device in place ("cuda", "cpu", "meta"); optimizers keep
 * referring to them.  Gradients are cleared.  Fails with CR_RUNTIME for an unknown device. */
CR_API CR_MUST cr_status cr_module_to_device(cr_module *m, const char *device);

/* --- state ------------------------------------------------------------------------- */

/* A state dict: named tensors of a module or of a file. */
typedef struct cr_state cr_state;

/* The module's parameters and persistent buffers, in torch's order.  They share the module's
 * memory. */
CR_API CR_MUST cr_status cr_module_state(cr_state **out, cr_module *m);
/* Copies the tensors with equal names and shapes to the module.  Fails with CR_RUNTIME and
 * torch's list when shapes differ or, with `strict`, when names are missing or unexpected. */
CR_API CR_MUST cr_status cr_module_load_state(cr_module *m, const cr_state *s, bool strict);

CR_API CR_MUST cr_status cr_state_new(cr_state **out);
/* Adds t as `name` and holds a reference on it; replaces an earlier tensor. */
CR_API CR_MUST cr_status cr_state_set(cr_state *s, const char *name, cr_tensor *t);
/* The tensors below "PREFIX.", without the prefix: the model of {"model": ..., "optimizer":
 * ...}.  Fails with CR_KEY when there are none. */
CR_API CR_MUST cr_status cr_state_under(cr_state **out, const cr_state *s, const char *prefix);
CR_API void cr_state_drop(cr_state *s);
CR_API size_t cr_state_count(const cr_state *s);
/* Entry i, borrowed; NULL after the last. */
CR_API const char *cr_state_name(const cr_state *s, size_t i);
CR_API cr_tensor *cr_state_tensor(const cr_state *s, size_t i);
CR_API cr_tensor *cr_state_find(const cr_state *s, const char *name);
/* Reads a safetensors file or a file of torch.save, whose tensors are named by their paths
 * through its dicts.  No code of the file is run.  Fails with CR_IO when the file cannot be
 * read, CR_VALUE, CR_RUNTIME or CR_UNPICKLING when it is damaged. */
CR_API CR_MUST cr_status cr_state_read(cr_state **out, const char *path);
/* Writes a safetensors file, which replaces an earlier file when it is complete.  Fails with
 * CR_IO. */
CR_API CR_MUST cr_status cr_state_write(const cr_state *s, const char *path);

/* --- optimizers -------------------------------------------------------------------- */

typedef struct cr_optim cr_optim;

/* Makes an optimizer by its name in torch.optim, for leaves on which it holds references:
 *     SGD    lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False
 *     Adam   lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False,
 * maximize=False AdamW  the same with weight_decay=0.01 Adagrad  lr=0.01, lr_decay=0,
 * weight_decay=0, initial_accumulator_value=0, eps=1e-10, maximize=False RMSprop  lr=0.01,
 * alpha=0.99, eps=1e-08, weight_decay=0, momentum=0, centered=False, maximize=False Fails with
 * CR_VALUE for impossible numbers, an empty list and tensors that are not leaves. */
CR_API CR_MUST cr_status cr_optim_new(cr_optim **out, const char *kind,
                                      cr_tensor *const *params, size_t count,
                                      const cr_arg *args);
CR_API void cr_optim_drop(cr_optim *o);
/* Updates the parameters that have gradients. */
CR_API CR_MUST cr_status cr_optim_step(cr_optim *o);
/* Clears the gradients. */
CR_API CR_MUST cr_status cr_optim_zero_grad(cr_optim *o);
CR_API double cr_optim_lr(const cr_optim *o);
CR_API CR_MUST cr_status cr_optim_set_lr(cr_optim *o, double lr);
/* The state as tensors that share the optimizer's memory, with torch's names by the parameter's
 * number, "state.0.exp_avg", and the rate, "param_groups.0.lr": cr_state_write keeps it in a
 * file.  A parameter that was never updated has none. */
CR_API CR_MUST cr_status cr_optim_state(cr_state **out, cr_optim *o);
/* Copies such a state, also one of a file of torch.save(optimizer.state_dict()), in which the
 * rate is no tensor.  Fails with CR_VALUE when a tensor's sizes differ from its parameter's, or
 * a number has no parameter. */
CR_API CR_MUST cr_status cr_optim_load_state(cr_optim *o, const cr_state *s);

/* A schedule of an optimizer's learning rate, by its name in torch.optim.lr_scheduler:
 *     StepLR             step_size, gamma=0.1
 *     MultiStepLR        milestones, gamma=0.1
 *     ConstantLR         factor=1/3, total_iters=5
 *     LinearLR           start_factor=1/3, end_factor=1, total_iters=5
 *     ExponentialLR      gamma
 *     PolynomialLR       total_iters=5, power=1
 *     CosineAnnealingLR  T_max, eta_min=0
 * The rate is set at once, then by cr_schedule_step once an epoch.  `o` must live longer than
 * the schedule.  Fails with CR_ATTRIBUTE, CR_TYPE or CR_VALUE. */
typedef struct cr_schedule cr_schedule;
CR_API CR_MUST cr_status cr_schedule_new(cr_schedule **out, const char *kind, cr_optim *o,
                                         const cr_arg *args);
CR_API CR_MUST cr_status cr_schedule_step(cr_schedule *s);
CR_API void cr_schedule_drop(cr_schedule *s);

/* Scales the gradients so that their common 2-norm is at most max_norm.  *norm, unless NULL, is
 * the norm before. */
CR_API CR_MUST cr_status cr_clip_grad_norm(double *norm, cr_tensor *const *params, size_t count,
                                           double max_norm);

/* --- data -------------------------------------------------------------------------- */

/* Minibatches of tensors that have the same first size. */
typedef struct cr_loader cr_loader;

/* Makes a loader.  Arguments: batch_size=1, shuffle=False, drop_last=False, generator=None, as
 * for a DataLoader over a TensorDataset.  Holds references on the tensors.  Fails with
 * CR_ASSERTION when their first sizes differ. */
CR_API CR_MUST cr_status cr_loader_new(cr_loader **out, cr_tensor *const *tensors, size_t count,
                                       const cr_arg *args);
CR_API void cr_loader_drop(cr_loader *l);
/* Starts an epoch and draws its order of samples. */
CR_API CR_MUST cr_status cr_loader_start(cr_loader *l);
/* The next batch: batch[i] is for tensor i, borrowed until the next call.  *more is false at
 * the end of the epoch. */
CR_API CR_MUST cr_status cr_loader_next(cr_loader *l, bool *more, cr_tensor **batch);
/* The number of batches of an epoch. */
CR_API int64_t cr_loader_batches(const cr_loader *l);
CR_API size_t cr_loader_tensors(const cr_loader *l);

/* Reads a text file with one row a line as float64 [rows, columns].  Arguments: delimiter=None
 * (white space), skiprows=0; # starts a comment, as for numpy.loadtxt.  Fails with CR_IO, or
 * with CR_VALUE and the line when a number is malformed or the rows differ in length. */
CR_API CR_MUST cr_status cr_read_text(cr_tensor **out, const char *path, const cr_arg *args);
/* Reads an IDX file (MNIST's), with the file's dtype and sizes.  Fails with CR_IO, or with
 * CR_VALUE when the file is damaged. */
CR_API CR_MUST cr_status cr_read_idx(cr_tensor **out, const char *path);

#ifdef __cplusplus
}
#endif
#endif
