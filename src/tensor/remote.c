/* Devices whose memory the host does not address: copies, and the host fallback.
 *
 * The device copies between two layouts of its memory; between a device and the host, elements
 * are copied as one dense block. */
#include "tensor/remote.h"
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "device/generators.h"
#include "entry.h"
#include "space/picked.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* --- temporary blocks --- */

cr_status cr_block_get(cr_block *b, cr_device device, size_t size)
{
    b->device = device;
    b->at = size ? cr_table_of(device)->get(device.index, size, &b->size_class) : NULL;
    if (size && !b->at)
        return cr_is_host(device) ? CR_MEMORY : cr_device_no_memory(device, size);
    return CR_OK;
}

void cr_block_drop(cr_block *b)
{
    if (b->at)
        cr_table_of(b->device)->release(b->device.index, b->at, b->size_class);
}

/* --- copies --- */

static size_t view_bytes(const cr_view *v)
{
    return (size_t)cr_numel(v->ndim, v->size) * cr_dtype_size((cr_dtype)v->dtype);
}

static bool is_dense(const cr_view *v) { return cr_is_contiguous(v->ndim, v->size, v->stride); }

/* `from` broadcast to the sizes of `to`. */
static cr_view broadcast(const cr_view *from, const cr_view *to, int64_t *stride)
{
    cr_view v = *from;

    cr_broadcast_strides(stride, from, to->ndim, to->size);
    v.ndim = to->ndim;
    v.size = to->size;
    v.stride = stride;
    return v;
}

/* A dense view of the sizes and dtype of `like` in a block of `device`. */
static cr_status dense_block(cr_block *b, cr_view *v, int64_t *stride, const cr_view *like,
                             cr_device device)
{
    CR_TRY(cr_block_get(b, device, view_bytes(like)));
    cr_row_major_strides(stride, like->ndim, like->size);
    *v = *like;
    v->data = b->at;
    v->stride = stride;
    v->device = device;
    return CR_OK;
}

static cr_status ask_move(const cr_view *to, const cr_view *from)
{
    cr_array a = cr_array_of(to), b = cr_array_of(from);

    return cr_device_status(cr_table_of(to->device)->move(to->device.index, &a, &b));
}

/* Copies elements on one device. */
static cr_status move_there(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view between;
    cr_block b = {.at = NULL};

    cr_overlap overlap = cr_overlap_of(to, from);
    if (overlap == CR_APART)
        return ask_move(to, from);
    if (overlap == CR_SAME && to->dtype == from->dtype)
        return CR_OK;
    CR_TRY(dense_block(&b, &between, stride, from, from->device));
    cr_status st = ask_move(&between, from);
    if (!st)
        st = ask_move(to, &between);
    cr_block_drop(&b);
    return st;
}

/* Copies elements from the host to a device: converts them to a dense block of the
 * destination's dtype, copies the block, and moves it to the destination's layout. */
static cr_status move_in(const cr_view *to, const cr_view *from)
{
    int64_t host_stride[CR_MAX_DIMS], there_stride[CR_MAX_DIMS];
    cr_view host = *from, there = *to;
    cr_block h = {.at = NULL}, t = {.at = NULL};
    cr_status (*allowed)(int, const void *) =
        cr_device_facts_of((cr_device_kind)to->device.kind)->copies_from;
    cr_status st = CR_OK;

    if (allowed)
        CR_TRY(allowed(to->device.index, from->data));
    if (from->dtype != to->dtype || !is_dense(from)) {
        CR_GO(dense_block(&h, &host, host_stride, to, CR_HOST));
        CR_GO(cr_copy_elements(&host, from));
    }
    if (!is_dense(to))
        CR_GO(dense_block(&t, &there, there_stride, to, to->device));
    CR_GO(cr_device_copy_in(to->device, there.data, host.data, view_bytes(to)));
    if (t.at)
        CR_GO(ask_move(to, &there));
done:
    cr_block_drop(&h);
    cr_block_drop(&t);
    return st;
}

