package testbed

import (
	"strings"
	"testing"
)

// Two machines with systemd in one cgroup would remove each other's units.
func TestCgroupCommandsShareNoCgroup(t *testing.T) {
	cgroups := map[string]string{}
	for _, name := range []string{"one", "two"} {
		cmd, err := CgroupCommand(name, "cat", "/proc/self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			if other, taken := cgroups[line]; taken {
				t.Errorf("%s is in the cgroup of %s: %s", name, other, line)
			}
			if !strings.HasSuffix(line, "/"+name) {
				t.Errorf("%s is in no cgroup of its own: %s", name, line)
			}
			cgroups[line] = name
		}
	}
}
