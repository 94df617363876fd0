/* One queue for each device, run late by a thread.
 *
 * Before every job the thread may sleep for a moment (DEMO_DELAY, in microseconds, 20 when
 * unset), so that a program which does not wait reads wrong results. */
#define _GNU_SOURCE
#include "demo.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    demo_job *first, **last;
    uint64_t asked, finished;
    bool running;
    char late[256];
} queue;

static queue queues[DEMO_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned longest_delay;

static void start(void)
{
    const char *text = getenv("DEMO_DELAY");

    longest_delay = text ? (unsigned)atoi(text) : 20;
    for (int i = 0; i < DEMO_DEVICES; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].work, NULL);
        pthread_cond_init(&queues[i].done, NULL);
        queues[i].last = &queues[i].first;
    }
}

static queue *queue_of(int index)
{
    pthread_once(&once, start);
    return &queues[index];
}

/* One job in eight is late. */
static void delay(unsigned *seed)
{
    if (longest_delay && rand_r(seed) % 8 == 0)
        nanosleep(&(struct timespec){0, (long)(rand_r(seed) % (longest_delay + 1)) * 1000},
                  NULL);
}

static demo_job *next_job(queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first)
        pthread_cond_wait(&q->work, &q->lock);
    demo_job *j = q->first;
    q->first = j->next;
    if (!q->first)
        q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return j;
}

static void *serve(void *context)
{
    queue *q = context;
    unsigned seed = (unsigned)(q - queues) + 1;

    for (;;) {
        demo_job *j = next_job(q);
        delay(&seed);
        j->run(j);
        free(j);
        pthread_mutex_lock(&q->lock);
        q->finished++;
        pthread_cond_broadcast(&q->done);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

void *demo_job_new(int index, size_t size, void (*run)(demo_job *job))
{
    demo_job *j = calloc(1, size);

    if (j) {
        j->run = run;
        j->index = index;
    }
    return j;
}

uint64_t demo_enqueue(demo_job *job)
{
    queue *q = queue_of(job->index);
    pthread_t thread;

    pthread_mutex_lock(&q->lock);
    if (!q->running && !pthread_create(&thread, NULL, serve, q)) {
        pthread_detach(thread);
        q->running = true;
    }
    *q->last = job;
    q->last = &job->next;
    uint64_t number = ++q->asked;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
    return number;
}

void demo_wait(int index, uint64_t number)
{
    queue *q = queue_of(index);

    pthread_mutex_lock(&q->lock);
    while (q->finished < number)
        pthread_cond_wait(&q->done, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

uint64_t demo_last(int index)
{
    queue *q = queue_of(index);

    pthread_mutex_lock(&q->lock);
    uint64_t number = q->asked;
    pthread_mutex_unlock(&q->lock);
    return number;
}

bool demo_is_done(int index, uint64_t number)
{
    queue *q = queue_of(index);

    pthread_mutex_lock(&q->lock);
    bool done = q->finished >= number;
    pthread_mutex_unlock(&q->lock);
    return done;
}

void demo_fail(int index, const char *error)
{
    queue *q = queue_of(index);

    pthread_mutex_lock(&q->lock);
    if (!*q->late)
        snprintf(q->late, sizeof q->late, "%s", error);
    pthread_mutex_unlock(&q->lock);
}

bool demo_late(int index, char *text, size_t room)
{
    queue *q = queue_of(index);

    pthread_mutex_lock(&q->lock);
    snprintf(text, room, "%s", q->late);
    *q->late = 0;
    pthread_mutex_unlock(&q->lock);
    return *text != 0;
}
