/* Preloaded, it lets calls of the C library fail: WILD is "CALL:ERRNO[,CALL:ERRNO]", the call one of flock,
   posix_fallocate, fsync, and fsync_folder, which is fsync of a folder alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int error_of(const char *call) {
    const char *asked = getenv("WILD");
    const size_t length = strlen(call);
    for (; asked && *asked; asked = strchr(asked, ','), asked = asked ? asked + 1 : NULL)
        if (!strncmp(asked, call, length) && asked[length] == ':') return atoi(asked + length + 1);
    return 0;
}

int flock(int file, int operation) {
    const int error = error_of("flock");
    if (error) return errno = error, -1;
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(file, operation);
}

static int space(const char *name, int file, off_t start, off_t length) {
    const int error = error_of("posix_fallocate");
    if (error) return error;
    return ((int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, name))(file, start, length);
}
int posix_fallocate(int file, off_t start, off_t length) { return space("posix_fallocate", file, start, length); }
int posix_fallocate64(int file, off_t start, off_t length) { return space("posix_fallocate64", file, start, length); }

int fsync(int file) {
    struct stat status;
    int error = error_of("fsync");
    if (!error && !fstat(file, &status) && S_ISDIR(status.st_mode)) error = error_of("fsync_folder");
    if (error) return errno = error, -1;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}
