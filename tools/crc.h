/* crc.h - shared by the files of crc. */
#ifndef CR_CRC_H
#define CR_CRC_H

#include "base/text.h"
#include "loop/nest.h"

/* Runs passes by name on a program's text: print, simplify, fuse, verify, schedule, c, cuda.
 * Appends
 * the result to `out`.  Fails with CR_VALUE for an unknown pass, else with the pass's error. */
CR_MUST cr_status crc_pass(cr_text *out, const char *passes, const char *text);

/* As crc_pass, for a graph, whose text begins with "graph".  Can also run the graph. */
bool crc_is_graph(const char *text);
CR_MUST cr_status crc_graph_pass(cr_text *out, const char *passes, const char *text);

/* As crc_pass, for a graph of TorchScript, in torch's form: graph(%x : Tensor): ... */
bool crc_is_script(const char *text);
CR_MUST cr_status crc_script_pass(cr_text *out, const char *passes, const char *text);

/* The commands.  Each returns the exit status. */
int crc_text(int argc, char **argv);
int crc_run(int argc, char **argv);
int crc_explain(int argc, char **argv);
int crc_ops(int argc, char **argv);
int crc_kernels(int argc, char **argv);
int crc_host(int argc, char **argv);
int crc_simulate(int argc, char **argv);

/* Reads the operator table. */
CR_MUST cr_status crc_read_table(void);

/* Prints the error record.  Returns the exit status. */
int crc_failed(void);

#endif
