package config

import "testing"

// The flags of a running daemon are read off its command line; of another
// program nothing is taken.
func TestParseRun(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		root string
	}{
		"a daemon":     {[]string{"/usr/bin/podstead", "run", "--root-dir", "/x", "--max-pods=7"}, "/x"},
		"other flags":  {[]string{"/usr/bin/podstead", "run", "--no-such-flag"}, ""},
		"another word": {[]string{"/usr/bin/podstead", "walk", "--root-dir", "/x"}, ""},
		"no arguments": {nil, ""},
	} {
		flags, o, ok := ParseRun(tc.args)
		switch {
		case ok != (tc.root != ""):
			t.Errorf("%s: flags %v", name, flags)
		case ok && (o.Paths.Root != tc.root || o.Policy.MaxPods != 7 || !flags.Changed("max-pods")):
			t.Errorf("%s: %v %+v", name, flags, o)
		}
	}
}
