/* Preloaded into a server: adds nanoseconds to its wall clock. Their number is at the beginning of the file that
 * CLOCK_OFFSET names, where the test writes it while the server runs. No other clock changes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static const int64_t none;
static const volatile int64_t *shared;

/* Maps the file on the first call. Two threads that do so at once map the same file twice, which does no harm. */
static int64_t offset(void)
{
    if (!shared) {
        const char *path = getenv("CLOCK_OFFSET");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0)
            close(file);
        shared = map == MAP_FAILED ? &none : map;
    }
    return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long status = syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanos = now->tv_sec * SECOND + now->tv_nsec + offset();
        now->tv_sec = nanos / SECOND;
        now->tv_nsec = nanos % SECOND;
    }
    return (int)status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (seconds)
        *seconds = precise.tv_sec;
    return precise.tv_sec;
}
