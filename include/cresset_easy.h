/* cresset_easy.h - an interface for C programs that look like Python programs.
 *
 *     cr_tensor *x = ct_linspace(-1, 1, 100), *w = ct_requires_grad(ct_randn(3, 1));
 *
 *     for (int step = 0; step < 200; step++)
 *         ct_scope {
 *             cr_tensor *loss = ct_mse_loss(ct_matmul(features(x), w), y);
 *             ct_backward(loss);
 *             ct_no_grad {
 *                 ct_sub_(w, ct_grad(w), CT(alpha, 0.1));
 *             }
 *             ct_clear_grad(w);
 *         }
 *
 * Values.  Every operator is a macro ct_NAME (cresset_easy_ops.h).  It takes tensors, numbers,
 * lists CT_LIST(2, 3), CT_FLOATS(0.5, 1), CT_TENSORS(a, b) and named arguments CT(dim, 1) as in
 * Python, and returns its result.  Further results are stored through `cr_tensor **`
 * arguments:  values = ct_topk(x, 5, &indices).  NULL means None.
 *
 * Ownership.  The innermost open scope of the thread owns the results of calls and drops them
 * at its end.  The outermost scope is always open.  ct_keep makes the enclosing scope an owner,
 * too.  Tensors of modules, optimizers and loaders live as long as these.  ct_owned gives
 * results of the base layer (cr_add, ...) to the scope.
 *
 * Errors.  An error ends the program: "FILE:LINE: ct_add: RuntimeError: ..." on stderr, status
 * 1.  A program may set a handler instead.  When the handler returns, the failed call and all
 * later calls of the thread do nothing and return NULL or 0, until ct_clear_error.
 *
 * The first call initializes the library. */
#ifndef CRESSET_EASY_H
#define CRESSET_EASY_H

#include "cresset_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- errors -------------------------------------------------------------------------- */

typedef struct {
    cr_status kind;
    const char *kind_name; /* the Python class, as in "RuntimeError" */
    const char *message, *call, *file;
    int line;
} ct_error;

/* Called for the first error, in the thread that failed.  It may end the program, jump, or
 * return.  The handler is set for all threads; NULL restores the default. */
typedef void (*ct_handler)(const ct_error *e, void *context);
CR_API void cr_easy_set_handler(ct_handler handler, void *context);
/* The calling thread's error since the last ct_clear_error; NULL when there was none. */
CR_API const ct_error *cr_easy_error(void);
CR_API void cr_easy_clear_error(void);
/* Checks a call of the base layer: ct_check(cr_add(&out, a, b, one)). */
CR_API bool cr_easy_check(const char *file, int line, const char *call, cr_status st);

#define ct_set_handler(handler, context) cr_easy_set_handler(handler, context)
#define ct_failed()                      cr_easy_error()
#define ct_clear_error()                 cr_easy_clear_error()
#define ct_check(call)                   cr_easy_check(__FILE__, __LINE__, #call, call)

/* --- scopes -------------------------------------------------------------------------- */

/* ct_scope { ... } drops the results of calls in the block when the block is left in any way.
 * With CR_SCOPES=1 in the environment, calls with such a result are errors afterwards.
 * `break` and `continue` leave the block only; `return` leaves the function. */
typedef struct {
    size_t depth;
    bool once;
    bool grad; /* ct_no_grad: the earlier recording state */
} ct_block;
CR_API ct_block cr_easy_enter(void);
CR_API void cr_easy_leave(ct_block *b);
CR_API ct_block cr_easy_enter_no_grad(void);
CR_API void cr_easy_leave_no_grad(ct_block *b);
#define CT_PASTE_(a, b) a##b
#define CT_PASTE(a, b)  CT_PASTE_(a, b)
#define CT_BLOCK(name, enter, leave)                                                           \
    for (ct_block name __attribute__((cleanup(leave))) = enter(); name.once; name.once = false)
#define ct_scope CT_BLOCK(CT_PASTE(ct_scope_, __LINE__), cr_easy_enter, cr_easy_leave)
/* ct_no_grad { ... } is a scope whose operations are not recorded. */
#define ct_no_grad                                                                             \
    CT_BLOCK(CT_PASTE(ct_no_grad_, __LINE__), cr_easy_enter_no_grad, cr_easy_leave_no_grad)

