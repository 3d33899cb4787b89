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

// What the files of a daemon set is in the options that ParseRun returns, also for fields of a
// PodsteadConfiguration.
func TestParseRunReadsFiles(t *testing.T) {
	dir := files(t, map[string]string{"config.yaml": kubeletHead + "maxPods: 3\n---\n" + ownHead + "rootDir: /data\n"})
	flags, o, ok := ParseRun([]string{"podstead", "run", "--config=" + dir + "/config.yaml"})
	if !ok {
		t.Fatal("not a command line of run")
	}
	if _, err := o.Complete(flags); err != nil || o.Policy.MaxPods != 3 || o.Paths.Root != "/data" {
		t.Errorf("%d pods, root %s (%v)", o.Policy.MaxPods, o.Paths.Root, err)
	}
}