static cr_status move_out(const cr_view *to, const cr_view *from)
{
    int64_t host_stride[CR_MAX_DIMS], there_stride[CR_MAX_DIMS];
    cr_view host = *to, there = *from;
    cr_block h = {.at = NULL}, t = {.at = NULL};
    cr_status st = CR_OK;

    if (!is_dense(from)) {
        CR_GO(dense_block(&t, &there, there_stride, from, from->device));
        CR_GO(ask_move(&there, from));
    }
    if (from->dtype != to->dtype || !is_dense(to))
        CR_GO(dense_block(&h, &host, host_stride, from, CR_HOST));
    CR_GO(cr_device_copy_out(host.data, from->device, there.data, view_bytes(from)));
    if (h.at)
        CR_GO(cr_copy_elements(to, &host));
done:
    cr_block_drop(&h);
    cr_block_drop(&t);
    return st;
}

/* Copies elements between two devices. */
static cr_status move_through_host(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view host;
    cr_block h = {.at = NULL};
    cr_status st;

    CR_GO(dense_block(&h, &host, stride, from, CR_HOST));
    CR_GO(move_out(&host, from));
    CR_GO(move_in(to, &host));
done:
    cr_block_drop(&h);
    return st;
}

cr_status cr_remote_copy(const cr_view *to, const cr_view *given)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view from = broadcast(given, to, stride);

    if (cr_same_device(to->device, from.device))
        return move_there(to, &from);
    if (cr_is_host(from.device))
        return move_in(to, &from);
    return cr_is_host(to->device) ? move_out(to, &from) : move_through_host(to, &from);
}

cr_status cr_remote_copy_list(cr_device device, const cr_array *to, const cr_array *from, int n)
{
    const cr_device_ops *ops = cr_table_of(device);
    const char *error = NULL;

    if (ops->move_list)
        return cr_device_status(n ? ops->move_list(device.index, to, from, n) : NULL);
    for (int i = 0; i < n && !error; i++)
        error = ops->move(device.index, &to[i], &from[i]);
    return cr_device_status(error);
}

cr_status cr_remote_fill(const cr_view *to, const void *element)
{
    cr_array a = cr_array_of(to);

    return cr_device_status(cr_table_of(to->device)->fill(to->device.index, &a, element));
}

/* --- the host fallback --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map told; /* names of entries whose fallback was logged */
static _Atomic bool fallback;

void cr_remote_allow_fallback(bool on) { atomic_store(&fallback, on); }

/* Logs the first fallback of an entry, and at level 2 every one. */
static void tell_fallback(const cr_op *op, cr_device device)
{
    pthread_mutex_lock(&lock);
    bool known = cr_map_get(&told, op->name, strlen(op->name)) != NULL;
    if (!known && cr_map_set(&told, op->name, strlen(op->name), (void *)(uintptr_t)op))
        known = false;
    pthread_mutex_unlock(&lock);
    cr_log_line("backend", known ? 2 : 1, "%s has no kernel for %s and is computed on the host",
                op->name, cr_device_kind_name((cr_device_kind)device.kind));
}

static bool has_fallback(cr_device device)
{
    return cr_kind_facts(device)->has_fallback || atomic_load(&fallback) ||
           cr_env_int(CR_ENV_CR_HOST_FALLBACK);
}

#define REFUSAL "Could not run 'aten::"

/* `reason`: what a kernel lacks, or NULL. */
static cr_status refuse_fallback(const cr_op *op, cr_device device, const char *reason)
{
    const cr_device_facts *f = cr_kind_facts(device);

    return cr_fail(CR_NOT_IMPLEMENTED, REFUSAL "%s' with arguments from the '%s' backend. %s%s",
                   op->name, f->backend ? f->backend : "PrivateUse1",
                   reason ? reason
                          : "This could be because the operator doesn't exist for this "
                            "backend, or was omitted during the selective/custom build process "
                            "(if using custom build).",
                   f->fallback_advice ? f->fallback_advice : "");
}

