/* The dims that a loop's index leaves in place: a flip of the rows leaves the columns. */
#include "tensor/stated_dims.h"
#include "tensor/stated_piece.h"

static cr_status stays_along(stated *s, const cr_loop_along *a, bool *stays)
{
    place p = {.s = s, .axis = s->first[a->name] + a->item, .item = a->item};
    piece v;

    for (*stays = true; p.t < a->size && *stays; p.t = v.end) {
        CR_TRY(cr_stated_piece(&p, a->rule, &v));
        v.end = v.end < a->size ? v.end : a->size;
        *stays =
            a->is_guard ? v.value != 0 : v.value == p.t && (v.slope == 1 || v.end == p.t + 1);
    }
    return CR_OK;
}

bool cr_loop_stays(const cr_op *op, const cr_value *arg, const cr_loop_along *a)
{
    stated s = {.op = op};
    bool stays = false;
    cr_status st = CR_OK;
    int next = 0;

    cr_frame_init(&s.f, op, arg);
    for (int i = 0; i < op->loop.axis_count; i++) {
        s.first[i] = next;
        s.count[i] = a->width[i];
        next += a->width[i];
    }
    for (int i = 0; i < op->let_count; i++)
        s.let_names[i] = cr_stated_names(&s, op->lets[i].rule);
    if (a->rule->kind != CR_RULE_INDEX && cr_stated_names(&s, a->rule) == 1u << a->name)
        st = stays_along(&s, a, &stays);
    cr_frame_drop(&s.f);
    return !st && stays;
}
