/* Classifies handwritten digits with the network that examples/digits.py trained.
 *
 *     cc digits.c $(pkg-config --cflags --libs cresset)
 *     ./a.out out/digits.safetensors digits.csv.gz
 *
 * The digits are scikit-learn's (sklearn/datasets/data/digits.csv.gz): 64 pixels and the
 * label. */
#include <cresset_easy.h>
#include <stdio.h>

static cr_module *digits_net(void)
{
    cr_module *net = ct_Module("DigitsNet");
    ct_add_module(net, "conv1", ct_Conv2d(1, 16, CT(kernel_size, 3), CT(padding, 1)));
    ct_add_module(net, "conv2", ct_Conv2d(16, 32, CT(kernel_size, 3), CT(padding, 1)));
    ct_add_module(net, "drop1", ct_Dropout(0.25));
    ct_add_module(net, "fc1", ct_Linear(32 * 4 * 4, 64));
    ct_add_module(net, "drop2", ct_Dropout(0.5));
    ct_add_module(net, "fc2", ct_Linear(64, 10));
    return net;
}

static cr_tensor *forward(cr_module *net, cr_tensor *x)
{
    x = ct_relu(ct_call(net, "conv1", x));
    x = ct_max_pool2d(ct_relu(ct_call(net, "conv2", x)), 2);
    x = ct_call(net, "drop1", ct_flatten(x, 1));
    x = ct_call(net, "drop2", ct_relu(ct_call(net, "fc1", x)));
    return ct_log_softmax(ct_call(net, "fc2", x), 1);
}

/* The test set, a fifth of the data: images [n, 1, 8, 8] in 0..1; labels [n]. */
static cr_tensor *held_back(const char *path, cr_tensor **labels)
{
    cr_tensor *table = ct_read_text(path, CT(delimiter, ","));
    cr_tensor *order = ct_randperm(ct_size(table, 0), CT(generator, ct_generator(1)));
    table = ct_index_select(table, 0, ct_slice(order, 0, 0, ct_size(table, 0) / 5));
    *labels = ct_to_dtype(ct_select(table, 1, 64), CR_I64);
    return ct_div(ct_reshape(ct_to_dtype(ct_slice(table, 1, 0, 64), CR_F32), -1, 1, 8, 8), 16);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    cr_module *net = digits_net();
    ct_load(net, argv[1]);
    ct_eval(net);
    ct_print(net);
    cr_tensor *labels, *images = held_back(argv[2], &labels), *read = NULL;
    ct_no_grad { read = ct_keep(ct_argmax(forward(net, images), 1)); }
    cr_tensor *right = ct_eq(read, labels), *wrong = ct_nonzero(ct_logical_not(right));
    printf("misread: [");
    for (int64_t i = 0; i < ct_size(wrong, 0); i++)
        printf("%s%d", i ? ", " : "", (int)ct_ints(wrong)[i]);
    printf("]\nheld-back accuracy: %.1f %%\n",
           ct_item(ct_mean(ct_to_dtype(right, CR_F32))) * 100);
    return 0;
}
