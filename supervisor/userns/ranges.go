package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
)

const (
	// Length is how many IDs a pod has: all that files of an image may have,
	// as with the kubelet.
	Length = 1 << 16
	// first and last bound the IDs that are given out. They lie above those
	// that useradd, rootless engines and systemd-nspawn take, and below those
	// that systemd reserves. The kubelet begins at 65536, where others do too.
	first = 0x70000000
	last  = 0x7fff0000
	// blocks is how many pods can have one.
	blocks = (last - first) / Length

	fileName = "userns"
	dirMode  = 0o750
)

// Range is Length IDs of the host, from HostID on, for users and for groups.
type Range struct {
	HostID uint32 `json:"hostID"`
}

// Ranges hands out ranges to pods whose folders are below one.
type Ranges struct {
	pods string
	mu   sync.Mutex // over the choice of a range until it is written
}

// New makes Ranges for the pods with folders PODS/UID.
func New(pods string) *Ranges { return &Ranges{pods: pods} }

// Take returns the pod's range, and gives it one if it has none.
func (r *Ranges) Allocate(uid types.UID) (Range, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine, err := r.read(string(uid))
	if !errors.Is(err, fs.ErrNotExist) {
		return mine, err
	}
	taken, err := r.allocated()
	if err != nil {
		return Range{}, err
	}
	// Where the search begins depends on the pod, so that two daemons of one
	// machine rarely give the same range, and a pod whose file was lost gets
	// its own back.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	start := hash.Sum32() % blocks
	for i := range uint32(blocks) {
		mine = Range{HostID: first + (start+i)%blocks*Length}
		if !taken[mine.HostID] {
			return mine, r.write(string(uid), mine)
		}
	}
	return Range{}, fmt.Errorf("no user IDs are left: %d pods have user namespaces", blocks)
}

// taken are the ranges of all pods. One that cannot be read is an error: it
// could be given away twice.
func (r *Ranges) allocated() (map[uint32]bool, error) {
	entries, err := os.ReadDir(r.pods)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look for user IDs in use: %w", err)
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

func (r *Ranges) read(uid string) (Range, error) {
	path := filepath.Join(r.pods, uid, fileName)
	text, err := os.ReadFile(path)
	if err != nil {
		return Range{}, fmt.Errorf("cannot read the user IDs of a pod: %w", err)
	}
	var found Range
	if err := json.Unmarshal(text, &found); err != nil || found.HostID < Length || found.HostID%Length != 0 {
		return Range{}, fmt.Errorf("%s holds no range of user IDs; remove it when the pod has ended", path)
	}
	return found, nil
}

// write puts the file there whole or not at all: the pod's files belong to
// these IDs from now on.
func (r *Ranges) write(uid string, mine Range) error {
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.pods, uid)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("cannot keep the user IDs of a pod: %w", err)
	}
	if err := atomicfile.Replace(filepath.Join(dir, fileName), text); err != nil {
		return fmt.Errorf("cannot keep the user IDs of a pod: %w", err)
	}
	return nil
}
