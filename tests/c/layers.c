/* Runs every layer, optimizer and order of samples in C, for test_c.py to compare with Python.
 *
 *     layers OUT.safetensors
 *
 * A case seeds the generator, makes a layer, calls it on random numbers and differentiates.
 * Its weights, result and gradients are written to the file. */
#include <cresset_easy.h>
#include <stdio.h>
#include <string.h>

static cr_state *all;

static void put(const char *name, const char *part, cr_tensor *t)
{
    char key[128];

    snprintf(key, sizeof key, "%s/%s", name, part);
    if (t)
        ct_check(cr_state_set(all, key, ct_contiguous(ct_detach(t))));
}

static void put_state(const char *name, const char *what, cr_module *m)
{
    cr_state *s = NULL;
    char part[96];

    ct_check(cr_module_state(&s, m));
    for (size_t i = 0; i < cr_state_count(s); i++) {
        snprintf(part, sizeof part, "%s.%s", what, cr_state_name(s, i));
        put(name, part, ct_clone(cr_state_tensor(s, i)));
    }
    cr_state_drop(s);
}

static void try_layer(const char *name, cr_module *m, cr_tensor *x)
{
    cr_tensors params = ct_parameters(m);
    char part[32];

    put_state(name, "before", m);
    cr_tensor *y = ct_forward(m, x);
    put(name, "out", y);
    if (params.len)
        ct_backward(ct_sum(ct_mul(y, y)));
    for (size_t i = 0; i < params.len; i++) {
        snprintf(part, sizeof part, "grad.%zu", i);
        put(name, part, ct_grad(params.at[i]));
    }
    put_state(name, "after", m);
    ct_eval(m);
    put(name, "eval", ct_forward(m, x));
}

/* Draws the layer's weights before the input. */
#define LAYER(name, make, input)                                                               \
    ct_scope                                                                                   \
    {                                                                                          \
        ct_manual_seed(sizeof name);                                                           \
        cr_module *m = make;                                                                   \
        try_layer(name, m, input);                                                             \
    }

static void layers(void)
{
    LAYER("linear", ct_Linear(5, 3), ct_randn(4, 5));
    LAYER("linear-plain", ct_Linear(5, 3, CT(bias, false)), ct_randn(2, 4, 5));
    LAYER("linear-double", ct_Linear(5, 3, CT(dtype, CR_F64)),
          ct_randn(4, 5, CT(dtype, CR_F64)));
    LAYER("conv1d", ct_Conv1d(4, 6, 3, CT(padding, 1), CT(groups, 2)), ct_randn(2, 4, 9));
    LAYER("conv2d", ct_Conv2d(3, 5, 3, CT(stride, 2), CT(padding, 1)), ct_randn(2, 3, 8, 7));
    LAYER("conv2d-oblong",
          ct_Conv2d(3, 5, CT_LIST(3, 2), CT(dilation, CT_LIST(1, 2)), CT(bias, false)),
          ct_randn(2, 3, 8, 7));
    LAYER("conv3d", ct_Conv3d(2, 3, 2), ct_randn(2, 2, 4, 5, 6));
    LAYER("up1d", ct_ConvTranspose1d(4, 6, 3, CT(stride, 2), CT(groups, 2)), ct_randn(2, 4, 9));
    LAYER("up2d",
          ct_ConvTranspose2d(3, 5, CT_LIST(3, 2), 2, CT(output_padding, 1), CT(bias, false)),
          ct_randn(2, 3, 4, 5));
    LAYER("up3d", ct_ConvTranspose3d(2, 3, 2, CT(dilation, 2), CT(padding, 1)),
          ct_randn(2, 2, 4, 5, 6));
    LAYER("batch1", ct_BatchNorm1d(4), ct_randn(5, 4));
    LAYER("batch1-long", ct_BatchNorm1d(4, CT(momentum, CT_NONE)), ct_randn(5, 4, 3));
    LAYER("batch2", ct_BatchNorm2d(3, CT(eps, 1e-3), CT(momentum, 0.3)), ct_randn(2, 3, 4, 5));
    LAYER("batch2-plain", ct_BatchNorm2d(3, CT(affine, false), CT(track_running_stats, false)),
          ct_randn(2, 3, 4, 5));
    LAYER("batch3", ct_BatchNorm3d(2), ct_randn(2, 2, 3, 4, 5));
    LAYER("layer", ct_LayerNorm(5), ct_randn(4, 5));
    LAYER("layer-two", ct_LayerNorm(CT_LIST(4, 5), CT(bias, false)), ct_randn(3, 4, 5));
    LAYER("rms", ct_RMSNorm(5), ct_randn(4, 5));
    LAYER("group", ct_GroupNorm(2, 6), ct_randn(2, 6, 5));
    LAYER("embedding", ct_Embedding(7, 4, CT(padding_idx, -2)),
          ct_randint(0, 7, CT_LIST(3, 5)));
    LAYER("dropout", ct_Dropout(0.3), ct_randn(8, 9));
    LAYER("flatten", ct_Flatten(), ct_randn(2, 3, 4));
    LAYER("maxpool1", ct_MaxPool1d(3, CT(stride, 2)), ct_randn(2, 3, 9));
    LAYER("maxpool2", ct_MaxPool2d(2), ct_randn(2, 3, 8, 7));
    LAYER("avgpool1", ct_AvgPool1d(2), ct_randn(2, 3, 9));
    LAYER("avgpool2", ct_AvgPool2d(CT_LIST(2, 3), CT(padding, CT_LIST(1, 0))),
          ct_randn(2, 3, 8, 7));
    LAYER("adaptive", ct_AdaptiveAvgPool2d(CT_LIST(2, 1)), ct_randn(2, 3, 8, 7));
    LAYER("sequential",
          ct_Sequential(ct_Linear(4, 8), ct_BatchNorm1d(8), ct_ReLU(), CT_LAYER("Dropout"),
                        ct_Linear(8, 2)),
          ct_randn(6, 4));
}

