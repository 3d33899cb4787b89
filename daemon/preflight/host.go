package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is the host that is checked. Files are read below Root.
type Host struct {
	// Root is "/" for this host.
	Root string
	// UID is the effective user ID; running pods requires root.
	UID int
	Now func() time.Time
	// Synchronized reports whether the kernel considers the clock synchronized.
	Synchronized func() (bool, error)
	// Space returns the state of the file system of a path.
	Space func(path string) (Space, error)
	// Path are the directories of commands.
	Path []string
}

// Space is the state of a file system.
type Space struct {
	// ID identifies the file system, 0 if it has no ID.
	ID uint64
	// Bytes and Inodes are totals, BytesFree and InodesFree what is available. Both
	// inode numbers are 0 on a file system without inodes.
	Bytes, BytesFree, Inodes, InodesFree uint64
	ReadOnly, NoExec                     bool
	// InMemory reports that the content is lost on reboot.
	InMemory bool
}

// ThisHost returns the host that this program runs on.
func ThisHost() Host {
	return Host{
		Root: "/", UID: os.Geteuid(), Now: time.Now, Synchronized: clockSynchronized, Space: spaceOf,
		Path: append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin"),
	}
}

// Magic numbers of memory file systems, as in statfs(2).
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

func spaceOf(path string) (Space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Space{}, err
	}
	size := uint64(fs.Bsize)
	return Space{
		ID:    uint64(uint32(fs.Fsid.Val[0])) | uint64(uint32(fs.Fsid.Val[1]))<<32,
		Bytes: fs.Blocks * size, BytesFree: fs.Bavail * size, Inodes: fs.Files, InodesFree: fs.Ffree,
		ReadOnly: fs.Flags&unix.ST_RDONLY != 0, NoExec: fs.Flags&unix.ST_NOEXEC != 0,
		InMemory: fs.Type == tmpfsMagic || int64(uint32(fs.Type)) == ramfsMagic,
	}, nil
}

func clockSynchronized() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, err
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}

func (h *Host) path(p string) string { return filepath.Join(h.Root, p) }

// text returns the content of a file without surrounding white space, empty if it cannot be
// read.
func (h *Host) text(p string) string {
	data, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// number returns the content of a file that consists of one number.
func (h *Host) number(p string) (int64, bool) {
	n, err := strconv.ParseInt(h.text(p), 10, 64)
	return n, err == nil
}

func (h *Host) exists(p string) bool {
	_, err := os.Stat(h.path(p))
	return err == nil
}

// command returns the path of a program, empty if it is not installed.
func (h *Host) command(name string) string {
	for _, dir := range h.Path {
		if h.executable(filepath.Join(dir, name)) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// installed sets the command that installs Debian packages in findings about missing
// programs, where apt-get is installed.
func (h *Host) installed(packages string, list []Finding) []Finding {
	if h.command("apt-get") == "" {
		return list
	}
	return repairedBy("apt-get install -y "+packages, list)
}

func (h *Host) executable(p string) bool {
	fi, err := os.Stat(h.path(p))
	return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
}

// nearestExisting returns the path, or its nearest existing parent directory.
func (h *Host) nearestExisting(p string) string {
	for {
		if _, err := os.Stat(h.path(p)); !errors.Is(err, os.ErrNotExist) || p == "/" || p == "." {
			return p
		}
		p = filepath.Dir(p)
	}
}
