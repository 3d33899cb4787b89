package gc

import (
	"errors"
	"io/fs"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
)

const (
	recordVersion = 1
	// recordTime is how long the record of an image is kept at least after the
	// image is gone.
	recordTime = 24 * time.Hour
)

// recordFormat is the file of the record.
var recordFormat = statefile.Format[imageRecord]{
	Name: "images.json", Version: recordVersion, Limit: 4 << 20, Damaged: statefile.MoveAside, Newer: statefile.MoveAside,
	DirMode: 0o700, Durability: statefile.Atomic, Repeat: true,
	Check: func(r *imageRecord) error {
		if r.Pulled == nil || r.Used == nil {
			return errors.New("a required field is missing")
		}
		return nil
	},
}

// imageRecord is what must survive the daemon: which images it pulled, and when
// they were last used. Losing it costs no image: one that is not in it is never
// removed.
type imageRecord struct {
	Version int `json:"version"`
	// Runtime is the endpoint of the runtime that has the images. Those of
	// another runtime are ignored.
	Runtime string `json:"runtime"`
	// Pulled by image ID.
	Pulled map[string]pulledImage `json:"pulled"`
	// Used is when a container last used an image, by the image's reference or ID
	// as the container has it.
	Used map[string]time.Time `json:"used"`
}

type pulledImage struct {
	At time.Time `json:"at"`
	// Refs are the full names under which it was pulled.
	Refs []string `json:"refs"`
}

func newRecord(runtime string) imageRecord {
	return imageRecord{Version: recordVersion, Runtime: runtime, Pulled: map[string]pulledImage{},
		Used: map[string]time.Time{}}
}

// loadRecord reads the file. Without one, or with an error, the record is empty, and so is that of another runtime.
func loadRecord(file *statefile.File[imageRecord], runtime string) (imageRecord, error) {
	record, err := file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || record.Runtime != runtime {
		return newRecord(runtime), err
	}
	return record, nil
}

// fixUnsetTimes replaces times that date from before the clock was set with the
// current time.
func (r *imageRecord) fixUnsetTimes(now time.Time) {
	r.mapTimes(func(t time.Time) time.Time {
		if wallclock.Unset(t, now) {
			return now.Round(0)
		}
		return t
	})
}

// shift shifts times that the clock showed until it was set. Later ones are from
// a boot in which it was right.
func (r *imageRecord) shift(until time.Time, jump time.Duration) {
	until = until.Round(0)
	r.mapTimes(func(t time.Time) time.Time {
		if t.After(until) {
			return t
		}
		return t.Add(jump)
	})
}

func (r *imageRecord) mapTimes(f func(time.Time) time.Time) {
	for id, image := range r.Pulled {
		image.At = f(image.At)
		r.Pulled[id] = image
	}
	for ref, at := range r.Used {
		r.Used[ref] = f(at)
	}
}

// prune drops the records of images that have been gone for long, and reports
// whether there were any.
func (r *imageRecord) prune(images references, now time.Time) (changed bool) {
	if len(images) == 0 {
		return false // a runtime without images most likely has a problem
	}
	gone := func(name string, at time.Time) bool {
		_, there := images.find(name)
		return !there && !younger(at, recordTime, now)
	}
	for id, image := range r.Pulled {
		if gone(id, image.At) {
			delete(r.Pulled, id)
			changed = true
		}
	}
	for ref, at := range r.Used {
		if gone(ref, at) {
			delete(r.Used, ref)
			changed = true
		}
	}
	return changed
}
