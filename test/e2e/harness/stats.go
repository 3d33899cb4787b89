package harness

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// NamesOfTheKubelet are metrics whose names the linter objects to.
var NamesOfTheKubelet = []string{"kubelet_evictions", "kubelet_preemptions", "container_fs_inodes_total",
	"container_memory_failcnt", "cadvisor_version_info"}

// Figure is a part of a JSON response.
type Figure struct{ Value any }

// At follows names and indexes; a missing element is nil.
func (f Figure) At(path ...any) Figure {
	for _, step := range path {
		switch in := f.Value.(type) {
		case map[string]any:
			name, _ := step.(string)
			f.Value = in[name]
		case []any:
			f.Value = findNamed(in, step)
		default:
			return Figure{}
		}
	}
	return f
}

// findNamed returns the element of a list with this name or index.
func findNamed(list []any, step any) any {
	if i, ok := step.(int); ok && i < len(list) {
		return list[i]
	}
	for _, e := range list {
		in := Figure{e}
		if in.At("name").Value == step || in.At("podRef", "name").Value == step {
			return e
		}
	}
	return nil
}

// Number returns the value, or -1 if it is missing.
func (f Figure) Number() float64 {
	if n, ok := f.Value.(float64); ok {
		return n
	}
	return -1
}

// Figures reads the JSON that the daemon serves at a path.
func (n *Node) Figures(path string) Figure {
	n.T.Helper()
	body, err := n.Get(n.T.Context(), path)
	if err != nil {
		n.T.Fatal(err)
	}
	var f Figure
	if err := json.Unmarshal(body, &f.Value); err != nil {
		n.T.Fatalf("%s: %v\n%s", path, err, body)
	}
	return f
}

// Series holds the values of a scrape by name and labels.
type Series map[string]float64

// Series scrapes the metrics that the daemon serves at a path.
func (n *Node) Series(path string) Series {
	n.T.Helper()
	body, err := n.Get(n.T.Context(), path)
	if err != nil {
		n.T.Fatal(err)
	}
	s := Series{}
	for line := range strings.Lines(string(body)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, rest, _ = strings.Cut(name, " ")
		}
		// A timestamp may follow the value.
		text, _, _ := strings.Cut(rest, " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.HasPrefix(line, "#") {
			s[name] = v
		}
	}
	return s
}

// Value returns the value of the only series with this name and labels.
func (s Series) Value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	found, value := 0, -1.0
	for key, v := range s {
		own, rest, _ := strings.Cut(key, "{")
		has := own == name
		for _, label := range labels {
			has = has && strings.Contains(rest, label)
		}
		if has {
			found, value = found+1, v
		}
	}
	if found != 1 {
		t.Errorf("%d series %s with %q", found, name, labels)
	}
	return value
}
