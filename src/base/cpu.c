/* The processor, as the system describes it. */
#include "base/env.h"
#include "base/isa.h"
#include "base/map.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t model;
static int64_t cache_bytes = 32 << 20; /* the default when the system does not state it */

/* True for the lines about the first processor that are the same after every boot. */
static bool tells_model(const char *line)
{
    static const char *const start[] = {"vendor_id", "cpu family", "model",
                                        "stepping",  "cache size", "CPU "};

    for (size_t i = 0; i < CR_LEN(start); i++)
        if (!strncmp(line, start[i], strlen(start[i])))
            return true;
    return false;
}

static void read_model(void)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    while (f && fgets(line, sizeof line, f) && *line != '\n')
        if (tells_model(line))
            model = model * 31 + cr_hash(line, strlen(line));
    if (f)
        fclose(f);
}

static void read_cache(void)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    char text[64], *end;

    if (f && fgets(text, sizeof text, f)) {
        int64_t n = strtoll(text, &end, 10);
        if (n > 0)
            cache_bytes = n * (*end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : 1);
    }
    if (f)
        fclose(f);
}

static void cpu_read(void)
{
    int64_t stated = cr_env_int(CR_ENV_CR_CACHE_BYTES);

    read_model();
    read_cache();
    if (stated > 0)
        cache_bytes = stated;
}

uint64_t cr_cpu_model(void)
{
    pthread_once(&once, cpu_read);
    return model;
}

int64_t cr_cpu_cache_bytes(void)
{
    pthread_once(&once, cpu_read);
    return cache_bytes;
}
