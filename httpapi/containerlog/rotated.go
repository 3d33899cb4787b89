package containerlog

import (
	"context"
	"errors"
	"io/fs"
	"slices"
)

// advance continues with the file that follows this one, if there is one: that of the same
// instance after a rotation, or that of the next instance. It lists the directory only if a
// name has changed.
func (s *Stream) advance(ctx context.Context, p *printer, ended bool, flush func() error) (bool, error) {
	info, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	if s.unpacked == nil && info.Size() < s.offset {
		// Truncated by a rotation that copies and truncates.
		s.offset, s.held, s.long = 0, 0, nil
		return true, nil
	}
	// A compressed file does not grow: another file continues it.
	if !s.watch.names.Swap(false) && !ended && s.unpacked == nil {
		return false, nil
	}
	// The next file is opened before the wait for this one, because its name may pass to a
	// later file in the meantime.
	next, instance, err := s.next(info)
	if errors.Is(err, errMoved) {
		s.watch.names.Store(true)
		return true, nil
	}
	if err != nil || next.file == nil {
		return false, err
	}
	// The wait must not delay what was already read.
	err = flush()
	if err == nil {
		err = s.finish(ctx, p)
	}
	if err != nil {
		next.close()
		return false, err
	}
	if instance != s.n {
		if err := p.end(); err != nil {
			next.close()
			return false, err
		}
	}
	s.switchTo(next)
	s.n = instance
	// There may be further changes: list the directory again.
	s.watch.names.Store(true)
	return true, nil
}

// finish prints the rest of a file that another one continues.
func (s *Stream) finish(ctx context.Context, p *printer) error {
	for range 2 { // again if a writer was seen within a line
		if s.unpacked == nil {
			if err := settle(ctx, s.file); err != nil {
				return err
			}
		}
		if err := s.drain(ctx, p); err != nil {
			return err
		}
		if s.held == 0 {
			break
		}
	}
	return s.torn(p)
}

// next opens the file that continues the open one. It returns an empty source if there is
// none yet.
func (s *Stream) next(current fs.FileInfo) (found source, instance int, err error) {
	files, err := filesOf(s.req.Dir, s.n)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, 0, nil // removed with its pod; Follow.Ended reports it
	}
	if err != nil {
		return source{}, 0, err
	}
	f, ok := after(files, current, s.path)
	if ok && f.info.Size() > 0 {
		found, err = openFound(f)
		return found, s.n, err
	}
	all, err := Instances(s.req.Dir)
	if err != nil {
		return source{}, 0, err
	}
	i, _ := slices.BinarySearch(all, s.n+1)
	switch {
	case ok && i < len(all):
		// The last output of the instance may have been written since.
		found, err = openFound(f)
		return found, s.n, err
	case ok:
		// The runtime has just created it, and may still be writing the last lines to the
		// old one.
		s.watch.names.Store(true)
		return source{}, 0, nil
	case i == len(all):
		return source{}, 0, nil
	}
	if files, err = filesOf(s.req.Dir, all[i]); err != nil || len(files) == 0 {
		return source{}, 0, err
	}
	found, err = openFound(files[0])
	return found, all[i], err
}
