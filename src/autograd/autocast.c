/* Autocast: converts floating-point arguments of chosen operators to another precision.
 *
 * The table's clause `autocast` states the operators and their precision.  While autocast is
 * off the stage's bit is not set in the thread, so the stage costs nothing.  An operator that
 * is called with converted arguments runs below the stage.  Other operators continue above it,
 * so that the operators they call are converted.
 *
 * A leaf that requires a gradient (a weight) is converted once and cached until the outermost
 * autocast ends.  The cache remembers whether the conversion was recorded, because an
 * unrecorded one must not be used where recording is on. */
#include "tensor/autocast.h"
#include "autograd/autograd_impl.h"
#include "device/facts.h"
#include <string.h>

typedef struct {
    cr_tensor *leaf, *cast; /* references */
    uint32_t version;       /* the leaf's version when it was converted */
    bool recorded;
} cached;

typedef struct {
    CR_VEC(cached) cache;
    int nesting;
    bool on[CR_DEVICE_COUNT], no_cache;
    uint8_t dtype[CR_DEVICE_COUNT]; /* CR_BOOL: the device's default */
} state;

static CR_THREAD state *own;

/* The thread's settings, allocated if need be.  NULL when there is no memory. */
static state *state_of_thread(void)
{
    if (!own)
        own = cr_alloc_zero(sizeof *own);
    return own;
}

/* --- settings --- */
bool cr_autocast_on(cr_device_kind device) { return own && own->on[device]; }

cr_status cr_autocast_set(cr_device_kind device, bool on)
{
    state *s = state_of_thread();
    bool any = false;

    CR_NEED(s);
    s->on[device] = on;
    for (int i = 0; i < CR_DEVICE_COUNT; i++)
        any |= s->on[i];
    if (any)
        cr_thread.include |= CR_STAGE_BIT(AUTOCAST);
    else
        cr_thread.include &= ~CR_STAGE_BIT(AUTOCAST);
    return CR_OK;
}

cr_dtype cr_autocast_dtype(cr_device_kind device)
{
    if (own && own->dtype[device])
        return (cr_dtype)own->dtype[device];
    return cr_device_facts_of(device)->low_precision;
}

cr_status cr_autocast_set_dtype(cr_device_kind device, cr_dtype dtype)
{
    state *s = state_of_thread();

    CR_NEED(s);
    s->dtype[device] = (uint8_t)dtype;
    return CR_OK;
}

bool cr_autocast_caches(void) { return !own || !own->no_cache; }

cr_status cr_autocast_set_caches(bool on)
{
    state *s = state_of_thread();

    CR_NEED(s);
    s->no_cache = !on;
    return CR_OK;
}

void cr_autocast_clear(void)
{
    size_t n = own ? own->cache.len : 0;

    for (size_t i = 0; i < n; i++) {
        cr_drop(own->cache.at[i].leaf);
        cr_drop(own->cache.at[i].cast);
    }
    if (own) {
        own->cache.len = 0;
        cr_vec_drop(&own->cache);
    }
}

cr_status cr_autocast_nest(int by, int *depth)
{
    state *s = state_of_thread();

    CR_NEED(s);
    s->nesting += by;
    *depth = s->nesting;
    return CR_OK;
}

/* --- converting --- */
/* float64 is an explicit choice of the user and is not converted. */
static bool eligible(const cr_tensor *t)
{
    return (t->dtype == CR_F16 || t->dtype == CR_BF16 || t->dtype == CR_F32) && !t->number &&
           own->on[t->device.kind];
}

static bool worth_keeping(cr_tensor *t, cr_dtype to)
{
    return !own->no_cache && t->dtype == CR_F32 && to == cr_autocast_dtype(t->device.kind) &&
           t->requires_grad && cr_is_leaf(t) && !cr_base_of(t);
}

static cr_status keep_cast(cr_tensor *t, cr_tensor *cast)
{
    CR_TRY(cr_vec_reserve(&own->cache, 1));
    cached c = {cr_keep(t), cr_keep(cast), t->storage->version, cr_recording()};
    cr_vec_put(&own->cache, c);
    return CR_OK;
}

/* Searches the newest entries first: a layer uses few weights, a model many. */
static cr_tensor *find_cast(const cr_tensor *t, cr_dtype to)
{
    for (size_t i = own->cache.len; i-- > 0;) {
        const cached *c = &own->cache.at[i];
        if (c->leaf == t && c->cast->dtype == to && c->recorded == cr_recording() &&
            c->version == t->storage->version)
            return cr_keep(c->cast);
    }
    return NULL;
}

static cr_status autocast_convert(cr_tensor **out, cr_tensor *t, cr_dtype to)
{
    bool keep, was = cr_thread.converts;

    if (t->dtype == to) {
        *out = cr_keep(t);
        return CR_OK;
    }
    keep = worth_keeping(t, to);
    if (keep && (*out = find_cast(t, to)))
        return CR_OK;
    cr_thread.converts = true;
    cr_status st = cr_call_cast(out, t, to);
    cr_thread.converts = was;
    CR_TRY(st);
    return keep ? keep_cast(t, *out) : CR_OK;
}

/* --- the stage --- */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    CR_VEC(cr_tensor *) made;
    CR_VEC(cr_value *) lists;
} casts;

