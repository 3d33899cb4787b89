package private

import (
	"net"
	"path/filepath"
	"testing"
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

func TestEndpointFileSurvivesARestart(t *testing.T) {
	root := t.TempDir()
	if got, err := NewEndpointFile(root).Load(); got != "" || err != nil {
		t.Fatalf("Load before the first choice = %q, %v", got, err)
	}
	if err := NewEndpointFile(root).Save("unix:///x"); err != nil {
		t.Fatal(err)
	}
	if got, err := NewEndpointFile(root).Load(); got != "unix:///x" || err != nil {
		t.Fatalf("Load = %q, %v", got, err)
	}
}
