/* log.h - CR_LOG=topic:level,... writes lines to standard error. */
#ifndef CR_BASE_LOG_H
#define CR_BASE_LOG_H

#include "base/compiler.h"
#include <stdbool.h>

/* Whether lines of `topic` at `level` (1 to 3) are wanted. */
bool cr_log_wants(const char *topic, int level);
/* Writes "[topic] text" when wanted; one write a line. */
void cr_log_line(const char *topic, int level, const char *fmt, ...) CR_PRINTF(3, 4);

#endif
