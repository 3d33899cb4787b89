package private

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a service has and process 1 has not is reported, since containers inherit it.
func TestRestrictions(t *testing.T) {
	const open = "Name:\tsystemd\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t7\nCapBnd:\t000001ffffffffff\n"
	for name, c := range map[string]struct {
		process string
		want    []string
	}{
		"none": {process: open},
		"all": {process: "Name:\tpodstead\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t9\nCapBnd:\t000001fff00fffff\n",
			want: []string{"NoNewPrivileges", "system call filters", "CapabilityBoundingSet"}},
		"one": {process: "NoNewPrivs:\t1\nSeccomp_filters:\t7\nCapBnd:\t000001ffffffffff\n",
			want: []string{"NoNewPrivileges"}},
		"unreadable": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			process, init := filepath.Join(dir, "process"), filepath.Join(dir, "init")
			if err := os.WriteFile(init, []byte(open), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.process != "" {
				if err := os.WriteFile(process, []byte(c.process), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := restrictions(process, init); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