static const char *const plain[] = {"ReLU",      "ReLU6",       "LeakyReLU", "ELU",
                                    "SELU",      "GELU",        "SiLU",      "Mish",
                                    "Hardswish", "Hardsigmoid", "Sigmoid",   "LogSigmoid",
                                    "Tanh",      "Softplus",    "Softsign",  "Identity"};

static void activations(void)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        LAYER("activation", CT_LAYER(plain[i]),
              (put(plain[i], "out", ct_forward(m, ct_randn(3, 40))), ct_zeros(1)));
    LAYER("softmax", ct_Softmax(1), ct_randn(4, 5));
    LAYER("logsoftmax", ct_LogSoftmax(CT(dim, -1)), ct_randn(4, 5));
    LAYER("gelu-tanh", ct_module("GELU", CT(approximate, "tanh")), ct_randn(4, 5));
}

static void optimize(const char *name, cr_module *net, cr_optim *o)
{
    char part[32];

    for (int step = 0; step < 4; step++) {
        cr_tensor *x = ct_randn(6, 4);
        ct_zero_grad(o);
        ct_backward(ct_mean(ct_pow(ct_forward(net, x), 2)));
        if (step == 3)
            ct_set_lr(o, 0.05);
        ct_step(o);
    }
    cr_tensors params = ct_parameters(net);
    for (size_t i = 0; i < params.len; i++) {
        snprintf(part, sizeof part, "%zu", i);
        put(name, part, params.at[i]);
    }
}

#define OPTIMIZER(name, make)                                                                  \
    ct_scope                                                                                   \
    {                                                                                          \
        ct_manual_seed(3);                                                                     \
        cr_module *net = ct_Sequential(ct_Linear(4, 8), ct_Tanh(), ct_Linear(8, 2));           \
        cr_tensors p = ct_parameters(net);                                                     \
        optimize(name, net, make);                                                             \
    }

static void optimizers(void)
{
    OPTIMIZER("sgd", ct_SGD(p, CT(lr, 0.1)));
    OPTIMIZER("sgd-momentum",
              ct_SGD(p, CT(lr, 0.1), CT(momentum, 0.9), CT(weight_decay, 0.01)));
    OPTIMIZER("sgd-dampening", ct_SGD(p, 0.1, 0.9, 0.5, CT(maximize, true)));
    OPTIMIZER("sgd-nesterov", ct_SGD(p, CT(lr, 0.1), CT(momentum, 0.9), CT(nesterov, true)));
    OPTIMIZER("adam", ct_Adam(p, CT(lr, 0.01)));
    OPTIMIZER("adam-all", ct_Adam(p, 0.01, CT_FLOATS(0.8, 0.99), 1e-6, 0.1, CT(amsgrad, true)));
    OPTIMIZER("adamw", ct_AdamW(p, CT(lr, 0.01)));
    OPTIMIZER("adagrad", ct_Adagrad(p, CT(lr, 0.1), CT(lr_decay, 0.1), CT(weight_decay, 0.01)));
    OPTIMIZER("adagrad-start", ct_Adagrad(p, CT(initial_accumulator_value, 0.5)));
    OPTIMIZER("rmsprop", ct_RMSprop(p, CT(lr, 0.01)));
    OPTIMIZER("rmsprop-all", ct_RMSprop(p, 0.01, 0.9, CT(momentum, 0.8), CT(centered, true)));
}

