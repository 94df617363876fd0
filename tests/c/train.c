/* Trains a network in C with the installed header and library only.
 *
 * Two layers learn y = sin(3 a) b from 256 points.  The weights are written to a file and read
 * back.  Exits with 1 when a call fails or the loss stays high. */
#include <cresset.h>
#include <stdio.h>

enum { POINTS = 256, HIDDEN = 32, STEPS = 4000, WEIGHTS = 4, MEAN = 1 };

#define TRY(call)                                                                              \
    do {                                                                                       \
        if (call)                                                                              \
            return 1;                                                                          \
    } while (0)

typedef struct {
    cr_tensor *at[WEIGHTS]; /* weight and bias of the first layer, and of the second */
} network;

static const char *const names[WEIGHTS] = {"1.weight", "1.bias", "2.weight", "2.bias"};

/* Makes a tensor of uniform values between -bound and bound that requires a gradient. */
static int make_weight(cr_tensor **out, const int64_t *size, size_t ndim, double bound)
{
    TRY(cr_zeros(out, size, ndim, CR_F32));
    TRY(cr_uniform_(*out, -bound, bound, NULL));
    return cr_set_requires_grad(*out, true) != CR_OK;
}

static int make_network(network *n)
{
    const int64_t w1[] = {HIDDEN, 2}, b1[] = {HIDDEN}, w2[] = {1, HIDDEN}, b2[] = {1};

    TRY(make_weight(&n->at[0], w1, 2, 0.7));
    TRY(make_weight(&n->at[1], b1, 1, 0.7));
    TRY(make_weight(&n->at[2], w2, 2, 0.2));
    return make_weight(&n->at[3], b2, 1, 0.2);
}

static void drop_network(network *n)
{
    for (int i = 0; i < WEIGHTS; i++)
        cr_drop(n->at[i]);
}

static int apply(cr_tensor **out, const network *n, cr_tensor *x)
{
    cr_tensor *h = NULL, *a = NULL;
    int failed = cr_linear(&h, x, n->at[0], n->at[1]) || cr_tanh(&a, h) ||
                 cr_linear(out, a, n->at[2], n->at[3]);

    cr_drop(a);
    cr_drop(h);
    return failed;
}

/* Makes points in [-1, 1] x [-1, 1] and the targets. */
static int make_points(cr_tensor **x, cr_tensor **y)
{
    const int64_t size[] = {POINTS, 2};
    cr_tensor *a = NULL, *b = NULL, *wave = NULL, *column = NULL;
    int failed = cr_zeros(x, size, 2, CR_F32) || cr_uniform_(*x, -1, 1, NULL) ||
                 cr_select_int(&a, *x, 1, 0) || cr_select_int(&b, *x, 1, 1) ||
                 cr_mul_Scalar(&wave, a, cr_scalar_float(3)) || cr_sin_(wave) ||
                 cr_mul(&column, wave, b) || cr_unsqueeze(y, column, 1);

    cr_drop(column);
    cr_drop(wave);
    cr_drop(b);
    cr_drop(a);
    return failed;
}

/* p -= rate * p.grad; clears the gradient. */
static int descend(cr_tensor *p, double rate)
{
    bool before = cr_set_grad_enabled(false);
    int failed = cr_sub_(p, cr_tensor_grad(p), cr_scalar_float(rate)) || cr_set_grad(p, NULL);

    cr_set_grad_enabled(before);
    return failed;
}

static int step(network *n, cr_tensor *x, cr_tensor *y, double *loss_out)
{
    cr_tensor *guess = NULL, *loss = NULL;
    cr_backward_call back = {.roots = &loss, .root_count = 1};
    cr_scalar value = cr_scalar_int(0);
    int failed = apply(&guess, n, x) || cr_mse_loss(&loss, guess, y, MEAN) ||
                 cr_backward(&back, NULL) || cr_item(&value, loss);

    for (int i = 0; !failed && i < WEIGHTS; i++)
        failed = descend(n->at[i], 0.15);
    *loss_out = cr_scalar_as_double(value);
    cr_drop(loss);
    cr_drop(guess);
    return failed;
}

/* Writes the weights, reads them back and compares. */
static int keep(const network *n, const char *path)
{
    cr_safetensors *file = NULL;
    int wrong = 0;

    TRY(cr_safetensors_write(path, names, n->at, WEIGHTS, NULL));
    TRY(cr_safetensors_open(&file, path));
    for (int i = 0; i < WEIGHTS && !wrong; i++) {
        cr_tensor *again = NULL;
        bool same = false;
        wrong = cr_safetensors_tensor(&again, file, cr_safetensors_find(file, names[i])) ||
                cr_equal(&same, again, n->at[i]) || !same;
        cr_drop(again);
    }
    cr_safetensors_drop(file);
    return wrong;
}

/* Checks that a wrong call returns a status and a message and does not change *out. */
static int refuses(network *n)
{
    cr_tensor *out = NULL;
    int wrong = cr_add(&out, n->at[0], n->at[2], cr_scalar_int(1)) != CR_RUNTIME || out != NULL;

    printf("refused: %s\n", cr_error_message());
    return wrong;
}

static int train(const char *path)
{
    network n = {{NULL}};
    cr_tensor *x = NULL, *y = NULL;
    double first = 0, loss = 0;
    int failed;

    failed = cr_generator_seed(cr_generator_default(), 0) || make_points(&x, &y) ||
             make_network(&n) || step(&n, x, y, &first);
    for (int i = 1; !failed && i < STEPS; i++)
        failed = step(&n, x, y, &loss);
    printf("loss %.4f -> %.6f in %d steps\n", first, loss, STEPS);
    failed = failed || keep(&n, path) || refuses(&n) || !(loss < first / 20);
    cr_drop(y);
    cr_drop(x);
    drop_network(&n);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: train WEIGHTS.safetensors\n");
        return 2;
    }
    if (cr_init() || train(argv[1])) {
        fprintf(stderr, "train: %s\n", cr_error_message());
        return 1;
    }
    return 0;
}