/* Whether a text begins with the name of a device's backend, which refusals of layouts have
 * not. */
static bool names_backend(const char *text)
{
    for (int kind = 0; kind < CR_DEVICE_COUNT; kind++) {
        const char *name = cr_device_facts_of((cr_device_kind)kind)->backend;
        size_t n = name ? strlen(name) : 0;
        if (n && !strncmp(text, name, n) && text[n] == '\'')
            return true;
    }
    return !strncmp(text, "PrivateUse1'", strlen("PrivateUse1'"));
}

cr_status cr_refused_call(const cr_op *op, cr_status st)
{
    static const char from[] = "' with arguments from the '";
    const char *text = cr_error_message(), *rest;
    char kept[1024];

    if (st != CR_NOT_IMPLEMENTED || strncmp(text, REFUSAL, strlen(REFUSAL)))
        return st;
    rest = strstr(text, from);
    if (!rest || !names_backend(rest + strlen(from)))
        return st;
    snprintf(kept, sizeof kept, "%s", rest); /* cr_fail overwrites the message */
    return cr_fail(CR_NOT_IMPLEMENTED, REFUSAL "%s%s", op->name, kept);
}

static cr_status check_fallback(const cr_op *op, cr_device device)
{
    if (!has_fallback(device))
        return refuse_fallback(op, device, NULL);
    tell_fallback(op, device);
    return CR_OK;
}

/* A copy on the host of a view on the device, with the same strides. */
typedef struct {
    cr_view there, here;
    const char *begin; /* the first byte of the view on the device */
    size_t bytes;
    cr_block block;
} mirror;

static cr_status mirror_new(mirror *m, const cr_view *v, bool filled)
{
    const char *end;

    m->there = m->here = *v;
    m->here.device = CR_HOST;
    cr_view_extent(v, &m->begin, &end);
    m->bytes = (size_t)(end - m->begin);
    CR_TRY(cr_block_get(&m->block, CR_HOST, m->bytes));
    m->here.data = m->block.at ? m->block.at + (v->data - m->begin) : NULL;
    return filled ? cr_device_copy_out(m->block.at, v->device, m->begin, m->bytes) : CR_OK;
}

static cr_status mirror_return(const mirror *m)
{
    return cr_device_copy_in(m->there.device, (void *)(uintptr_t)m->begin, m->block.at,
                             m->bytes);
}

typedef CR_VEC(mirror *) mirrors;

static cr_status mirror_value(mirrors *all, cr_arena *room, const cr_value *v, cr_value *out)
{
    *out = *v;
    if (v->tag == CR_TENSORS) {
        cr_value *list = cr_arena_get(room, v->len * sizeof *list + 1);
        CR_NEED(list);
        for (uint32_t k = 0; k < v->len; k++)
            CR_TRY(mirror_value(all, room, &v->list[k], &list[k]));
        out->list = list;
    }
    if (v->tag != CR_VIEW || cr_is_host(v->view->device) || !cr_has_bytes(v->view->device))
        return CR_OK;
    mirror *m = cr_arena_get(room, sizeof *m);
    CR_NEED(m);
    *m = (mirror){.bytes = 0};
    CR_TRY(cr_vec_reserve(all, 1));
    cr_vec_put(all, m);
    CR_TRY(mirror_new(m, v->view, true));
    out->view = &m->here;
    return CR_OK;
}

static void mirrors_drop(mirrors *all, cr_arena *room)
{
    for (size_t i = 0; i < all->len; i++)
        cr_block_drop(&all->at[i]->block);
    cr_vec_drop(all);
    cr_arena_drop(room);
}

