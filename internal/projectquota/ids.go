package projectquota

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/boundedfile"
)

// maxProjects is the largest file of projects that is read, in bytes.
const maxProjects = 1 << 20

// ids gives out project IDs.
type ids struct {
	mu sync.Mutex
	// given are those that no directory has yet.
	given map[uint32]bool

	// Tests replace these.
	files []string
	usage func(path string, id uint32) (idUsage, error)
	reset func(path string, id uint32) error
}

// idUsage reports whether an ID can be given out.
type idUsage struct {
	// files: a file has the ID, or it has limits that podstead does not set. limit: nothing has it, and it has the
	// limit of a directory that was deleted.
	files, limit bool
}

// New returns an ID of the range that nothing uses: no directory of the file system of a path, and no line of
// /etc/projects or /etc/projid. It is not given out again before Assign has returned.
func (i *ids) New(path string) (uint32, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	files, usage := i.files, i.usage
	if files == nil {
		files = []string{"/etc/projects", "/etc/projid"}
	}
	if usage == nil {
		usage = usageOf
	}
	named := map[uint32]bool{}
	for _, file := range files {
		if err := addNamed(named, file); err != nil {
			return 0, err
		}
	}
	for id := uint32(First); IsOwn(id); id++ {
		if i.given[id] || named[id] {
			continue
		}
		used, err := usage(path, id)
		if err == nil && used.limit && !used.files {
			err = i.resetLimit(path, id)
		}
		if err != nil {
			return 0, err
		}
		if !used.files {
			if i.given == nil {
				i.given = map[uint32]bool{}
			}
			i.given[id] = true
			return id, nil
		}
	}
	return 0, errors.New("all project IDs for the quotas of volumes are in use")
}

// assigned ends what New has reserved: a directory has the ID, or it is free.
func (i *ids) assigned(id uint32) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.given, id)
}

// addNamed adds the IDs that a file names: /etc/projects has lines ID:DIRECTORY, /etc/projid
// NAME:ID.
func addNamed(named map[uint32]bool, file string) error {
	data, err := boundedfile.Read(file, maxProjects)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), ":") {
			if id, err := strconv.ParseUint(part, 10, 32); err == nil {
				named[uint32(id)] = true
			}
		}
	}
	return nil
}

// resetLimit removes the limit that a deleted directory has left.
func (i *ids) resetLimit(path string, id uint32) error {
	if i.reset != nil {
		return i.reset(path, id)
	}
	return (&Kernel{}).Limit(path, id, 0)
}

// usageOf returns what has a project ID on the file system of a path.
func usageOf(path string, id uint32) (idUsage, error) {
	fd, err := open(path)
	if err != nil {
		return idUsage{}, err
	}
	defer unix.Close(fd)
	d, err := read(fd, id)
	if err != nil {
		return idUsage{}, err
	}
	foreign := d.hardLimit != d.softLimit || d.inodeHardLimit != 0 || d.inodeSoftLimit != 0
	return idUsage{files: d.blocks != 0 || d.inodes != 0 || foreign, limit: d.hardLimit != 0}, nil
}