/* Makes the scope around the innermost one another owner of t.  Returns t. */
CR_API cr_tensor *cr_easy_keep(cr_tensor *t);
/* Gives t, which the caller owns, to the innermost scope.  Returns t. */
CR_API cr_tensor *cr_easy_owned(cr_tensor *t);
/* Ends all scopes of the calling thread.  Called at the end of threads and of the program. */
CR_API void cr_easy_end(void);
#define ct_keep(t)  cr_easy_keep(t)
#define ct_owned(t) cr_easy_owned(t)

/* --- calling ------------------------------------------------------------------------- */

#define CT(name, value) CR_NAMED(name, value)
#define CT_NONE         CR_NONE_ARG
/* The size of a tensor without dims: ct_randn(CT_SCALAR). */
#define CT_SCALAR       CR_EMPTY_LIST
#define CT_PI           3.14159265358979323846
#define CT_LIST(...)    CR_LIST(__VA_ARGS__)
#define CT_FLOATS(...)  CR_FLOATS(__VA_ARGS__)
#define CT_TENSORS(...) CR_TENSORS(__VA_ARGS__)

/* Calls an operator by name.  The macros of cresset_easy_ops.h use these functions. */
CR_API cr_tensor *cr_easy_tensor(const char *file, int line, const char *name,
                                 const cr_arg *args);
/* The scope owns the list and its tensors. */
CR_API cr_tensors cr_easy_tensors(const char *file, int line, const char *name,
                                  const cr_arg *args);
CR_API double cr_easy_number(const char *file, int line, const char *name, const cr_arg *args);
CR_API bool cr_easy_bool(const char *file, int line, const char *name, const cr_arg *args);
#define CT_CALL_TENSOR(name, ...) cr_easy_tensor(__FILE__, __LINE__, name, CR_ARGS(__VA_ARGS__))
#define CT_CALL_TENSORS(name, ...)                                                             \
    cr_easy_tensors(__FILE__, __LINE__, name, CR_ARGS(__VA_ARGS__))
#define CT_CALL_NUMBER(name, ...) cr_easy_number(__FILE__, __LINE__, name, CR_ARGS(__VA_ARGS__))
#define CT_CALL_BOOL(name, ...)   cr_easy_bool(__FILE__, __LINE__, name, CR_ARGS(__VA_ARGS__))

/* --- tensors ------------------------------------------------------------------------- */

/* Makes a tensor of one number, CT_LIST(...) or CT_FLOATS(...), with an optional dtype:
 * ct_tensor(CT_FLOATS(1, 2)), ct_tensor(CT_LIST(1, 2), CT(dtype, CR_F32)). */
CR_API cr_tensor *cr_easy_make(const char *file, int line, const cr_arg *args);
#define ct_tensor(...) cr_easy_make(__FILE__, __LINE__, CR_ARGS(__VA_ARGS__))
/* Makes a tensor with a copy of elements: ct_from(numbers, CR_F32, CT_LIST(2, 3)). */
CR_API cr_tensor *cr_easy_from(const char *file, int line, const void *elements, cr_dtype dtype,
                               cr_arg size);
#define ct_from(elements, dtype, size) cr_easy_from(__FILE__, __LINE__, elements, dtype, size)

/* The only element as an integer.  ct_item returns a double. */
CR_API int64_t cr_easy_int(const char *file, int line, cr_tensor *t);
#define ct_item_int(t) cr_easy_int(__FILE__, __LINE__, t)
/* The size of dim `dim`, which may be negative.  Fails with CR_INDEX when there is no such
 * dim. */
CR_API int64_t cr_easy_size(const char *file, int line, const cr_tensor *t, int64_t dim);
#define ct_size(t, dim) cr_easy_size(__FILE__, __LINE__, t, dim)
/* The elements, for reading and writing.  t must have this dtype and be contiguous. */
CR_API void *cr_easy_data(const char *file, int line, cr_tensor *t, cr_dtype dtype);
#define ct_floats(t)  ((float *)cr_easy_data(__FILE__, __LINE__, t, CR_F32))
#define ct_doubles(t) ((double *)cr_easy_data(__FILE__, __LINE__, t, CR_F64))
#define ct_ints(t)    ((int64_t *)cr_easy_data(__FILE__, __LINE__, t, CR_I64))

/* --- gradients ----------------------------------------------------------------------- */

