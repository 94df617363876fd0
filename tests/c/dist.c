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

/* Whether the last error names call, rank and group, and has the words. */
static int says(cr_world *d, const char *call, const char *words)
{
    char start[80];

    snprintf(start, sizeof start, "%s of rank %d in group 'default': ", call, cr_world_rank(d));
    return strstr(cr_error_message(), start) == cr_error_message() &&
           strstr(cr_error_message(), words);
}

static void refusals(cr_world *d, int size)
{
    cr_tensor *t = ct_ones(2, 3), *wide = ct_zeros(size, 3, CT(dtype, CR_F64));

    MUST(cr_world_all_reduce(d, t, "median") == CR_VALUE &&
         says(d, "all_reduce", "unknown reduction 'median'"));
    MUST(cr_world_all_reduce(d, NULL, "sum") == CR_TYPE && says(d, "all_reduce", "not NULL"));
    MUST(cr_world_all_reduce(d, t, NULL) == CR_TYPE && says(d, "all_reduce", "'op'"));
    MUST(cr_world_all_reduce(d, ct_t(t), "sum") == CR_VALUE &&
         says(d, "all_reduce", "contiguous"));
    MUST(cr_world_all_reduce(d, t, "band") && says(d, "all_reduce", "ReduceOp.BAND"));
    MUST(cr_world_broadcast(d, t, size) == CR_VALUE &&
         says(d, "broadcast", "is not in a group"));
    MUST(cr_world_send(d, t, size) == CR_VALUE && says(d, "send", "is not in a group"));
    MUST(cr_world_send(d, t, cr_world_rank(d)) == CR_VALUE && says(d, "send", "itself"));
    MUST(cr_world_receive(d, NULL, 0, NULL) == CR_TYPE && says(d, "recv", "not NULL"));
    MUST(cr_world_all_gather(d, wide, ct_ones(3)) == CR_VALUE &&
         says(d, "all_gather", "different dtypes"));
    MUST(cr_world_all_gather(d, ct_zeros(size, 4), ct_ones(3)) == CR_VALUE &&
         says(d, "all_gather", "3 elements"));
    MUST(cr_world_reduce_scatter(d, t, NULL, "sum") == CR_TYPE &&
         says(d, "reduce_scatter", "not NULL"));
    MUST(cr_world_all_to_all(d, ct_zeros(size, 2), ct_ones(size + 1)) || size == 1);
    MUST(size == 1 || says(d, "all_to_all", "do not divide among"));
}

/* Ranks that call otherwise: all fail, and all errors name both calls. */
static void difference(cr_world *d, int rank)
{
    cr_status st = rank ? cr_world_barrier(d) : cr_world_all_reduce(d, ct_ones(2), "sum");

    MUST(st == CR_COMM || st == CR_VALUE);
    MUST(strstr(cr_error_message(), "in group 'default'") &&
         strstr(cr_error_message(), "barrier") && strstr(cr_error_message(), "all_reduce"));
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
    MUST(cr_world_open(&d, NULL, "tcp://127.0.0.1:0", 1, 1, 1000) == CR_VALUE);
    MUST(cr_world_open(&d, NULL, "tcp://no.such.host.invalid:1", 1, 2, 300) == CR_NETWORK);
    MUST(strstr(cr_error_message(), "open of rank 1 in group 'default': "));
    MUST(!d);
    ct_check(cr_world_open(&d, NULL, "env://", -1, -1, 30000));
    MUST(cr_ddp_new(&ddp, d, ct_ReLU()) == CR_RUNTIME && !ddp);
    values(d, cr_world_rank(d), cr_world_size(d));
    refusals(d, cr_world_size(d));
    frozen(d, cr_world_rank(d));
    if (cr_world_size(d) > 1)
        difference(d, cr_world_rank(d));
    cr_world_close(d);
    return wrong != 0;
}
