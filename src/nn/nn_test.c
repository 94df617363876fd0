/* Modules, optimizers and data: results and errors. */
#include "base/test.h"
#include "nn/nn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void says(const char *text) { EQ_STR(cr_error_message(), text); }

static void start(void)
{
    OK(cr_tensor_start());
    OK(cr_autograd_start());
    OK(cr_generator_seed(cr_generator_default(), 0));
}

static cr_module *layer(const char *kind, const cr_arg *args)
{
    cr_module *m = NULL;

    start();
    OK(cr_module_new(&m, kind, args));
    return m;
}

static cr_tensor *filled(double value, int64_t a, int64_t b)
{
    int64_t size[] = {a, b};
    cr_tensor *t = NULL;

    start();
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, size));
    for (int64_t i = 0; i < a * b; i++)
        ((float *)(void *)t->address)[i] = (float)value;
    return t;
}

/* Linear(2, 3), ReLU, BatchNorm1d(3) */
static cr_module *small_net(void)
{
    cr_module *net = layer("Sequential", CR_NO_ARGS);
    cr_module *parts[] = {layer("Linear", CR_ARGS(2, 3)), layer("ReLU", CR_NO_ARGS),
                          layer("BatchNorm1d", CR_ARGS(3))};

    for (size_t i = 0; i < CR_LEN(parts); i++) {
        OK(cr_module_append(net, parts[i]));
        cr_module_drop(parts[i]);
    }
    return net;
}

/* Makes a temporary file.  The caller deletes it and frees the name. */
static char *new_file(const char *content, size_t len)
{
    char *path = cr_strdup("/tmp/cresset_nn_test_XXXXXX");
    int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, content, len) == (ssize_t)len);
    close(fd);
    return path;
}

static void remove_file(char *path)
{
    unlink(path);
    cr_free(path);
}

/* --- modules --- */

TEST(parameters_are_in_torchs_order_and_require_gradients)
{
    cr_module *net = small_net();
    cr_tensors p = {NULL, 0};

    OK(cr_module_parameters(&p, net));
    EQ(p.len, 4);
    EQ(p.at[0], cr_module_tensor(net, "0.weight"));
    EQ(p.at[3], cr_module_tensor(net, "2.bias"));
    CHECK(cr_requires_grad(p.at[2]));
    EQ(cr_module_tensor(net, "2.running_mean")->requires_grad, false);
    EQ(cr_module_tensor(net, "0.nothing"), NULL);
    EQ(cr_module_at(net, "3"), NULL);
    EQ(cr_module_at(net, ""), net);
    EQ_STR(cr_module_kind(cr_module_at(net, "1")), "ReLU");
    cr_free(p.at);
    cr_module_drop(net);
}

TEST(a_shared_parameter_is_listed_once)
{
    cr_module *net = layer("Sequential", CR_NO_ARGS), *one = layer("Linear", CR_ARGS(2, 2));
    cr_tensors p = {NULL, 0};

    OK(cr_module_append(net, one));
    OK(cr_module_append(net, one));
    OK(cr_module_parameters(&p, net));
    EQ(p.len, 2);
    cr_free(p.at);
    cr_module_drop(one);
    cr_module_drop(net);
}

TEST(eval_mode_is_set_in_every_layer)
{
    cr_module *net = small_net();

    CHECK(cr_module_training(cr_module_at(net, "2")));
    OK(cr_module_train(net, false));
    CHECK(!cr_module_training(net) && !cr_module_training(cr_module_at(net, "2")));
    cr_module_drop(net);
}

static cr_status twice(cr_tensor **out, cr_module *m, cr_tensor *x, void *context)
{
    cr_value arg[] = {cr_of_tensor(x), cr_of_number(cr_scalar_int(2))}, result[1];

    (void)m;
    ++*(int *)context;
    CR_TRY(cr_call_named("mul", arg, 2, result));
    *out = result[0].t;
    return CR_OK;
}

TEST(a_module_of_the_program_is_called_in_a_sequential)
{
    cr_module *net = layer("Sequential", CR_NO_ARGS), *own = NULL;
    cr_tensor *x = filled(3, 1, 1), *y = NULL;
    int calls = 0;

    OK(cr_module_define(&own, "Twice", twice, &calls));
    OK(cr_module_append(net, own));
    OK(cr_module_append(net, own));
    OK(cr_module_forward(&y, net, x));
    NEAR(*(float *)(void *)y->address, 12, 0);
    EQ(calls, 2);
    cr_drop(y);
    cr_drop(x);
    cr_module_drop(own);
    cr_module_drop(net);
}