/* Makes t require a gradient.  Returns t. */
CR_API cr_tensor *cr_easy_requires_grad(const char *file, int line, cr_tensor *t);
#define ct_requires_grad(t) cr_easy_requires_grad(__FILE__, __LINE__, t)
/* ct_backward(loss), with gradient=None, retain_graph=False, create_graph=False. */
CR_API void cr_easy_backward(const char *file, int line, const cr_arg *args);
#define ct_backward(...) cr_easy_backward(__FILE__, __LINE__, CR_ARGS(__VA_ARGS__))
/* The gradient, borrowed from t; NULL when there is none. */
#define ct_grad(t)       cr_tensor_grad(t)
#define ct_clear_grad(t) ct_check(cr_set_grad(t, 0))
/* The gradient of an output with respect to an input: ct_gradient(y, x), with gradient=None,
 * retain_graph=create_graph, create_graph=False. */
CR_API cr_tensor *cr_easy_gradient(const char *file, int line, const cr_arg *args);
#define ct_gradient(...) cr_easy_gradient(__FILE__, __LINE__, CR_ARGS(__VA_ARGS__))

/* Seeds the default generator. */
CR_API void cr_easy_seed(const char *file, int line, uint64_t seed);
#define ct_manual_seed(seed) cr_easy_seed(__FILE__, __LINE__, seed)
/* Makes a generator with a seed.  The scope owns it. */
CR_API cr_generator *cr_easy_generator(const char *file, int line, uint64_t seed);
#define ct_generator(seed) cr_easy_generator(__FILE__, __LINE__, seed)

/* --- modules ------------------------------------------------------------------------- */

/* Makes a layer: ct_Linear(2, 3), or by name, ct_module("Linear", 2, 3) and CT_LAYER("ReLU").
 * The scope owns the module, and so do the modules that it is added to. */
CR_API cr_module *cr_easy_module(const char *file, int line, const char *kind,
                                 const cr_arg *args);
#define ct_module(kind, ...) cr_easy_module(__FILE__, __LINE__, kind, CR_ARGS(__VA_ARGS__))

#define CT_LAYER(kind)                  cr_easy_module(__FILE__, __LINE__, kind, CR_NO_ARGS)
#define ct_Linear(...)                  ct_module("Linear", __VA_ARGS__)
#define ct_Conv1d(...)                  ct_module("Conv1d", __VA_ARGS__)
#define ct_Conv2d(...)                  ct_module("Conv2d", __VA_ARGS__)
#define ct_Conv3d(...)                  ct_module("Conv3d", __VA_ARGS__)
#define ct_ConvTranspose1d(...)         ct_module("ConvTranspose1d", __VA_ARGS__)
#define ct_ConvTranspose2d(...)         ct_module("ConvTranspose2d", __VA_ARGS__)
#define ct_ConvTranspose3d(...)         ct_module("ConvTranspose3d", __VA_ARGS__)
#define ct_BatchNorm1d(...)             ct_module("BatchNorm1d", __VA_ARGS__)
#define ct_BatchNorm2d(...)             ct_module("BatchNorm2d", __VA_ARGS__)
#define ct_BatchNorm3d(...)             ct_module("BatchNorm3d", __VA_ARGS__)
#define ct_LayerNorm(...)               ct_module("LayerNorm", __VA_ARGS__)
#define ct_RMSNorm(...)                 ct_module("RMSNorm", __VA_ARGS__)
#define ct_GroupNorm(...)               ct_module("GroupNorm", __VA_ARGS__)
#define ct_Embedding(...)               ct_module("Embedding", __VA_ARGS__)
#define ct_Dropout(...)                 ct_module("Dropout", __VA_ARGS__)
#define ct_RNN(...)                     ct_module("RNN", __VA_ARGS__)
#define ct_LSTM(...)                    ct_module("LSTM", __VA_ARGS__)
#define ct_GRU(...)                     ct_module("GRU", __VA_ARGS__)
#define ct_MultiheadAttention(...)      ct_module("MultiheadAttention", __VA_ARGS__)
#define ct_TransformerEncoderLayer(...) ct_module("TransformerEncoderLayer", __VA_ARGS__)
#define ct_TransformerDecoderLayer(...) ct_module("TransformerDecoderLayer", __VA_ARGS__)
#define ct_Transformer(...)             ct_module("Transformer", __VA_ARGS__)
#define ct_MaxPool1d(...)               ct_module("MaxPool1d", __VA_ARGS__)
#define ct_MaxPool2d(...)               ct_module("MaxPool2d", __VA_ARGS__)
#define ct_AvgPool1d(...)               ct_module("AvgPool1d", __VA_ARGS__)
#define ct_AvgPool2d(...)               ct_module("AvgPool2d", __VA_ARGS__)
#define ct_AdaptiveAvgPool2d(...)       ct_module("AdaptiveAvgPool2d", __VA_ARGS__)
#define ct_Softmax(...)                 ct_module("Softmax", __VA_ARGS__)
#define ct_LogSoftmax(...)              ct_module("LogSoftmax", __VA_ARGS__)
#define ct_ReLU()                       CT_LAYER("ReLU")
#define ct_GELU()                       CT_LAYER("GELU")
#define ct_SiLU()                       CT_LAYER("SiLU")
#define ct_Tanh()                       CT_LAYER("Tanh")
#define ct_Sigmoid()                    CT_LAYER("Sigmoid")
#define ct_Identity()                   CT_LAYER("Identity")
#define ct_Flatten()                    CT_LAYER("Flatten")

