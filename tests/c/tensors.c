/* Prints tensors, for test_c.py. */
#include <cresset_easy.h>

int main(void)
{
    cr_tensor *w;

    ct_check(cr_init());
    ct_scope
    {
        ct_manual_seed(0);
        ct_print_tensor(ct_ones(2, 3));
        ct_print_tensor(ct_arange(5));
        ct_print_tensor(ct_mul(ct_arange(4), 0.25));
        ct_print_tensor(ct_randn(3, 4));
        ct_print_tensor(ct_pow(ct_to_dtype(ct_arange(1, 6), CR_F64), 9));
        ct_print_tensor(ct_randn(2, 30, 40));
        ct_print_tensor(ct_gt(ct_randn(3), 0));
        ct_print_tensor(ct_view_as_complex(ct_randn(3, 2)));
        ct_print_tensor(ct_zeros(0, 3));
        ct_print_tensor(ct_to_dtype(ct_randn(7), CR_F16));
        w = ct_requires_grad(ct_randn(2));
        ct_print_tensor(w);
        ct_print_tensor(ct_mul(w, 2));
        ct_print_tensor(ct_sum(w));
    }
    return 0;
}
