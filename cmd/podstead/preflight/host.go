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

// Host is the machine that is looked at. Files are read below Root.
type Host struct {
	// Root is "/" for this machine.
	Root string
	// UID is the user's who asks; pods take root.
	UID int
	Now func() time.Time
	// Synchronized reports whether the kernel takes the clock for right.
	Synchronized func() (bool, error)
	// Space is that of the file system a folder is on.
	Space func(path string) (Space, error)
	// Path has the folders of commands.
	Path []string
}

// Space is what a file system has.
type Space struct {
	// Bytes and Inodes in all, and those that are free for root's daemons. A
	// file system without inodes has none at all.
	Bytes, BytesFree, Inodes, InodesFree uint64
	ReadOnly, NoExec                     bool
	// InMemory: what is on it is gone after a boot.
	InMemory bool
}

// ThisHost is the machine that this program runs on.
func ThisHost() Host {
	return Host{
		Root: "/", UID: os.Geteuid(), Now: time.Now, Synchronized: clockSynchronized, Space: spaceOf,
		Path: append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin"),
	}
}

// Magic numbers of file systems that live in memory, as in statfs(2).
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

// line is the text of a file without the white space around it, empty if it
// cannot be read.
func (h *Host) line(p string) string {
	data, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// number is what a file of one number holds.
func (h *Host) number(p string) (int64, bool) {
	n, err := strconv.ParseInt(h.line(p), 10, 64)
	return n, err == nil
}

func (h *Host) exists(p string) bool {
	_, err := os.Stat(h.path(p))
	return err == nil
}

// command is the path of a program, empty if there is none.
func (h *Host) command(name string) string {
	for _, dir := range h.Path {
		if h.executable(filepath.Join(dir, name)) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func (h *Host) executable(p string) bool {
	fi, err := os.Stat(h.path(p))
	return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
}

// nearest is a path, or of one that does not exist the folder in which it would
// be made.
func (h *Host) nearest(p string) string {
	for {
		if _, err := os.Stat(h.path(p)); !errors.Is(err, os.ErrNotExist) || p == "/" || p == "." {
			return p
		}
		p = filepath.Dir(p)
	}
}
