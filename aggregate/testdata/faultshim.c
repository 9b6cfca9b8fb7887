/* Preloaded into the engine by tests: strikes one rename or write, chosen by the control file.
 *
 * The control file ($PAGETALLY_FAULT) holds "CALL FOLDER FILE ACTION": CALL is rename or write, FOLDER and FILE are parts
 * of the path concerned, ACTION is fail (ENOSPC), before (killed with the call not made) or after (killed with the call made). The shim
 * removes the file when it strikes, so a fault happens once and the test sees that it has happened.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum action { NONE, FAIL, BEFORE, AFTER };

static enum action strike(const char *call, const char *path)
{
	const char *control = getenv("PAGETALLY_FAULT");
	char text[512], wanted[16], folder[128], file[128], act[16];
	if (!control || !path)
		return NONE;
	int fd = open(control, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NONE;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return NONE;
	text[n] = 0;
	if (sscanf(text, "%15s %127s %127s %15s", wanted, folder, file, act) != 4 || strcmp(wanted, call))
		return NONE;
	if (!strstr(path, folder) || !strstr(path, file))
		return NONE;
	if (unlink(control)) /* another thread was faster */
		return NONE;
	if (!strcmp(act, "fail"))
		return FAIL;
	return strcmp(act, "before") ? AFTER : BEFORE;
}

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

int rename(const char *from, const char *to)
{
	enum action a = strike("rename", from);
	if (a == BEFORE)
		die();
	if (a == FAIL) {
		errno = ENOSPC;
		return -1;
	}
	int result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
	if (a == AFTER)
		die();
	return result;
}

ssize_t write(int fd, const void *data, size_t size)
{
	char link[64], path[512];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	enum action a = NONE;
	if (n > 0) {
		path[n] = 0;
		a = strike("write", path);
	}
	if (a == BEFORE)
		die();
	if (a == FAIL) {
		errno = ENOSPC;
		return -1;
	}
	ssize_t result = syscall(SYS_write, fd, data, size);
	if (a == AFTER)
		die();
	return result;
}
