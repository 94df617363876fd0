/* Trains a classifier that models.py scripted, saves it, loads the file and classifies points.
 *
 *     cc classifier.c $(pkg-config --cflags --libs cresset)
 *     ./a.out classifier.pt spirals.csv trained.pt */
#include <cresset_easy.h>
#include <cresset_script.h>
#include <stdio.h>

static double right(cr_module *net, cr_tensor *points, cr_tensor *labels)
{
    double share = 0;
    ct_eval(net);
    ct_no_grad
    {
        cr_tensor *same = ct_eq(ct_argmax(ct_forward(net, points), 1), labels);
        share = ct_item(ct_mean(ct_to_dtype(same, CR_F32))) * 100;
    }
    ct_train(net);
    return share;
}

static void train(const char *program, const char *path, const char *saved)
{
    ct_manual_seed(0);
    cr_tensor *x, *y, *table = ct_read_text(path, CT(delimiter, ","));
    cr_tensor *points = ct_to_dtype(ct_slice(table, 1, 0, 2), CR_F32);
    cr_tensor *labels = ct_to_dtype(ct_select(table, 1, 2), CR_I64);
    cr_module *net = ct_script(program);
    printf("before: %.1f %%\n", right(net, points, labels));
    cr_loader *data =
        ct_loader(CT_TENSORS(points, labels), CT(batch_size, 32), CT(shuffle, true));
    cr_optim *optimizer = ct_SGD(ct_parameters(net), CT(lr, 0.1), CT(momentum, 0.9));
    for (int epoch = 0; epoch < 40; epoch++)
        ct_for_batches(data, &x, &y)
        {
            ct_zero_grad(optimizer);
            ct_backward(ct_cross_entropy_loss(ct_forward(net, x), y));
            ct_step(optimizer);
        }
    printf("after: %.1f %%\n", right(net, points, labels));
    ct_eval(net);
    ct_save_script(net, saved);
}

static void ask(cr_script *net, double x, double y)
{
    cr_ivalue at[] = {cr_iv_float(x), cr_iv_float(y)}, name = cr_iv_none();

    ct_check(cr_script_call(&name, net, "name", at, 2));
    printf("(%.1f, %.1f): %s\n", x, y, cr_ivalue_string(&name, NULL));
    cr_ivalue_free(name);
}

int main(int argc, char **argv)
{
    cr_script *net = NULL;
    if (argc != 4)
        return 2;
    train(argv[1], argv[2], argv[3]);
    ct_check(cr_script_load(&net, argv[3]));
    ask(net, 0.6, 0.7);
    ask(net, -0.5, 0.1);
    ask(net, 3, 3);
    cr_script_drop(net);
    return 0;
}
