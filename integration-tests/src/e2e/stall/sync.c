/* A disk whose syncs fail, for one program: preloaded, it keeps in SYNC_IMAGES what a power failure would leave of each file whose path
 * begins with SYNC_OF. Data reach such an image with a successful sync only. While the file SYNC_FAILS exists, syncs of files whose path
 * ends with its content fail with EIO if there is anything to write. Like Linux, it reports the error once and takes the data for written:
 * they stay readable, the next sync succeeds, and they never reach the image unless the program writes them again. Changes of a file's
 * size reach the image at once. Files that are renamed or deleted are not supported. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct range {
    off_t offset;
    size_t length;
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* A test must not go on with images that are wrong. */
static void must(int holds) {
    if (!holds) {
        perror("sync.c");
        abort();
    }
}

/* Finds the path of a descriptor. Returns whether its file has an image. */
static int find_path(int fd, char path[PATH_MAX]) {
    const char *prefix = getenv("SYNC_OF");
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return prefix && strncmp(path, prefix, strlen(prefix)) == 0;
}

static int open_in_images(const char *name, const char *suffix, int flags) {
    char path[PATH_MAX * 2];
    const char *images = getenv("SYNC_IMAGES");
    must(images != NULL);
    snprintf(path, sizeof path, "%s/%s%s", images, name, suffix);
    int file = open(path, O_CREAT | O_CLOEXEC | flags, 0600);
    must(file >= 0);
    return file;
}

static const char *name_of(const char *path) { return strrchr(path, '/') + 1; }

static int must_fail(const char *path) {
    char end[PATH_MAX];
    const char *control = getenv("SYNC_FAILS");
    int file = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, end, sizeof end);
    close(file);
    must(length >= 0);
    size_t whole = strlen(path), part = (size_t)length;
    return part <= whole && memcmp(path + whole - part, end, part) == 0;
}

static void note_write(int fd, off_t offset, size_t length) {
    char path[PATH_MAX];
    int before = errno;
    if (find_path(fd, path)) {
        struct range range = {offset, length};
        pthread_mutex_lock(&turn);
        int dirty = open_in_images(name_of(path), ".dirty", O_WRONLY | O_APPEND);
        must(write(dirty, &range, sizeof range) == sizeof range);
        close(dirty);
        pthread_mutex_unlock(&turn);
    }
    errno = before;
}

static void note_size(int fd, off_t size) {
    char path[PATH_MAX];
    int before = errno;
    if (find_path(fd, path)) {
        int image = open_in_images(name_of(path), "", O_WRONLY);
        must(NEXT(ftruncate)(image, size) == 0);
        close(image);
    }
    errno = before;
}

static void copy(int from, int to, struct range range) {
    char bytes[65536];
    while (range.length > 0) {
        size_t part = range.length < sizeof bytes ? range.length : sizeof bytes;
        ssize_t got = pread(from, bytes, part, range.offset);
        must(got >= 0);
        /* The file has been truncated since then. */
        if (got == 0) return;
        must(NEXT(pwrite)(to, bytes, (size_t)got, range.offset) == got);
        range.offset += got;
        range.length -= (size_t)got;
    }
}

/* Takes the place of a sync. The page cache outlives the program, so nothing has to reach a real disk. */
static int sync_image(const char *path, int fd) {
    pthread_mutex_lock(&turn);
    int dirty = open_in_images(name_of(path), ".dirty", O_RDWR);
    int image = open_in_images(name_of(path), "", O_WRONLY);
    struct range range;
    int fails = 0;
    while (read(dirty, &range, sizeof range) == sizeof range && !fails) {
        fails = must_fail(path);
        if (!fails) copy(fd, image, range);
    }
    must(NEXT(ftruncate)(dirty, 0) == 0);
    close(image);
    close(dirty);
    if (fails) {
        int failures = open_in_images("failures", "", O_WRONLY | O_APPEND);
        must(dprintf(failures, "%s\n", name_of(path)) > 0);
        close(failures);
        errno = EIO;
    }
    pthread_mutex_unlock(&turn);
    return fails ? -1 : 0;
}

#define SYNC(name) \
    int name(int fd) { \
        char path[PATH_MAX]; \
        return find_path(fd, path) ? sync_image(path, fd) : NEXT(name)(fd); \
    }
SYNC(fsync)
SYNC(fdatasync)

#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *bytes, size_t length, offset_type offset) { \
        ssize_t written = NEXT(name)(fd, bytes, length, offset); \
        if (written > 0) note_write(fd, offset, (size_t)written); \
        return written; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type) \
    int name(int fd, offset_type size) { \
        int result = NEXT(name)(fd, size); \
        if (result == 0) note_size(fd, size); \
        return result; \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
