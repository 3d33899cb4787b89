package oom

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// records are the kernel's lines about a kill in a cgroup at a time since the boot.
func records(cgroup string, at time.Duration) string {
	return fmt.Sprintf(
		"6,1,%[2]d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=%[1]s,task_memcg=%[1]s,task=x,pid=5,uid=0\n", cgroup, at.Microseconds())
}

func victim(at time.Duration) string {
	return fmt.Sprintf("3,2,%d,-;Memory cgroup out of memory: Killed process 5 (x) total-vm:1kB, anon-rss:1kB\n",
		at.Microseconds())
}

// A kill explains the end of the container in whose cgroup it was, not one that comes later
// than processes take to exit, and not that of another container.
func TestKillsExplainExits(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var h history
	h.add(Kill{Cgroup: "/podstead/pod1/aa"}, now, 0)
	h.add(Kill{Cgroup: "/podstead/pod1/bb/init.scope"}, now.Add(-time.Hour), drift(time.Hour*24*100))
	h.add(Kill{}, now, 0)
	for name, tc := range map[string]struct {
		id       string
		finished time.Time
		want     bool
	}{
		"at once":                     {"aa", now.Add(time.Millisecond), true},
		"by the second":               {"aa", now.Truncate(time.Second), true},
		"after freeing much memory":   {"aa", now.Add(9 * time.Second), true},
		"after a grace period":        {"aa", now.Add(30 * time.Second), false},
		"read late":                   {"aa", now.Add(-20 * time.Second), true},
		"long before":                 {"aa", now.Add(-time.Minute), false},
		"of a nested cgroup":          {"bb", now.Add(-time.Hour), true},
		"of a clock that drifts":      {"bb", now.Add(-50 * time.Minute), true},
		"more than that":              {"bb", now, false},
		"another container":           {"cc", now, false},
		"no container":                {"", now, false},
		"a container without its end": {"aa", time.Time{}, false},
	} {
		if got := h.explains(tc.id, tc.finished); got != tc.want {
			t.Errorf("%s: explained is %v", name, got)
		}
	}
	for i := range 2 * maxHistory {
		h.add(Kill{Cgroup: fmt.Sprintf("/x%d/", i)}, now, 0)
	}
	if last := fmt.Sprintf("/x%d/", 2*maxHistory-1); len(h.list) != maxHistory || h.explains("aa", now) ||
		!h.explains(last, now) {
		t.Errorf("it remembers %d kills", len(h.list))
	}
}

// A daemon that returns knows the kills of before from the kernel log, and reports only
// those that come.
func TestHistoryOfTheKernelLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := uptime()
		w := New(Config{})
		var reported []Kill
		w.OnKill(func(k Kill) { reported = append(reported, k) })
		past := reads{records("/pod1/aa", now-time.Minute), victim(now - time.Minute), unix.EPIPE,
			records("/pod1/bb", now-time.Second), victim(now - time.Second), unix.EAGAIN}
		if err := w.readHistory(&past); err == nil {
			t.Error("the end of the log is no error")
		}
		if !w.Explains("aa", time.Now().Add(-time.Minute)) || !w.Explains("bb", time.Now()) || w.Explains("aa", time.Now()) {
			t.Errorf("it remembers %+v", w.known.list)
		}
		next := reads{records("/pod1/cc", now), victim(now)}
		_ = w.readOn(&next)
		if len(reported) != 1 || reported[0].Cgroup != "/pod1/cc" || !w.Explains("cc", time.Now()) {
			t.Errorf("it reported %+v and remembers %+v", reported, w.known.list)
		}
	})
}

// Reading what the kernel's own log has does not wait, and what is written later is read.
func TestHistoryOnThisHost(t *testing.T) {
	w := New(Config{})
	w.ReadHistory()
	if _, err := os.Stat(DefaultFile); err == nil && os.Geteuid() == 0 && w.file == nil {
		t.Error("the kernel log was not opened")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended without the reason of its context")
	}
}

// The cgroup of a victim that the kernel did not report is that of the process.
func TestCgroupOfAVictim(t *testing.T) {
	proc := t.TempDir()
	dir := filepath.Join(proc, "5")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ comm, cgroup, want string }{
		"v1":                           {"x\n", "8:pids:/p\n4:memory:/pod1/aa\n0::/u\n", "/pod1/aa"},
		"v1 of several":                {"x\n", "4:cpu,memory:/pod1/aa\n", "/pod1/aa"},
		"v2":                           {"x\n", "0::/pod1/aa\n", "/pod1/aa"},
		"v1, as it exits":              {"x\n", "4:memory:/\n0::/\n", ""},
		"another process with this ID": {"y\n", "0::/pod1/aa\n", ""},
	} {
		for file, text := range map[string]string{"comm": tc.comm, "cgroup": tc.cgroup} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupOf(proc, Kill{Process: "x", PID: 5}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := cgroupOf(proc, Kill{Process: "x", PID: 6}); got != "" {
		t.Errorf("a process that is gone is in %q", got)
	}
}
