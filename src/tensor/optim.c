/* Optimizer steps over lists of parameters: each parameter is one kernel call in place. */
#include "tensor/internal.h"
#include "tensor/optim.h"
#include <math.h>

static cr_status check_lists(const char *name, const cr_value *arg, int lists)
{
    for (int i = 1; i < lists; i++)
        if (arg[i].tag == CR_TENSORS && arg[i].len && arg[i].len != arg[0].len)
            return cr_fail(CR_RUNTIME, "%s: lists of %u and %u tensors", name, arg[0].len,
                           arg[i].len);
    return CR_OK;
}

static cr_tensor *item(const cr_value *list, uint32_t i) { return list->list[i].t; }

/* Runs a body whose first `written` tensors are also its results, in place. */
static cr_status step_in_place(const cr_op *op, const cr_value *arg, int written,
                               const int *result_param)
{
    cr_tensor *out[CR_MAX_RESULTS];

    for (int k = 0; k < written; k++) {
        out[k] = arg[result_param[k]].t;
        if (out[k]->inference && !cr_thread.inference)
            return cr_fail(CR_RUNTIME, "Inplace update to inference tensor outside InferenceMode "
                                       "is not allowed.");
    }
    CR_TRY(cr_run_body_into(op, arg, out));
    for (int k = 0; k < written; k++)
        out[k]->storage->version++;
    return CR_OK;
}

cr_status cr_fused_sgd(const cr_value *arg, cr_value *result)
{
    static const int plain[] = {0}, with_buffer[] = {0, 2};
    double decay = arg[3].d, momentum = arg[4].d, lr = arg[5].d;
    double damping = 1 - arg[6].d;
    const cr_op *op = cr_ops_find(momentum != 0 ? "_sgd_momentum_step" : "_sgd_step");

    (void)result;
    CR_TRY(check_lists("_fused_sgd_", arg, momentum != 0 ? 3 : 2));
    for (uint32_t i = 0; i < arg[0].len; i++) {
        cr_value p = cr_of_tensor(item(&arg[0], i)), g = cr_of_tensor(item(&arg[1], i));
        if (momentum == 0) {
            cr_value a[] = {p, g, cr_of_float(lr), cr_of_float(decay), arg[8]};
            CR_TRY(step_in_place(op, a, 1, plain));
            continue;
        }
        cr_value a[] = {p, g, cr_of_tensor(item(&arg[2], i)), cr_of_float(lr), cr_of_float(decay),
                        cr_of_float(momentum), cr_of_float(damping), arg[7], arg[8], arg[9]};
        CR_TRY(step_in_place(op, a, 2, with_buffer));
    }
    return CR_OK;
}

static cr_status adam_one(const cr_value *arg, uint32_t i, double step, bool decoupled)
{
    static const int plain[] = {0, 2, 3}, with_max[] = {0, 2, 3, 4};
    double lr = arg[6].d, beta1 = arg[7].d, beta2 = arg[8].d, decay = arg[9].d;
    bool amsgrad = arg[11].i;
    cr_value a[15];
    int n = 0;

    for (int list = 0; list < (amsgrad ? 5 : 4); list++)
        a[n++] = cr_of_tensor(item(&arg[list], i));
    a[n++] = cr_of_float(decoupled ? 1 - lr * decay : 1);
    a[n++] = cr_of_float(decoupled ? 0 : decay);
    a[n++] = cr_of_float(beta1);
    a[n++] = cr_of_float(1 - beta1);
    a[n++] = cr_of_float(beta2);
    a[n++] = cr_of_float(1 - beta2);
    a[n++] = cr_of_float(lr / (1 - pow(beta1, step)));
    a[n++] = cr_of_float(sqrt(1 - pow(beta2, step)));
    a[n++] = arg[10];
    a[n++] = arg[12];
    const cr_op *op = cr_ops_find(amsgrad ? "_amsgrad_step" : "_adam_step");
    return step_in_place(op, a, amsgrad ? 4 : 3, amsgrad ? with_max : plain);
}

static cr_status adam(const char *name, const cr_value *arg, bool decoupled)
{
    CR_TRY(check_lists(name, arg, 6));
    for (uint32_t i = 0; i < arg[0].len; i++) {
        cr_scalar step;
        CR_TRY(cr_tensor_item(&step, item(&arg[5], i)));
        CR_TRY(adam_one(arg, i, cr_scalar_as_double(step), decoupled));
    }
    return CR_OK;
}

cr_status cr_fused_adam(const cr_value *arg, cr_value *result)
{
    (void)result;
    return adam("_fused_adam_", arg, false);
}

cr_status cr_fused_adamw(const cr_value *arg, cr_value *result)
{
    (void)result;
    return adam("_fused_adamw_", arg, true);
}