/* ct_Sequential(ct_Linear(2, 3), ct_ReLU(), ct_Linear(3, 1)): weights are drawn in the order
 * written. */
CR_API cr_module *cr_easy_sequential(const char *file, int line, cr_module *const *modules,
                                     size_t count);
#ifndef __cplusplus
#define ct_Sequential(...)                                                                     \
    cr_easy_sequential(__FILE__, __LINE__, (cr_module *const[]){__VA_ARGS__},                  \
                       sizeof((cr_module *const[]){__VA_ARGS__}) / sizeof(cr_module *))
#endif

/* num_layers copies of a layer, then `norm` (or NULL): ct_TransformerEncoder(layer, 6,
 * NULL). */
CR_API cr_module *cr_easy_stack(const char *file, int line, const char *kind, cr_module *layer,
                                int64_t num_layers, cr_module *norm);
#define ct_TransformerEncoder(layer, num_layers, norm)                                         \
    cr_easy_stack(__FILE__, __LINE__, "TransformerEncoder", layer, num_layers, norm)
#define ct_TransformerDecoder(layer, num_layers, norm)                                         \
    cr_easy_stack(__FILE__, __LINE__, "TransformerDecoder", layer, num_layers, norm)
/* Packed sequences, whose tensors the scope owns.  ct_forward_packed takes first states or NULL
 * (an array: h_0, and c_0 of an LSTM), and gives the last ones:
 *     cr_packed p = ct_pack_padded_sequence(x, lengths, false, true);
 *     cr_tensor *last[2], *n;
 *     cr_tensor *y = ct_pad_packed_sequence(ct_forward_packed(lstm, p, NULL, last, 2), false,
 * &n); */
CR_API cr_packed cr_easy_pack(const char *file, int line, cr_tensor *input, cr_tensor *lengths,
                              bool batch_first, bool enforce_sorted);
CR_API cr_tensor *cr_easy_pad(const char *file, int line, cr_packed packed, bool batch_first,
                              cr_tensor **lengths);
CR_API cr_packed cr_easy_forward_packed(const char *file, int line, cr_module *m,
                                        cr_packed input, cr_tensor *const *hx,
                                        cr_tensor **state, size_t states);
#define ct_pack_padded_sequence(input, lengths, batch_first, enforce_sorted)                   \
    cr_easy_pack(__FILE__, __LINE__, input, lengths, batch_first, enforce_sorted)
#define ct_pad_packed_sequence(packed, batch_first, lengths)                                   \
    cr_easy_pad(__FILE__, __LINE__, packed, batch_first, lengths)
#define ct_forward_packed(m, input, hx, state, states)                                         \
    cr_easy_forward_packed(__FILE__, __LINE__, m, input, hx, state, states)
/* A copy of a module with its tensors. */
CR_API cr_module *cr_easy_copy(const char *file, int line, cr_module *m);
#define ct_copy_module(m) cr_easy_copy(__FILE__, __LINE__, m)

/* The program of an archive of torch.jit.save as a module (cresset_script.h).  The scope owns
 * it.  ct_save_script writes such a module as an archive again. */
CR_API cr_module *cr_easy_script(const char *file, int line, const char *path);
CR_API void cr_easy_save_script(const char *file, int line, cr_module *m, const char *path);
#define ct_script(path)         cr_easy_script(__FILE__, __LINE__, path)
#define ct_save_script(m, path) cr_easy_save_script(__FILE__, __LINE__, m, path)
/* Makes a module of the program, and adds parameters, buffers and children; the latter calls
 * return the object that was added. */
