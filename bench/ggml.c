/* Models of bench/export_models.py by ggml, for bench/export.py --ggml PROGRAM.
 *
 *     cmake -S ggml -B build -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF \
 *         -DGGML_LLAMAFILE=ON && cmake --build build
 *     gcc -O2 -Iggml/include bench/ggml.c build/src/libggml.a build/src/libggml-cpu.a \
 *         build/src/libggml-base.a -lstdc++ -lm -lpthread -o ggml_bench
 *
 * ggml_bench MODEL computes with one thread.  Weights are random numbers of float32; batch
 * norms are a bias, as they are after folding.  For each number that it reads, it makes so many
 * calls and prints their processor times. */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct ggml_tensor tensor;
static struct ggml_context *ctx;

static uint32_t state = 1;

static float draw(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

static tensor *made(int64_t a, int64_t b, int64_t c, int64_t d, float scale)
{
    tensor *t = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, a, b, c, d);
    float *at = ggml_get_data_f32(t);

    for (int64_t i = 0; i < ggml_nelements(t); i++)
        at[i] = draw() * scale;
    return t;
}

static tensor *ids(int64_t n, int most)
{
    tensor *t = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);

    for (int64_t i = 0; i < n; i++)
        ((int32_t *)t->data)[i] = (int32_t)i % most;
    return t;
}

static tensor *linear(tensor *x, int64_t out)
{
    tensor *w = made(x->ne[0], out, 1, 1, 1 / sqrtf((float)x->ne[0]));

    return ggml_add(ctx, ggml_mul_mat(ctx, w, x), made(out, 1, 1, 1, 0.1f));
}

/* --- images --- */

static int direct; /* convolutions without a copied window */

static tensor *convolution(tensor *x, int64_t out, int size, int step, int pad)
{
    tensor *w = made(size, size, x->ne[2], out, 1 / sqrtf((float)(size * size * x->ne[2])));
    tensor *y = direct ? ggml_conv_2d_direct(ctx, w, x, step, step, pad, pad, 1, 1)
                       : ggml_conv_2d(ctx, w, x, step, step, pad, pad, 1, 1);

    return ggml_add(ctx, y, made(1, 1, out, 1, 0.1f));
}

static tensor *pool(tensor *x, int size, int step, int pad)
{
    return ggml_pool_2d(ctx, x, GGML_OP_POOL_MAX, size, size, step, step, (float)pad,
                        (float)pad);
}

static tensor *flat(tensor *x) { return ggml_reshape_1d(ctx, x, ggml_nelements(x)); }

static tensor *mnist(void)
{
    tensor *x = ggml_relu(ctx, convolution(made(28, 28, 1, 1, 1), 32, 3, 1, 0));

    x = pool(ggml_relu(ctx, convolution(x, 64, 3, 1, 0)), 2, 2, 0);
    x = linear(ggml_relu(ctx, linear(flat(x), 128)), 10);
    return ggml_log(ctx, ggml_soft_max(ctx, x));
}

static tensor *perceptron(void)
{
    return linear(ggml_relu(ctx, linear(made(784, 1, 1, 1, 1), 256)), 10);
}

static tensor *resnet_block(tensor *x, int64_t out)
{
    int step = x->ne[2] == out ? 1 : 2;
    tensor *y = ggml_relu(ctx, convolution(x, out, 3, step, 1));

    y = convolution(y, out, 3, 1, 1);
    return ggml_relu(ctx, ggml_add(ctx, y, step == 1 ? x : convolution(x, out, 1, step, 0)));
}

static tensor *resnet18(void)
{
    tensor *x = pool(ggml_relu(ctx, convolution(made(64, 64, 3, 1, 1), 64, 7, 2, 3)), 3, 2, 1);

    for (int k = 0; k < 8; k++)
        x = resnet_block(x, 64 << k / 2);
    x = ggml_pool_2d(ctx, x, GGML_OP_POOL_AVG, (int)x->ne[0], (int)x->ne[1], 1, 1, 0, 0);
    return linear(flat(x), 1000);
}

static tensor *twice(tensor *x, int64_t out)
{
    x = ggml_relu(ctx, convolution(x, out, 3, 1, 1));
    return ggml_relu(ctx, convolution(x, out, 3, 1, 1));
}