/* The sum and the product of two inputs. */
static cr_status sum_and_product(cr_tensor **out, size_t outs, cr_module *m,
                                 cr_tensor *const *input, size_t inputs, void *context)
{
    cr_value arg[] = {cr_of_tensor(input[0]), cr_of_tensor(input[inputs - 1])}, result[1];

    (void)m;
    ++*(int *)context;
    CR_TRY(cr_call_named("add", arg, 2, result));
    out[0] = result[0].t;
    if (outs < 2)
        return CR_OK;
    CR_TRY(cr_call_named("mul", arg, 2, result));
    out[1] = result[0].t;
    return CR_OK;
}

TEST(a_module_has_several_inputs_and_results)
{
    cr_module *both = NULL, *one = layer("ReLU", CR_NO_ARGS);
    cr_tensor *in[] = {filled(3, 1, 1), filled(4, 1, 1)}, *out[2] = {NULL};
    int calls = 0;

    OK(cr_module_define_many(&both, "Both", sum_and_product, &calls));
    OK(cr_module_call(out, 2, both, in, 2));
    NEAR(*(float *)(void *)out[0]->address, 7, 0);
    NEAR(*(float *)(void *)out[1]->address, 12, 0);
    cr_drop(out[0]);
    cr_drop(out[1]);
    OK(cr_module_forward(out, both, in[0]));
    NEAR(*(float *)(void *)out[0]->address, 6, 0);
    EQ(calls, 2);
    cr_drop(out[0]);
    out[0] = NULL;
    FAILS(CR_TYPE, cr_module_call(out, 1, one, in, 2));
    says("ReLU.forward() has 1 input and 1 result, but 2 inputs were given and 1 results were "
         "asked for");
    FAILS(CR_TYPE, cr_module_call(out, 1, NULL, in, 1));
    FAILS(CR_TYPE, cr_module_call(out, 1, both, (cr_tensor *[]){NULL}, 1));
    EQ(out[0], NULL);
    OK(cr_module_call(out, 1, one, in, 1));
    cr_drop(out[0]);
    cr_drop(in[0]);
    cr_drop(in[1]);
    cr_module_drop(one);
    cr_module_drop(both);
}

TEST(a_module_moves_to_a_device_in_place)
{
    cr_module *net = small_net();
    cr_tensor *weight = cr_module_tensor(net, "0.weight");

    FAILS(CR_RUNTIME, cr_module_to_device(net, "nowhere"));
    FAILS(CR_RUNTIME, cr_module_to_device(net, ""));
    FAILS(CR_TYPE, cr_module_to_device(net, NULL));
    OK(cr_module_to_device(net, "meta"));
    EQ(cr_module_tensor(net, "0.weight"), weight);
    EQ(weight->device.kind, CR_META);
    CHECK(weight->requires_grad);
    FAILS(CR_NOT_IMPLEMENTED, cr_module_to_device(net, "cpu"));
    says("Cannot copy out of meta tensor; no data!");
    cr_module_drop(net);
}

TEST(schedules_and_states_refuse_what_they_cannot_use)
{
    cr_tensor *w = filled(1, 2, 2), *other = filled(1, 3, 1);
    cr_optim *o = NULL;
    cr_schedule *s = NULL;
    cr_state *state = NULL;
    double norm = 7;

    OK(cr_set_requires_grad(w, true));
    OK(cr_optim_new(&o, "Adam", &w, 1, CR_NO_ARGS));
    FAILS(CR_ATTRIBUTE, cr_schedule_new(&s, "StepL", o, CR_ARGS(1)));
    FAILS(CR_TYPE, cr_schedule_new(&s, "StepLR", o, CR_NO_ARGS));
    FAILS(CR_VALUE, cr_schedule_new(&s, "StepLR", o, CR_ARGS(0)));
    FAILS(CR_VALUE, cr_schedule_new(&s, "ConstantLR", o, CR_ARGS(1.5)));
    says("Constant multiplicative factor expected to be between 0 and 1.");
    FAILS(CR_TYPE, cr_schedule_new(&s, "StepLR", NULL, CR_ARGS(1)));
    FAILS(CR_TYPE, cr_schedule_step(NULL));
    EQ(s, NULL);
    OK(cr_clip_grad_norm(&norm, &w, 1, 1.0)); /* no gradients */
    EQ(norm, 0);
    OK(cr_optim_state(&state, o));
    EQ(cr_state_count(state), 1); /* the rate */
    OK(cr_state_set(state, "state.0.exp_avg", other));
    FAILS(CR_VALUE, cr_optim_load_state(o, state));
    OK(cr_state_set(state, "state.1.exp_avg", other));
    FAILS(CR_VALUE, cr_optim_load_state(o, state));
    says("loaded state dict contains a parameter group that doesn't match the size of "
         "optimizer's group");
    cr_state_drop(state);
    cr_optim_drop(o);
    cr_drop(w);
    cr_drop(other);
}

