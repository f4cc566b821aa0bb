/* Makes one call of the C library on files below given directories fail, or do a part of its work.

   Loaded with LD_PRELOAD; `faults_begin` starts the count of calls. A fault is an errno (EIO, ENOSPC, EINTR), or SHORT:
   a read or write of one byte. Calls that do not have the fault on Linux are not counted. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHORT -1
#define CHANGES 1 /* of directories */
#define READS 2
#define WRITES 4
#define SYNCS 8

static char places[2][4096];
static int fault = 0;
static long stop_at = -1;
static atomic_long count = 0;
static const char *failed = "";

void faults_begin(const char *folder, const char *input, int kind, long at)
{
    strncpy(places[0], folder, sizeof places[0] - 1);
    strncpy(places[1], input, sizeof places[1] - 1);
    fault = kind, stop_at = at, count = 0;
}

long faults_count(void) { return count; }
const char *faults_failed(void) { return failed; }

static int is_below(const char *path)
{
    for (int i = 0; i < 2; i++)
        if (*places[i] && !strncmp(path, places[i], strlen(places[i])))
            return 1;
    return 0;
}

static int has_fault(int kind)
{
    if (fault == EINTR)
        return kind & (READS | WRITES);
    if (fault == SHORT)
        return kind & (READS | WRITES);
    return fault == ENOSPC ? kind & (CHANGES | WRITES) : 1;
}

/* Return whether this call fails. */
static int fails(const char *path, int kind, const char *name)
{
    if (stop_at < 0 || !has_fault(kind) || !is_below(path) || ++count != stop_at)
        return 0;
    failed = name;
    errno = fault;
    return 1;
}

static int fd_fails(int fd, int kind, const char *name)
{
    char link[64], path[4096];
    int saved = errno;
    if (stop_at < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails(path, kind, name);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OF_PATH(name, type, arguments, path, kind, call)                                                               \
    type name arguments { return fails(path, kind, #name) ? -1 : NEXT(name) call; }
#define OF_FD(name, type, arguments, kind, call)                                                                       \
    type name arguments { return fd_fails(fd, kind, #name) ? -1 : NEXT(name) call; }
/* A short transfer is one of one byte. */
#define TRANSFER(name, arguments, kind, call, short_call)                                                              \
    ssize_t name arguments                                                                                             \
    {                                                                                                                  \
        if (!fd_fails(fd, kind, #name))                                                                                \
            return NEXT(name) call;                                                                                    \
        return fault == SHORT && size > 1 ? NEXT(name) short_call : fault == SHORT ? NEXT(name) call : -1;             \
    }
#define OPEN(name, parameters, call)                                                                                   \
    int name parameters                                                                                                \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        int kind = flags & O_CREAT ? CHANGES : fault == EIO ? READS : 0;                                               \
        return kind && fails(path, kind, #name) ? -1 : NEXT(name) call;                                                \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
TRANSFER(read, (int fd, void *data, size_t size), READS, (fd, data, size), (fd, data, 1))
TRANSFER(pread, (int fd, void *data, size_t size, off_t at), READS, (fd, data, size, at), (fd, data, 1, at))
TRANSFER(pread64, (int fd, void *data, size_t size, off64_t at), READS, (fd, data, size, at), (fd, data, 1, at))
TRANSFER(write, (int fd, const void *data, size_t size), WRITES, (fd, data, size), (fd, data, 1))
TRANSFER(pwrite, (int fd, const void *data, size_t size, off_t at), WRITES, (fd, data, size, at), (fd, data, 1, at))
TRANSFER(pwrite64, (int fd, const void *data, size_t size, off64_t at), WRITES, (fd, data, size, at), (fd, data, 1, at))
OF_FD(fsync, int, (int fd), SYNCS, (fd))
OF_FD(fdatasync, int, (int fd), SYNCS, (fd))
OF_FD(ftruncate, int, (int fd, off_t size), SYNCS, (fd, size))
OF_FD(ftruncate64, int, (int fd, off64_t size), SYNCS, (fd, size))
OF_PATH(rename, int, (const char *path, const char *to), path, CHANGES, (path, to))
OF_PATH(link, int, (const char *path, const char *to), path, CHANGES, (path, to))
OF_PATH(unlink, int, (const char *path), path, SYNCS, (path))
OF_PATH(rmdir, int, (const char *path), path, SYNCS, (path))
OF_PATH(mkdir, int, (const char *path, mode_t mode), path, CHANGES, (path, mode))
OF_PATH(chmod, int, (const char *path, mode_t mode), path, SYNCS, (path, mode))

int renameat2(int from, const char *path, int there, const char *to, unsigned flags)
{
    return fails(path, CHANGES, "renameat2") ? -1 : NEXT(renameat2)(from, path, there, to, flags);
}

int linkat(int from, const char *path, int there, const char *to, int flags)
{
    return fails(path, CHANGES, "linkat") ? -1 : NEXT(linkat)(from, path, there, to, flags);
}
