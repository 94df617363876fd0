/* Errors that kernels find: an index out of range.
 *
 * A kernel has a number, and writes it with the index to a word of host memory.  Functions that
 * wait for the device then read the word and return the text that was registered under the
 * number.  Several errors between two waits count as one; the context remains usable. */
#include "base/log.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/facts.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The last CALLS launches have texts; the word has INDEX_BITS bits of the index. */
enum { LATE_CALLS = 4096, LATE_TEXT = 240, LATE_INDEX_BITS = 48 };

typedef struct {
    cr_status kind;
    char text[LATE_TEXT]; /* CR_INDEX_MARK is the index's place */
} late_call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static late_call *calls;
static uint64_t count;
static _Atomic(_Atomic uint64_t *) words[CR_CUDA_DEVICES];

static const char *late_word(int index)
{
    if (atomic_load(&words[index]))
        return NULL;
    _Atomic uint64_t *word = cr_cuda_pinned_get(index, sizeof *word);
    if (!word) {
        cr_fail(CR_MEMORY, "CUDA: no page-locked memory");
        return cr_error_message();
    }
    atomic_store(word, 0);
    atomic_store(&words[index], word);
    return NULL;
}

const char *cr_cuda_late_begin(cr_cuda_late *out, int index, cr_status kind, const char *text)
{
    const char *error = NULL;

    pthread_mutex_lock(&lock);
    calls = calls ? calls : cr_alloc_zero(LATE_CALLS * sizeof *calls);
    error = calls ? late_word(index) : cr_error_message();
    if (!error) {
        late_call *c = &calls[count % LATE_CALLS];
        c->kind = kind;
        snprintf(c->text, sizeof c->text, "%s", text);
        out->word = atomic_load(&words[index]);
        out->number = (count++ % LATE_CALLS + 1) << LATE_INDEX_BITS;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* Raises the error of a call for the index that the word has. */
static const char *late_raise(uint64_t word)
{
    const late_call *c = &calls[(word >> LATE_INDEX_BITS) - 1];
    int64_t index = (int64_t)(word << (64 - LATE_INDEX_BITS)) >> (64 - LATE_INDEX_BITS);
    const char *mark = strchr(c->text, CR_INDEX_MARK);

    if (mark)
        cr_fail(c->kind, "%.*s%lld%s", (int)(mark - c->text), c->text, (long long)index,
                mark + 1);
    else
        cr_fail(c->kind, "%s", c->text);
    return cr_error_message();
}

const char *cr_cuda_late_end(int index)
{
    _Atomic uint64_t *word = atomic_load_explicit(&words[index], memory_order_acquire);
    uint64_t found = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
    const char *error;

    cr_log_line("cuda", 2, "the host waits for the device");
    if (CR_LIKELY(!found))
        return NULL;
    atomic_store(word, 0);
    pthread_mutex_lock(&lock);
    error = late_raise(found);
    pthread_mutex_unlock(&lock);
    return error;
}