TEST(names_that_torch_refuses_are_refused)
{
    cr_module *net = small_net(), *other = layer("ReLU", CR_NO_ARGS);
    cr_tensor *t = filled(0, 1, 1);

    FAILS(CR_KEY, cr_module_add(net, "a.b", other));
    says("module name can't contain \".\", got: a.b");
    FAILS(CR_KEY, cr_module_add(net, "", other));
    says("module name can't be empty string \"\"");
    FAILS(CR_KEY, cr_module_set_parameter(net, "0", t));
    says("attribute '0' already exists");
    FAILS(CR_KEY, cr_module_set_buffer(net, "a.b", t, true));
    says("buffer name can't contain \".\"");
    FAILS(CR_VALUE, cr_module_add(cr_module_at(net, "0"), "up", net));
    cr_drop(t);
    cr_module_drop(other);
    cr_module_drop(net);
}

TEST(impossible_layers_are_refused_in_torchs_words)
{
    cr_module *m = NULL;

    start();
    FAILS(CR_ATTRIBUTE, cr_module_new(&m, "Linea", CR_ARGS(1, 2)));
    FAILS(CR_TYPE, cr_module_new(&m, "Linear", CR_ARGS(1)));
    says("Linear.__init__() missing 1 required positional arguments: \"out_features\"");
    FAILS(CR_TYPE, cr_module_new(&m, "Linear", CR_ARGS(1, 2.5)));
    says("Linear.__init__(): argument 'out_features' (position 2) must be int, not float");
    FAILS(CR_RUNTIME, cr_module_new(&m, "Linear", CR_ARGS(-3, 2)));
    says("Trying to create tensor with negative dimension -3: [2, -3]");
    FAILS(CR_VALUE, cr_module_new(&m, "Conv2d", CR_ARGS(3, 2, 3, CR_NAMED(groups, 2))));
    says("in_channels must be divisible by groups");
    FAILS(CR_VALUE, cr_module_new(&m, "Dropout", CR_ARGS(2)));
    says("dropout probability has to be between 0 and 1, but got 2");
    FAILS(CR_VALUE, cr_module_new(&m, "GroupNorm", CR_ARGS(2, 3)));
    says("num_channels (3) must be divisible by num_groups (2)");
    FAILS(CR_ASSERTION, cr_module_new(&m, "Embedding", CR_ARGS(3, 4, 7)));
    says("Padding_idx must be within num_embeddings");
    FAILS(CR_TYPE, cr_module_new(&m, NULL, CR_NO_ARGS));
    EQ(m, NULL);
}

TEST(wrong_inputs_are_refused_in_torchs_words)
{
    cr_module *norm = layer("BatchNorm2d", CR_ARGS(3)), *line = layer("Linear", CR_ARGS(2, 3));
    cr_module *norm1 = layer("BatchNorm1d", CR_ARGS(3));
    cr_tensor *x = filled(0, 1, 3), *y = NULL;

    FAILS(CR_VALUE, cr_module_forward(&y, norm, x));
    says("expected 4D input (got 2D input)");
    FAILS(CR_VALUE, cr_module_forward(&y, norm1, x));
    says("Expected more than 1 value per channel when training, got input size torch.Size([1, "
         "3])");
    FAILS(CR_RUNTIME, cr_module_forward(&y, line, x));
    says("mat1 and mat2 shapes cannot be multiplied (1x3 and 2x3)");
    FAILS(CR_TYPE, cr_module_forward(&y, line, NULL));
    FAILS(CR_TYPE, cr_module_forward(&y, NULL, x));
    FAILS(CR_TYPE, cr_module_forward(NULL, line, x));
    EQ(y, NULL);
    cr_drop(x);
    cr_module_drop(norm1);
    cr_module_drop(line);
    cr_module_drop(norm);
}

TEST(a_converted_module_keeps_its_tensors_identity)
{
    cr_module *net = small_net();
    cr_tensor *weight = cr_module_tensor(net, "0.weight");

    OK(cr_module_to(net, CR_F64));
    EQ(cr_module_tensor(net, "0.weight"), weight);
    EQ(weight->dtype, CR_F64);
    CHECK(weight->requires_grad);
    EQ(cr_module_tensor(net, "2.num_batches_tracked")->dtype, CR_I64);
    FAILS(CR_TYPE, cr_module_to(net, CR_I64));
    cr_module_drop(net);
}

/* --- state --- */

