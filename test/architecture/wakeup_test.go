package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// semaphores are the files that may make a channel of one empty slot, and why it is not a
// wake-up: the slot is occupied for a time, and a caller that finds it occupied waits or gives up.
var semaphores = map[string]string{
	"node/stats/shared.go": "one caller measures, and the others wait for its result",
	"node/csi/locks.go":    "one operation on a volume runs, and the next waits, with a limit",
	"node/dra/manager.go":  "drivers are talked to about a claim by one caller at a time",
}

// handWrittenWakeups returns the places in a file that write what internal/wakeup has: a channel
// for one notification, a send that drops what does not fit, a set of channels, and a channel
// that is closed and replaced.
func handWrittenWakeups(fset *token.FileSet, file *ast.File) (found, slots []string) {
	at := func(n ast.Node, what string) string { return fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if text := types.ExprString(n); text == "make(chan struct{}, 1)" {
				slots = append(slots, at(n, "a channel for one notification"))
			}
		case *ast.MapType:
			if _, ok := n.Key.(*ast.ChanType); ok {
				found = append(found, at(n, "a set of channels"))
			}
		case *ast.SelectStmt:
			if droppingSend(n) {
				found = append(found, at(n, "a send that drops what does not fit"))
			}
		case *ast.BlockStmt:
			for i := range len(n.List) - 1 {
				if closedAndReplaced(n.List[i], n.List[i+1]) {
					found = append(found, at(n.List[i], "a channel that is closed and replaced"))
				}
			}
		}
		return true
	})
	return found, slots
}

// droppingSend reports whether a select only sends an empty struct, or does nothing.
func droppingSend(s *ast.SelectStmt) bool {
	sends := false
	for _, clause := range s.Body.List {
		comm := clause.(*ast.CommClause)
		send, ok := comm.Comm.(*ast.SendStmt)
		if len(comm.Body) > 0 || comm.Comm != nil && !ok {
			return false
		}
		sends = sends || ok && types.ExprString(send.Value) == "struct{}{}"
	}
	return sends && len(s.Body.List) == 2
}

func closedAndReplaced(first, second ast.Stmt) bool {
	call, ok := first.(*ast.ExprStmt)
	if !ok {
		return false
	}
	assign, ok := second.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || types.ExprString(assign.Rhs[0]) != "make(chan struct{})" {
		return false
	}
	return types.ExprString(call.X) == "close("+types.ExprString(assign.Lhs[0])+")"
}

func TestWakeupsAreOfWakeup(t *testing.T) {
	files, unused := 0, map[string]bool{}
	for file := range semaphores {
		unused[file] = true
	}
	for _, p := range product(t) {
		directory, ok := directoryOf(p.ImportPath)
		if !ok || directory == "internal/wakeup" {
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
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, entry.Name()), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files++
			found, slots := handWrittenWakeups(fset, file)
			name := directory + "/" + entry.Name()
			if semaphores[name] == "" {
				found = append(found, slots...)
			} else if len(slots) > 0 {
				delete(unused, name)
			}
			for _, one := range found {
				t.Errorf("%s: use internal/wakeup, or give the reason in the list of semaphores", one)
			}
		}
	}
	for file := range unused {
		t.Errorf("%s has no semaphore: remove it from the list", file)
	}
	if files < 100 {
		t.Fatalf("only %d files were read", files)
	}
}

func TestHandWrittenWakeupsAreFound(t *testing.T) {
	const source = `package p
type owner struct {
	changed chan struct{}
	subscribers map[chan struct{}]struct{}
}
func (o *owner) notify() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
	close(o.changed)
	o.changed = make(chan struct{})
}
func newOwner() *owner { return &owner{changed: make(chan struct{}, 1)} }
func (o *owner) enter() bool {
	select {
	case o.changed <- struct{}{}:
		return true
	default:
		return false
	}
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found, slots := handWrittenWakeups(fset, file)
	found = append(found, slots...)
	for i, one := range found {
		found[i] = strings.SplitN(one, ":", 3)[1]
	}
	if want := []string{"4", "11", "7", "14"}; !slices.Equal(found, want) {
		t.Errorf("found lines %q, want %q", found, want)
	}
}