/* True for a list with masks, whose elements the sizes of a result depend on. */
static bool has_masks(const cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (v->list[i].tag == CR_VIEW && cr_is_mask(v->list[i].view))
            return true;
    return false;
}

cr_status cr_remote_shape(const cr_op *op, const cr_value *arg, cr_shape *shape,
                          cr_device device)
{
    cr_value given[CR_MAX_ARGS];
    mirrors all = {0};
    cr_arena room = {0};
    cr_status st = CR_OK;
    bool declined;

    CR_TRY(cr_remote_sizes(op, arg, shape, device, &declined));
    if (!declined)
        return CR_OK;
    for (int i = 0; i < op->param_count; i++)
        if (!(op->words & CR_WORD_HOST_INDICES) || has_masks(&arg[i]))
            CR_GO(mirror_value(&all, &room, &arg[i], &given[i]));
        else
            given[i] = arg[i];
    CR_GO(op->sizes.fn(given, shape));
done:
    mirrors_drop(&all, &room);
    return st;
}

/* A generator of the host's kind in the place of one of the device, whose next numbers it
 * takes.  *made: NULL where the value is kept. */
static cr_status host_generator(cr_generator **made, const cr_op *op, int i, cr_value *v,
                                cr_device device)
{
    *made = NULL;
    if (op->param[i].type != CR_T_GENERATOR || !cr_kind_facts(device)->has_generators)
        return CR_OK;
    CR_TRY(cr_generator_branch(made, v->tag == CR_GENERATOR && v->generator
                                         ? v->generator
                                         : cr_device_generator(device)));
    *v = (cr_value){.tag = CR_GENERATOR, .generator = *made};
    return CR_OK;
}

/* With `returns`, copies the results to the device. */
static cr_status extern_on_host(const cr_op *op, const cr_value *arg, cr_view *out,
                                bool returns)
{
    cr_generator *generator[CR_MAX_ARGS] = {0};
    cr_value given[CR_MAX_ARGS];
    cr_view result[CR_MAX_RESULTS];
    mirror made[CR_MAX_RESULTS] = {0};
    mirrors all = {0};
    cr_arena room = {0};
    cr_status st = CR_OK;

    for (int i = 0; i < op->param_count; i++)
        CR_GO(mirror_value(&all, &room, &arg[i], &given[i]));
    for (int i = 0; i < op->param_count; i++)
        CR_GO(host_generator(&generator[i], op, i, &given[i], out[0].device));
    for (int k = 0; k < op->result_count; k++) {
        bool old = op->result[k].written || !is_dense(&out[k]);
        CR_GO(mirror_new(&made[k], &out[k], old));
        result[k] = made[k].here;
    }
    CR_GO(cr_run_on_views(op, given, result));
    for (size_t i = 0; returns && op->updates.params && i < all.len; i++)
        CR_GO(mirror_return(all.at[i]));
    for (int k = 0; returns && k < op->result_count; k++)
        CR_GO(mirror_return(&made[k]));
done:
    for (int i = 0; i < op->param_count; i++)
        cr_generator_drop(generator[i]);
    for (int k = 0; k < op->result_count; k++)
        cr_block_drop(&made[k].block);
    mirrors_drop(&all, &room);
    return st;
}

cr_status cr_remote_extern(const cr_op *op, const cr_value *arg, cr_view *out, cr_device device,
                           const char *declines)
{
    const char *reason = cr_device_lacks(declines) ? declines + 1 : NULL;
    bool declined;

    CR_TRY(cr_remote_library(op, arg, out, device, &declined));
    if (!declined)
        return CR_OK;
    if (has_fallback(device)) {
        tell_fallback(op, device);
        return extern_on_host(op, arg, out, true);
    }
    /* Without a reason, a kernel declines arguments that may be wrong: the host's function has
     * the error. */
    if (!reason && (cr_remote_has_kernel(op, device) || op->does == CR_DOES_LOOP))
        CR_TRY(extern_on_host(op, arg, out, false));
    return refuse_fallback(op, device, reason);
}

