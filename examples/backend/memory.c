/* Memory that the host cannot touch by mistake.
 *
 * Each device has one file in memory, mapped twice.  Tensors have addresses in the first
 * mapping, which allows no access at all: a library that reads or writes device memory stops
 * with SIGSEGV at the very instruction.  The second mapping is for the queue's thread, which
 * adds a fixed distance.
 *
 * Blocks come in classes, four for each power of two.  A released block is reused for its
 * class.  The queue runs jobs in order, so a block may be reused while earlier jobs that use it
 * are still queued. */
#define _GNU_SOURCE
#include "demo.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP ((size_t)8 << 30) /* bytes of address space; pages come when they are written */
enum { CLASSES = 160, SMALLEST = 64 };

typedef struct block {
    struct block *next;
    size_t at;
} block;

typedef struct {
    char *far, *near;
    size_t used;          /* bytes handed out at least once */
    block *free[CLASSES]; /* by class */
    block *spare;         /* records without a block */
} heap;

static heap heaps[DEMO_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *demo_memory_start(void)
{
    for (int i = 0; i < DEMO_DEVICES; i++) {
        int file = memfd_create("demo device", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)HEAP))
            return "demo: no memory file";
        heaps[i].far = mmap(NULL, HEAP, PROT_NONE, MAP_SHARED, file, 0);
        heaps[i].near =
            mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        close(file);
        if (heaps[i].far == MAP_FAILED || heaps[i].near == MAP_FAILED)
            return "demo: no address space";
    }
    return NULL;
}

size_t demo_memory_size(void) { return HEAP; }

char *demo_near(int index, const void *p)
{
    return heaps[index].near + ((const char *)p - heaps[index].far);
}

ptrdiff_t demo_distance(int index) { return heaps[index].near - heaps[index].far; }

/* Class 4k + r holds (4 + r) * 2^k * 16 bytes. */
static size_t class_bytes(int c) { return ((size_t)(4 + c % 4) << (c / 4)) * SMALLEST / 4; }

static int class_of(size_t size)
{
    int c = 0;

    while (c < CLASSES && class_bytes(c) < size)
        c++;
    return c;
}

static size_t rounded(size_t n) { return (n + SMALLEST - 1) / SMALLEST * SMALLEST; }

static void *take(heap *h, int c)
{
    block *b = h->free[c];

    if (b) {
        h->free[c] = b->next;
        b->next = h->spare;
        h->spare = b;
        return h->far + b->at;
    }
    if (h->used + rounded(class_bytes(c)) > HEAP)
        return NULL;
    h->used += rounded(class_bytes(c));
    return h->far + h->used - rounded(class_bytes(c));
}

void *demo_get(int index, size_t size, uint32_t *out)
{
    int c = class_of(size);
    void *p = NULL;

    pthread_mutex_lock(&lock);
    if (c < CLASSES)
        p = take(&heaps[index], c);
    pthread_mutex_unlock(&lock);
    *out = (uint32_t)c + 1;
    return p;
}

/* Pages of large blocks go back to the system, in the queue's order. */
typedef struct {
    demo_job job;
    void *p;
    size_t bytes;
} clear_job;

static void clear(demo_job *job)
{
    clear_job *j = (clear_job *)job;

    madvise(demo_near(job->index, j->p), j->bytes, MADV_REMOVE);
}

void demo_release(int index, void *p, uint32_t number)
{
    heap *h = &heaps[index];
    int c = (int)number - 1;
    clear_job *j =
        class_bytes(c) >= (size_t)1 << 20 ? demo_job_new(index, sizeof *j, clear) : NULL;

    if (j) {
        size_t page = 4096, from = ((size_t)((char *)p - h->far) + page - 1) / page * page;
        size_t end = ((size_t)((char *)p - h->far) + class_bytes(c)) / page * page;
        j->p = h->far + from;
        j->bytes = end - from;
        demo_enqueue(&j->job);
    }
    pthread_mutex_lock(&lock);
    block *b = h->spare;
    if (b)
        h->spare = b->next;
    else
        b = malloc(sizeof *b);
    if (b) { /* without memory for a record the block is lost */
        *b = (block){h->free[c], (size_t)((char *)p - h->far)};
        h->free[c] = b;
    }
    pthread_mutex_unlock(&lock);
}
