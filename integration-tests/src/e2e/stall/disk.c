/* A disk that hangs, for one program: preloaded, it lets calls on files below STALL_BELOW wait for as long as the file STALL_WHILE
 * exists. Unlike a frozen file system it needs no rights, and a program that waits can be killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int is_stalled(void) {
    const char *file = getenv("STALL_WHILE");
    return file && syscall(SYS_faccessat, AT_FDCWD, file, F_OK) == 0;
}

static int is_below(const char *path) {
    const char *folder = getenv("STALL_BELOW");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static void wait_for_disk(void) {
    struct timespec look = {0, 10 * 1000 * 1000};
    while (is_stalled())
        syscall(SYS_nanosleep, &look, NULL);
}

static void stall_path(int dir, const char *path) {
    int before = errno;
    char whole[PATH_MAX * 2], name[64];
    if (path && is_stalled()) {
        if (path[0] == '/') {
            if (is_below(path))
                wait_for_disk();
        } else {
            if (dir == AT_FDCWD)
                snprintf(name, sizeof name, "/proc/self/cwd");
            else
                snprintf(name, sizeof name, "/proc/self/fd/%d", dir);
            ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name, whole, sizeof whole - 1);
            if (length > 0) {
                whole[length] = 0;
                if (is_below(whole))
                    wait_for_disk();
            }
        }
    }
    errno = before;
}

static void stall_fd(int fd) {
    int before = errno;
    char name[64], path[PATH_MAX];
    if (is_stalled()) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            if (is_below(path))
                wait_for_disk();
        }
    }
    errno = before;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(result, name, parameters, fd, arguments) \
    result name parameters { stall_fd(fd); return NEXT(name) arguments; }
#define ON_PATH(result, name, parameters, dir, path, arguments) \
    result name parameters { stall_path(dir, path); return NEXT(name) arguments; }

ON_FD(ssize_t, read, (int fd, void *b, size_t n), fd, (fd, b, n))
ON_FD(ssize_t, write, (int fd, const void *b, size_t n), fd, (fd, b, n))
ON_FD(ssize_t, writev, (int fd, const struct iovec *v, int n), fd, (fd, v, n))
ON_FD(ssize_t, pread64, (int fd, void *b, size_t n, off64_t o), fd, (fd, b, n, o))
ON_FD(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), fd, (fd, b, n, o))
ON_FD(int, fsync, (int fd), fd, (fd))
ON_FD(int, fdatasync, (int fd), fd, (fd))
ON_FD(int, ftruncate64, (int fd, off64_t o), fd, (fd, o))
ON_PATH(int, mkdir, (const char *p, mode_t m), AT_FDCWD, p, (p, m))
ON_PATH(int, rmdir, (const char *p), AT_FDCWD, p, (p))
ON_PATH(int, unlink, (const char *p), AT_FDCWD, p, (p))
ON_PATH(int, rename, (const char *p, const char *to), AT_FDCWD, p, (p, to))
ON_PATH(int, stat64, (const char *p, struct stat64 *s), AT_FDCWD, p, (p, s))
ON_PATH(int, lstat64, (const char *p, struct stat64 *s), AT_FDCWD, p, (p, s))
ON_PATH(int, statx, (int d, const char *restrict p, int f, unsigned int m, struct statx *restrict s), d, p, (d, p, f, m, s))

#define OPEN(name, dir, parameters, arguments) \
    int name parameters { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        stall_path(dir, path); \
        return NEXT(name) arguments; \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, dir, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPEN(openat64, dir, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
