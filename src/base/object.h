/* object.h - shared objects that are opened at run time. */
#ifndef CR_BASE_OBJECT_H
#define CR_BASE_OBJECT_H

/* As dlopen.  NULL in a program without a dynamic linker, where the object's own C library
 * would be a second one in the process. */
void *cr_object_open(const char *path, int flags);
/* Why the last call on this thread returned NULL. */
const char *cr_object_error(void);

#endif
