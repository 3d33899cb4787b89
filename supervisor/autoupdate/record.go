package autoupdate

import (
	"errors"
	"io/fs"
	"time"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/supervisor/rollout"
)

const (
	recordVersion = 1
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

// recordFormat is the file of the record.
var recordFormat = statefile.Format[record]{
	Name: "autoupdate.json", Version: recordVersion, Limit: 4 << 20, Damaged: statefile.MoveAside,
	Newer:      statefile.MoveAside,
	Durability: statefile.Atomic, Repeat: true,
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

// last returns when the pod was last checked, or else first seen. The two are not compared: the clock may have been set
// in between.
func (p *podRecord) last() time.Time {
	if p.Checked.IsZero() {
		return p.Since
	}
	return p.Checked
}

// fixTimes replaces the times that date from before the clock was set, and reports whether there were any. A check
// would otherwise be put off as long as one of them is in the future, and the record of a pod be dropped for its age.
func (r *record) fixTimes(now, started time.Time) (changed bool) {
	for _, p := range r.Pods {
		for _, t := range []*time.Time{&p.Since, &p.Attempted, &p.Checked} {
			if counts, fixed := wallclock.Recorded(*t, now, started); fixed {
				*t, changed = counts, true
			}
		}
	}
	return changed
}

func newRecord() record { return record{Version: recordVersion, Pods: map[string]*podRecord{}} }

// loadRecord reads the file. Without one, or with an error, the record is empty.
func loadRecord(file *statefile.File[record]) (record, error) {
	r, err := file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
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

// prune drops the records of pods that have not been updated for long.
func (r *record) prune(targets []rollout.ImageTarget, now time.Time) {
	desired := map[string]bool{}
	for i := range targets {
		desired[podinfo.FullName(targets[i].Manifest)] = true
	}
	for name, p := range r.Pods {
		if !desired[name] && now.Sub(p.last()) > forgetAfter {
			delete(r.Pods, name)
		}
	}
}
