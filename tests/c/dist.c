/* The calls of cresset_dist.h on the ranks of the environment, and their refusals.  Ends with
 * status 0 when all values are right. */
#include <cresset_dist.h>
#include <cresset_easy.h>
#include <stdio.h>
#include <string.h>

static int wrong;
#define MUST(what)                                                                             \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            wrong++;                                                                           \
            fprintf(stderr, "%d: %s (%s)\n", __LINE__, #what, cr_error_message());             \
        }                                                                                      \
    } while (0)

static void values(cr_world *d, int rank, int size)
{
    cr_tensor *t = ct_full(CT_LIST(3), rank + 1.0), *all = ct_zeros(size, 3);
    cr_tensor *own = ct_zeros(2), *many = ct_add(ct_zeros(size, 2), rank), *back;
    int sender = -1;

    MUST(!cr_world_barrier(d));
    MUST(!cr_world_all_gather(d, all, t));
    for (int r = 0; r < size; r++)
        MUST(ct_floats(all)[3 * r] == r + 1);
    MUST(!cr_world_reduce_scatter(d, own, many, "sum"));
    MUST(ct_floats(own)[0] == size * (size - 1) / 2.0);
    MUST(!cr_world_all_to_all(d, back = ct_zeros(size, 2), many));
    for (int r = 0; r < size; r++)
        MUST(ct_floats(back)[2 * r] == r);
    MUST(!cr_world_all_reduce(d, t, "max"));
    MUST(ct_floats(t)[2] == size);
    MUST(!cr_world_broadcast(d, many, size - 1));
    MUST(ct_floats(many)[0] == size - 1);
    if (size > 1 && rank == 0)
        MUST(!cr_world_send(d, t, 1));
    if (rank == 1)
        MUST(!cr_world_receive(d, own = ct_zeros(3), -1, &sender) && sender == 0);
}

static void refusals(cr_world *d, int size)
{
    cr_tensor *t = ct_ones(2, 3);

    MUST(cr_world_all_reduce(d, t, "median") == CR_VALUE);
    MUST(cr_world_all_reduce(d, NULL, "sum") == CR_TYPE);
    MUST(cr_world_all_reduce(d, t, NULL) == CR_TYPE);
    MUST(cr_world_all_reduce(d, ct_t(t), "sum") == CR_VALUE);
    MUST(cr_world_broadcast(d, t, size) == CR_VALUE);
    MUST(cr_world_all_gather(d, ct_zeros(size, 5), ct_ones(3)) == CR_VALUE || size == 5);
    MUST(cr_world_all_gather(d, ct_zeros(size, 3, CT(dtype, CR_F64)), ct_ones(3)) == CR_VALUE);
}

/* A forward copies rank 0's buffers, and leaves frozen parameters alone. */
static void frozen(cr_world *d, int rank)
{
    cr_module *net = ct_Linear(2, 2);
    cr_tensor *bias = cr_module_tensor(net, "bias"), *seen = ct_add(ct_zeros(1), rank),
              *y = NULL;
    cr_ddp *ddp = NULL;

    ct_check(cr_set_requires_grad(bias, false));
    ct_check(cr_module_set_buffer(net, "seen", seen, false));
    ct_check(cr_ddp_new(&ddp, d, net));
    MUST(ct_floats(seen)[0] == 0);
    *(float *)cr_tensor_data(bias) = (float)rank;
    *(float *)cr_tensor_data(seen) = (float)rank + 5;
    ct_check(cr_ddp_forward(&y, ddp, ct_ones(1, 2)));
    MUST(ct_floats(bias)[0] == rank);
    MUST(ct_floats(seen)[0] == 5);
    ct_owned(y);
    cr_ddp_drop(ddp);
}

int main(void)
{
    cr_world *d = NULL;
    cr_ddp *ddp = NULL;

    MUST(cr_world_open(&d, "gloom", "file:///tmp/none", 0, 1, 1000) == CR_COMM);
    MUST(cr_world_open(&d, NULL, "http://host:1", 0, 1, 1000) == CR_VALUE);
    MUST(cr_world_open(&d, NULL, "tcp://host", 0, 1, 1000) == CR_VALUE);
    MUST(cr_world_open(&d, NULL, "tcp://127.0.0.1:65536", 0, 1, 1000) == CR_VALUE);
    MUST(cr_world_open(&d, NULL, "tcp://127.0.0.1:4294967297", 0, 1, 1000) == CR_VALUE);
    MUST(!d);
    ct_check(cr_world_open(&d, NULL, "env://", -1, -1, 30000));
    MUST(cr_ddp_new(&ddp, d, ct_ReLU()) == CR_RUNTIME && !ddp);
    values(d, cr_world_rank(d), cr_world_size(d));
    refusals(d, cr_world_size(d));
    frozen(d, cr_world_rank(d));
    cr_world_close(d);
    return wrong != 0;
}
