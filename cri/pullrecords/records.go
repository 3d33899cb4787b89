package pullrecords

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/imagepolicy"
	"github.com/podstead/podstead/internal/statefile"
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
	// Disk is where they are. It repeats writes that failed.
	Disk statefile.Disk
	// Log may be nil.
	Log *slog.Logger
}

// Records are the records of the pulls of one runtime. A nil *Records records nothing and
// verifies nothing. All methods are safe for concurrent use.
type Records struct {
	images Images
	log    *slog.Logger
	pulled *statefile.Dir[record]
	begun  *statefile.Dir[intentFile]

	// mu is also held while a record is read and changed, by load and save.
	mu      sync.Mutex
	intents map[string]*intent // by the key of their file
	// unsettled reports that there are intents of pulls whose result is not known.
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
	r := &Records{
		images: c.Images, log: c.Log, pulled: recordFormat.Dir(filepath.Join(c.Dir, "pulled"), c.Disk),
		begun: intentFormat.Dir(filepath.Join(c.Dir, "intents"), c.Disk),
	}
	if err := errors.Join(r.pulled.Clean(), r.begun.Clean()); err != nil {
		r.log.Warn("Failed to remove incomplete image pull records", "err", err)
	}
	r.loadIntents()
	return r
}

// Answer is the result of a check, with the kubelet's words.
type Answer string

// The responses. MustAuthenticate and Failed deny the use of the image.
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

// Preloaded records that the owner of the node loaded an image from an archive: it is no
// longer one that a pod pulled.
func (r *Records) Preloaded(image, id string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	remove(r, r.pulled, fileKey(id))
	key := fileKey(canonical(image))
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
		remove(r, r.pulled, fileKey(id))
	}
	r.absent(fileKey(id))
}

// absent reports that the image of a record was not there: if a pull in progress began with it
// and brings it back, that counts as pulled. The caller holds mu.
func (r *Records) absent(image string) {
	for key, in := range r.intents {
		if in.Image != "" && in.Before != "" && fileKey(in.Before) == image {
			r.setBefore(key, in, "")
		}
	}
}

// setBefore changes the ID that an intent began with; the caller holds mu.
func (r *Records) setBefore(key string, in *intent, id string) {
	in.Before = id
	_ = save(r, r.begun, key, in.intentFile)
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
		present[fileKey(id)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch != mark {
		return
	}
	keys, err := r.pulled.Keys()
	if err != nil {
		r.log.Warn("Failed to list image pull records", "err", err)
	}
	for _, key := range keys {
		if !present[key] {
			remove(r, r.pulled, key)
			r.absent(key)
		}
	}
}

// pulling reports whether the image may be the result of a pull that has no record yet.
// The caller holds mu.
func (r *Records) pulling(image string, present *runtimeapi.Image) bool {
	return slices.ContainsFunc(slices.Concat([]string{image}, present.GetRepoTags(), present.GetRepoDigests()),
		func(name string) bool {
			in := r.intents[fileKey(canonical(name))]
			return in != nil && in.Before != bareID(present.GetId())
		})
}
