/* Generators: a Mersenne Twister, the cached half of a normal pair, a Philox offset.
 *
 * The saved state has torch's layout: the seed, the twister with its words widened to 64 bits,
 * and the caches.  The layout has no place for the Philox offset.  The offset is zero after the
 * seed or the state is set. */
#include "num/generator.h"
#include "base/memory.h"
#include "num/philox.h"
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct cr_generator {
    _Atomic int count;
    pthread_mutex_t lock;
    uint64_t seed;
    cr_mt19937 mt;
    double normal; /* valid when has_normal */
    float normal_float;
    bool has_normal, has_normal_float;
    uint64_t philox_seed, philox_offset;
    const uint64_t *state; /* of a capture */
    uint64_t state_offset; /* blocks that the capture reserved */
    cr_device device;
    bool counts;
};

enum { WORDS_OF_BLOCK = 4 };

/* The state of a generator that counts. */
typedef struct {
    uint64_t seed, offset;
} counted_state;

/* The layout of torch's saved CPU state. */
typedef struct {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next;
    uint64_t state[CR_MT_SIZE];
    double normal_x, normal_y, normal_rho;
    int32_t normal_is_valid, pad;
    float next_float_normal;
    uint8_t next_float_normal_is_valid, pad2[3];
} saved_state;

_Static_assert(sizeof(saved_state) == CR_GENERATOR_STATE_BYTES, "torch's size");

static void restart(cr_generator *g, uint64_t seed)
{
    g->seed = g->philox_seed = seed;
    g->philox_offset = 0;
    g->has_normal = g->has_normal_float = false;
    cr_mt_seed(&g->mt, (uint32_t)seed);
}

cr_status cr_generator_new(cr_generator **out, uint64_t seed)
{
    cr_generator *g = cr_alloc_zero(sizeof *g);

    CR_NEED(g);
    atomic_init(&g->count, 1);
    pthread_mutex_init(&g->lock, NULL);
    restart(g, seed);
    *out = g;
    return CR_OK;
}

cr_device cr_generator_device(const cr_generator *g) { return g->device; }

void cr_generator_place(cr_generator *g, cr_device device, bool counts)
{
    g->device = device;
    g->counts = counts;
}

size_t cr_generator_state_bytes(const cr_generator *g)
{
    return g && g->counts ? sizeof(counted_state) : sizeof(saved_state);
}

static void copy_streams(cr_generator *g, const cr_generator *from)
{
    g->device = from->device;
    g->counts = from->counts;
    g->seed = from->seed;
    g->mt = from->mt;
    g->normal = from->normal;
    g->normal_float = from->normal_float;
    g->has_normal = from->has_normal;
    g->has_normal_float = from->has_normal_float;
    g->philox_seed = from->philox_seed;
    g->philox_offset = from->philox_offset;
}

cr_status cr_generator_clone(cr_generator **out, cr_generator *from)
{
    cr_generator *g = NULL;

    from = from ? from : cr_generator_default();
    CR_TRY(cr_generator_new(&g, 0));
    cr_generator_lock(from);
    copy_streams(g, from);
    cr_generator_unlock(from);
    *out = g;
    return CR_OK;
}

void cr_generator_return(cr_generator *g, const cr_generator *clone)
{
    cr_generator_lock(g);
    copy_streams(g, clone);
    cr_generator_unlock(g);
}

cr_generator *cr_generator_hold(cr_generator *g)
{
    if (g)
        atomic_fetch_add_explicit(&g->count, 1, memory_order_relaxed);
    return g;
}

void cr_generator_drop(cr_generator *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->count, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&g->lock);
    cr_free(g);
}

/* Static, so that cr_generator_default cannot fail. */
static cr_generator standard;
static pthread_once_t standard_once = PTHREAD_ONCE_INIT;

static void make_standard(void)
{
    atomic_init(&standard.count, 1);
    pthread_mutex_init(&standard.lock, NULL);
    restart(&standard, CR_GENERATOR_DEFAULT_SEED);
}

