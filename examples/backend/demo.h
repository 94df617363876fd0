/* demo.h - the parts of the example: memory, a queue, and the functions of the table. */
#ifndef DEMO_H
#define DEMO_H

#include <cresset_backend.h>

enum { DEMO_DEVICES = 2 };

/* --- memory.c --- */

/* Reserves the memory of all devices.  NULL, or the text of an error. */
const char *demo_memory_start(void);
size_t demo_memory_size(void);
void *demo_get(int index, size_t size, uint32_t *block);
void demo_release(int index, void *p, uint32_t block);
/* The address at which the queue's thread may read and write the device memory at `p`, and how
 * far it is from p. */
char *demo_near(int index, const void *p);
ptrdiff_t demo_distance(int index);

/* --- queue.c --- */

/* A job.  The fields of each kind of job follow this header in the same block. */
typedef struct demo_job {
    void (*run)(struct demo_job *job);
    struct demo_job *next;
    int index;
} demo_job;

/* A job with `size` bytes in all, zeroed; NULL without memory. */
void *demo_job_new(int index, size_t size, void (*run)(demo_job *job));
/* Appends the job to its device's queue, which frees it after the run.  The number counts jobs
 * from 1. */
uint64_t demo_enqueue(demo_job *job);
/* Waits until the job with this number is done. demo_last returns the number of the last
 * job. */
void demo_wait(int index, uint64_t number);
uint64_t demo_last(int index);
bool demo_is_done(int index, uint64_t number);
/* Notes the error of a job, unless there is one; and takes the one that was noted. */
void demo_fail(int index, const char *error);
bool demo_late(int index, char *text, size_t room);

#endif
