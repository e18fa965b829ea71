/* Owns signals, descriptors 0 to 2 and reading what a person or a file says. Must not know models or options. */
#include "terminal.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t interrupt_count;
static volatile sig_atomic_t interrupt_signal;

static void on_interrupt(int number)
{
    interrupt_signal = number;
    if (++interrupt_count >= 3)
        _exit(128 + number);
}

void cli_terminal_setup(void)
{
    /* Descriptors for writing are replaced by one that cannot be written, so that lost output is noticed. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
                _exit(CLI_FAILURE);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL); /* a file size limit is then an error of write(), like a full disk */
    action.sa_handler = on_interrupt;  /* no SA_RESTART: a read of the terminal must return */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool cli_terminal_is_input(void)
{
    return isatty(STDIN_FILENO) == 1;
}

bool cli_terminal_is_output(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

bool cli_terminal_is_errors(void)
{
    return isatty(STDERR_FILENO) == 1;
}

unsigned cli_terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

bool cli_terminal_has_color(void)
{
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    return cli_terminal_is_errors() && !(no_color && *no_color) && kind && strcmp(kind, "dumb") != 0;
}

bool cli_interrupted(void)
{
    return interrupt_count > 0;
}

void cli_interrupt_clear(void)
{
    if (interrupt_signal != SIGTERM)
        interrupt_count = 0;
}

bool cli_interrupt_poll(void *context)
{
    (void)context;
    return interrupt_count > 0;
}

int cli_interrupt_exit_code(void)
{
    return interrupt_signal == SIGTERM ? 128 + SIGTERM : CLI_INTERRUPTED;
}

/* read() that an interrupt ends (-1 with EINTR), also one that came just before: outside of ppoll() the signals wait. */
static ssize_t read_or_interrupt(int fd, void *bytes, size_t size_bytes)
{
    sigset_t signals, before;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int count = 0;
    while (!cli_interrupted() && (count = ppoll(&ready, 1, NULL, &before)) < 0 && errno == EINTR)
        continue;
    bool is_stopped = cli_interrupted();
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (is_stopped) {
        errno = EINTR;
        return -1;
    }
    return count < 0 ? -1 : read(fd, bytes, size_bytes);
}

cli_line_result cli_read_line(char **line, size_t *size_bytes)
{
    /* Bytes that came with an earlier read, beyond its line. */
    static char buffer[4096];
    static size_t begin, end;
    enum { LINE_MAX_BYTES = 4 << 20 };
    size_t capacity = 256, size = 0;
    char *text = cli_allocate(capacity);
    for (;;) {
        while (begin < end) {
            char c = buffer[begin++];
            if (c == '\n') {
                text[size] = 0;
                *line = text;
                *size_bytes = size;
                return CLI_LINE;
            }
            if (size + 1 >= LINE_MAX_BYTES) {
                free(text);
                return CLI_LINE_ERROR;
            }
            if (size + 1 >= capacity)
                text = cli_reallocate(text, capacity *= 2);
            text[size++] = c;
        }
        ssize_t count = read_or_interrupt(STDIN_FILENO, buffer, sizeof buffer);
        if (count > 0) {
            begin = 0;
            end = (size_t)count;
        } else if (count == 0) {
            text[size] = 0;
            *line = text;
            *size_bytes = size;
            if (size)
                return CLI_LINE;
            free(text);
            return CLI_LINE_END;
        } else if (errno == EINTR && cli_interrupted()) {
            free(text);
            return CLI_LINE_INTERRUPTED;
        } else if (errno != EINTR) {
            free(text);
            return CLI_LINE_ERROR;
        }
    }
}

/* Reads to the end; -1 with errno set on failure, -2 when there is more than limit_bytes. */
static int read_all(int fd, size_t limit_bytes, char **text, size_t *size_bytes)
{
    size_t capacity = 1 << 16, size = 0;
    char *bytes = cli_allocate(capacity);
    for (;;) {
        if (size + 1 >= capacity)
            bytes = cli_reallocate(bytes, capacity *= 2);
        ssize_t count = read_or_interrupt(fd, bytes + size, capacity - size - 1);
        if (count == 0)
            break;
        if (count < 0 && errno == EINTR && !cli_interrupted())
            continue;
        if (count > 0)
            size += (size_t)count;
        if (count < 0 || size > limit_bytes) {
            free(bytes);
            return count < 0 ? -1 : -2;
        }
    }
    bytes[size] = 0;
    *text = bytes;
    *size_bytes = size;
    return 0;
}

int cli_read_file(const char *path, size_t limit_bytes, char **text, size_t *size_bytes)
{
    bool is_input = strcmp(path, "-") == 0;
    const char *where = is_input ? "standard input" : path;
    int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_fail(CLI_BAD_INPUT, where, "cannot open: %s", strerror(errno));
    int result = read_all(fd, limit_bytes, text, size_bytes);
    int number = errno;
    if (!is_input)
        close(fd);
    if (result == -1 && number == EINTR)
        return cli_interrupt_exit_code();
    if (result == -1)
        return cli_fail(CLI_BAD_INPUT, where, "cannot read: %s", strerror(number));
    if (result == -2)
        return cli_fail(CLI_BAD_INPUT, where, "is larger than %zu bytes", limit_bytes);
    return CLI_OK;
}
