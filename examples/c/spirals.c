/* Trains a network of two layers to tell three spirals apart.
 *
 *     cc spirals.c $(pkg-config --cflags --libs cresset) && ./a.out spirals.csv */
#include <cresset_easy.h>
#include <stdio.h>

static void train(const char *path)
{
    ct_manual_seed(0);
    cr_tensor *table = ct_read_text(path, CT(delimiter, ","));
    cr_tensor *points = ct_to_dtype(ct_slice(table, 1, 0, 2), CR_F32);
    cr_tensor *labels = ct_to_dtype(ct_select(table, 1, 2), CR_I64);
    cr_module *net = ct_Sequential(ct_Linear(2, 64), ct_ReLU(), ct_Linear(64, 3));
    ct_print(net);
    cr_loader *data =
        ct_loader(CT_TENSORS(points, labels), CT(batch_size, 32), CT(shuffle, true));
    cr_optim *optimizer =
        ct_SGD(ct_parameters(net), CT(lr, 0.1), CT(momentum, 0.9), CT(weight_decay, 1e-4));
    cr_tensor *x, *y;
    for (int epoch = 1; epoch <= 150; epoch++)
        ct_scope
        {
            ct_for_batches(data, &x, &y)
            {
                ct_zero_grad(optimizer);
                ct_backward(ct_cross_entropy_loss(ct_forward(net, x), y));
                ct_step(optimizer);
            }
            if (epoch % 15 == 0) {
                cr_tensor *loss = ct_cross_entropy_loss(ct_forward(net, points), labels);
                printf("epoch %3d  loss %.4f\n", epoch, ct_item(loss));
            }
        }
    cr_tensor *right = ct_eq(ct_argmax(ct_forward(net, points), 1), labels);
    printf("right: %.1f %%\n", ct_item(ct_mean(ct_to_dtype(right, CR_F32))) * 100);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        train(argv[1]);
    return argc != 2;
}
