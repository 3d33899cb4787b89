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

// importRule is one row of the table: a directory, including subdirectories without their own row,
// and the packages that it may import.
type importRule struct {
	directory string
	may       []string
}

// importRules is the import table of docs/architecture.md. Imports follow the data, from
// the manifest to the command; "*" is everything.
var importRules = []importRule{
	{"internal", nil},
	{"internal/podtable", []string{"internal/pod"}},
	{"api", []string{"internal/pod"}},
	{"manifest", []string{"internal", "manifest"}},
	{"manifest/validation", []string{"internal"}},
	{"manifest/edit", []string{"internal", "manifest"}},
	{"manifest/change", []string{"internal", "manifest", "manifest/edit"}},
	{"probe", []string{"internal"}},
	{"cri", []string{"internal"}},
	{"cri/critest", []string{"internal", "cri"}},
	{"cri/archive", []string{"internal"}},
	{"cri/connect", []string{"internal", "cri"}},
	{"cri/private", []string{"internal"}},
	{"cri/imageload", []string{"internal", "cri"}},
	{"cri/imagestore", []string{"internal", "cri"}},
	{"cri/imagearchives", []string{"internal", "cri"}},
	{"gc", []string{"internal", "cri"}},
	{"supervisor", []string{"api", "internal", "cri", "probe", "manifest", "gc", "supervisor"}},
	{"supervisor/noderesources", []string{"internal", "cri", "supervisor/podstart", "supervisor/podworkers",
		"supervisor/status"}},
	{"supervisor/podworkers", []string{"internal", "supervisor/status"}},
	{"supervisor/podinputs", []string{"internal", "cri", "manifest", "supervisor/credential", "supervisor/dns",
		"supervisor/status", "supervisor/userns", "supervisor/volume"}},
	{"supervisor/admit", []string{"internal", "cri"}},
	{"supervisor/pleg", []string{"internal", "cri"}},
	{"supervisor/podorder", []string{"internal", "supervisor/podworkers", "supervisor/status"}},
	{"supervisor/podstart", []string{"internal", "cri", "manifest", "supervisor/admit", "supervisor/podinputs",
		"supervisor/podorder", "supervisor/podset", "supervisor/podworkers"}},
	{"supervisor/podview", []string{"internal", "supervisor/podworkers"}},
	{"supervisor/podprobes", []string{"internal", "cri", "probe", "supervisor/noderesources", "supervisor/podinputs",
		"supervisor/status"}},
	{"supervisor/podresize", []string{"internal", "cri", "supervisor/admit", "supervisor/status"}},
	{"supervisor/podephemeral", []string{"internal", "manifest"}},
	{"supervisor/podset", []string{"internal", "manifest"}},
	{"supervisor/rollout", []string{"api", "internal", "manifest", "supervisor/podorder", "supervisor/status"}},
	{"supervisor/runtimehealth", []string{"internal", "cri", "supervisor/pleg"}},
	{"supervisor/status", []string{"internal", "cri", "probe"}},
	{"supervisor/event", []string{"internal"}},
	{"supervisor/autoupdate", []string{"api", "internal", "cri", "supervisor/rollout"}},
	{"supervisor/volume", []string{"internal", "manifest", "supervisor/volume/binding"}},
	{"supervisor/volume/binding", []string{"manifest"}},
	{"supervisor/manifestview", []string{"api", "manifest"}},
	{"supervisor/imageview", []string{"api", "internal", "cri", "gc"}},
	{"supervisor/volumeview", []string{"api", "internal", "manifest", "supervisor/volume"}},
	{"supervisor/dns", []string{"internal", "cri"}},
	{"supervisor/userns", []string{"internal"}},
	{"supervisor/credential", []string{"internal", "cri"}},
	{"node", []string{"internal", "node"}},
	{"cluster", []string{"api", "internal", "manifest", "cluster"}},
	{"httpapi", []string{"api", "internal", "httpapi"}},
	{"cmd/podstead", []string{"*"}},
	{"cli", []string{"api", "internal", "manifest", "cli"}},
	{"config/configfile", []string{"internal"}},
	{"config", []string{"internal", "node", "config/configfile"}},
	{"daemon", []string{"*"}},
	{"daemon/preflight", []string{"internal", "cri", "cli/terminal"}},
	{"build", nil},
	{"test", []string{"*"}},
}

// testOnly are directories that product code must not import.
var testOnly = []string{"cri/critest", "internal/statefile/statefiletest", "supervisor/noderesources/noderesourcestest",
	"test"}