CR_API cr_module *cr_easy_define(const char *file, int line, const char *kind,
                                 cr_forward forward, void *context);
CR_API cr_module *cr_easy_add(const char *file, int line, cr_module *m, const char *name,
                              cr_module *child);
CR_API cr_tensor *cr_easy_parameter(const char *file, int line, cr_module *m, const char *name,
                                    cr_tensor *t);
CR_API cr_tensor *cr_easy_buffer(const char *file, int line, cr_module *m, const char *name,
                                 cr_tensor *t);
#define ct_Module(kind)             cr_easy_define(__FILE__, __LINE__, kind, 0, 0)
#define ct_add_module(m, name, sub) cr_easy_add(__FILE__, __LINE__, m, name, sub)
#define ct_parameter(m, name, t)    cr_easy_parameter(__FILE__, __LINE__, m, name, t)
#define ct_buffer(m, name, t)       cr_easy_buffer(__FILE__, __LINE__, m, name, t)

/* ct_forward(net, x) calls a module.  ct_call(net, "conv1", x) calls the module at a path in
 * it. */
CR_API cr_tensor *cr_easy_forward(const char *file, int line, cr_module *m, const char *path,
                                  cr_tensor *x);
#define ct_forward(m, x)    cr_easy_forward(__FILE__, __LINE__, m, "", x)
#define ct_call(m, path, x) cr_easy_forward(__FILE__, __LINE__, m, path, x)

/* Calls a module with several inputs or results: ct_forward_many(lstm, CT_TENSORS(x), out, 3)
 * sets out[0] to out[2].  The inputs and results of a layer are in cresset_nn.h. */
CR_API void cr_easy_forward_many(const char *file, int line, cr_module *m, const cr_arg *input,
                                 cr_tensor **out, size_t outs);
#define ct_forward_many(m, input, out, outs)                                                   \
    cr_easy_forward_many(__FILE__, __LINE__, m, CR_ARGS(input), out, outs)

#define ct_train(m) ct_check(cr_module_train(m, true))
#define ct_eval(m)  ct_check(cr_module_train(m, false))
/* Moves a module to a device in place: ct_to_device(net, "cuda"). */
#define ct_to_device(m, device) ct_check(cr_module_to_device(m, device))
/* Prints a module in Python's format. */
CR_API void cr_easy_print(const char *file, int line, cr_module *m);
#define ct_print(m) cr_easy_print(__FILE__, __LINE__, m)
/* Prints a tensor in Python's format. */
CR_API void cr_easy_print_tensor(const char *file, int line, cr_tensor *t);
#define ct_print_tensor(t) cr_easy_print_tensor(__FILE__, __LINE__, t)
/* The scope owns the list; the module owns its tensors. */
CR_API cr_tensors cr_easy_parameters(const char *file, int line, cr_module *m);
#define ct_parameters(m) cr_easy_parameters(__FILE__, __LINE__, m)
/* Saves the state to a safetensors file.  Loads the state from such a file or torch.save's,
 * strictly. */
CR_API void cr_easy_save(const char *file, int line, cr_module *m, const char *path);
CR_API void cr_easy_load(const char *file, int line, cr_module *m, const char *path,
                         const char *prefix);
#define ct_save(m, path) cr_easy_save(__FILE__, __LINE__, m, path)
#define ct_load(m, path) cr_easy_load(__FILE__, __LINE__, m, path, 0)
/* Loads the tensors below a name of the file: ct_load_under(net, "checkpoint.pt", "model"). */
#define ct_load_under(m, path, prefix) cr_easy_load(__FILE__, __LINE__, m, path, prefix)

/* --- optimizers ---------------------------------------------------------------------- */

/* ct_SGD(ct_parameters(net), CT(lr, 0.1), CT(momentum, 0.9)): a list of tensors, then named
 * numbers.  The scope owns the optimizer. */
CR_API cr_optim *cr_easy_optim(const char *file, int line, const char *kind,
                               const cr_arg *args);
