package oom

import (
	"strings"
	"testing"
)

// FuzzRecords parses arbitrary records of the kernel log; a process chooses its own name in
// them. A kill has a limit, and is reported once.
func FuzzRecords(f *testing.F) {
	f.Add("6,339,5140900,-;x invoked oom-killer: y\n SUBSYSTEM=net\x00" +
		"4,1,2,c;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=tail,pid=5,uid=0\x00" +
		"3,1,2,-;Memory cgroup out of memory: Killed process 5 (tail) total-vm:25440kB, anon-rss:2kB\x00" +
		"3,1,2,-;Killed process 5 (tail) total-vm:25440kB")
	f.Add("4,1,2,c;Task in /docker/1d9c killed as a result of limit of /docker/1d9c\x003,1,2,-;Killed process " +
		"99999999999999999999 (x) (y), UID 0,")
	f.Fuzz(func(t *testing.T, text string) {
		var p Parser
		seen := map[int]bool{}
		for record := range strings.SplitSeq(text, "\x00") {
			line := message(record)
			if strings.Contains(line, "\n") {
				t.Fatalf("two lines: %q", line)
			}
			k, ok := p.Line(line)
			if len(p.reported) <= 1 {
				clear(seen)
			}
			if !ok {
				continue
			}
			if k.Limit == "" || k.PID < 0 || !strings.Contains(line, k.Process) || seen[k.PID] {
				t.Fatalf("%q: %+v", line, k)
			}
			seen[k.PID] = true
			_ = k.NodeMessage(nil)
		}
	})
}