// onlyIn lists external packages, by prefix, and the only directories that may import them;
// nil means none.
var onlyIn = map[string][]string{
	"k8s.io/client-go/kubernetes":    nil,
	"k8s.io/client-go/informers":     nil,
	"k8s.io/client-go":               {"cluster"},
	"k8s.io/client-go/util/jsonpath": {"cli"},
	"k8s.io/kubernetes":              nil,
	"k8s.io/component-base":          nil,
	"google.golang.org/grpc": {"cri", "probe", "internal/tracing", "node/csi", "node/devices", "node/dra",
		"node/plugins", "node/podresources"},
	"k8s.io/cri-api":                        {"cri"},
	"k8s.io/kubelet":                        {"node/devices", "node/dra", "node/plugins", "node/podresources"},
	"github.com/spf13/cobra":                {"cli", "cmd", "daemon"},
	"github.com/coreos/go-systemd/v22/dbus": {"node/cgroup"},
	"github.com/godbus/dbus":                {"node/cgroup", "node/shutdown"},
	"github.com/gorilla/websocket":          {"httpapi/streaming"},
	"k8s.io/streaming":                      {"httpapi", "internal/spdy", "cli"},
	"github.com/prometheus":                 {"httpapi/metrics"},
	"github.com/miekg/dns":                  {"node/nameserver"},
	"oras.land/oras-go":                     {"internal/registry"},
	"github.com/fsnotify/fsnotify": {"manifest", "httpapi/access", "httpapi/containerlog", "node/devices",
		"node/nameserver", "node/plugins"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	Deps       []string
}

// product returns every package of the module without its tests.
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
		t.Fatalf("go list returned only %d packages", len(all))
	}
	return all
}

// directoryOf returns the package's directory in the module.
func directoryOf(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}

func below(directory, parent string) bool {
	return directory == parent || strings.HasPrefix(directory, parent+"/")
}

// ruleFor returns the row with the longest directory that contains the given one.
func ruleFor(directory string) (best importRule, found bool) {
	for _, r := range importRules {
		if below(directory, r.directory) && len(r.directory) > len(best.directory) {
			best, found = r, true
		}
	}
	return best, found
}

func TestImports(t *testing.T) {
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok {
			continue
		}
		own, found := ruleFor(directory)
		if !found {
			t.Errorf("%s has no row in the table: say which packages it may import", directory)
			continue
		}
		for _, imp := range p.Imports {
			to, inside := directoryOf(imp)
			if !inside {
				continue
			}
			if to == "daemon" && directory != "cmd/podstead" {
				t.Errorf("%s imports the assembly of the daemon: move what it needs to the room that owns it", directory)
			}
			other, _ := ruleFor(to)
			allowed := other.directory == own.directory || slices.Contains(own.may, "*") ||
				slices.ContainsFunc(own.may, func(m string) bool { return below(to, m) })
			if !allowed {
				t.Errorf("%s imports %s: %s may import %v only", directory, to, own.directory, own.may)
			}
			if slices.ContainsFunc(testOnly, func(d string) bool { return below(to, d) }) && !below(directory, "test") &&
				!below(directory, "cri/critest") && !below(directory, "internal/statefile/statefiletest") {
				t.Errorf("%s imports %s, which is for tests only", directory, to)
			}
		}
	}
}

func TestOutsidePackagesStayInTheirRooms(t *testing.T) {
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || below(directory, "test") || below(directory, "cri/critest") {
			continue
		}
		for _, imp := range p.Imports {
			longest, where := "", []string(nil)
			for prefix, place := range onlyIn {
				if below(imp, prefix) && len(prefix) > len(longest) {
					longest, where = prefix, place
				}
			}
			if longest != "" && !slices.ContainsFunc(where, func(place string) bool { return below(directory, place) }) {
				t.Errorf("%s imports %s, which only %q may", directory, imp, where)
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
			for _, bad := range []string{"k8s.io/kubernetes", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers",
				"k8s.io/component-base", "net/http/pprof", "testing"} {
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
		directory, ok := directoryOf(p.ImportPath)
		if !ok || directory == "cmd/podstead" || below(directory, "test") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go: %v", directory, err)
			continue
		}
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(data), "//", "")), " ")
		for _, word := range []string{"own", "read", "never"} {
			if !strings.Contains(strings.ToLower(text), word) {
				t.Errorf("%s/doc.go does not say what the package %ss", directory, word)
			}
		}
		for _, name := range []string{"util", "utils", "helper", "helpers", "common", "misc"} {
			if filepath.Base(directory) == name {
				t.Errorf("%s: a package needs the name of what it holds", directory)
			}
		}
	}
}
