/* mutate.h - random changes of texts, for fuzzers of readers. */
#ifndef CR_FUZZ_MUTATE_H
#define CR_FUZZ_MUTATE_H

#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 }; /* bytes of a text */

static uint64_t state;

/* Prints the seed, so that a failure can be repeated. */
static void draw_from(uint64_t seed)
{
    state = seed;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
}

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static size_t replace(char *b, size_t len, size_t at, size_t old, const char *new, size_t n)
{
    if (at + old > len || len - old + n > MOST)
        return len;
    memmove(b + at + n, b + at + old, len - at - old);
    memcpy(b + at, new, n);
    return len - old + n;
}

static size_t mutate(char *b, size_t len, const char *token)
{
    size_t at = draw((uint32_t)len), n = draw(40);
    char copy[40];

    switch (draw(6)) {
    case 0: b[at] = (char)(1 + draw(126)); return len;
    case 1: return replace(b, len, at, draw(12), "", 0);
    case 2: return replace(b, len, at, 0, token, strlen(token));
    case 3: return replace(b, len, at, 1 + draw(6), token, strlen(token));
    case 4: /* copy a part to another place */
        if (at + n > len)
            return len;
        memcpy(copy, b + at, n);
        return replace(b, len, draw((uint32_t)len), 0, copy, n);
    default: return len > 40 && !draw(6) ? 20 + draw((uint32_t)len - 20) : len;
    }
}

/* `to` has MOST + 1 bytes. */
static void mutate_text(char *to, const char *from, const char *const *tokens, size_t count)
{
    size_t len = strlen(from);

    memcpy(to, from, len);
    for (uint32_t m = draw(5); m > 0; m--)
        len = mutate(to, len, tokens[draw((uint32_t)count)]);
    to[len] = 0;
}

CR_NORETURN static void refuse(const char *text, const char *why)
{
    printf("%s: %s\n%s\n", why, cr_error_message(), text);
    fflush(stdout);
    abort();
}

#endif
