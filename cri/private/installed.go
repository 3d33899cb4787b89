package private

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/retry"
)

// A package manager unpacks a runtime before it configures and starts it. A daemon that starts in
// between, as systemd starts one without a runtime again and again, must not choose a private
// containerd, and keep to that.
const (
	// installationTime is how long after its installation a runtime is waited for.
	installationTime = time.Minute
	installationPoll = 200 * time.Millisecond
	// bootTime is how long after the start of the kernel the files of a system that is unpacked at
	// each boot are made, as those of an initial ramdisk are.
	bootTime = 30 * time.Second
)

// Installation finds runtimes that are being installed as services of systemd.
type Installation struct {
	// Booted is a directory that exists if systemd is the init process (sd_booted).
	Booted string
	// UnitDirs are the directories of unit files, those of the administrator first.
	UnitDirs []string
	// Services are the unit files of the runtimes.
	Services []string
	// Sockets are where the runtimes listen.
	Sockets []string
	// Uptime replaces the time since the start of the kernel in tests.
	Uptime func() time.Duration
}

// SystemdInstallation is that of this host.
var SystemdInstallation = Installation{
	Booted: "/run/systemd/system",
	UnitDirs: []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
		"/lib/systemd/system"},
	Services: []string{"containerd.service", "crio.service", "cri-docker.service"},
	Sockets:  UsualSockets,
}

// Await returns the endpoint of a runtime that was installed as a service within the last minute, as
// unix:///path, once it responds. found is false if there is none, it is masked, or it does not
// answer within that minute.
func (i Installation) Await(ctx context.Context, log *slog.Logger) (endpoint string, found bool) {
	logged := false
	for {
		service := i.recent(time.Now())
		if service == "" {
			return "", false
		}
		if endpoint, found = Find(ctx, i.Sockets); found {
			return endpoint, true
		}
		if !logged {
			log.Info("Waiting for a container runtime that was installed a moment ago, before a private containerd is used",
				"service", service, "timeout", installationTime)
			logged = true
		}
		if !retry.Sleep(ctx, installationPoll) {
			return "", false
		}
	}
}

// recent returns the unit file of a runtime that was installed within installationTime before now,
// empty if there is none.
func (i Installation) recent(now time.Time) string {
	if _, err := os.Stat(i.Booted); err != nil {
		return ""
	}
	for _, service := range i.Services {
		for _, dir := range i.UnitDirs {
			file := filepath.Join(dir, service)
			fi, err := os.Lstat(file)
			if err != nil {
				continue
			}
			if masked(file, fi) {
				break
			}
			// A package preserves the time of the modification, and not that of the inode's change.
			age := now.Sub(time.Unix(fi.Sys().(*syscall.Stat_t).Ctim.Unix()))
			if age >= 0 && age < installationTime && i.uptime()-age > bootTime {
				return service
			}
		}
	}
	return ""
}

// uptime returns the time since the start of the kernel.
func (i Installation) uptime() time.Duration {
	if i.Uptime != nil {
		return i.Uptime()
	}
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return 0
	}
	return time.Duration(since.Nano())
}

// masked reports whether a unit file is what systemctl mask makes.
func masked(file string, fi fs.FileInfo) bool {
	if fi.Mode().IsRegular() {
		return fi.Size() == 0
	}
	target, err := os.Readlink(file)
	return err == nil && target == os.DevNull
}