#define ct_SGD(...)      cr_easy_optim(__FILE__, __LINE__, "SGD", CR_ARGS(__VA_ARGS__))
#define ct_Adam(...)     cr_easy_optim(__FILE__, __LINE__, "Adam", CR_ARGS(__VA_ARGS__))
#define ct_AdamW(...)    cr_easy_optim(__FILE__, __LINE__, "AdamW", CR_ARGS(__VA_ARGS__))
#define ct_Adagrad(...)  cr_easy_optim(__FILE__, __LINE__, "Adagrad", CR_ARGS(__VA_ARGS__))
#define ct_RMSprop(...)  cr_easy_optim(__FILE__, __LINE__, "RMSprop", CR_ARGS(__VA_ARGS__))
#define ct_zero_grad(o)  ct_check(cr_optim_zero_grad(o))
#define ct_step(o)       ct_check(cr_optim_step(o))
#define ct_set_lr(o, lr) ct_check(cr_optim_set_lr(o, lr))
/* Saves and loads an optimizer's state, as ct_save and ct_load do with a module's. */
CR_API void cr_easy_save_optim(const char *file, int line, cr_optim *o, const char *path);
CR_API void cr_easy_load_optim(const char *file, int line, cr_optim *o, const char *path);
#define ct_save_optim(o, path) cr_easy_save_optim(__FILE__, __LINE__, o, path)
#define ct_load_optim(o, path) cr_easy_load_optim(__FILE__, __LINE__, o, path)
/* ct_schedule("StepLR", optimizer, 10, CT(gamma, 0.5)): a rate by epoch; the scope owns it. */
CR_API cr_schedule *cr_easy_schedule(const char *file, int line, const char *kind, cr_optim *o,
                                     const cr_arg *args);
#define ct_schedule(kind, o, ...)                                                              \
    cr_easy_schedule(__FILE__, __LINE__, kind, o, CR_ARGS(__VA_ARGS__))
#define ct_schedule_step(s) ct_check(cr_schedule_step(s))
/* Scales gradients to a common norm of at most `max_norm`; the norm before. */
CR_API double cr_easy_clip(const char *file, int line, cr_tensors params, double max_norm);
#define ct_clip_grad_norm_(params, max_norm) cr_easy_clip(__FILE__, __LINE__, params, max_norm)

/* --- data ---------------------------------------------------------------------------- */

/* ct_loader(CT_TENSORS(images, labels), CT(batch_size, 32), CT(shuffle, true)) */
CR_API cr_loader *cr_easy_loader(const char *file, int line, const cr_arg *args);
#define ct_loader(...) cr_easy_loader(__FILE__, __LINE__, CR_ARGS(__VA_ARGS__))

/* ct_for_batches(loader, &images, &labels) { ... } runs over an epoch, with a scope for each
 * batch.  `break` ends the epoch. */
typedef struct {
    cr_loader *loader;
    ct_block block;
} ct_epoch;
CR_API ct_epoch cr_easy_epoch(const char *file, int line, cr_loader *l);
CR_API bool cr_easy_next(const char *file, int line, ct_epoch *e, const cr_arg *batch);
CR_API void cr_easy_epoch_end(ct_epoch *e);
#define ct_for_batches(loader, ...) CT_EPOCH(CT_PASTE(ct_epoch_, __LINE__), loader, __VA_ARGS__)
#define CT_EPOCH(name, loader, ...)                                                            \
    for (ct_epoch name __attribute__((cleanup(cr_easy_epoch_end))) =                           \
             cr_easy_epoch(__FILE__, __LINE__, loader);                                        \
         cr_easy_next(__FILE__, __LINE__, &name, CR_ARGS(__VA_ARGS__));)

/* Reads a text file as float64 [rows, columns], with delimiter=None and skiprows=0; or an IDX
 * file. */
CR_API cr_tensor *cr_easy_read_text(const char *file, int line, const cr_arg *args);
CR_API cr_tensor *cr_easy_read_idx(const char *file, int line, const char *path);
#define ct_read_text(...) cr_easy_read_text(__FILE__, __LINE__, CR_ARGS(__VA_ARGS__))
#define ct_read_idx(path) cr_easy_read_idx(__FILE__, __LINE__, path)

#ifdef __cplusplus
}

extern "C++" {
static inline cr_module *cr_easy_sequence(const char *file, int line,
                                          std::initializer_list<cr_module *> modules)
{
    return cr_easy_sequential(file, line, modules.begin(), modules.size());
}
}
#define ct_Sequential(...) cr_easy_sequence(__FILE__, __LINE__, {__VA_ARGS__})
#endif

#ifndef CR_INSIDE
#include "cresset_easy_ops.h"
#endif

#endif
