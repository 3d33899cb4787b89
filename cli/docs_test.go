package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The reference documents every command.
func TestReferenceNamesEveryCommand(t *testing.T) {
	data, err := os.ReadFile("../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, cmd := range Commands(Version{}) {
		if !strings.Contains(text, "`"+cmd.Name()) {
			t.Errorf("docs/cli.md does not document podstead %s", cmd.Name())
		}
	}
}

// Each command has a help text and the flag --api-socket.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range Commands(Version{}) {
		out, errs, err := execute(t, "", cmd.Name(), "--help")
		if err != nil || errs != "" || !strings.Contains(out, "Usage:") || cmd.Short == "" {
			t.Errorf("podstead %s --help: %v %s\n%s", cmd.Name(), err, errs, out)
		}
		if cmd.Flags().Lookup("api-socket") == nil && cmd.PersistentFlags().Lookup("api-socket") == nil &&
			!cmd.HasSubCommands() {
			t.Errorf("podstead %s has no --api-socket", cmd.Name())
		}
	}
}

// The reference lists each exit code of the commands, and no other one.
func TestReferenceNamesEveryExitCode(t *testing.T) {
	data, err := os.ReadFile("../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(section, -1) {
		documented[row[1]] = true
	}
	code := exitCodes(t)
	code["0"] = true
	if want, got := slices.Sorted(maps.Keys(code)), slices.Sorted(maps.Keys(documented)); !slices.Equal(want, got) {
		t.Errorf("docs/cli.md has the exit codes %v, the commands %v", got, want)
	}
}

// exitCodes returns the values of the constants for exit codes, and the codes that commands
// return without one.
func exitCodes(t *testing.T) map[string]bool {
	t.Helper()
	codes := map[string]bool{}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT {
			n, err := strconv.Atoi(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes[strconv.Itoa(n)] = true
		}
	}
	var files []string
	for _, pattern := range []string{"*.go", "../daemon/*.go", "../cmd/podstead/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if strings.HasPrefix(strings.ToLower(n.Names[0].Name), "exit") && len(n.Values) == 1 {
					add(n.Values[0])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
					add(n.Value)
				}
			}
			return true
		})
	}
	return codes
}
