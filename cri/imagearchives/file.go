package imagearchives

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// file is one archive. Another content makes another file.
type file struct {
	name    string
	id      identity
	state   State
	message string
	// refused is why it must not be read; empty if it may be.
	refused string
	// sums are what checksum files say about it.
	sums []checksum

	// names are the full names of its images: known early for an uncompressed archive,
	// for sure when wasRead is set.
	names   []string
	wasRead bool
	// digest is the SHA-256 sum of its bytes, in hex, and images are its images by name.
	digest string
	images map[string]imageDigests
	// loaded are the names that were loaded from it, and are to be in the runtime.
	loaded map[string]bool

	// retry is when it is tried again, zero for not at all; delay is the time before
	// that.
	retry time.Time
	delay time.Duration
}

// imageDigests identify one image of an archive.
type imageDigests struct {
	// ID is the digest of its configuration.
	ID string `json:"id"`
	// Pinned is its name with the digest of its manifest in place of the tag.
	Pinned string `json:"pinned,omitempty"`
}

// identity distinguishes contents of a file without reading it.
type identity struct {
	Size int64 `json:"size"`
	// ModTime is in nanoseconds since 1970.
	ModTime int64  `json:"modTime"`
	Inode   uint64 `json:"inode"`
}

func identify(info fs.FileInfo) identity {
	id := identity{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Inode = stat.Ino
	}
	return id
}

// The delays before a load that failed for another reason than the archive is tried
// again; each is twice the last one.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// fail records a fault. One that may pass is tried again.
func (f *file) fail(message string, passes bool, now time.Time) {
	f.state, f.message, f.retry = Failed, message, time.Time{}
	if passes {
		f.delay = min(max(2*f.delay, firstRetry), lastRetry)
		f.retry = now.Add(f.delay)
	}
}

// archiveSuffixes are how the names of archives end. Those with a compression that is not
// supported get a fault that reports it.
var archiveSuffixes = []string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"}

func isArchive(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	for _, suffix := range archiveSuffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// check returns why the file must not be loaded by its checksums, empty if it may be.
func (f *file) check() string {
	for _, s := range f.sums {
		switch {
		case s.fault != "":
			return s.fault
		case !strings.EqualFold(s.digest, f.digest):
			return fmt.Sprintf("its SHA-256 sum is %s, but %s says %s: copy the archive again, or correct that file",
				f.digest, s.file, cmp.Or(s.digest, "nothing"))
		}
	}
	return ""
}
