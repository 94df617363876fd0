/* crc.h - what the files of crc share. */
#ifndef CR_CRC_H
#define CR_CRC_H

#include "base/text.h"
#include "loop/nest.h"

/* A pass by name over a program's text: prints, simplifies, fuses, verifies, schedules,
 * emits.  Appends the result to `out`.  CR_VALUE for an unknown pass, else what the
 * passes refuse. */
CR_MUST cr_status crc_pass(cr_text *out, const char *passes, const char *text);

/* The same for a graph, whose text begins with "graph"; also runs it. */
bool crc_is_graph(const char *text);
CR_MUST cr_status crc_graph_pass(cr_text *out, const char *passes, const char *text);

/* The commands; each returns the exit status. */
int crc_text(int argc, char **argv);
int crc_run(int argc, char **argv);
int crc_explain(int argc, char **argv);
int crc_ops(int argc, char **argv);

/* Prints the error record. */
int crc_failed(void);

#endif
