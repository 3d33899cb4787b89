package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unboundedReads lists the directories and files that may read a whole file or stream
// without a bound, because only root, the kernel or podstead itself writes what they read.
// Everything else may come from a container, a client, a tenant or a network, and is read
// through internal/boundedfile or a reader with a limit.
var unboundedReads = map[string]string{
	"cli/cmd_kubeconfig.go":             "the caller's own kubeconfig, with the caller's rights",
	"config":                            "/etc/machine-id",
	"daemon/preflight/check_cgroups.go": "/sys/kernel/mm",
	"daemon/preflight/check_network.go": "network settings of the host",
	"daemon/preflight/host.go": "settings of the host in /proc, /sys, /etc and /lib/modules, and names " +
		"of processes, which the kernel bounds",
	"cri/private":                  "files of the private containerd and its registry settings",
	"httpapi/access":               "files of tokens and certificates, named by flags",
	"internal/fdpath":              "/proc/self/fdinfo",
	"internal/registry/client.go":  "the CA file, named by a flag",
	"internal/wallclock":           "/proc/sys/kernel/random/boot_id",
	"manifest/source_url_fetch.go": "the CA file, named by a flag",
	"node/cgroup":                  "files of cgroups, which the kernel writes, and /proc/sys",
	"node/topology":                "the NUMA nodes and their distances in /sys",
	"node/assignments": "the state files of the managers of CPUs and memory in the root " +
		"directory, and the ID of the boot",
	"node/memory":                               "the memory of NUMA nodes in /sys and /proc",
	"node/cpus":                                 "the topology of the CPUs in /sys",
	"node/evict/host.go":                        "/proc/loadavg",
	"node/nodestatus":                           "names of the host in /proc, /sys and /etc",
	"node/stats/devices.go":                     "/proc/diskstats",
	"node/stats/node.go":                        "/proc/meminfo, vmstat, stat, loadavg and sys",
	"supervisor/admit":                          "/proc/sys and /sys/module",
	"supervisor/credential/node.go":             "docker configurations of the root directory and of root's home",
	"supervisor/credential/providers_config.go": "the file of --image-credential-provider-config",
	"supervisor/dns":                            "/etc/hosts and /etc/resolv.conf of the host",
}

// limitingReaders are the functions whose result io.ReadAll may read.
var limitingReaders = []string{"io.LimitReader", "io.NewSectionReader", "http.MaxBytesReader"}

// unbounded returns the positions of os.ReadFile, and of io.ReadAll of anything but a
// reader with a limit, in a file.
func unbounded(file *ast.File) (found []token.Pos) {
	name := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok {
				return pkg.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	bounded := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && name(call.Fun) == "io.ReadAll" && len(call.Args) == 1 {
			if reader, ok := call.Args[0].(*ast.CallExpr); ok {
				for _, limiting := range limitingReaders {
					bounded[call.Fun] = bounded[call.Fun] || name(reader.Fun) == limiting
				}
			}
		}
		if s, ok := n.(*ast.SelectorExpr); ok && (name(s) == "os.ReadFile" || name(s) == "io.ReadAll" && !bounded[s]) {
			found = append(found, s.Pos())
		}
		return true
	})
	return found
}

func TestInputsOfOthersAreReadWithABound(t *testing.T) {
	used := map[string]bool{}
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || below(directory, "test") || below(directory, "build") || below(directory, "cri/critest") ||
			directory == "internal/boundedfile" || directory == "internal/statefile/statefiletest" {
			continue
		}
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, entry.Name()), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			path := directory + "/" + entry.Name()
			for _, pos := range unbounded(file) {
				switch {
				case unboundedReads[path] != "":
					used[path] = true
				case unboundedReads[directory] != "":
					used[directory] = true
				default:
					t.Errorf("%s:%d reads without a bound; use internal/boundedfile, io.LimitReader, or say in the table who alone "+
						"writes what it reads", path, set.Position(pos).Line)
				}
			}
		}
	}
	for path := range unboundedReads {
		if !used[path] {
			t.Errorf("%s reads nothing without a bound; remove it from the table", path)
		}
	}
}

func TestUnbounded(t *testing.T) {
	for text, want := range map[string]int{
		`os.ReadFile("x")`:                         1,
		`io.ReadAll(r.Body)`:                       1,
		`io.ReadAll(bufio.NewReader(r))`:           1,
		`io.ReadAll(io.LimitReader(r, 5))`:         0,
		`io.ReadAll(io.NewSectionReader(r, 5, 6))`: 0,
		`read(os.ReadFile)`:                        1,
		`read(io.ReadAll)`:                         1,
		`boundedfile.Read("x", 5)`:                 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(unbounded(file)); got != want {
			t.Errorf("%s: %d found, want %d", text, got, want)
		}
	}
}
