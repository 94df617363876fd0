/* Logging: the variable is read at every call, calls are rare and it may change. */
#include "base/log.h"
#include "base/env.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cr_log_wants(const char *topic, int level)
{
    const char *s = cr_env(CR_ENV_CR_LOG);
    size_t n = strlen(topic);

    while (*s) {
        size_t len = strcspn(s, ",");
        bool same = len >= n && !strncmp(s, topic, n) && (len == n || s[n] == ':');
        bool all = !strncmp(s, "all", 3) && (len == 3 || s[3] == ':');
        if (same || all) {
            size_t skip = all ? 3 : n;
            return level <= (len > skip ? atoi(s + skip + 1) : 1);
        }
        s += len + (s[len] == ',');
    }
    return false;
}

void cr_log_line(const char *topic, int level, const char *fmt, ...)
{
    cr_text line = {0};
    char text[2048];
    va_list args;

    if (!cr_log_wants(topic, level))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cr_text_printf(&line, "[%s] %s\n", topic, text);
    fputs(cr_text_str(&line), stderr);
    cr_text_drop(&line);
}
