/* Blocks for nodes and autograd slots.
 *
 * Every recorded operation takes a node and a slot and soon returns them, so each thread caches
 * some blocks of each size.  A thread may return a block that another thread took.  Sanitizer
 * and mean builds do not cache. */
#include "autograd/autograd_impl.h"
#include <pthread.h>

enum { UNIT = 64, CLASSES = 16, KEPT = 64 };

#if defined(CR_MEAN) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CACHING = 0 };
#else
enum { CACHING = 1 };
#endif

typedef struct block {
    struct block *next;
} block;

typedef struct {
    block *first[CLASSES];
    uint8_t count[CLASSES];
    bool registered;
} pool;

static CR_THREAD pool mine;
static pthread_key_t at_exit;

static void empty(void *p)
{
    pool *own = p;

    for (int i = 0; i < CLASSES; i++)
        while (own->first[i]) {
            block *b = own->first[i];
            own->first[i] = b->next;
            cr_free(b);
        }
    *own = (pool){0};
}

cr_status cr_grad_pool_start(void)
{
    if (pthread_key_create(&at_exit, empty))
        return cr_fail(CR_MEMORY, "not enough memory: no thread key is left");
    return CR_OK;
}

void *cr_grad_pool_get(size_t bytes)
{
    size_t class = (bytes - 1) / UNIT;

    if (CR_LIKELY(CACHING && class < CLASSES)) {
        block *b = mine.first[class];
        if (CR_LIKELY(b != NULL)) {
            mine.first[class] = b->next;
            mine.count[class]--;
            return b;
        }
        return cr_alloc((class + 1) * UNIT);
    }
    return cr_alloc(bytes);
}

void cr_grad_pool_put(void *p, size_t bytes)
{
    size_t class = (bytes - 1) / UNIT;
    block *b = p;

    if (!CACHING || class >= CLASSES || mine.count[class] == KEPT) {
        cr_free(p);
        return;
    }
    if (CR_UNLIKELY(!mine.registered))
        mine.registered = !pthread_setspecific(at_exit, &mine);
    b->next = mine.first[class];
    mine.first[class] = b;
    mine.count[class]++;
}