TEST(a_state_is_saved_and_loaded)
{
    cr_module *a = small_net(), *b = small_net();
    char *path = new_file("", 0);
    cr_state *s = NULL, *read = NULL;

    OK(cr_module_state(&s, a));
    EQ(cr_state_count(s), 7);
    EQ_STR(cr_state_name(s, 6), "2.num_batches_tracked");
    EQ(cr_state_tensor(s, 0)->address, cr_module_tensor(a, "0.weight")->address);
    OK(cr_state_write(s, path));
    memset(cr_module_tensor(b, "0.weight")->address, 0, 24);
    OK(cr_state_read(&read, path));
    OK(cr_module_load_state(b, read, true));
    EQ(memcmp(cr_module_tensor(b, "0.weight")->address,
              cr_module_tensor(a, "0.weight")->address, 24),
       0);
    CHECK(cr_module_tensor(b, "0.weight")->requires_grad);
    cr_state_drop(read);
    cr_state_drop(s);
    remove_file(path);
    cr_module_drop(b);
    cr_module_drop(a);
}

TEST(a_state_that_does_not_match_lists_the_keys)
{
    cr_module *net = small_net();
    cr_tensor *wrong = filled(1, 4, 5), *right = filled(7, 3, 2);
    cr_state *s = NULL;

    OK(cr_state_new(&s));
    OK(cr_state_set(s, "0.bias", wrong));
    OK(cr_state_set(s, "x", wrong));
    OK(cr_state_set(s, "0.weight", right));
    FAILS(CR_RUNTIME, cr_module_load_state(net, s, true));
    says("Error(s) in loading state_dict for Sequential:\n"
         "\tMissing key(s) in state_dict: \"2.weight\", \"2.bias\", \"2.running_mean\", "
         "\"2.running_var\". \n"
         "\tUnexpected key(s) in state_dict: \"x\". \n"
         "\tsize mismatch for 0.bias: copying a param with shape torch.Size([4, 5]) from "
         "checkpoint, the shape in current model is torch.Size([3]).");
    NEAR(*(float *)(void *)cr_module_tensor(net, "0.weight")->address, 7, 0);
    FAILS(CR_RUNTIME, cr_module_load_state(net, s, false));
    cr_tensor *bias = NULL;
    OK(cr_tensor_new(&bias, CR_F32, CR_HOST, 1, (int64_t[]){3}));
    memset(bias->address, 0, 3 * sizeof(float));
    OK(cr_state_set(s, "0.bias", bias));
    OK(cr_module_load_state(net, s, false));
    FAILS(CR_TYPE, cr_module_load_state(net, NULL, true));
    FAILS(CR_TYPE, cr_state_set(s, "y", NULL));
    cr_drop(bias);
    cr_state_drop(s);
    cr_drop(right);
    cr_drop(wrong);
    cr_module_drop(net);
}

TEST(a_prefix_selects_a_part_of_a_state)
{
    cr_tensor *t = filled(1, 1, 1);
    cr_state *s = NULL, *part = NULL;

    OK(cr_state_new(&s));
    OK(cr_state_set(s, "model.a", t));
    OK(cr_state_set(s, "model2.b", t));
    OK(cr_state_under(&part, s, "model"));
    EQ(cr_state_count(part), 1);
    EQ(cr_state_find(part, "a"), t);
    cr_state_drop(part);
    part = NULL;
    FAILS(CR_KEY, cr_state_under(&part, s, "mode"));
    EQ(part, NULL);
    cr_state_drop(s);
    cr_drop(t);
}

TEST(damaged_files_are_refused)
{
    char *path = new_file("no safetensors", 14);
    cr_state *s = NULL;

    start();
    FAILS(CR_VALUE, cr_state_read(&s, path));
    FAILS(CR_IO, cr_state_read(&s, "/nowhere/at/all"));
    FAILS(CR_TYPE, cr_state_read(&s, NULL));
    EQ(s, NULL);
    remove_file(path);
}

/* --- optimizers --- */

TEST(impossible_optimizers_are_refused_in_torchs_words)
{
    cr_tensor *p = filled(1, 1, 2), *none = NULL;
    cr_optim *o = NULL;

    OK(cr_set_requires_grad(p, true));
    FAILS(CR_VALUE, cr_optim_new(&o, "SGD", &p, 1, CR_ARGS(CR_NAMED(lr, -1))));
    says("Invalid learning rate: -1");
    FAILS(CR_VALUE, cr_optim_new(&o, "SGD", &p, 1, CR_ARGS(0.1, CR_NAMED(nesterov, true))));
    says("Nesterov momentum requires a momentum and zero dampening");
    FAILS(CR_VALUE, cr_optim_new(&o, "Adam", &p, 1, CR_ARGS(0.1, CR_FLOATS(1, 2))));
    says("Invalid beta parameter at index 0: 1");
    FAILS(CR_VALUE, cr_optim_new(&o, "Adam", &p, 1, CR_ARGS(CR_NAMED(weight_decay, -1))));
    says("Invalid weight_decay value: -1");
    FAILS(CR_VALUE, cr_optim_new(&o, "SGD", &p, 0, CR_NO_ARGS));
    says("optimizer got an empty parameter list");
    FAILS(CR_TYPE, cr_optim_new(&o, "SGD", &none, 1, CR_NO_ARGS));
    FAILS(CR_TYPE, cr_optim_new(&o, "SGD", NULL, 1, CR_NO_ARGS));
    FAILS(CR_ATTRIBUTE, cr_optim_new(&o, "Sgd", &p, 1, CR_NO_ARGS));
    FAILS(CR_TYPE, cr_optim_step(NULL));
    EQ(o, NULL);
    cr_drop(p);
}