static cr_status bring(cr_value *v, cr_device to)
{
    cr_tensor *made;

    CR_TRY(cr_copy_as(&made, v->t, (cr_dtype)v->t->dtype, to, CR_FORMAT_PRESERVE));
    *v = cr_of_tensor(made);
    return CR_OK;
}

/* Replaces tensors of devices among the arguments by copies on the host, which `made` owns. */
static cr_status bring_arguments(cr_value *given, cr_tensor **made, const cr_op *op,
                                 const cr_value *arg)
{
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int i = 0; i < op->param_count; i++)
        if (arg[i].tag == CR_TENSOR && !cr_is_host(arg[i].t->device)) {
            CR_TRY(bring(&given[i], CR_HOST));
            made[i] = given[i].t;
        }
    return CR_OK;
}

cr_status cr_remote_body_on_host(const cr_op *op, const cr_value *arg, cr_tensor *const *out)
{
    cr_value given[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_tensor *made[CR_MAX_ARGS] = {0};
    cr_status st = CR_OK;

    tell_fallback(op, out[0]->device);
    CR_GO(bring_arguments(given, made, op, arg));
    CR_GO(op->kernel_stage(op, given, result));
    for (int k = 0; k < op->result_count; k++) {
        cr_view to = cr_view_of(out[k]), from = cr_view_of(result[k].t);
        if (!st)
            st = cr_copy_elements(&to, &from);
    }
    cr_drop_values(result, op->result_count);
done:
    for (int i = 0; i < op->param_count; i++)
        cr_drop(made[i]);
    return st;
}

/* --- entries over tensors --- */

cr_status cr_remote_whole(const cr_op *op, const cr_value *arg, cr_value *result,
                          cr_device device)
{
    cr_value given[CR_MAX_ARGS];
    cr_tensor *made[CR_MAX_ARGS] = {0};
    cr_status st = CR_OK;

    CR_TRY(check_fallback(op, device));
    CR_GO(bring_arguments(given, made, op, arg));
    CR_GO(op->fn.on_tensors(given, result));
    for (int k = 0; !st && k < op->result_count; k++)
        if (result[k].tag == CR_TENSOR) {
            cr_tensor *here = result[k].t;
            st = bring(&result[k], device);
            if (st)
                break;
            cr_drop(here);
        }
    if (st)
        cr_drop_values(result, op->result_count);
done:
    for (int i = 0; i < op->param_count; i++)
        cr_drop(made[i]);
    return st;
}

typedef CR_VEC(cr_tensor *) tensors;

/* The list owns the tensor. */
static cr_status tensors_keep(tensors *all, cr_tensor *t)
{
    if (cr_vec_reserve(all, 1)) {
        cr_drop(t);
        return CR_MEMORY;
    }
    cr_vec_put(all, t);
    return CR_OK;
}

/* Copies index tensors of the host to the device. */
static cr_status place_indices(cr_value *list, uint32_t n, cr_device device, tensors *made)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].tag != CR_TENSOR || cr_same_device(list[i].t->device, device))
            continue;
        if (!cr_is_host(list[i].t->device))
            return cr_fail(CR_RUNTIME,
                           "indices should be either on cpu or on the same device as the "
                           "indexed tensor (%s)",
                           cr_device_print(device).text);
        CR_TRY(bring(&list[i], device));
        CR_TRY(tensors_keep(made, list[i].t));
    }
    return CR_OK;
}

static bool is_mask(const cr_value *v)
{
    return v->tag == CR_TENSOR && (v->t->dtype == CR_BOOL || v->t->dtype == CR_U8);
}