static tensor *unet(void)
{
    tensor *x = made(64, 64, 3, 1, 1), *kept[3];

    for (int k = 0; k < 3; k++) {
        kept[k] = twice(x, 16 << k);
        x = pool(kept[k], 2, 2, 0);
    }
    x = twice(x, 128);
    for (int k = 3; k-- > 0;) {
        int64_t n = 16 << k;
        tensor *w = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, 2, 2, n, 2 * n); /* its only type */
        memset(w->data, 0, ggml_nbytes(w));
        x = ggml_add(ctx, ggml_conv_transpose_2d_p0(ctx, w, x, 2), made(1, 1, n, 1, 0.1f));
        x = twice(ggml_concat(ctx, kept[k], x, 2), n);
    }
    return convolution(x, 2, 1, 1, 0);
}

/* --- words --- */

static tensor *norm(tensor *x)
{
    x = ggml_mul(ctx, ggml_norm(ctx, x, 1e-5f), made(x->ne[0], 1, 1, 1, 1));
    return ggml_add(ctx, x, made(x->ne[0], 1, 1, 1, 0.1f));
}

static tensor *heads_of(tensor *x, int heads)
{
    x = ggml_reshape_3d(ctx, x, x->ne[0] / heads, heads, x->ne[1]);
    return ggml_permute(ctx, x, 0, 2, 1, 3);
}

static tensor *mixed(tensor *x, int heads, int causal)
{
    int64_t width = x->ne[0], words = x->ne[1];
    tensor *q = heads_of(linear(x, width), heads), *k = heads_of(linear(x, width), heads);
    tensor *v = ggml_cont(ctx, ggml_transpose(ctx, heads_of(linear(x, width), heads)));
    tensor *a = ggml_mul_mat(ctx, ggml_cont(ctx, k), ggml_cont(ctx, q));

    a = ggml_scale(ctx, a, 1 / sqrtf((float)(width / heads)));
    a = ggml_soft_max(ctx, causal ? ggml_diag_mask_inf(ctx, a, 0) : a);
    x = ggml_permute(ctx, ggml_mul_mat(ctx, v, a), 0, 2, 1, 3);
    return linear(ggml_cont_2d(ctx, x, width, words), width);
}

static tensor *transformer(int width, int heads, int words, int vocabulary, int causal)
{
    tensor *x = ggml_get_rows(ctx, made(width, vocabulary, 1, 1, 1), ids(words, vocabulary));

    x = ggml_add(ctx, x, made(width, words, 1, 1, 1));
    for (int k = 0; k < 2; k++) {
        x = ggml_add(ctx, x, mixed(norm(x), heads, causal));
        x = ggml_add(ctx, x, linear(ggml_gelu_erf(ctx, linear(norm(x), 4 * width)), width));
    }
    return linear(norm(x), causal ? vocabulary : 2);
}

static tensor *bert(void) { return transformer(128, 2, 32, 3000, 0); }
static tensor *gpt(void) { return transformer(64, 4, 32, 65, 1); }

static const struct {
    const char *name;
    tensor *(*make)(void);
} models[] = {{"MNIST network", mnist},         {"perceptron 784-256-10", perceptron},
              {"ResNet-18, 64 x 64", resnet18}, {"U-Net, 64 x 64", unet},
              {"BERT-tiny, 32 words", bert},    {"GPT of 2 layers, 32 words", gpt}};

static double used(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Times of `n` calls, as JSON if `print` is set; their sum. */
static double calls(struct ggml_cgraph *g, struct ggml_cplan *plan, int n, int print)
{
    double sum = 0;

    for (int k = 0; k < n; k++) {
        double start = used(), took;
        if (ggml_graph_compute(g, plan))
            exit(3);
        took = used() - start;
        sum += took;
        if (print)
            printf("%s%.9f", k ? ", " : "[", took);
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct ggml_cgraph *graph[2];
    struct ggml_cplan plan[2];
    tensor *(*make)(void) = NULL;
    double took[2];
    int n;

    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        if (argc > 1 && !strcmp(argv[1], models[k].name))
            make = models[k].make;
    if (!make) {
        fprintf(stderr, "no such model\n");
        return 2;
    }
    ggml_cpu_init();
    ctx = ggml_init((struct ggml_init_params){.mem_size = (size_t)1 << 30});
    for (direct = 0; direct < 2; direct++) {
        graph[direct] = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph[direct], make());
        plan[direct] = ggml_graph_plan(graph[direct], 1, NULL);
        plan[direct].work_data = malloc(plan[direct].work_size + 1);
        calls(graph[direct], &plan[direct], 3, 0);
        took[direct] = calls(graph[direct], &plan[direct], 10, 0);
    }
    n = took[1] < took[0]; /* the faster kind of convolution */
    printf("%s\n", n ? "direct" : "im2col");
    fflush(stdout);
    for (int k; scanf("%d", &k) == 1;) {
        calls(graph[n], &plan[n], k, 1);
        printf("]\n");
        fflush(stdout);
    }
    return 0;
}
