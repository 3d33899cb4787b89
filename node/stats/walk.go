package stats

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/treewalk"
)

// maxLinked limits the files with several names that a walk remembers, which a container can make in any number. Those
// beyond are counted with each name.
const maxLinked = 100_000

// directoryUsage is the content of a directory.
type directoryUsage struct {
	bytes, inodes uint64
	// incomplete reports that the time was over, or that the tree is too deep.
	incomplete bool
}

// walk sums up the disk usage of a directory, as du does: in blocks, and a file
// with several names once. A missing directory is an error.
func walk(ctx context.Context, path string) (used directoryUsage, err error) {
	linked := map[uint64]struct{}{}
	count := func(st *unix.Statx_t) { used.bytes, used.inodes = used.bytes+st.Blocks*512, used.inodes+1 }
	err = treewalk.Walk(ctx, path, &treewalk.Visitor{
		File: func(_ int, _ string, st *unix.Statx_t) error {
			if st.Nlink > 1 {
				if _, known := linked[st.Ino]; known {
					return nil
				}
				if len(linked) < maxLinked {
					linked[st.Ino] = struct{}{}
				} else {
					used.incomplete = true
				}
			}
			count(st)
			return nil
		},
		Dir:     func(_ int, st *unix.Statx_t) error { count(st); return nil },
		TooDeep: func() { used.incomplete = true; used.inodes++ },
		Failed:  func(error) error { used.incomplete = true; return nil },
	})
	if unreadable := (*treewalk.Unreadable)(nil); errors.As(err, &unreadable) {
		return directoryUsage{}, err
	}
	used.incomplete = used.incomplete || err != nil
	return used, nil
}