static void casts_drop(casts *c)
{
    for (size_t i = 0; i < c->made.len; i++)
        cr_drop(c->made.at[i]);
    for (size_t i = 0; i < c->lists.len; i++)
        cr_free(c->lists.at[i]);
    cr_vec_drop(&c->made);
    cr_vec_drop(&c->lists);
}

static cr_dtype wanted_for(cr_autocast_way way, cr_dtype widest, const cr_tensor *t)
{
    if (way == CR_AUTOCAST_FLOAT32)
        return CR_F32;
    return way == CR_AUTOCAST_LOWER || widest == CR_DTYPE_NONE
               ? cr_autocast_dtype(t->device.kind)
               : widest;
}

static cr_status convert_value(casts *c, cr_value *v, cr_autocast_way way, cr_dtype widest)
{
    cr_tensor *t = NULL;

    if (v->tag != CR_TENSOR || !eligible(v->t))
        return CR_OK;
    CR_TRY(cr_vec_reserve(&c->made, 1));
    CR_TRY(autocast_convert(&t, v->t, wanted_for(way, widest, v->t)));
    cr_vec_put(&c->made, t);
    v->t = t;
    return CR_OK;
}

static cr_status convert_list(casts *c, cr_value *v, cr_autocast_way way, cr_dtype widest)
{
    cr_value *list;

    CR_TRY(cr_vec_reserve(&c->lists, 1));
    list = cr_alloc(v->len * sizeof *list + 1);
    CR_NEED(list);
    cr_vec_put(&c->lists, list);
    memcpy(list, v->list, v->len * sizeof *list);
    for (uint32_t i = 0; i < v->len; i++)
        CR_TRY(convert_value(c, &list[i], way, widest));
    v->list = list;
    return CR_OK;
}

static bool autocast_is_wide(const cr_tensor *t)
{
    return eligible(t) && t->dtype != cr_autocast_dtype(t->device.kind);
}

/* The dtype for `autocast promote`: float32, or CR_DTYPE_NONE when all arguments have the lower
 * precision. */
static cr_dtype widest_of(const cr_op *op, const cr_value *arg)
{
    return cr_any_tensor(op, arg, autocast_is_wide) ? CR_F32 : CR_DTYPE_NONE;
}

static bool autocast_is_listed(const cr_tensor *t)
{
    return own->on[t->device.kind] &&
           cr_device_facts_of((cr_device_kind)t->device.kind)->has_autocast_list;
}

/* True if some argument is on a device that has torch's list for CUDA, and autocast is on
 * there. */
static bool autocast_has_list(const cr_op *op, const cr_value *arg)
{
    return cr_any_tensor(op, arg, autocast_is_listed);
}

/* By the list, a call that names a dtype is as given. */
static cr_autocast_way autocast_way(const cr_op *op, const cr_value *arg, bool listed)
{
    int dtype = listed ? cr_op_find_param(op, "dtype") : -1;

    if (dtype >= 0 && arg[dtype].tag != CR_NONE)
        return CR_AUTOCAST_AS_GIVEN;
    return (cr_autocast_way)(listed ? op->autocast.cuda : op->autocast.host);
}

/* True for a composition that is one kernel of torch (mean): the calls that it makes are not
 * converted. */
static bool autocast_is_kernel(const cr_op *op)
{
    return op->does == CR_DOES_IS && (op->differentiable || op->dispatch.call);
}

static cr_status autocast_convert_all(casts *c, const cr_op *op, const cr_value *arg,
                                      cr_autocast_way way)
{
    cr_dtype widest = way == CR_AUTOCAST_PROMOTE ? widest_of(op, arg) : CR_F32;

    memcpy(c->arg, arg, op->param_count * sizeof *arg);
    for (uint32_t m = op->tensor_params; m; m &= m - 1) {
        cr_value *v = &c->arg[CR_CTZ(m)];
        CR_TRY(v->tag == CR_TENSORS ? convert_list(c, v, way, widest)
                                    : convert_value(c, v, way, widest));
    }
    return CR_OK;
}

static bool autocast_takes(const cr_op *op, const cr_value *arg)
{
    if (!op->autocast.host && !op->autocast.cuda && !autocast_is_kernel(op))
        return false;
    bool listed = autocast_has_list(op, arg);
    return autocast_way(op, arg, listed) != CR_AUTOCAST_AS_GIVEN ||
           (listed && autocast_is_kernel(op));
}

static cr_status autocast_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    casts c;
    uint32_t was = cr_thread.exclude;
    cr_status st;

    if (CR_LIKELY(!autocast_takes(op, arg)))
        return cr_call_past(CR_STAGE_AUTOCAST, op, arg, result);
    cr_autocast_way way = autocast_way(op, arg, autocast_has_list(op, arg));
    memset(&c.made, 0, sizeof c.made);
    memset(&c.lists, 0, sizeof c.lists);
    cr_thread.exclude = was | CR_STAGE_BIT(AUTOCAST);
    st = way == CR_AUTOCAST_AS_GIVEN ? CR_OK : autocast_convert_all(&c, op, arg, way);
    if (!st)
        st = cr_call(op, way == CR_AUTOCAST_AS_GIVEN ? arg : c.arg, result);
    cr_thread.exclude = was;
    casts_drop(&c);
    return st;
}

void cr_autocast_start(void)
{
    cr_stage_fns[CR_STAGE_AUTOCAST] = autocast_stage;
    cr_autocast_takes = autocast_takes;
}
