package gc

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstead/podstead/internal/statefile"
)

// A board that boots in 1970 and learns the time afterwards does not take its
// images for half a century old.
func TestImageAgesWhenTheClockIsSet(t *testing.T) {
	early, late := time.Date(1970, 1, 1, 0, 10, 0, 0, time.UTC), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	record := func(pulled, used time.Time) imageRecord {
		r := newRecord("r")
		r.Pulled["a"], r.Used["a"] = pulledImage{At: pulled}, used
		return r
	}
	for name, c := range map[string]struct {
		r    imageRecord
		do   func(r *imageRecord)
		want imageRecord
	}{
		"set while the daemon runs": {
			record(early.Add(-5*time.Minute), early.Add(-time.Minute)),
			func(r *imageRecord) { r.shift(early, late.Sub(early)) },
			record(late.Add(-5*time.Minute), late.Add(-time.Minute)),
		},
		"noted in an earlier boot, with the time right": {
			record(late.AddDate(0, -1, 0), early),
			func(r *imageRecord) { r.shift(early, late.Sub(early)) },
			record(late.AddDate(0, -1, 0), late),
		},
		"set back while the daemon runs": {
			record(late.Add(-time.Hour), late),
			func(r *imageRecord) { r.shift(late, early.Sub(late)) },
			record(early.Add(-time.Hour), early),
		},
		"set while it did not": {record(early, late.Add(-time.Hour)), func(r *imageRecord) { r.fixUnsetTimes(late) },
			record(late, late.Add(-time.Hour))},
		"set back while it did not": {record(late, early), func(r *imageRecord) { r.fixUnsetTimes(early) },
			record(early, early)},
	} {
		t.Run(name, func(t *testing.T) {
			if c.do(&c.r); !cmp.Equal(c.r, c.want) {
				t.Error(cmp.Diff(c.want, c.r))
			}
		})
	}
}

// The same through the collector and its file, where the clock is right.
func TestOldRecordAfterTheClockWasSet(t *testing.T) {
	s, file := &store{}, filepath.Join(t.TempDir(), "images.json")
	s.add("a", 10)
	r := newRecord("unix:///r")
	r.Pulled["sha256:a"] = pulledImage{At: time.Unix(600, 0), Refs: []string{"docker.io/library/a:1"}}
	r.Used["sha256:a"] = time.Unix(1200, 0)
	if err := recordFormat.File(file, statefile.Disk{}).Save(r); err != nil {
		t.Fatal(err)
	}
	g := keeper(t, s, ImagePolicy{High: 100, Low: 80, MaxAge: 24 * time.Hour}, file)
	if g.tick(t.Context()); s.gone() != "" {
		t.Errorf("removed %q, which was used in 1970 by a clock that was not set", s.gone())
	}
}