cr_generator *cr_generator_default(void)
{
    pthread_once(&standard_once, make_standard);
    return &standard;
}

void cr_generator_lock(cr_generator *g) { pthread_mutex_lock(&g->lock); }
void cr_generator_unlock(cr_generator *g) { pthread_mutex_unlock(&g->lock); }
cr_mt19937 *cr_generator_words(cr_generator *g) { return &g->mt; }

/* NULL means the default generator. */
static cr_generator *generator_or_default(cr_generator *g)
{
    return g ? g : cr_generator_default();
}

/* Between cr_generator_capture and its end, launches set the seed and the offset. */
static cr_status restart_free(cr_generator *g, uint64_t seed, uint64_t offset,
                              const char *refusal)
{
    cr_generator_lock(g);
    const bool captured = g->state;
    if (!captured) {
        restart(g, seed);
        g->philox_offset = offset;
    }
    cr_generator_unlock(g);
    return captured ? cr_fail(CR_RUNTIME, "%s", refusal) : CR_OK;
}

cr_status cr_generator_seed(cr_generator *g, uint64_t seed)
{
    g = generator_or_default(g);
    cr_generator_lock(g);
    const bool goes_on = g->state && g->seed == seed;
    cr_generator_unlock(g);
    return goes_on ? CR_OK
                   : restart_free(g, seed, 0,
                                  "CUDAGeneratorImpl::set_current_seed can be called during "
                                  "stream capture only if new seed is the same as the "
                                  "original seed.");
}

uint64_t cr_generator_initial_seed(cr_generator *g)
{
    uint64_t seed;

    g = generator_or_default(g);
    cr_generator_lock(g);
    seed = g->seed;
    cr_generator_unlock(g);
    return seed;
}

/* Random bits of the system; the clock when the system has none. */
static uint64_t entropy(void)
{
    uint64_t word = 0;
    struct timespec now;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && read(fd, &word, sizeof word) == (ssize_t)sizeof word;

    if (fd >= 0)
        close(fd);
    if (good)
        return word;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec;
}

/* 53 bits, so that a double can hold the seed. */
cr_status cr_generator_reseed(cr_generator *g, uint64_t *seed)
{
    const uint64_t drawn = entropy() & 0x1fffffffffffffull;

    if (seed)
        *seed = drawn;
    return restart_free(generator_or_default(g), drawn, 0,
                        "Cannot call CUDAGeneratorImpl::seed during CUDA graph capture. If you "
                        "need this call to be captured, please file an issue. Current "
                        "cudaStreamCaptureStatus: cudaStreamCaptureStatusActive");
}

static void get_counted_state(cr_generator *g, void *bytes)
{
    counted_state s;

    cr_generator_philox(g, &s.seed, &s.offset);
    memcpy(bytes, &s, sizeof s);
}

static cr_status set_counted_state(cr_generator *g, const void *bytes, size_t size)
{
    counted_state s = {0};

    if ((size != sizeof s && size != sizeof s.seed) || !bytes)
        return cr_fail(CR_RUNTIME, "RNG state is wrong size");
    memcpy(&s, bytes, size);
    if (s.offset % WORDS_OF_BLOCK)
        return cr_fail(CR_RUNTIME, "offset must be a multiple of 4");
    return restart_free(
        g, s.seed, s.offset,
        "Please ensure to utilize the CUDAGeneratorImpl::set_state_index method "
        "during capturing. Current cudaStreamCaptureStatus: "
        "cudaStreamCaptureStatusActive");
}

cr_status cr_generator_branch(cr_generator **out, cr_generator *g)
{
    uint64_t seed, offset;
    uint32_t word[WORDS_OF_BLOCK];

    cr_generator_reserve(g, WORDS_OF_BLOCK, &seed, &offset);
    cr_philox(seed, offset / WORDS_OF_BLOCK, word);
    return cr_generator_new(out, (uint64_t)word[0] << 32 | word[1]);
}

