/* Trains an LSTM to say which of eight numbers it saw first.
 *
 *     cc memory.c $(pkg-config --cflags --libs cresset) && ./a.out */
#include <cresset_easy.h>
#include <stdio.h>

enum { LENGTH = 8, KINDS = 5 };

/* The logits after the last step. */
static cr_tensor *answer(cr_module *net, cr_tensor *numbers)
{
    cr_tensor *last[2]; /* the outputs of all steps, and the last one */

    ct_forward_many(cr_module_at(net, "memory"), CT_TENSORS(ct_call(net, "numbers", numbers)),
                    last, 2);
    return ct_call(net, "answer", ct_select(last[1], 0, 0));
}

int main(void)
{
    ct_manual_seed(0);
    cr_module *net = ct_Module("Memory");
    ct_add_module(net, "numbers", ct_Embedding(KINDS, 16));
    ct_add_module(net, "memory", ct_LSTM(16, 32, CT(batch_first, true)));
    ct_add_module(net, "answer", ct_Linear(32, KINDS));
    ct_print(net);
    cr_optim *optimizer = ct_Adam(ct_parameters(net), CT(lr, 0.01));
    for (int step = 1; step <= 200; step++)
        ct_scope
        {
            cr_tensor *numbers = ct_randint(0, KINDS, CT_LIST(64, LENGTH));
            cr_tensor *loss =
                ct_cross_entropy_loss(answer(net, numbers), ct_select(numbers, 1, 0));
            ct_zero_grad(optimizer);
            ct_backward(loss);
            ct_step(optimizer);
            if (step % 20 == 0)
                printf("step %3d  loss %.4f\n", step, ct_item(loss));
        }
    cr_tensor *numbers = ct_randint(0, KINDS, CT_LIST(1000, LENGTH));
    cr_tensor *right = ct_eq(ct_argmax(answer(net, numbers), 1), ct_select(numbers, 1, 0));
    printf("right: %.1f %%\n", ct_item(ct_mean(ct_to_dtype(right, CR_F32))) * 100);
    return 0;
}
