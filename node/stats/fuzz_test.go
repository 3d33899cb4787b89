package stats

import "testing"

// FuzzProcess reads arbitrary files of a process, whose name is in one of them, and of its
// network.
func FuzzProcess(f *testing.F) {
	f.Add("7 (a) b) S 1 7 7 0 -1 4194560 10 0 2 0 30 40 0 0 20 0 1 0 5", "5000 2000 1500 10 0 300 0",
		"Max open files  1024  524288  files\n", "lo: 1\neth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")
	f.Add("7 (x", "1 2 3", "Max open files", "eth0:")
	f.Add(")", "5 -1 9", "Max open files unlimited\nMax open files 1", ": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17")
	f.Add("", "1 18446744073709551615 18446744073709551615", "Max open files 99999999999999999999", "")
	f.Fuzz(func(t *testing.T, stat, statm, limits, dev string) {
		m := newMachine(t)
		m.write("proc/7/stat", stat)
		m.write("proc/7/statm", statm)
		m.write("proc/7/limits", limits)
		m.write("proc/7/cgroup", stat+"\n"+limits)
		m.write("proc/7/net/dev", dev)
		c := m.collector()
		if u := c.processUsage(7); u.CPU != nil && u.CPU.Total != u.CPU.User+u.CPU.System {
			t.Errorf("%+v", u.CPU)
		}
		if n := c.maxOpenFiles(7); n != nil && *n < -1 {
			t.Errorf("%d open files", *n)
		}
		_ = c.cgroupOfProcess("7")
		for _, i := range readInterfaces(m.path("proc/7/net/dev")) {
			if i.Name == "lo" {
				t.Errorf("the loopback interface is in %+v", i)
			}
		}
	})
}