void cr_generator_get_state(cr_generator *g, void *bytes)
{
    saved_state s = {0};

    g = generator_or_default(g);
    if (g->counts) {
        get_counted_state(g, bytes);
        return;
    }
    cr_generator_lock(g);
    s.seed = g->seed;
    s.left = g->mt.left;
    s.seeded = 1;
    s.next = g->mt.next;
    for (int i = 0; i < CR_MT_SIZE; i++)
        s.state[i] = g->mt.state[i];
    if (g->has_normal)
        s.normal_y = g->normal;
    s.normal_is_valid = g->has_normal;
    if (g->has_normal_float)
        s.next_float_normal = g->normal_float;
    s.next_float_normal_is_valid = g->has_normal_float;
    cr_generator_unlock(g);
    if (bytes)
        memcpy(bytes, &s, sizeof s);
}

/* After a turn left + next == CR_MT_SIZE.  A fresh twister has left 1 and next 0. */
static bool is_sound(const saved_state *s)
{
    return s->seeded && s->left > 0 && s->left <= CR_MT_SIZE && s->next <= CR_MT_SIZE &&
           (s->left == 1 || s->next + (uint64_t)s->left <= CR_MT_SIZE + 1);
}

cr_status cr_generator_set_state(cr_generator *g, const void *bytes, size_t size)
{
    saved_state s;

    g = generator_or_default(g);
    if (g->counts)
        return set_counted_state(g, bytes, size);
    if (size != sizeof s || !bytes)
        return cr_fail(
            CR_RUNTIME,
            "Expected a CPUGeneratorImplState of size %zu but found the input RNG state "
            "size to be %zu",
            sizeof s, size);
    memcpy(&s, bytes, sizeof s);
    if (!is_sound(&s))
        return cr_fail(CR_RUNTIME, "Invalid mt19937 state");
    cr_generator_lock(g);
    restart(g, s.seed);
    for (int i = 0; i < CR_MT_SIZE; i++)
        g->mt.state[i] = (uint32_t)s.state[i];
    g->mt.left = s.left;
    g->mt.next = (uint32_t)s.next;
    g->has_normal = s.normal_is_valid != 0;
    g->normal = s.normal_y;
    g->has_normal_float = s.next_float_normal_is_valid != 0;
    g->normal_float = s.next_float_normal;
    cr_generator_unlock(g);
    return CR_OK;
}

void cr_generator_philox(cr_generator *g, uint64_t *seed, uint64_t *offset)
{
    cr_generator_reserve(g, 0, seed, offset);
}

void cr_generator_reserve(cr_generator *g, uint64_t blocks, uint64_t *seed, uint64_t *offset)
{
    cr_generator_lock(g);
    *seed = g->philox_seed;
    *offset = g->philox_offset;
    g->philox_offset += blocks;
    cr_generator_unlock(g);
}

void cr_generator_reserve_on(cr_generator *g, uint64_t blocks, uint64_t *seed, uint64_t *offset,
                             const uint64_t **state)
{
    cr_generator_lock(g);
    *state = g->state;
    *seed = g->philox_seed;
    uint64_t *at = g->state ? &g->state_offset : &g->philox_offset;
    *offset = *at;
    *at += blocks;
    cr_generator_unlock(g);
}

void cr_generator_capture(cr_generator *g, const uint64_t *state)
{
    cr_generator_lock(g);
    g->state = state;
    g->state_offset = 0;
    cr_generator_unlock(g);
}

uint64_t cr_generator_end_capture(cr_generator *g)
{
    uint64_t blocks;

    cr_generator_lock(g);
    blocks = g->state_offset;
    g->state = NULL;
    cr_generator_unlock(g);
    return blocks;
}

double cr_generator_normal(cr_generator *g)
{
    double angle, radius;

    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    angle = 2 * 3.14159265358979323846 * cr_unit_double(cr_mt_next64(&g->mt));
    radius = sqrt(-2 * log1p(-cr_unit_double(cr_mt_next64(&g->mt))));
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}
