package cpus

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReadTopology(t *testing.T) {
	topology := shape{sockets: 2, nodes: 2, caches: 1, cores: 2, threads: 2}.read(t)
	if got, want := topology[13], (CPU{ID: 13, Core: 5, Cache: 4, Node: 2, Socket: 1}); got != want {
		t.Errorf("CPU 13 is %+v, want %+v", got, want)
	}
	if len(topology) != 16 || topology.ThreadsPerCore() != 2 {
		t.Errorf("%d CPUs, %d per core", len(topology), topology.ThreadsPerCore())
	}
	// What the kernel does not report counts as one.
	sys := t.TempDir()
	if _, err := ReadTopology(sys); err == nil {
		t.Error("a topology without CPUs")
	}
	if err := os.MkdirAll(filepath.Join(sys, "devices/system/cpu"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sys, "devices/system/cpu/online"), []byte("0,2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	topology, err := ReadTopology(sys)
	if want := (Topology{0: {ID: 0, Core: 0}, 2: {ID: 2, Core: 2}}); err != nil || !maps.Equal(topology, want) {
		t.Errorf("%v, %v; want %v", topology, err, want)
	}
}

// The CPUs are close to each other, and leave whole cores, caches and nodes free. The numbers
// follow from the shapes: on the one of two sockets CPUs 0-3 and 8-11 are one socket, and 0 and
// 8 one core.
func TestTake(t *testing.T) {
	two := shape{sockets: 2, nodes: 1, caches: 1, cores: 4, threads: 2}    // 0-3,8-11 and 4-7,12-15
	four := shape{sockets: 2, nodes: 2, caches: 1, cores: 2, threads: 1}   // nodes 0-1, 2-3, 4-5, 6-7
	caches := shape{sockets: 1, nodes: 1, caches: 4, cores: 4, threads: 1} // caches 0-3, 4-7, 8-11, 12-15
	single := shape{sockets: 1, nodes: 1, caches: 1, cores: 4, threads: 1} // 0-3
	spread := Options{DistributeAcrossNUMA: true}
	aligned := Options{AlignByUncoreCache: true}
	for name, c := range map[string]struct {
		on      shape
		free    string
		n       int
		options Options
		want    string
	}{
		"one CPU":                          {single, "0-3", 1, Options{}, "0"},
		"too many":                         {single, "0-3", 5, Options{}, ""},
		"one of a free core":               {two, "0-15", 1, Options{}, "0"},
		"one of a used core":               {two, "1-15", 1, Options{}, "8"},
		"a whole core":                     {two, "0-15", 2, Options{}, "0,8"},
		"a whole core next to a used one":  {two, "1-15", 2, Options{}, "1,9"},
		"a core and one":                   {two, "0-15", 3, Options{}, "0-1,8"},
		"a core, and the rest of another":  {two, "1-15", 3, Options{}, "1,8-9"},
		"a whole socket":                   {two, "0-15", 8, Options{}, "0-3,8-11"},
		"the free socket":                  {two, "1-15", 8, Options{}, "4-7,12-15"},
		"a socket and a core":              {two, "0-15", 10, Options{}, "0-4,8-12"},
		"the socket with fewer free CPUs":  {two, "2-15", 2, Options{}, "2,10"},
		"all":                              {two, "0-15", 16, Options{}, "0-15"},
		"a NUMA node":                      {four, "1-7", 2, Options{}, "2-3"},
		"a node, and the rest of another":  {four, "1-7", 3, Options{}, "1-3"},
		"within one node if it has enough": {four, "0-7", 2, spread, "0-1"},
		"spread over two nodes":            {shape{2, 1, 1, 4, 1}, "0-7", 6, spread, "0-2,4-6"},
		"spread evenly":                    {shape{4, 1, 1, 4, 1}, "0-15", 6, spread, "0-2,4-6"},
		"spread, balanced":                 {shape{4, 1, 1, 4, 1}, "1-3,4-15", 6, spread, "4-6,8-10"},
		"spread, the rest":                 {shape{2, 1, 1, 4, 1}, "0-7", 5, spread, "0-2,4-5"},
		"spread whole cores": {two, "0-15", 10, Options{DistributeAcrossNUMA: true, FullPhysicalCPUs: true},
			"0-2,4-5,8-10,12-13"},
		"spread, not possible":            {shape{2, 1, 1, 4, 1}, "0,4-7", 5, spread, "0,4-7"},
		"a whole cache":                   {caches, "1-15", 4, aligned, "4-7"},
		"within a cache":                  {caches, "0-15", 3, aligned, "0-2"},
		"within the fullest cache":        {caches, "1-15", 3, aligned, "1-3"},
		"a cache and the rest within one": {caches, "2-15", 6, aligned, "2-7"},
		"without the option":              {caches, "2,4-15", 3, Options{}, "2,4-5"},
		"with the option":                 {caches, "2,4-15", 3, aligned, "4-6"},
		"no cache has enough":             {caches, "0,4,8,12", 3, aligned, "0,4,8"},
	} {
		got := c.on.read(t).choose(set(t, c.free), c.n, c.options)
		if got.String() != c.want {
			t.Errorf("%s: %d of %s are %s, want %s", name, c.n, c.free, got, c.want)
		}
	}
}

// For each number of CPUs and each option, the right number of distinct free CPUs is taken.
func TestTakeIsComplete(t *testing.T) {
	for _, machine := range []shape{{1, 1, 1, 2, 1}, {2, 1, 2, 3, 2}, {2, 2, 2, 2, 2}, {1, 4, 1, 4, 1}} {
		topology := machine.read(t)
		free := slices.DeleteFunc(topology.All(), func(cpu int) bool { return cpu%5 == 3 })
		for _, o := range []Options{{}, {DistributeAcrossNUMA: true}, {AlignByUncoreCache: true},
			{DistributeAcrossNUMA: true, FullPhysicalCPUs: true}} {
			for n := 1; n <= len(free); n++ {
				taken := topology.choose(free, n, o)
				if len(taken) != n || len(NewSet(taken...)) != n || len(taken.Minus(free)) > 0 {
					t.Fatalf("%+v %+v: %d of %v are %v", machine, o, n, free, taken)
				}
			}
			if taken := topology.choose(free, len(free)+1, o); taken != nil {
				t.Errorf("more than there are: %v", taken)
			}
		}
	}
}
