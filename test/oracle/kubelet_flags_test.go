package oracle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podstead/podstead/config"
)

// moduleDir returns the directory of a module's source.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// flagsIn returns the flags that the Go files declare, and whether each is boolean.
func flagsIn(t *testing.T, files ...string) map[string]bool {
	t.Helper()
	flags := map[string]bool{"log-flush-frequency": false} // named by a constant
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			method := ""
			switch fun := call.Fun.(type) {
			case *ast.SelectorExpr:
				if on, ok := fun.X.(*ast.Ident); !ok || on.Name != "fs" || !strings.Contains(fun.Sel.Name, "Var") {
					return true
				}
				method = fun.Sel.Name
			case *ast.Ident: // cAdvisor's flags are declared elsewhere
				if fun.Name != "register" && fun.Name != "registerDeprecated" {
					return true
				}
			default: // a conversion
				return true
			}
			for _, arg := range call.Args {
				if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					name, _ := strconv.Unquote(literal.Value)
					if strings.Contains(name, " ") {
						break // the help of a flag that a constant names
					}
					flags[strings.ReplaceAll(name, "_", "-")] = method == "BoolVar"
					break
				}
			}
			return true
		})
	}
	return flags
}

// Each flag of the kubelet 1.36 is podstead's own, or accepted, or refused with a remedy; those
// that need no value need none here.
func TestEachKubeletFlagIsKnown(t *testing.T) {
	kubernetes, base := moduleDir(t, "k8s.io/kubernetes"), moduleDir(t, "k8s.io/component-base")
	files, err := filepath.Glob(filepath.Join(kubernetes, "cmd/kubelet/app/options/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		return strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_windows.go")
	})
	real := flagsIn(t, append(files, filepath.Join(base, "logs/api/v1/options.go"))...)
	if len(real) < 130 {
		t.Fatalf("only %d flags found", len(real))
	}
	run := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&config.Options{}).AddFlags(run)
	for name, boolean := range real {
		flag := run.Lookup(name)
		if flag == nil {
			t.Errorf("--%s is unknown", name)
			continue
		}
		if boolean && flag.NoOptDefVal != "true" {
			t.Errorf("--%s needs a value", name)
		}
	}
	for _, k := range config.KubeletFlags() {
		if _, ok := real[k.Name]; ok == k.Removed {
			t.Errorf("--%s: Removed is %t", k.Name, k.Removed)
		}
	}
}

// The known fields are those of the kubelet's type.
func TestKnownFieldsAreTheKubelets(t *testing.T) {
	properties := object{}
	addProperties(reflect.TypeFor[kubelet.KubeletConfiguration](), "", func(string) string { return "" }, properties)
	for _, name := range config.KnownFields() {
		delete(properties, name)
	}
	for name := range properties {
		t.Errorf("%s is unknown", name)
	}
}
