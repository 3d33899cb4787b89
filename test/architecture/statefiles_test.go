package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// replacers lists the files that may rename or create a temporary file themselves. State files are replaced by
// internal/statefile alone.
var replacers = map[string]string{
	"cli/cmd_edit.go":                             "the copy that the user edits",
	"cli/cmd_kubeconfig.go":                       "a kubeconfig of the user",
	"cri/archive/space.go":                        "unlinked temporary files",
	"cri/private/mirror.go":                       "a link of the private containerd, made again at each start",
	"gc/log_dir.go":                               "logs of containers",
	"httpapi/listeners.go":                        "the socket of the API",
	"manifest/edit/commit.go":                     "manifests of the user, exchanged only with the one that was read",
	"node/nameserver/keeper/keeper.go":            "the log of the name server",
	"supervisor/podinputs/termination_message.go": "files of containers, for their termination messages",
	"supervisor/volume/atomic_writer.go":          "files of volumes, which pods read",
	"supervisor/volume/claim_directory.go":        "directories of claims",
	"supervisor/volume/empty_dir_quota.go":        "directories of volumes",
	"supervisor/volume/remove.go":                 "directories of volumes that are being removed",
}

// stateFormat is a statefile.Format of the code as the row of docs/state-files.md that it must have.
type stateFormat struct {
	file, directory, damaged, newer, durability string
	second, repeated                            string
}

// sources calls f with each product file and its path.
func sources(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || below(directory, "test") || below(directory, "build") || below(directory, "cri/critest") ||
			below(directory, "internal/statefile") {
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
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, entry.Name()), nil,
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f(directory+"/"+entry.Name(), file)
		}
	}
}

// selector returns PACKAGE.NAME of an expression that names something of a package.
func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if pkg, ok := s.X.(*ast.Ident); ok {
			return pkg.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// formatOf returns the format of a composite literal, false if it is none.
func formatOf(n ast.Node, directory string) (f stateFormat, ok bool) {
	literal, isLiteral := n.(*ast.CompositeLit)
	if !isLiteral {
		return f, false
	}
	if index, generic := literal.Type.(*ast.IndexExpr); !generic || selector(index.X) != "statefile.Format" {
		return f, false
	}
	f = stateFormat{directory: directory, damaged: "refuse", newer: "refuse", durability: "new", second: "no",
		repeated: "no"}
	policies := map[string]string{"statefile.Refuse": "refuse", "statefile.MoveAside": "move aside"}
	versioned := false
	for _, element := range literal.Elts {
		field := element.(*ast.KeyValueExpr)
		switch value := selector(field.Value); field.Key.(*ast.Ident).Name {
		case "Name":
			if name, isName := field.Value.(*ast.BasicLit); isName {
				f.file, _ = strconv.Unquote(name.Value)
			}
		case "Version":
			versioned = true
		case "Damaged":
			f.damaged = policies[value]
		case "Newer":
			f.newer = policies[value]
		case "Durability":
			f.durability = map[string]string{"statefile.Durable": "new", "statefile.Atomic": "old or new"}[value]
		case "Sequence":
			f.second = "yes"
		case "Repeat":
			f.repeated = "yes"
		}
	}
	if !versioned {
		f.newer = "–"
	}
	return f, true
}

// Each kind of state file has a row that reports what is lost with it, and the row reports what the code does.
func TestStateFilesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/state-files.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]stateFormat{}
	_, table, _ := strings.Cut(string(text), "| file | written by |")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if len(cells) == 8 && strings.Trim(cells[0], "-") != "" && cells[0] != "" {
			if cells[2] == "" {
				t.Errorf("the row of %s does not say what is lost", cells[0])
			}
			rows[cells[0]] = stateFormat{cells[0], cells[1], cells[3], cells[4], cells[6], cells[5], cells[7]}
		}
	}
	found := 0
	sources(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := formatOf(n, filepath.Dir(path))
			if !ok {
				return true
			}
			found++
			switch row, documented := rows[f.file]; {
			case f.file == "":
				t.Errorf("%s has a statefile.Format without a literal Name", path)
			case !documented:
				t.Errorf("%s: %s has no row in docs/state-files.md: %+v", path, f.file, f)
			case row != f:
				t.Errorf("%s: the row of %s in docs/state-files.md is %+v, and the code says %+v", path, f.file, row, f)
			}
			delete(rows, f.file)
			return true
		})
	})
	if found == 0 {
		t.Error("no statefile.Format was found")
	}
	for file := range rows {
		t.Errorf("docs/state-files.md has a row for %s, and no code has such a statefile.Format", file)
	}
}

// A file that matters is not replaced by hand.
func TestFilesAreReplacedInOnePlace(t *testing.T) {
	used := map[string]bool{}
	sources(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok ||
				!slices.Contains([]string{"os.Rename", "os.CreateTemp", "unix.Rename", "unix.Renameat", "unix.Renameat2",
					"syscall.Rename"}, selector(e)) {
				return true
			}
			if replacers[path] == "" {
				t.Errorf("%s uses %s: state is replaced by internal/statefile; for anything else say in the table what it is", path,
					selector(e))
			}
			used[path] = true
			return true
		})
	})
	for path := range replacers {
		if !used[path] {
			t.Errorf("%s replaces nothing; remove it from the table", path)
		}
	}
}
