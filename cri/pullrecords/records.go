package pullrecords

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/imagepolicy"
	"github.com/podstead/podstead/internal/unwritten"
)

// Images looks up images in the runtime. cri.Client implements it.
type Images interface {
	// ImageStatus returns nil for an image that is not present.
	ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error)
}

// Config configures Records.
type Config struct {
	// Dir is the directory of the records; it is created with the first one.
	Dir    string
	Images Images
	// Unwritten repeats writes that failed; nil forgets them when the daemon ends.
	Unwritten *unwritten.Files
	// Log may be nil.
	Log *slog.Logger
}

// Records are the records of the pulls of one runtime. A nil *Records records nothing and
// verifies nothing. All methods are safe for concurrent use.
type Records struct {
	dir    string
	images Images
	log    *slog.Logger

	mu      sync.Mutex
	files   files
	intents map[string]*intent // by file name
	// unsettled says that there are intents of pulls whose result is not known.
	unsettled bool
	// epoch counts the pulls that succeeded and the records written.
	epoch uint64
}

// Dir returns the directory of the records below the root directory.
func Dir(root string) string { return filepath.Join(root, "image-pulls") }

// Open reads the intents of an earlier daemon. Files that cannot be read are logged.
func Open(c Config) *Records {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Records{dir: c.Dir, images: c.Images, log: c.Log, files: files{c.Unwritten, map[string][]byte{}}}
	r.loadIntents()
	return r
}

// Answer is the result of a check, with the kubelet's words.
type Answer string

// The answers. MustAuthenticate and Failed deny the use of the image.
const (
	PolicyAllows     Answer = "credentialPolicyAllowed"
	RecordFound      Answer = "credentialRecordFound"
	MustAuthenticate Answer = "mustAuthenticate"
	// Failed means that the record could not be read.
	Failed Answer = "error"
)

// Allowed reports whether the pod may use the image without a pull of its own.
func (a Answer) Allowed() bool { return a == PolicyAllows || a == RecordFound }

// Check decides whether a pod may use an image that is present. image is its name in the
// pod; own returns the credentials in the pod's pull secrets for it, and is called only
// if they matter.
func (r *Records) Check(ctx context.Context, policy imagepolicy.Policy, image string, present *runtimeapi.Image,
	own func() []Credential) Answer {
	if r == nil || policy.Mode == imagepolicy.NeverVerify {
		return PolicyAllows
	}
	r.settleAll(ctx)
	r.mu.Lock()
	found, err := r.load(present.GetId())
	pulled := err != nil || found != nil || r.pulling(image, present)
	r.mu.Unlock()
	name := repository(image)
	switch {
	case !policy.Verifies(image, pulled):
		return PolicyAllows
	case err != nil:
		return Failed
	case found == nil:
		return MustAuthenticate
	}
	if a := found.find(name); a != nil && a.Everyone {
		return RecordFound
	}
	used, ok := found.allows(name, own())
	if !ok {
		return MustAuthenticate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// The record may have gone meanwhile; that is its new state.
	if found, err := r.load(present.GetId()); err == nil && found != nil && found.learns(name) && found.grant(name, used) {
		r.save(found)
	}
	return RecordFound
}

// load returns the record of an image, nil if there is none. The caller holds mu.
func (r *Records) load(id string) (*record, error) {
	path := r.recordPath(id)
	data, err := r.files.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found *record
	if err == nil {
		found, err = decodeRecord(data, id)
	}
	if err != nil {
		r.log.Warn("Failed to read image pull record, verifying credentials", "file", path, "err", err)
	}
	return found, err
}

// save writes a record; the caller holds mu.
func (r *Records) save(record *record) {
	r.epoch++
	_ = r.change(r.recordPath(record.Image), encode(record)) // logged and repeated
}

func (r *Records) recordPath(id string) string { return filepath.Join(r.dir, "pulled", fileName(id)) }

// change writes a file or, with nil, removes it; the caller holds mu.
func (r *Records) change(path string, data []byte) error {
	err := r.files.change(path, data, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.files.retry(path)
	})
	if err != nil {
		r.log.Warn("Failed to save image pull record, retrying", "file", path, "err", err)
	}
	return err
}

// Preloaded records that the owner of the node loaded an image from an archive: it is no
// longer one that a pod pulled.
func (r *Records) Preloaded(image, id string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.change(r.recordPath(id), nil) // logged and repeated
	key := fileName(canonical(image))
	switch in := r.intents[key]; {
	case in == nil:
	case in.pulls == 0:
		r.dropIntent(key)
	default: // a pull that fails leaves the owner's image
		r.setBefore(key, in, bareID(id))
	}
}

// Forget drops the record of an image that was removed, unless a pull succeeded since the
// mark, which may have brought the image back. Prune drops what is left.
func (r *Records) Forget(mark uint64, id string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == mark {
		_ = r.change(r.recordPath(id), nil) // logged and repeated
	}
	r.absent(fileName(id))
}

// absent says that the image of a file was not there: if a pull in progress began with it
// and brings it back, that counts as pulled. The caller holds mu.
func (r *Records) absent(file string) {
	for key, in := range r.intents {
		if in.Image != "" && in.Before != "" && fileName(in.Before) == file {
			r.setBefore(key, in, "")
		}
	}
}

// setBefore changes the ID that an intent began with; the caller holds mu.
func (r *Records) setBefore(key string, in *intent, id string) {
	in.Before = id
	_ = r.change(r.intentPath(key), encode(in)) // logged and repeated
}

// Mark returns a mark for Prune, to be taken before the images are listed, and for Forget,
// to be taken before the image is removed.
func (r *Records) Mark() uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// Prune drops the records of images that the runtime no longer has. ids are those of all
// images. It does nothing if a pull succeeded since the mark: the list may be older than its
// image.
func (r *Records) Prune(mark uint64, ids []string) {
	if r == nil || len(ids) == 0 { // a runtime without images most likely has a problem
		return
	}
	present := make(map[string]bool, len(ids))
	for _, id := range ids {
		present[fileName(id)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch != mark {
		return
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "pulled"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("Failed to list image pull records", "err", err)
	}
	for _, e := range entries {
		if !present[e.Name()] {
			_ = r.change(filepath.Join(r.dir, "pulled", e.Name()), nil) // logged and repeated
			r.absent(e.Name())
		}
	}
	for path := range r.files.pending {
		if dir, name := filepath.Split(path); strings.HasSuffix(dir, "/pulled/") && !present[name] &&
			r.files.pending[path] != nil {
			_ = r.change(path, nil)
			r.absent(name)
		}
	}
}

// pulling reports whether the image may be the result of a pull that has no record yet.
// The caller holds mu.
func (r *Records) pulling(image string, present *runtimeapi.Image) bool {
	return slices.ContainsFunc(slices.Concat([]string{image}, present.GetRepoTags(), present.GetRepoDigests()),
		func(name string) bool {
			in := r.intents[fileName(canonical(name))]
			return in != nil && in.Before != bareID(present.GetId())
		})
}
