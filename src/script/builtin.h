/* builtin.h - what the files of builtin functions share. */
#ifndef CR_SCRIPT_BUILTIN_H
#define CR_SCRIPT_BUILTIN_H

#include "script/execute_impl.h"

/* The arguments are of no kinds that the function takes. */
cr_status cr_builtin_misfit(const cr_scall *c);
/* The order of two arguments, or of two items of them; cr_builtin_misfit for kinds without an
 * order.  A method __lt__ may run. */
CR_MUST cr_status cr_builtin_less(const cr_scall *c, const cr_ivalue *a, const cr_ivalue *b,
                                  bool *less);
/* Equality as programs have it: tensors by their elements. */
CR_MUST cr_status cr_builtin_equal(const cr_ivalue *a, const cr_ivalue *b, bool *equal);

/* a + b and a * n of lists and strings (builtin_list.c). */
CR_MUST cr_status cr_builtin_join(cr_scall *c);
CR_MUST cr_status cr_builtin_repeat(cr_scall *c);
/* The function of lists, dicts and strings of this name, or NULL. */
cr_builtin_fn cr_builtin_container(const char *name);
cr_builtin_fn cr_builtin_text(const char *name);
/* Parts of functions that strings and lists share (builtin_text.c). */
int64_t cr_builtin_text_len(const cr_istring *s);
CR_MUST cr_status cr_builtin_text_at(cr_scall *c);
CR_MUST cr_status cr_builtin_text_slice(cr_scall *c);
CR_MUST cr_status cr_builtin_text_list(cr_scall *c);
CR_MUST cr_status cr_builtin_text_count(cr_scall *c);
CR_MUST cr_status cr_builtin_text_index(cr_scall *c);
/* The bounds that arguments 1 to 3 give a slice of n items. */
void cr_builtin_slice(const cr_scall *c, int64_t n, int64_t *start, int64_t *end,
                      int64_t *step);

#endif
