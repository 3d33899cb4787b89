package topology

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func hint(preferred bool, nodes ...int) Hint { return Hint{NewMask(nodes...), preferred} }

// two and four are machines with NUMA nodes; in four the nodes 0 and 3, and 1 and 2, are close.
var (
	two  = Nodes{0: nil, 1: nil}
	four = Nodes{0: {10, 30, 30, 20}, 1: {30, 10, 20, 30}, 2: {30, 20, 10, 30}, 3: {20, 30, 30, 10}}
)

func TestMerge(t *testing.T) {
	free := []Hint{hint(true, 0), hint(true, 1), hint(false, 0, 1)}
	for name, c := range map[string]struct {
		nodes   Nodes
		closest bool
		lists   [][]Hint
		// want are the nodes and whether best-effort, restricted and single-numa-node admit;
		// single are those of the last policy, if others.
		want             string
		restricted, only bool
		single           string
	}{
		"no preference":    {two, false, [][]Hint{nil}, "0,1", true, true, ""},
		"all free":         {two, false, [][]Hint{free, free}, "0", true, true, "0"},
		"one is on node 1": {two, false, [][]Hint{free, {hint(true, 1), hint(false, 0, 1)}}, "1", true, true, "1"},
		"on different nodes": {two, false, [][]Hint{{hint(true, 0), hint(false, 0, 1)}, {hint(true, 1), hint(false, 0, 1)}},
			"0", false, false, ""},
		"both nodes":    {two, false, [][]Hint{{hint(true, 0, 1)}, nil}, "0,1", true, false, ""},
		"not available": {two, false, [][]Hint{free, {}}, "0", false, false, ""},
		"of each other": {two, false, [][]Hint{{hint(true, 0)}, {hint(true, 1)}}, "0,1", false, false, ""},
		"two of four": {four, false, [][]Hint{{hint(true, 0, 1), hint(true, 0, 3), hint(true, 1, 2)}}, "0,1", true,
			false, ""},
		"two close ones": {four, true, [][]Hint{{hint(true, 0, 1), hint(true, 0, 3), hint(true, 1, 2)}}, "1,2", true,
			false, ""},
		"as many as needed": {four, false,
			[][]Hint{{hint(false, 0, 1), hint(false, 0, 1, 2)}, {hint(false, 0, 1, 2), hint(false, 0, 1, 2, 3)}}, "0,1,2", false,
			false, ""},
	} {
		for policy, admitted := range map[string]bool{PolicyBestEffort: true, PolicyRestricted: c.restricted,
			PolicySingleNUMANode: c.only} {
			mask, ok := (&merger{policy: policy, closest: c.closest, nodes: c.nodes}).merge(c.lists)
			want := c.want
			if policy == PolicySingleNUMANode {
				want = c.single
			}
			if mask.String() != want || ok != admitted {
				t.Errorf("%s, %s: nodes %s, admitted %v; want %s, %v", name, policy, mask, ok, want, admitted)
			}
		}
	}
}

// The result is that of comparing each combination of hints.
func TestMergeComparesEachCombination(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var lists [][]Hint
		for range 1 + random.IntN(3) {
			list := []Hint{}
			for range random.IntN(5) {
				list = append(list, Hint{Mask(1 + random.IntN(15)), random.IntN(2) == 0})
			}
			if len(list) == 0 && random.IntN(2) == 0 {
				list = nil
			}
			lists = append(lists, list)
		}
		g := &merger{policy: PolicyRestricted, closest: random.IntN(2) == 0, nodes: four}
		mask, admitted := g.merge(lists)
		want, found := Hint{Mask: four.Mask()}, false
		var each func(rest [][]Hint, chosen []Hint)
		each = func(rest [][]Hint, chosen []Hint) {
			if len(rest) > 0 {
				list := rest[0]
				if list == nil {
					list = []Hint{{Preferred: true}}
				} else if len(list) == 0 {
					list = []Hint{{}}
				}
				for _, h := range list {
					each(rest[1:], append(slices.Clone(chosen), h))
				}
				return
			}
			h, first := Hint{four.Mask(), true}, Mask(0)
			for _, one := range chosen {
				if h.Preferred = h.Preferred && one.Preferred; one.Mask == 0 {
					continue
				}
				if first == 0 {
					first = one.Mask
				}
				h.Preferred = h.Preferred && one.Mask == first
				h.Mask &= one.Mask
			}
			if h.Mask != 0 && (!found || g.better(h, want)) {
				want, found = h, true
			}
		}
		each(lists, nil)
		if mask != want.Mask || admitted != want.Preferred {
			t.Fatalf("%v: nodes %s, admitted %v; want %s, %v", lists, mask, admitted, want.Mask, want.Preferred)
		}
	}
}

func TestReadNodes(t *testing.T) {
	sys := t.TempDir()
	if n, err := ReadNodes(sys); err != nil || n.Mask() != NewMask(0) {
		t.Errorf("a kernel without NUMA: %v, %v", n, err)
	}
	for name, text := range map[string]string{"node0": "10 21\n", "node2": "21 10\n"} {
		dir := filepath.Join(sys, "devices/system/node", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "distance"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := ReadNodes(sys)
	if err != nil || n.Mask().String() != "0,2" || !n.HasDistances() || n.distance(NewMask(0, 2)) != 15.5 {
		t.Errorf("%v, %v", n, err)
	}
	if err := CheckNodes(PolicyRestricted, Options{MaxNodes: 1}, n, "--topology-manager-policy-options"); err == nil ||
		!strings.Contains(err.Error(), "it has 2 NUMA nodes, and max-allowable-numa-nodes is 1") {
		t.Error(err)
	}
}