TEST(parameters_without_gradients_do_not_change)
{
    cr_tensor *p[] = {filled(1, 1, 1), filled(1, 1, 1)}, *grad = filled(2, 1, 1);
    cr_optim *o = NULL;

    OK(cr_set_requires_grad(p[0], true));
    OK(cr_set_requires_grad(p[1], true));
    OK(cr_optim_new(&o, "SGD", p, 2, CR_ARGS(CR_NAMED(lr, 0.25), CR_NAMED(momentum, 0.5))));
    OK(cr_optim_step(o));
    OK(cr_set_grad(p[0], grad));
    OK(cr_optim_step(o));
    NEAR(*(float *)(void *)p[0]->address, 0.5, 0);
    NEAR(*(float *)(void *)p[1]->address, 1, 0);
    OK(cr_set_grad(p[1], grad));
    OK(cr_optim_step(o)); /* one parameter has a buffer, the other gets its first */
    NEAR(*(float *)(void *)p[0]->address, -0.25, 0);
    NEAR(*(float *)(void *)p[1]->address, 0.5, 0);
    OK(cr_optim_zero_grad(o));
    EQ(cr_grad_of(p[1]), NULL);
    FAILS(CR_VALUE, cr_optim_set_lr(o, (double)NAN));
    NEAR(cr_optim_lr(o), 0.25, 0);
    cr_optim_drop(o);
    cr_drop(grad);
    cr_drop(p[1]);
    cr_drop(p[0]);
}

/* --- data --- */

TEST(impossible_loaders_are_refused_in_torchs_words)
{
    cr_tensor *t[] = {filled(0, 4, 1), filled(0, 3, 1)}, *empty = filled(0, 0, 2);
    cr_loader *l = NULL;

    FAILS(CR_ASSERTION, cr_loader_new(&l, t, 2, CR_NO_ARGS));
    says("Size mismatch between tensors");
    FAILS(CR_VALUE, cr_loader_new(&l, t, 1, CR_ARGS(0)));
    says("batch_size should be a positive integer value, but got batch_size=0");
    FAILS(CR_VALUE, cr_loader_new(&l, &empty, 1, CR_ARGS(1, true)));
    says("num_samples should be a positive integer value, but got num_samples=0");
    FAILS(CR_TYPE, cr_loader_new(&l, t, 1, CR_ARGS(CR_NAMED(size, 3))));
    FAILS(CR_TYPE, cr_loader_new(&l, NULL, 1, CR_NO_ARGS));
    FAILS(CR_TYPE, cr_loader_start(NULL));
    EQ(l, NULL);
    cr_drop(empty);
    cr_drop(t[1]);
    cr_drop(t[0]);
}

TEST(a_loader_gives_every_sample_once_and_counts_batches)
{
    cr_tensor *t = filled(0, 7, 1), *batch = NULL;
    cr_loader *l = NULL;
    bool more;
    int seen = 0;

    for (int i = 0; i < 7; i++)
        ((float *)(void *)t->address)[i] = (float)i;
    OK(cr_loader_new(&l, &t, 1, CR_ARGS(3, true)));
    EQ(cr_loader_batches(l), 3);
    OK(cr_loader_start(l));
    do {
        OK(cr_loader_next(l, &more, &batch));
        for (int64_t i = 0; more && i < batch->numel; i++)
            seen |= 1 << (int)((float *)(void *)batch->address)[i];
    } while (more);
    EQ(seen, 127);
    OK(cr_loader_next(l, &more, &batch));
    CHECK(!more);
    cr_loader_drop(l);
    cr_drop(t);
}

/* --- files of numbers --- */

static void refuses_text(const char *text, const char *delimiter, const char *message)
{
    char *path = new_file(text, strlen(text));
    cr_tensor *t = NULL;

    FAILS(CR_VALUE, cr_read_text(&t, path, CR_ARGS(CR_NAMED(delimiter, delimiter))));
    EQ_STR(cr_error_message() + strlen(path), message);
    EQ(t, NULL);
    remove_file(path);
}

