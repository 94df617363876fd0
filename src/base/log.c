/* Logging.  Every call reads CR_LOG again, because calls are rare and the variable may
 * change. */
#include "base/log.h"
#include "base/env.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *help;
} topics[] = {
#define CR_TOPIC(name, help) {#name, help},
#include "base/topics.def"
#undef CR_TOPIC
};

static bool log_is_name(const char *s, size_t len, const char *name)
{
    return strlen(name) == len && !strncmp(s, name, len);
}

static bool is_topic(const char *s, size_t len)
{
    for (size_t i = 0; i < CR_LEN(topics); i++)
        if (log_is_name(s, len, topics[i].name))
            return true;
    return log_is_name(s, len, "all");
}

void cr_log_describe(cr_text *out)
{
    for (size_t i = 0; i < CR_LEN(topics); i++)
        cr_text_printf(out, "  %-10s %s\n", topics[i].name, topics[i].help);
    cr_text_printf(out, "  %-10s %s\n", "all", "every topic");
}

/* Reports topics in CR_LOG that do not exist.  They would select no line and no error. */
static void log_check_names(void)
{
    const char *s = cr_env(CR_ENV_CR_LOG);
    cr_text text = {0};

    while (*s) {
        size_t len = strcspn(s, ","), name = strcspn(s, ":,");
        if (name && !is_topic(s, name))
            cr_text_printf(&text, "CR_LOG: there is no topic '%.*s'\n", (int)name, s);
        s += len + (s[len] == ',');
    }
    if (text.len) {
        cr_text_put(&text, "CR_LOG takes topic or topic:level, separated by commas; "
                           "a level is 1 to 3; the topics are\n");
        cr_log_describe(&text);
        fputs(cr_text_str(&text), stderr);
    }
    cr_text_drop(&text);
}

bool cr_log_wants(const char *topic, int level)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *s = cr_env(CR_ENV_CR_LOG);

    CR_ASSERT(is_topic(topic, strlen(topic)));
    if (*s)
        pthread_once(&once, log_check_names);
    while (*s) {
        size_t len = strcspn(s, ","), name = strcspn(s, ":,");
        if (log_is_name(s, name, topic) || log_is_name(s, name, "all"))
            return level <= (len > name ? atoi(s + name + 1) : 1);
        s += len + (s[len] == ',');
    }
    return false;
}

void cr_log_line(const char *topic, int level, const char *fmt, ...)
{
    cr_text line = {0};
    char *text;
    va_list args;
    int n;

    if (!cr_log_wants(topic, level))
        return;
    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = n < 0 ? NULL : cr_alloc((size_t)n + 1);
    if (!text)
        return;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    cr_text_printf(&line, "[%s] %s%s", topic, text, n && text[n - 1] == '\n' ? "" : "\n");
    fputs(cr_text_str(&line), stderr);
    cr_text_drop(&line);
    cr_free(text);
}
