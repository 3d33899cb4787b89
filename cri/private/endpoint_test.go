package private

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/statefile/statefiletest"
)

func TestChooseKeepsARuntimeThatIsDown(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "a.sock")
	ln, err := net.Listen("unix", alive)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, c := range map[string]struct {
		remembered string
		sockets    []string
		want       string
	}{
		"first start, runtime present": {"", []string{alive}, "unix://" + alive},
		"first start, none present":    {"", []string{alive + "x"}, "unix:///private"},
		"the remembered one is down":   {"unix:///run/down.sock", []string{alive}, "unix:///run/down.sock"},
		"private stays private":        {"unix:///private", []string{alive}, "unix:///private"},
	} {
		if got := Choose(t.Context(), c.remembered, c.sockets, "unix:///private"); got != c.want {
			t.Errorf("%s: Choose = %q, want %q", name, got, c.want)
		}
	}
}

func TestEndpointFile(t *testing.T) {
	statefiletest.Store{
		Files: []string{"runtime-endpoint"}, Before: "runtime-endpoint.before", After: "runtime-endpoint.after",
		Old: "unix:///run/containerd/containerd.sock", New: "unix:///run/crio/crio.sock", None: "",
		Rules: statefiletest.RulesOf(&endpointFormat),
		Read: func(_ *testing.T, dir string, disk statefile.Disk) (string, error) {
			return NewEndpointFile(dir, disk).Load()
		},
		Change: func(_ *testing.T, dir string, disk statefile.Disk) error {
			// Without an endpoint of the settings, which replaces every file.
			file := NewEndpointFile(dir, disk)
			if _, err := file.Load(); err != nil {
				return err
			}
			return file.Save("unix:///run/crio/crio.sock")
		},
	}.Run(t)
}
