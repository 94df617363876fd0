/* Trains a network on several processes, each with its part of the data.
 *
 *     cc ddp.c $(pkg-config --cflags --libs cresset) -o ddp
 *     torchrun --no-python --nproc-per-node 2 ./ddp */
#include <cresset_dist.h>
#include <cresset_easy.h>
#include <stdio.h>

static void train(cr_world *world)
{
    int rank = cr_world_rank(world), size = cr_world_size(world);
    cr_ddp *ddp = NULL;

    ct_manual_seed((uint64_t)rank); /* rank 0's weights count */
    cr_module *net = ct_Sequential(ct_Linear(4, 16), ct_Tanh(), ct_Linear(16, 1));
    ct_check(cr_ddp_new(&ddp, world, net));
    cr_optim *optimizer = ct_SGD(ct_parameters(net), CT(lr, 0.1), CT(momentum, 0.9));
    cr_tensor *x = ct_view(ct_div(ct_arange(256), 256), CT_LIST(64, 4));
    cr_tensor *y = ct_sum(ct_sin(ct_mul(x, 6)), CT_LIST(1), true);
    x = ct_slice(x, 0, rank, CT(step, size)); /* every size-th row */
    y = ct_slice(y, 0, rank, CT(step, size));
    for (int step = 1; step <= 100; step++)
        ct_scope
        {
            cr_tensor *out = NULL;
            ct_zero_grad(optimizer);
            ct_check(cr_ddp_forward(&out, ddp, x));
            cr_tensor *loss = ct_mse_loss(ct_owned(out), y);
            ct_backward(loss);
            ct_step(optimizer);
            cr_tensor *mean = ct_clone(ct_detach(loss));
            ct_check(cr_world_all_reduce(world, mean, "avg"));
            if (rank == 0 && step % 20 == 0)
                printf("step %3d  loss %.4f\n", step, ct_item(mean));
        }
    cr_ddp_drop(ddp);
}

int main(void)
{
    cr_world *world = NULL;

    ct_check(cr_world_open(&world, NULL, "env://", -1, -1, 60000));
    if (cr_world_rank(world) == 0)
        printf("%d ranks\n", cr_world_size(world));
    train(world);
    cr_world_close(world);
    return 0;
}