TEST(text_is_read_as_rows)
{
    const char *text = "x,y\n1, 2.5\n# no row\n\n-3e2,4 # a row\n";
    char *path = new_file(text, strlen(text));
    cr_tensor *t = NULL;

    start();
    OK(cr_read_text(&t, path, CR_ARGS(CR_NAMED(delimiter, ","), CR_NAMED(skiprows, 1))));
    EQ(t->dtype, CR_F64);
    EQ(t->size[0], 2);
    EQ(t->size[1], 2);
    NEAR(((double *)(void *)t->address)[2], -300, 0);
    cr_drop(t);
    remove_file(path);
    refuses_text("1,2\n3,x\n", ",", ":2: could not convert string 'x' to float64");
    refuses_text("1,2\n\n3\n", ",", ":3: the number of columns changed from 2 to 1");
    refuses_text("1,,2\n", ",", ":1: could not convert string '' to float64");
    refuses_text("1 2\n3 4x\n", NULL, ":2: could not convert string '4x' to float64");
    refuses_text("1 2\n", ",", ":1: ',' expected, not '2'");
    FAILS(CR_IO, cr_read_text(&t, "/nowhere/at/all", CR_NO_ARGS));
    says("[Errno 2] No such file or directory: '/nowhere/at/all'");
}

TEST(idx_files_are_read_with_dtype_and_sizes)
{
    const char bytes[] = "\0\0\x0b\x02\0\0\0\1\0\0\0\3\0\1\1\0\xff\xff";
    char *path = new_file(bytes, 18);
    cr_tensor *t = NULL;

    start();
    OK(cr_read_idx(&t, path));
    EQ(t->dtype, CR_I16);
    EQ(t->ndim, 2);
    EQ(t->size[1], 3);
    EQ(((int16_t *)(void *)t->address)[0], 1);
    EQ(((int16_t *)(void *)t->address)[1], 256);
    EQ(((int16_t *)(void *)t->address)[2], -1);
    cr_drop(t);
    remove_file(path);
}

