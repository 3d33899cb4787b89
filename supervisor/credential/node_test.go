package credential

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestUsualFiles(t *testing.T) {
	want := []string{
		"/data/config.json", "/var/lib/kubelet/config.json", "/root/.docker/config.json", "/.docker/config.json",
		"/data/.dockercfg", "/var/lib/kubelet/.dockercfg", "/root/.dockercfg", "/.dockercfg",
	}
	if got := DefaultFiles("/data", ""); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Only the first readable file is used, and it is read each time.
func TestNodeFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	n := Node{Files: []string{at("none"), at("first/config.json"), at("second/config.json"), at("third/.dockercfg")}}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	image, _ := ParseImage("r.test/app")
	expect := func(user, fault string) {
		t.Helper()
		found, err := n.Lookup(t.Context(), image)
		got := ""
		for _, c := range found {
			got += c.Username
		}
		if got != user || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("found %q (%v), want %q and %q", got, err, user, fault)
		}
	}
	expect("", "")
	write("third/.dockercfg", `{"r.test": {"username": "third", "password": "p"}}`)
	expect("third", "")
	write("second/config.json", `{"auths": {"r.test": {"username": "second", "password": "p"}}}`)
	expect("second", "")
	write("first/config.json", `{"auths": `)
	expect("second", at("first/config.json"))
	write("first/config.json", `{}`)
	expect("", "")
	write("first/config.json", `{"auths": {"r.test": {"username": "first", "password": "p"}}}`)
	expect("first", "")
	n.Files[0] = at("third/.dockercfg/config.json") // below a file
	expect("first", "")
}
