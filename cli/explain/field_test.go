package explain

import (
	"strings"
	"testing"
)

// Each field of a pod has a verdict, and computing its default does not fail.
func TestExplainEveryField(t *testing.T) {
	seen := 0
	var walk func(f *Field, depth int)
	walk = func(f *Field, depth int) {
		seen++
		_ = f.defaultValue()
		if v := f.verdict(); v.kind == "" && (strings.HasPrefix(f.path, "spec") || strings.HasPrefix(f.path, "metadata")) {
			t.Errorf("%s: no verdict", f.path)
		}
		if depth == 0 {
			return
		}
		for _, below := range f.Fields() {
			walk(below, depth-1)
		}
	}
	pod, err := Find("pod")
	if err != nil {
		t.Fatal(err)
	}
	walk(pod, 9)
	if seen < 900 {
		t.Errorf("only %d fields", seen)
	}
}