TEST(damaged_idx_files_are_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {{"", 0},
               {"\0\0\x08", 3},
               {"\0\0\x07\1\0\0\0\0", 8},
               {"\0\0\x08\2\0\0\0\1", 8},
               {"\0\0\x08\1\0\0\0\3ab", 10},
               {"\0\0\x08\1\0\0\0\1ab", 10},
               {"\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16}};

    start();
    for (size_t i = 0; i < CR_LEN(bad); i++) {
        char *path = new_file(bad[i].bytes, bad[i].len);
        cr_tensor *t = NULL;
        FAILS(CR_VALUE, cr_read_idx(&t, path));
        EQ(t, NULL);
        remove_file(path);
    }
}

static cr_status call_many(cr_module *m, size_t outs, cr_tensor *a, cr_tensor *b, cr_tensor *c,
                           size_t inputs)
{
    cr_tensor *out[3] = {NULL, NULL, NULL}, *const input[] = {a, b, c};
    cr_status st = cr_module_call(out, outs, m, input, inputs);

    for (int i = 0; i < 3; i++)
        cr_drop(out[i]);
    return st;
}

TEST(recurrent_layers_refuse_wrong_arguments_and_inputs)
{
    cr_module *m = NULL;
    cr_tensor *x = filled(1, 5, 3), *state = filled(1, 1, 4), *wide = filled(1, 5, 4);

    FAILS(CR_VALUE, cr_module_new(&m, "LSTM", CR_ARGS(3, 0)));
    says("hidden_size must be greater than zero");
    FAILS(CR_VALUE, cr_module_new(&m, "GRU", CR_ARGS(3, 4, CR_NAMED(dropout, 1.5))));
    FAILS(CR_VALUE, cr_module_new(&m, "LSTM", CR_ARGS(3, 4, CR_NAMED(proj_size, 4))));
    says("proj_size has to be smaller than hidden_size");
    FAILS(CR_VALUE, cr_module_new(&m, "RNN", CR_ARGS(3, 4, 1, "sine")));
    says("Unknown nonlinearity 'sine'. Select from 'tanh' or 'relu'.");
    FAILS(CR_TYPE, cr_module_new(&m, "GRU", CR_ARGS(3, 4, CR_NAMED(proj_size, 2))));
    EQ(m, NULL);
    m = layer("LSTM", CR_ARGS(3, 4));
    OK(call_many(m, 3, x, state, state, 3));
    OK(call_many(m, 1, x, NULL, state, 3));
    FAILS(CR_RUNTIME, call_many(m, 1, wide, NULL, NULL, 1));
    says("input.size(-1) must be equal to input_size. Expected 3, got 4");
    FAILS(CR_RUNTIME, call_many(m, 1, x, x, NULL, 2));
    says("Expected hidden[0] size (1, 1, 4), got [5, 1, 3]");
    FAILS(CR_TYPE, call_many(m, 3, NULL, NULL, NULL, 1));
    FAILS(CR_TYPE, cr_module_call(NULL, 4, m, &x, 1));
    cr_module_drop(m);
    m = layer("GRU", CR_ARGS(3, 4));
    FAILS(CR_TYPE, call_many(m, 3, x, NULL, NULL, 1));
    says("GRU.forward() takes 1 to 2 inputs and has 2 results, but 1 inputs were given and 3 "
         "results were asked for");
    cr_module_drop(m);
    cr_drop(wide);
    cr_drop(state);
    cr_drop(x);
}

TEST(attention_refuses_wrong_arguments_and_inputs)
{
    cr_module *m = NULL;
    cr_tensor *x = filled(1, 5, 8), *y = filled(1, 5, 4);

    FAILS(CR_ASSERTION, cr_module_new(&m, "MultiheadAttention", CR_ARGS(8, 3)));
    says("embed_dim must be divisible by num_heads");
    FAILS(CR_VALUE, cr_module_new(&m, "MultiheadAttention", CR_ARGS(0, 3)));
    FAILS(CR_RUNTIME, cr_module_new(&m, "TransformerEncoderLayer",
                                    CR_ARGS(8, 2, CR_NAMED(activation, "sine"))));
    says("activation should be relu/gelu, not sine");
    EQ(m, NULL);
    m = layer("MultiheadAttention", CR_ARGS(8, 2));
    OK(call_many(m, 2, x, x, x, 3));
    FAILS(CR_ASSERTION, call_many(m, 1, y, x, x, 3));
    says("was expecting embedding dimension of 8, but got 4");
    FAILS(CR_TYPE, call_many(m, 1, x, x, NULL, 3));
    FAILS(CR_TYPE, call_many(m, 1, x, x, NULL, 2));
    FAILS(CR_RUNTIME, call_many(m, 1, x, y, y, 3));
    cr_module_drop(m);
    m = layer("TransformerEncoderLayer", CR_ARGS(8, 2, 16)); /* (src, src_mask) */
    FAILS(CR_RUNTIME, call_many(m, 1, x, y, NULL, 2));
    says("The shape of the 2D attn_mask is torch.Size([5, 4]), but should be (5, 5).");
    cr_module_drop(m);
    m = layer("TransformerDecoderLayer", CR_ARGS(8, 2, 16));
    OK(call_many(m, 1, x, x, NULL, 2));
    FAILS(CR_TYPE, call_many(m, 1, x, NULL, NULL, 2));
    cr_module_drop(m);
    cr_drop(y);
    cr_drop(x);
}

/* --- copies, stacks and packed sequences --- */

static cr_tensor *whole_numbers(const int64_t *number, int64_t n)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_new(&t, CR_I64, CR_HOST, 1, &n));
    memcpy(t->address, number, (size_t)n * sizeof *number);
    return t;
}

TEST(a_copy_has_tensors_of_its_own_and_ties_those_that_were_tied)
{
    cr_module *net = small_net(), *copy = NULL;
    cr_tensor *weight = cr_module_tensor(net, "0.weight");

    OK(cr_module_set_parameter(net, "tied", weight));
    OK(cr_module_train(net, false));
    OK(cr_module_copy(&copy, net));
    cr_tensor *twin = cr_module_tensor(copy, "0.weight");
    CHECK(twin != weight && twin == cr_module_tensor(copy, "tied"));
    CHECK(twin->requires_grad && !cr_module_training(copy));
    CHECK(!memcmp(twin->address, weight->address, 6 * sizeof(float)));
    CHECK(cr_module_tensor(copy, "2.running_mean") != cr_module_tensor(net, "2.running_mean"));
    cr_module_drop(net);
    cr_module_drop(copy);
    copy = NULL;
    OK(cr_module_define(&net, "Mine", NULL, NULL));
    FAILS(CR_NOT_IMPLEMENTED, cr_module_copy(&copy, net));
    says("Module [Mine] of the program cannot be copied");
    EQ(copy, NULL);
    cr_module_drop(net);
}

