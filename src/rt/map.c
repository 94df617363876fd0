/* Files of programs, on POSIX systems. */
#include "cresset_rt.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const void *cr_rt_map(const char *path, size_t *n)
{
    struct stat info = {0};
    void *at = MAP_FAILED;
    int file = open(path, O_RDONLY);

    if (file < 0)
        return NULL;
    if (!fstat(file, &info) && info.st_size > 0)
        at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    *n = (size_t)info.st_size;
    return at == MAP_FAILED ? NULL : at;
}
