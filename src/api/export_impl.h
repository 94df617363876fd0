/* export_impl.h - a module's recorded call, inside the room. */
#ifndef CR_API_EXPORT_IMPL_H
#define CR_API_EXPORT_IMPL_H

#include "graph/graph.h"

/* An input of the recorded graph: an argument, or a tensor at a path of the module. */
typedef struct {
    char *name, *path;
    cr_tensor *t, *first; /* the tensor of the call, and a copy of its values before it */
    bool argument, parameter, written;
    uint32_t version;
} cr_export_input;

struct cr_exported {
    cr_recorder *recorder;
    const cr_graph *graph;
    CR_VEC(cr_export_input) input;
};

#endif