TEST(stacks_refuse_other_kinds_and_no_layers)
{
    cr_module *one = layer("Linear", CR_ARGS(2, 2)), *m = NULL;
    cr_tensor *x = filled(1, 3, 8);

    FAILS(CR_ATTRIBUTE, cr_module_stack(&m, "Stack", one, 2, NULL));
    says("'Stack' is not a stack of layers");
    EQ(m, NULL);
    m = layer("TransformerEncoder", CR_ARGS(2));
    FAILS(CR_ATTRIBUTE, call_many(m, 1, x, NULL, NULL, 1));
    says("'TransformerEncoder' object has no layers: cr_module_stack makes it");
    cr_module_drop(m);
    m = layer("Transformer", CR_ARGS(8, 2, 1, 1, 16));
    cr_tensor *narrow = filled(1, 3, 4);
    FAILS(CR_RUNTIME, call_many(m, 1, x, narrow, NULL, 2));
    says("the feature number of src and tgt must be equal to d_model");
    OK(call_many(m, 1, x, x, NULL, 2));
    cr_module_drop(m);
    cr_module_drop(one);
    cr_drop(narrow);
    cr_drop(x);
}

TEST(packed_sequences_refuse_sizes_that_do_not_fit)
{
    cr_tensor *data = filled(0, 4, 2), *wrong[5], *y = NULL, *n = NULL;
    cr_module *gru = layer("GRU", CR_ARGS(2, 4));
    cr_packed q = {NULL, NULL, NULL, NULL};

    wrong[0] = whole_numbers((int64_t[]){5}, 1);
    wrong[1] = whole_numbers((int64_t[]){-1, 5}, 2);
    wrong[2] = whole_numbers((int64_t[]){1, 3}, 2);
    wrong[3] = whole_numbers((int64_t[]){2, 1}, 2);
    wrong[4] = whole_numbers((int64_t[]){4, 0}, 2);
    for (int i = 0; i < 5; i++) {
        cr_packed p = {data, wrong[i], NULL, NULL};
        FAILS(CR_RUNTIME, cr_pad_packed(&y, &n, &p, false, 0, -1));
        FAILS(CR_RUNTIME, cr_module_call_packed(&q, NULL, 0, gru, &p, NULL));
        CHECK(!y && !n && !q.data);
    }
    cr_packed none = {wrong[0], data, NULL, NULL};
    FAILS(CR_RUNTIME, cr_pad_packed(&y, &n, &none, false, 0, -1));
    says("pad_packed_sequence: data must have at least one dim and batch_sizes one, got 1 and "
         "2");
    for (int i = 0; i < 5; i++)
        cr_drop(wrong[i]);
    cr_module_drop(gru);
    cr_drop(data);
}

TEST(packed_sequences_refuse_wrong_lengths_and_other_layers)
{
    cr_tensor *x = filled(1, 3, 2), *up = whole_numbers((int64_t[]){1, 3}, 2), *y = NULL;
    cr_tensor *none = whole_numbers((int64_t[]){2, 0}, 2),
              *one = whole_numbers((int64_t[]){3}, 1);
    cr_packed p = {NULL, NULL, NULL, NULL}, q = p;
    cr_module *line = layer("Linear", CR_ARGS(2, 2)), *gru = layer("GRU", CR_ARGS(2, 4));

    FAILS(CR_RUNTIME, cr_pack_padded(&p, x, one, false, true));
    says("Expected `len(lengths)` to be equal to batch_size, but got 1 (batch_size=2)");
    FAILS(CR_RUNTIME, cr_pack_padded(&p, x, up, false, true));
    FAILS(CR_RUNTIME, cr_pack_padded(&p, x, none, false, true));
    says("Length of all samples has to be greater than 0, but found an element in 'lengths' "
         "that "
         "is <= 0");
    EQ(p.data, NULL);
    OK(cr_pack_padded(&p, x, up, false, false));
    CHECK(p.data->size[0] == 4 && p.sorted && p.unsorted);
    FAILS(CR_VALUE, cr_pad_packed(&y, NULL, &p, false, 0, 2));
    OK(cr_pad_packed(&y, NULL, &p, true, -1, 5));
    CHECK(y->ndim == 2 && y->size[0] == 2 && y->size[1] == 5);
    NEAR(((float *)(void *)y->address)[y->stride[1]], -1, 0);
    FAILS(CR_TYPE, cr_module_call_packed(&q, NULL, 0, line, &p, NULL));
    says("Linear.forward() does not take a PackedSequence");
    FAILS(CR_RUNTIME, cr_module_call_packed(&q, NULL, 0, gru, &p, NULL));
    FAILS(CR_TYPE, cr_module_call_packed(&q, NULL, 0, gru, &q, NULL));
    EQ(q.data, NULL);
    cr_packed_drop(&p);
    cr_module_drop(gru);
    cr_module_drop(line);
    cr_drop(one);
    cr_drop(none);
    cr_drop(up);
    cr_drop(y);
    cr_drop(x);
}
