package containerlog

import (
	"context"
	"errors"
	"io/fs"
	"slices"
)

// advance goes on to the file that continues this one, if there is one: the
// same instance's after a rotation, or the next instance's. Names are looked at
// only if one changed.
func (s *Stream) advance(ctx context.Context, p *printer, ended bool, flush func() error) (bool, error) {
	info, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	if s.unpacked == nil && info.Size() < s.offset {
		// Cut by a rotation that copies and truncates.
		s.offset, s.held, s.long = 0, 0, nil
		return true, nil
	}
	// Nothing is added to a compressed file: another one goes on.
	if !s.watch.names.Swap(false) && !ended && s.unpacked == nil {
		return false, nil
	}
	// The next file is opened before the wait for this one: meanwhile its name
	// may become that of a later file.
	next, instance, err := s.next(info)
	if errors.Is(err, errMoved) {
		s.watch.names.Store(true)
		return true, nil
	}
	if err != nil || next.file == nil {
		return false, err
	}
	// What there is is not held up by the wait.
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
	s.take(next)
	s.n = instance
	// More may have changed than this one step: look again.
	s.watch.names.Store(true)
	return true, nil
}

// finish prints what is left of a file that another one continues.
func (s *Stream) finish(ctx context.Context, p *printer) error {
	for range 2 { // the second time if a writer was seen amid a line
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

// next opens the file that continues the open one, none if there is none yet.
func (s *Stream) next(current fs.FileInfo) (found source, instance int, err error) {
	files, err := filesOf(s.req.Dir, s.n)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, 0, nil // removed with its pod; Ended will tell
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
		// What the instance printed last may have come since.
		found, err = openFound(f)
		return found, s.n, err
	case ok:
		// The runtime has just made it and may still be writing its last
		// lines to the old one.
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
