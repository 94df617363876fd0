/* Uses a tensor after its scope has ended. */
#include <cresset_easy.h>
#include <stdio.h>

int main(void)
{
    cr_tensor *kept = NULL, *ended = NULL;

    ct_scope
    {
        kept = ct_keep(ct_ones(CT_LIST(2)));
        ended = ct_ones(CT_LIST(3));
    }
    printf("%.0f\n", ct_item(ct_sum(kept)));
    printf("%.0f\n", ct_item(ct_sum(ended)));
    return 0;
}
