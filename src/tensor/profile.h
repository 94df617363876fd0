/* profile.h - times and memory of calls.
 *
 * While a thread profiles, the first stage of its calls writes an event for each call, and for
 * each call that operators and derivatives make.  Other code adds events with cr_profile_enter
 * and cr_profile_leave.  A thread that does not profile pays nothing: the stage's bit is not
 * set in cr_thread.include. */
#ifndef CR_TENSOR_PROFILE_H
#define CR_TENSOR_PROFILE_H

#include "tensor/tensor.h"

typedef enum {
    CR_PROFILE_OP,    /* a call; `name` is the entry's */
    CR_PROFILE_NODE,  /* a node of a backward, with its hooks */
    CR_PROFILE_APPLY, /* the node's own function */
    CR_PROFILE_GROUP, /* a fused kernel of a compiled program */
    CR_PROFILE_USER   /* a range that a program names */
} cr_profile_kind;

typedef struct {
    const char *name;
    int64_t start, end;         /* nanoseconds of the monotonic clock; end 0: still running */
    int64_t memory, memory_end; /* bytes of host memory in use at start and end */
    int64_t sequence;           /* of a node, the order of creation; else -1 */
    size_t inputs, input_count; /* the event's part of cr_profile.inputs */
    int32_t parent;             /* index of the event that was running; -1: none */
    cr_profile_kind kind;
} cr_profile_event;

/* The events of one thread, in the order of their starts.
 *
 * `inputs` has for each parameter of a call a cr_tag, then for
 * CR_TENSOR: dtype, number of dims, sizes; CR_TENSORS: number of tensors, then each without
 * its tag; CR_INTS and CR_TRUTHS: number, values; CR_INT and CR_TRUTH: the value; CR_FLOAT: the
 * bits of the double; nothing for other tags. */
typedef struct {
    CR_VEC(cr_profile_event) events;
    CR_VEC(int64_t) inputs;
    cr_arena names;
    int32_t open; /* the event that is running, or -1 */
    bool with_inputs;
    bool incomplete; /* memory was exhausted: events are missing */
} cr_profile;

static inline bool cr_profiling(void) { return cr_thread.include & CR_STAGE_BIT(PROFILE); }

/* Starts a profile of the calling thread.  CR_RUNTIME when one is running. */
CR_MUST cr_status cr_profile_start(bool with_inputs);
/* Ends the thread's profile, which the caller then owns; NULL when none is running. */
cr_profile *cr_profile_stop(void);
void cr_profile_drop(cr_profile *p);

/* Starts an event of a thread that profiles; `name` is copied.  Returns its index for
 * cr_profile_leave, or -1 when the event cannot be stored. */
int32_t cr_profile_enter(cr_profile_kind kind, const char *name, int64_t sequence);
void cr_profile_leave(int32_t event);

/* Called once, at start-up. */
void cr_profile_install(void);

#endif
