/* log.h - CR_LOG=topic:level,... writes lines to standard error; topics.def lists the topics. */
#ifndef CR_BASE_LOG_H
#define CR_BASE_LOG_H

#include "base/text.h"

/* Whether lines of `topic` at `level` (1 to 3) are wanted. */
bool cr_log_wants(const char *topic, int level);
/* Writes "[topic] text" when wanted; one write a line. */
void cr_log_line(const char *topic, int level, const char *fmt, ...) CR_PRINTF(3, 4);
/* The list of topics, a line each, as a name that is none shows it. */
void cr_log_describe(cr_text *out);

#endif