/* True if there are masks, and all have the sizes of the dims that they index. */
static bool masks_fit(const cr_value *list, uint32_t n, const cr_tensor *self)
{
    int dim = 0;
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        int dims = is_mask(&list[i]) ? list[i].t->ndim : 1;
        if (!dims || dim + dims > self->ndim)
            return false;
        for (int d = 0; is_mask(&list[i]) && d < dims; d++)
            if (list[i].t->size[d] != self->size[dim + d])
                return false;
        any = any || is_mask(&list[i]);
        dim += dims;
    }
    return any;
}

/* The coordinates of a mask's true elements, a tensor for each dim. */
static cr_status mask_places(cr_value *to, cr_tensor *mask, tensors *made)
{
    cr_value arg[3] = {cr_of_tensor(mask)}, rows, column;

    CR_TRY(cr_entry.nonzero->kernel_stage(cr_entry.nonzero, arg, &rows));
    CR_TRY(tensors_keep(made, rows.t));
    for (int d = 0; d < mask->ndim; d++) {
        arg[0] = rows;
        arg[1] = cr_of_int(1);
        arg[2] = cr_of_int(d);
        CR_TRY(cr_entry.select_int->kernel_stage(cr_entry.select_int, arg, &column));
        CR_TRY(tensors_keep(made, column.t));
        to[d] = column;
    }
    return CR_OK;
}

/* Index tensors in the place of masks, where the device finds their true elements. */
static cr_status replace_masks(cr_value *list, uint32_t *n, const cr_tensor *self,
                               tensors *made)
{
    cr_value all[CR_MAX_DIMS];
    uint32_t count = 0;

    if (!masks_fit(list, *n, self) || !cr_has_bytes(self->device) ||
        !cr_remote_has_kernel(cr_entry.nonzero, self->device))
        return CR_OK;
    for (uint32_t i = 0; i < *n; i++) {
        all[count] = list[i];
        if (is_mask(&list[i]))
            CR_TRY(mask_places(&all[count], list[i].t, made));
        count += is_mask(&list[i]) ? list[i].t->ndim : 1;
    }
    memcpy(list, all, count * sizeof *list);
    *n = count;
    return CR_OK;
}

/* True for (self, indices) with one mask of all elements: the entry reads those where it is
 * true. */
static bool reads_by_mask(const cr_op *op, const cr_value *list, uint32_t n,
                          const cr_tensor *self)
{
    return op->param_count == 2 && n == 1 && is_mask(list) && list->t->dtype == CR_BOOL &&
           list->t->ndim == self->ndim && masks_fit(list, n, self) &&
           cr_has_bytes(self->device) &&
           cr_remote_has_kernel(cr_entry.masked_select, self->device);
}

cr_status cr_remote_indices(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_value given[CR_MAX_ARGS], *list;
    uint32_t n = 0, at = 0;
    tensors made = {0};
    cr_device device;
    cr_status st;

    while (arg[at].tag != CR_TENSORS)
        at++;
    n = arg[at].len;
    memcpy(given, arg, op->param_count * sizeof *given);
    list = cr_alloc((n + CR_MAX_DIMS) * sizeof *list);
    st = list ? CR_OK : CR_MEMORY;
    if (!st) {
        memcpy(list, arg[at].list, n * sizeof *list);
        given[at].list = list;
        st = place_indices(list, n, arg[0].t->device, &made);
    }
    if (!st)
        st = cr_common_device(&device, op, given);
    if (!st && !cr_same_device(device, arg[0].t->device))
        st = cr_refuse_devices(arg[0].t->device, device);
    if (!st && reads_by_mask(op, list, n, arg[0].t)) {
        given[at] = list[0];
        op = cr_entry.masked_select;
    } else if (!st) {
        st = replace_masks(list, &n, arg[0].t, &made);
        given[at].len = n;
    }
    if (!st)
        st = op->kernel_stage(op, given, result);
    for (size_t i = 0; i < made.len; i++)
        cr_drop(made.at[i]);
    cr_vec_drop(&made);
    cr_free(list);
    return st;
}
