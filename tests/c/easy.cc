// The easy layer from C++11: the same macros, arguments by overloading.
#include <cresset_easy.h>
#include <stdio.h>

static void count(const ct_error *e, void *context)
{
    printf("refused: %s: %s\n", e->kind_name, e->message);
    ++*static_cast<int *>(context);
}

static double fit()
{
    double last = 0;

    ct_manual_seed(0);
    cr_tensor *x = ct_randn(64, 2);
    cr_tensor *y = ct_sum(ct_mul(x, ct_tensor(CT_FLOATS(2, -1))), 1, true);
    cr_module *net = ct_Sequential(ct_Linear(2, 16), ct_Tanh(), ct_Linear(16, 1));
    cr_loader *data = ct_loader(CT_TENSORS(x, y), CT(batch_size, 16), CT(shuffle, true));
    cr_optim *optimizer = ct_Adam(ct_parameters(net), CT(lr, 0.01));
    cr_tensor *a, *b;
    for (int epoch = 0; epoch < 100; epoch++)
        ct_for_batches(data, &a, &b) {
            ct_zero_grad(optimizer);
            cr_tensor *loss = ct_mse_loss(ct_forward(net, a), b);
            ct_backward(loss);
            ct_step(optimizer);
            last = ct_item(loss);
        }
    return last;
}

// Random numbers are drawn in the order written: 0 if so.
static double disorder()
{
    ct_manual_seed(3);
    cr_tensor *first = ct_randn(4), *second = ct_randn(4);
    cr_module *one = ct_Linear(2, 3), *two = ct_Linear(3, 1);
    ct_manual_seed(3);
    cr_tensor *apart = ct_sub(ct_sub(ct_randn(4), ct_randn(4)), ct_sub(first, second));
    cr_module *both = ct_Sequential(ct_Linear(2, 3), ct_Linear(3, 1));
    cr_tensor *x = ct_ones(1, 2);
    cr_tensor *outs = ct_sub(ct_forward(both, x), ct_forward(two, ct_forward(one, x)));
    return ct_item(ct_add(ct_sum(ct_abs(apart)), ct_sum(ct_abs(outs))));
}

int main()
{
    int errors = 0;
    double loss = 1, wrong = 1;

    ct_scope {
        loss = fit();
        wrong = disorder();
    }
    printf("loss %.4f\n", loss);
    ct_set_handler(count, &errors);
    ct_scope {
        cr_tensor *where = nullptr, *values = ct_topk(ct_arange(5), 2, &where);
        errors += !(ct_item(ct_select(values, 0, 0)) == 4 && ct_size(where, 0) == 2);
        ct_reshape(values, CT_LIST(3, 3));
    }
    return !(loss < 0.05 && wrong < 1e-6 && errors == 1);
}
