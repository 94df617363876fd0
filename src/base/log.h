/* log.h - lines on standard error, selected by CR_LOG=topic:level,...  topics.def lists the
 * topics. */
#ifndef CR_BASE_LOG_H
#define CR_BASE_LOG_H

#include "base/text.h"

/* True when CR_LOG selects `topic` at `level` (1 to 3). */
bool cr_log_wants(const char *topic, int level);
/* Writes "[topic] text" with one write when CR_LOG selects it. */
void cr_log_line(const char *topic, int level, const char *fmt, ...) CR_PRINTF(3, 4);
/* Appends the list of topics, one a line. */
void cr_log_describe(cr_text *out);

#endif
