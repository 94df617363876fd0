/* Default generators: one for each device of the kinds that have generators. */
#include "device/generators.h"
#include "device/facts.h"
#include <pthread.h>

enum { GENERATORS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_generator *made[CR_DEVICE_COUNT][GENERATORS];
static uint64_t start = CR_GENERATOR_DEFAULT_SEED;

static cr_generator *generator_new(cr_device d)
{
    cr_generator *g;

    if (cr_generator_new(&g, start))
        return NULL;
    cr_generator_place(g, d, true);
    return g;
}

cr_generator *cr_device_generator(cr_device d)
{
    cr_generator *g;

    if (!cr_device_facts_of((cr_device_kind)d.kind)->has_generators || d.index >= GENERATORS)
        return cr_generator_default();
    pthread_mutex_lock(&lock);
    if (!made[d.kind][d.index])
        made[d.kind][d.index] = generator_new(d);
    g = made[d.kind][d.index];
    pthread_mutex_unlock(&lock);
    return g ? g : cr_generator_default();
}

cr_status cr_device_generators_seed(uint64_t seed)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&lock);
    start = seed;
    for (int k = 0; !st && k < CR_DEVICE_COUNT; k++)
        for (int i = 0; !st && i < GENERATORS; i++)
            if (made[k][i])
                st = cr_generator_seed(made[k][i], seed);
    pthread_mutex_unlock(&lock);
    return st;
}