/* Rates of a schedule over 12 epochs. */
#define SCHEDULE(...)                                                                          \
    ct_scope                                                                                   \
    {                                                                                          \
        cr_tensor *w = ct_ones(2);                                                             \
        cr_optim *o = ct_SGD(CT_TENSORS(w), CT(lr, 0.7));                                      \
        cr_schedule *s = ct_schedule(__VA_ARGS__);                                             \
        char part[32];                                                                         \
        for (int i = 0; i < 12; i++) {                                                         \
            snprintf(part, sizeof part, "%d.%d", schedule, i);                                 \
            put("rates", part, ct_mul(ct_ones(1, CT(dtype, CR_F64)), cr_optim_lr(o)));         \
            ct_schedule_step(s);                                                               \
        }                                                                                      \
        schedule++;                                                                            \
    }

static void schedules(void)
{
    int schedule = 0;

    SCHEDULE("StepLR", o, 3, CT(gamma, 0.5));
    SCHEDULE("MultiStepLR", o, CT_LIST(2, 5, 5), 0.3);
    SCHEDULE("ConstantLR", o, CT(factor, 0.4), CT(total_iters, 3));
    SCHEDULE("LinearLR", o, CT(start_factor, 0.25), CT(total_iters, 4));
    SCHEDULE("ExponentialLR", o, 0.9);
    SCHEDULE("PolynomialLR", o, 7, 2.0);
    SCHEDULE("CosineAnnealingLR", o, 4, CT(eta_min, 0.1));
}

static void train_a_step(cr_module *net, cr_optim *o)
{
    ct_zero_grad(o);
    ct_backward(ct_mean(ct_pow(ct_forward(net, ct_randn(6, 4)), 2)));
    put("clip", "norm",
        ct_mul(ct_ones(1, CT(dtype, CR_F64)), ct_clip_grad_norm_(ct_parameters(net), 0.01)));
    ct_step(o);
}

/* Two steps with clipped gradients, a step after the state went through a file. */
static void states(const char *path)
{
    char file[512];

    snprintf(file, sizeof file, "%s.optim", path);
    ct_scope
    {
        ct_manual_seed(3);
        cr_module *net = ct_Sequential(ct_Linear(4, 8), ct_Tanh(), ct_Linear(8, 2));
        cr_optim *o = ct_Adam(ct_parameters(net), CT(lr, 0.01));
        train_a_step(net, o);
        train_a_step(net, o);
        ct_save_optim(o, file);
        cr_optim *again = ct_Adam(ct_parameters(net), CT(lr, 5.0));
        ct_load_optim(again, file);
        train_a_step(net, again);
        put_state("resumed", "net", net);
        ct_to_device(net, "cpu");
        put_state("moved", "net", net);
    }
}

static void samples(void)
{
    ct_scope
    {
        ct_manual_seed(11);
        cr_tensor *x = ct_arange(23), *batch;
        cr_loader *data = ct_loader(CT_TENSORS(x), CT(batch_size, 5), CT(shuffle, true));
        cr_loader *own = ct_loader(CT_TENSORS(x), 4, true, CT(drop_last, true),
                                   CT(generator, ct_generator(7)));
        cr_loader *plain_order = ct_loader(CT_TENSORS(x), CT(batch_size, 10));
        char part[32];
        for (int epoch = 0, n = 0; epoch < 2; epoch++) {
            cr_loader *loaders[] = {data, own, plain_order};
            for (int i = 0; i < 3; i++)
                ct_for_batches(loaders[i], &batch)
                {
                    snprintf(part, sizeof part, "%d", n++);
                    put("samples", part, batch);
                }
        }
        put("samples", "next", ct_randn(3));
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    ct_check(cr_init());
    ct_check(cr_state_new(&all));
    layers();
    activations();
    optimizers();
    samples();
    schedules();
    states(argv[1]);
    ct_check(cr_state_write(all, argv[1]));
    printf("%zu tensors\n", cr_state_count(all));
    cr_state_drop(all);
    return 0;
}
