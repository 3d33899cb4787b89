package autoupdate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

const (
	recordVersion = 1
	// maxRecord bounds the file in bytes.
	maxRecord = 4 << 20
	// forgetAfter is how long the record of a pod is kept that is not updated any more: its
	// source may be late.
	forgetAfter = 30 * 24 * time.Hour
)

// record is what must survive the daemon: when each pod was checked and what was found.
// Losing it costs a check, and an attempt to run an image that was rolled back.
type record struct {
	Version int                   `json:"version"`
	Pods    map[string]*podRecord `json:"pods"`
}

// podRecord is the record of one pod.
type podRecord struct {
	// Manifest identifies the manifest's revision to which Pending and Rejected belong.
	Manifest string `json:"manifest"`
	// Since is when the pod was first seen, Attempted when the last check ended, and
	// Checked when the last one ended that did not fail.
	Since     time.Time `json:"since"`
	Attempted time.Time `json:"attempted,omitzero"`
	Checked   time.Time `json:"checked,omitzero"`
	// Failures are the failed checks in a row.
	Failures int                        `json:"failures,omitempty"`
	Results  []api.ContainerImageUpdate `json:"results,omitempty"`
	// Pending are the images of the rollout in progress, by container.
	Pending map[string]string `json:"pending,omitempty"`
	// Rejected are the images that were rolled back, by container.
	Rejected map[string]string `json:"rejected,omitempty"`
	// Same are digests of images that the runtime has under another digest: digest to ID.
	Same map[string]string `json:"same,omitempty"`
}

// last returns when the pod was last checked, or else first seen.
func (p *podRecord) last() time.Time {
	if p.Checked.After(p.Since) {
		return p.Checked
	}
	return p.Since
}

func newRecord() record { return record{Version: recordVersion, Pods: map[string]*podRecord{}} }

// errNewer is the error of a record of a newer version.
var errNewer = errors.New("it was written by a newer podstead")

// loadRecord reads the file. Without one, or with an error, the record is empty.
func loadRecord(path string) (record, error) {
	data, err := boundedfile.Read(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return newRecord(), nil
	}
	r := newRecord()
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case r.Version > recordVersion:
		err = fmt.Errorf("%w: its version is %d, the newest supported version is %d", errNewer, r.Version, recordVersion)
	case err == nil && r.Version != recordVersion:
		err = fmt.Errorf("version %d, this daemon knows version %d", r.Version, recordVersion)
	}
	if err != nil || r.Pods == nil {
		return newRecord(), err
	}
	for name, p := range r.Pods {
		if p == nil {
			delete(r.Pods, name)
		}
	}
	return r, nil
}

// moveAside keeps a record that cannot be used, for inspection or for a return to the newer
// version. It returns where it is, and is empty for one that cannot be read or moved.
func moveAside(path string, reason error) (aside string) {
	aside = path + ".damaged"
	if errors.Is(reason, errNewer) {
		aside = path + ".newer"
	}
	if err := os.Rename(path, aside); err != nil {
		return ""
	}
	return aside
}

func (r *record) save(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, data)
}

// prune drops the records of pods that have not been updated for long.
func (r *record) prune(targets []Target, now time.Time) {
	wanted := map[string]bool{}
	for i := range targets {
		wanted[targets[i].name()] = true
	}
	for name, p := range r.Pods {
		if !wanted[name] && now.Sub(p.last()) > forgetAfter {
			delete(r.Pods, name)
		}
	}
}
