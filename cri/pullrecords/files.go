package pullrecords

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/podstead/podstead/internal/statefile"
)

// recordFormat is the file about an image that was pulled. One that was moved aside must not make its image look
// preloaded (load).
var recordFormat = statefile.Format[record]{
	Name: "image-pulls/pulled/IMAGE.json", Version: recordVersion, Limit: maxFile, Damaged: statefile.MoveAside,
	Newer: statefile.MoveAside, DirMode: 0o700, Repeat: true,
	Check: func(r *record) error {
		if r.Salt == "" {
			return errors.New("it has no salt")
		}
		return nil
	},
}

// intentFormat is the file about a pull that has begun. One that was moved aside stays an intent (loadIntents).
var intentFormat = statefile.Format[intentFile]{
	Name: "image-pulls/intents/NAME.json", Limit: maxFile, Damaged: statefile.MoveAside, DirMode: 0o700, Repeat: true,
}

// load returns the record of an image, nil if there is none.
func (r *Records) load(id string) (*record, error) {
	f, err := r.pulled.File(fileKey(id))
	if err != nil {
		return nil, err
	}
	found, err := f.Load()
	switch {
	case err == nil && found.Image != bareID(id):
		err = fmt.Errorf("it is about image %q", found.Image)
	case errors.Is(err, fs.ErrNotExist) && f.MovedAside():
		err = errors.New("it could not be used, and was moved aside")
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	if err != nil {
		r.log.Warn("Failed to read image pull record, verifying credentials", "file", f.Path(), "err", err)
		return nil, err
	}
	return &found, nil
}

// save writes a record, and reports whether it is on the disk.
func (r *Records) save(record *record) bool {
	r.epoch++
	return save(r, r.pulled, fileKey(record.Image), *record) == nil
}

// save writes a file. An error is logged, and the write is repeated.
func save[T any](r *Records, dir *statefile.Dir[T], key string, v T) error {
	f, err := dir.File(key)
	if err == nil {
		err = f.Save(v)
	}
	r.logUnsaved(key, err)
	return err
}

// remove removes a file. An error is logged, and the removal is repeated.
func remove[T any](r *Records, dir *statefile.Dir[T], key string) { r.logUnsaved(key, dir.Remove(key)) }

func (r *Records) logUnsaved(key string, err error) {
	if err != nil {
		r.log.Warn("Failed to save image pull record, retrying", "file", key, "err", err)
	}
}
