package imagearchives

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/fileaccess"
)

// listing is what is in the directory.
type listing struct {
	archives map[string]found
	ignored  []string
}

// found is an archive in the directory.
type found struct {
	id identity
	// refused is why it must not be read; empty if it may be.
	refused string
	sums    []checksum
}

// remedyAccess ends the message about what others may change.
const remedyAccess = "run chown root:root and chmod go-w on it"

// list lists the directory. An error has a remedy.
func (d *Directory) list() (listing, error) {
	dir, l := d.cfg.Dir, listing{archives: map[string]found{}}
	info, err := os.Stat(dir)
	if err != nil {
		return l, fmt.Errorf("%s cannot be read: %s; create it, or set --image-archives-dir", dir, plain(err))
	}
	if why := fileaccess.Writers(info); why != "" {
		return l, fmt.Errorf("%s is not read, because users other than root may change it: %s; %s", dir, why, remedyAccess)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, fmt.Errorf("%s cannot be read: %s; make it a directory that root can read", dir, plain(err))
	}
	var names, archives []string
	for _, entry := range entries {
		name := entry.Name()
		names = append(names, name)
		switch {
		case isArchive(name):
			info, err := os.Lstat(d.path(name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			one := found{}
			if err != nil {
				one.refused = "cannot be read: " + plain(err) + "; check the file system"
			} else {
				one.id, one.refused = identify(info), refusal(info)
			}
			archives = append(archives, name)
			l.archives[name] = one
		case isChecksum(name), strings.HasPrefix(name, "."), entry.IsDir() && name == "lost+found":
		default:
			l.ignored = append(l.ignored, name)
		}
	}
	for name, sums := range readSums(dir, names, archives) {
		if one, ok := l.archives[name]; ok {
			one.sums = sums
			l.archives[name] = one
		}
	}
	return l, nil
}

// refusal reports why a file must not be read; empty if it may be.
func refusal(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link: put the file itself there, or set --image-archives-dir to its directory"
	case !mode.IsRegular():
		return "is not a regular file: remove it"
	}
	if why := fileaccess.Writers(info); why != "" {
		return "is not loaded, because users other than root may change it: " + why + "; " + remedyAccess
	}
	return ""
}

// scan brings the archives to what is in the directory. It reports whether an archive is
// gone, so that a pod may wait for nothing.
func (d *Directory) scan(ctx context.Context) (gone bool) {
	d.mu.Lock()
	dirty := d.dirty
	d.dirty = map[string]bool{}
	d.mu.Unlock()
	all, err := d.list()
	if !d.setFault(err) {
		return false
	}
	isNew := func(name string, one found) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		f := d.files[name]
		return f == nil || f.id != one.id || dirty[name] || dirty[""] && f.state == Incomplete
	}
	fresh := map[string]*file{}
	for name, one := range all.archives {
		if isNew(name, one) {
			fresh[name] = &file{name: name, id: one.id, state: Waiting, loaded: map[string]bool{}, names: d.skim(ctx, name, one)}
		}
	}
	d.mu.Lock()
	changed := len(fresh) > 0
	for name, f := range d.files {
		if _, ok := all.archives[name]; !ok {
			gone = true
			d.cfg.Log.Info("Image archive removed", "file", d.path(name), "images", f.names)
			delete(d.files, name)
			for _, image := range f.names {
				delete(d.needed, image)
			}
		}
	}
	for name, one := range all.archives {
		f := fresh[name]
		if f == nil {
			known := d.files[name]
			if known.refused == one.refused && slices.Equal(known.sums, one.sums) {
				continue
			}
			// Another file, so that a load in progress ends.
			f = &file{
				name: name, id: known.id, state: Waiting, message: known.message, names: known.names, wasRead: known.wasRead,
				digest: known.digest, images: known.images, loaded: known.loaded,
			}
		}
		f.refused, f.sums = one.refused, one.sums
		d.files[name] = f
		changed = true
	}
	d.ignored = all.ignored
	if changed || gone {
		d.changed.Notify()
	}
	d.mu.Unlock()
	if changed || gone {
		d.save()
	}
	return gone
}

// skim returns the names of the images of an archive as far as they are quickly known.
func (d *Directory) skim(ctx context.Context, name string, one found) []string {
	if one.refused != "" {
		return nil
	}
	file, err := boundedfile.Open(d.path(name))
	if err != nil {
		return nil
	}
	defer file.Close()
	if fileaccess.HasWriter(file) {
		return nil
	}
	return archive.Names(ctx, file)
}

// setFault sets the fault of the directory and reports whether there is none.
func (d *Directory) setFault(err error) bool {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	d.mu.Lock()
	before := d.fault
	d.fault = fault
	if fault != before {
		d.changed.Notify()
	}
	d.mu.Unlock()
	if fault != before && fault != "" {
		d.cfg.Log.Warn("Cannot read the directory of image archives", "err", fault)
		d.cfg.Events.Event(nil, v1.EventTypeWarning, reasonFailed, fault)
	}
	return fault == ""
}
