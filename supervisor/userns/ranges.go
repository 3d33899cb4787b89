package userns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

const (
	// Length is the number of IDs of a pod: all that files of an image can have, as
	// in the kubelet.
	Length = 1 << 16
	// first and last bound the IDs that are reserved. They are above those that
	// useradd, rootless engines and systemd-nspawn use, and below those that systemd
	// reserves. The kubelet begins at 65536, as others do.
	first = 0x70000000
	last  = 0x7fff0000
	// blocks is the number of pods that can have a range.
	blocks = (last - first) / Length

	fileName = "userns"
)

// Range is a range of Length user and group IDs of the host that begins at HostID.
type Range struct {
	HostID uint32 `json:"hostID"`
}

// rangeFormat is the file of the range of a pod: from then on files of the pod belong to these IDs.
var rangeFormat = statefile.Format[Range]{
	Name: "pods/UID/userns", Limit: 1 << 10, Damaged: statefile.Refuse, Newer: statefile.Refuse, DirMode: 0o750,
	Check: func(r *Range) error {
		if r.HostID < Length || r.HostID%Length != 0 {
			return errors.New("it contains no valid range of user IDs")
		}
		return nil
	},
}

// Ranges reserves ranges for the pods whose directories are below one directory.
type Ranges struct {
	pods string
	disk statefile.Disk
	mu   sync.Mutex // held from the choice of a range until it is written
}

// New returns the Ranges of the pods with directories PODS/UID.
func New(pods string, disk statefile.Disk) *Ranges { return &Ranges{pods: pods, disk: disk} }

// Allocate returns the pod's range, and reserves one if it has none.
func (r *Ranges) Allocate(uid types.UID) (Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reserved, err := r.read(string(uid))
	if !errors.Is(err, fs.ErrNotExist) {
		return reserved, err
	}
	taken, err := r.allocated()
	if err != nil {
		return Range{}, err
	}
	// The search begins at a block that depends on the pod, so that two daemons on one
	// host rarely reserve the same range, and a pod whose file was lost gets its own
	// range back.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	start := hash.Sum32() % blocks
	for i := range uint32(blocks) {
		reserved = Range{HostID: first + (start+i)%blocks*Length}
		if !taken[reserved.HostID] {
			return reserved, r.write(string(uid), reserved)
		}
	}
	return Range{}, fmt.Errorf("no range of user IDs is left: %d pods have user namespaces", blocks)
}

// allocated returns the ranges of all pods. One that cannot be read is an error: it
// could be reserved twice.
func (r *Ranges) allocated() (map[uint32]bool, error) {
	entries, err := os.ReadDir(r.pods)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to list user IDs in use: %w", err)
	}
	taken := map[uint32]bool{}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		other, err := r.read(entry.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			taken[other.HostID] = true
		}
	}
	return taken, nil
}

func (r *Ranges) file(uid string) *statefile.File[Range] {
	return rangeFormat.File(filepath.Join(r.pods, uid, fileName), r.disk)
}

func (r *Ranges) read(uid string) (Range, error) {
	found, err := r.file(uid).Load()
	if errors.Is(err, statefile.ErrDamaged) {
		err = fmt.Errorf("%w; remove the file after the pod has ended", err)
	}
	if err != nil {
		return Range{}, fmt.Errorf("failed to read the user IDs of a pod: %w", err)
	}
	return found, nil
}

func (r *Ranges) write(uid string, reserved Range) error {
	if err := r.file(uid).Save(reserved); err != nil {
		return fmt.Errorf("failed to save the user IDs of a pod: %w", err)
	}
	return nil
}
