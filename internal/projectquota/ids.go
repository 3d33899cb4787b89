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
	files  []string
	unused func(path string, id uint32) (bool, error)
}

// New returns an ID of the range that nothing uses: no directory of the file system of a path,
// no limit of it, and no line of /etc/projects or /etc/projid. It is not given out again before Assign has
// returned.
func (i *ids) New(path string) (uint32, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	files, unusedOn := i.files, i.unused
	if files == nil {
		files = []string{"/etc/projects", "/etc/projid"}
	}
	if unusedOn == nil {
		unusedOn = unused
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
		free, err := unusedOn(path, id)
		if err != nil {
			return 0, err
		}
		if free {
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

// unused reports whether no file and no limit of a file system has a project ID.
func unused(path string, id uint32) (bool, error) {
	fd, err := open(path)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	d, err := read(fd, id)
	if err != nil {
		return false, err
	}
	return d.blocks == 0 && d.inodes == 0 && d.hardLimit == 0 && d.softLimit == 0 && d.inodeHardLimit == 0 && d.inodeSoftLimit == 0, nil
}
