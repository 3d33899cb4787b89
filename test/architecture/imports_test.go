package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/podstead/podstead"

// room is one row of the table: a folder with all below it that has no longer
// row of its own, and the rooms whose packages it may import.
type room struct {
	folder string
	may    []string
}

// rooms is the table. Imports follow the road, from the manifest to the
// command; "*" is everything.
var rooms = []room{
	{"manifest", nil},
	{"cri", nil},
	{"cri/critest", []string{"cri"}},
	{"cri/archive", nil},
	{"cri/private", nil},
	{"probe", nil},
	{"wallclock", nil},
	{"atomicfile", nil},
	{"gc", []string{"atomicfile", "cri", "wallclock"}},
	{"supervisor", []string{"cri", "probe", "manifest", "gc", "wallclock", "supervisor"}},
	{"supervisor/pleg", []string{"cri", "manifest"}},
	{"supervisor/status", []string{"atomicfile", "cri", "manifest", "probe", "wallclock"}},
	{"supervisor/event", []string{"atomicfile", "wallclock"}},
	{"supervisor/admit", []string{"cri"}},
	{"supervisor/oom", nil},
	{"supervisor/evict", []string{"atomicfile", "cri", "wallclock"}},
	{"supervisor/node", []string{"cri"}},
	{"supervisor/stats", []string{"cri", "supervisor/cgroup"}},
	{"supervisor/metrics", []string{"cri", "probe", "supervisor/cgroup", "supervisor/stats"}},
	{"supervisor/cgroup", []string{"cri"}},
	{"supervisor/shutdown", nil},
	{"supervisor/userns", []string{"atomicfile"}},
	{"supervisor/cluster", []string{"manifest"}},
	{"supervisor/volume", []string{"manifest"}},
	{"supervisor/dns", []string{"cri"}},
	{"supervisor/hostip", nil},
	{"supervisor/credential", []string{"cri"}},
	{"httpapi", []string{"httpapi"}},
	{"httpapi/access", nil},
	{"httpapi/containerlog", nil},
	{"httpapi/kubeapi", []string{"atomicfile", "httpapi/access", "httpapi/podtable"}},
	{"httpapi/pki", []string{"atomicfile"}},
	{"httpapi/podtable", nil},
	{"httpapi/hangup", nil},
	{"httpapi/spdy", nil},
	{"httpapi/streaming", []string{"httpapi/spdy"}},
	{"cmd/podstead", []string{"*"}},
	{"cmd/podstead/cli", []string{"manifest", "httpapi/podtable", "httpapi/spdy"}},
	{"cmd/podstead/kubeletconfig", nil},
	{"cmd/podstead/options", []string{"manifest", "supervisor/cgroup", "supervisor/evict", "supervisor/shutdown", "cmd/podstead/kubeletconfig"}},
	{"cmd/podstead/preflight", nil},
	{"test", []string{"*"}},
}

// testOnly are folders that product code must not import.
var testOnly = []string{"cri/critest", "test"}

// onlyIn names outside packages that a part of the tree alone may import, by
// prefix; nil is nobody.
var onlyIn = map[string][]string{
	"k8s.io/client-go/kubernetes":            nil,
	"k8s.io/client-go/informers":             nil,
	"k8s.io/client-go":                       {"supervisor/cluster"},
	"k8s.io/kubernetes":                      nil,
	"k8s.io/component-base":                  nil,
	"google.golang.org/grpc":                 {"cri", "probe"},
	"k8s.io/cri-api":                         {"cri"},
	"github.com/spf13/cobra":                 {"cmd"},
	"github.com/google/go-containerregistry": {"test"},
	"github.com/coreos/go-systemd/v22/dbus":  {"supervisor/cgroup"},
	"github.com/godbus/dbus":                 {"supervisor/cgroup", "supervisor/shutdown"},
	"github.com/gorilla/websocket":           {"httpapi/streaming"},
	"k8s.io/streaming":                       {"httpapi", "cmd/podstead/cli"},
	"github.com/prometheus":                  {"supervisor/metrics"},
	"github.com/fsnotify/fsnotify":           {"manifest", "httpapi/containerlog"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	Deps       []string
}

// product lists every package of the module without its tests.
func product(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list shows %d packages only", len(all))
	}
	return all
}

// folderOf is the package's folder in the module.
func folderOf(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}

func below(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

// roomOf is the row with the longest folder that holds the given one.
func roomOf(folder string) (best room, found bool) {
	for _, r := range rooms {
		if below(folder, r.folder) && len(r.folder) > len(best.folder) {
			best, found = r, true
		}
	}
	return best, found
}

func TestImportsFollowTheRoad(t *testing.T) {
	for _, p := range product(t) {
		folder, ok := folderOf(p.ImportPath)
		if !ok {
			continue
		}
		own, found := roomOf(folder)
		if !found {
			t.Errorf("%s has no row in the table: say which rooms it may import", folder)
			continue
		}
		for _, imp := range p.Imports {
			to, inside := folderOf(imp)
			if !inside {
				continue
			}
			other, _ := roomOf(to)
			allowed := other.folder == own.folder || slices.Contains(own.may, "*") ||
				slices.ContainsFunc(own.may, func(m string) bool { return below(other.folder, m) })
			if !allowed {
				t.Errorf("%s imports %s: %s may import %v only", folder, to, own.folder, own.may)
			}
			if slices.ContainsFunc(testOnly, func(f string) bool { return below(to, f) }) && !below(folder, "test") && !below(folder, "cri/critest") {
				t.Errorf("%s imports %s, which is for tests only", folder, to)
			}
		}
	}
}

func TestOutsidePackagesStayInTheirRooms(t *testing.T) {
	for _, p := range product(t) {
		folder, ok := folderOf(p.ImportPath)
		if !ok || below(folder, "test") || below(folder, "cri/critest") {
			continue
		}
		for _, imp := range p.Imports {
			longest, where := "", []string(nil)
			for prefix, place := range onlyIn {
				if below(imp, prefix) && len(prefix) > len(longest) {
					longest, where = prefix, place
				}
			}
			if longest != "" && !slices.ContainsFunc(where, func(place string) bool { return below(folder, place) }) {
				t.Errorf("%s imports %s, which only %q may", folder, imp, where)
			}
		}
	}
}

func TestDaemonLinksNothingOfKubernetesButTypes(t *testing.T) {
	for _, p := range product(t) {
		if p.ImportPath != module+"/cmd/podstead" {
			continue
		}
		for _, d := range p.Deps {
			for _, bad := range []string{"k8s.io/kubernetes", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/component-base", "net/http/pprof", "testing"} {
				if below(d, bad) {
					t.Errorf("the daemon links %s", d)
				}
			}
		}
		return
	}
	t.Fatal("cmd/podstead is not listed")
}

func TestEachPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range product(t) {
		folder, ok := folderOf(p.ImportPath)
		if !ok || folder == "cmd/podstead" || below(folder, "test") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go: %v", folder, err)
			continue
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(data), "//", "")), " ")
		for _, word := range []string{"own", "read", "never"} {
			if !strings.Contains(strings.ToLower(text), word) {
				t.Errorf("%s/doc.go does not say what the package %ss", folder, word)
			}
		}
		for _, name := range []string{"util", "utils", "helper", "helpers", "common", "misc"} {
			if filepath.Base(folder) == name {
				t.Errorf("%s: a package needs the name of what it holds", folder)
			}
		}
	}
}
