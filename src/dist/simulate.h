/* simulate.h - how long a training step takes on machines that are not there.
 *
 *     step file, machine file, division of the ranks --cr_simulate--> times, memory, events
 *
 * A step is a list of units (layers), each with its floating point operations, the bytes that
 * it moves, its parameters and what it saves for backward.  Each rank has a clock for
 * computing, one for its calls between ranks, and one for the host that issues both where a
 * device computes; nothing is computed.  docs/sharding.md has the formats of both files.  Times
 * are in seconds, sizes in bytes. */
#ifndef CR_DIST_SIMULATE_H
#define CR_DIST_SIMULATE_H

#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

/* --- the files --- */
typedef enum { CR_SIM_FORWARD, CR_SIM_BACKWARD, CR_SIM_UPDATE, CR_SIM_PHASES } cr_sim_phase;
typedef enum { CR_SIM_DDP, CR_SIM_FSDP } cr_sim_data;

typedef struct {
    char name[48];
    /* of the forward pass of the whole batch: operations, bytes read and written, bytes saved
     * for backward, bytes of the result; `parameters` is a number, of `tensors` parameters;
     * `commands` are the operators that the host calls */
    double parameters, flops, moved, saved, output, tensors, buffers, commands;
} cr_sim_unit;

typedef struct {
    char name[48];
    double states, element;         /* numbers a parameter that the optimizer keeps; bytes */
    double measured[CR_SIM_PHASES]; /* in one process; 0: not measured */
    double host[CR_SIM_PHASES];     /* in which the host issues the commands; 0: likewise */
    cr_sim_unit *unit;              /* owned */
    int units;
} cr_sim_step;

/* Links join groups of up to `ranks` ranks; the last one joins all. */
typedef struct {
    double ranks, latency, bandwidth;
} cr_sim_link;

typedef enum { CR_SIM_ALL_REDUCE, CR_SIM_ALL_GATHER, CR_SIM_REDUCE_SCATTER } cr_sim_call;

/* A call of `ranks` ranks on `bytes` whole bytes, as it was measured. */
typedef struct {
    cr_sim_call call;
    double ranks, bytes, seconds;
} cr_sim_point;

/* The host's time for the classes of data parallel ranks: for each unit (fully_shard) or pass
 * (DistributedDataParallel), for each parameter and buffer, and for each byte of parameters. */
typedef struct {
    double unit, tensor, buffer, byte;
} cr_sim_host;

/* Measurements of a machine, in seconds and bytes.
 * Invariant: `point` has `points` entries, ascending in bytes for each call; `link` has
 * `links`. */
typedef struct {
    char name[48];
    double flops, memory, capacity; /* of a rank, for each second; bytes of its memory */
    double share;                   /* the part of a rank's speed that calls in progress take */
    bool device;    /* a device computes what the host issues; otherwise the host computes */
    double command; /* in which the host issues a command */
    cr_sim_host host[2][CR_SIM_PHASES]; /* by cr_sim_data */
    double bucket, first_bucket;        /* bytes of DistributedDataParallel's buckets */
    bool blocking; /* gradients of a sharded unit are reduced before the next */
    /* Of the call that sends DistributedDataParallel's buffers in forward: seconds, and seconds
     * for each buffer.  Without a device they are among those of cr_sim_host. */
    double buffers, each_buffer;
    cr_sim_link link[8];
    int links;
    cr_sim_point *point; /* owned; by call, ascending bytes */
    int points;
} cr_sim_machine;

/* Reads the text of a file.  Fails with CR_VALUE, which names the line; then nothing is owned.
 * The caller drops *out. */
CR_MUST cr_status cr_sim_step_read(cr_sim_step *out, const char *text);
void cr_sim_step_drop(cr_sim_step *s);
CR_MUST cr_status cr_sim_machine_read(cr_sim_machine *out, const char *text);
void cr_sim_machine_drop(cr_sim_machine *m);

/* The time of a call of n ranks whose numbers differ by `stride`, on `bytes` whole bytes. */
double cr_sim_call_time(const cr_sim_machine *m, cr_sim_call call, int n, int stride,
                        double bytes);
/* The time of a message to the next stage, `stride` ranks away. */
double cr_sim_send_time(const cr_sim_machine *m, int stride, double bytes);

/* --- pipelines --- */
/* F: forward, B: backward, I and W: its halves, of inputs and of parameters. */
typedef struct {
    int stage, part;
    char kind;
} cr_sim_action;

/* The actions of each rank, in order; owned. */
typedef struct {
    int ranks, stages, parts;
    cr_sim_action **at;
    int *len;
} cr_sim_schedule;

/* "gpipe", "1f1b" (chunks 1) or "interleaved" (`chunks` stages a rank), for `parts` parts of
 * the batch.  Fails with CR_VALUE for other names, and for numbers that the schedule does not
 * take. */
CR_MUST cr_status cr_sim_schedule_make(cr_sim_schedule *out, const char *name, int ranks,
                                       int chunks, int parts);
/* A line for each rank, "0F0,0F1,0B0,...": what _dump_csv() of Python's schedules writes. */
CR_MUST cr_status cr_sim_schedule_read(cr_sim_schedule *out, const char *text);
void cr_sim_schedule_drop(cr_sim_schedule *s);

/* --- the simulation --- */
typedef struct {
    int ranks, tensor, pipeline;     /* ranks = data parallel * pipeline * tensor */
    cr_sim_data data;                /* what data parallel ranks do with parameters */
    const cr_sim_schedule *schedule; /* of `pipeline` ranks; NULL where pipeline is 1 */
} cr_sim_how;

typedef enum { CR_SIM_COMPUTES, CR_SIM_TALKS } cr_sim_lane;

typedef struct {
    int rank; /* of the pipeline */
    cr_sim_lane lane;
    double from, to;
    char kind; /* F, B, I, W; R, G, S, C: all_reduce, all_gather, reduce_scatter, broadcast of
                * buffers; U: update */
    int stage, part;
} cr_sim_event;

typedef struct {
    double seconds;
    double compute; /* of the rank that computes longest */
    double
        exposed;   /* the time that this rank waits for calls, or computes slower beside them */
    double host;   /* the time that it waits for its host, or the host does not compute */
    double idle;   /* the time that it waits for other stages */
    double memory; /* the most bytes of a rank */
    bool fits;     /* in the machine's memory */
    cr_sim_event *event; /* owned; of one rank of each stage */
    size_t events;
} cr_sim_result;

/* Fails with CR_VALUE where the numbers of ranks do not divide, or there are fewer units than
 * stages; with CR_RUNTIME for a schedule in which ranks wait for each other.  The caller drops
 * *out. */
CR_MUST cr_status cr_simulate(cr_sim_result *out, const cr_sim_step *step,
                              const cr_sim_machine *m, const cr_sim_how *how);
void cr_sim_result_drop(cr_sim_result *r);
/* Appends a picture of the events: a row of computation and one of calls for each stage. */
void cr_sim_draw(cr_text *svg, const cr_sim_result *r, const char *title);

#endif
