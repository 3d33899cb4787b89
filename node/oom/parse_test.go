package oom

import (
	"slices"
	"strings"
	"testing"
)

// Lines as kernels of several versions wrote them.
func TestParser(t *testing.T) {
	for name, tc := range map[string]struct {
		lines string
		want  []Kill
	}{
		"6.18, the limit of a pod": {`tail invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999
CPU: 1 UID: 0 PID: 13889 Comm: tail Not tainted 6.18.44 #1 PREEMPT(none)
memory: usage 20480kB, limit 20480kB, failcnt 44
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[  13889]     0 13889     6360     6140     5824      316         0    86016        0           999 tail
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=72b39074,mems_allowed=0,oom_memcg=/kubepods/burstable/pod00324f2b,task_memcg=/kubepods/burstable/pod00324f2b/72b39074,task=tail,pid=13889,uid=0
Memory cgroup out of memory: Killed process 13889 (tail) total-vm:25440kB, anon-rss:23296kB, file-rss:1264kB, shmem-rss:0kB, UID:0 pgtables:84kB oom_score_adj:999`,
			[]Kill{{"tail", 13889, "/kubepods/burstable/pod00324f2b/72b39074", "/kubepods/burstable/pod00324f2b"}}},
		"5.10, the machine": {
			`stress-ng-vm invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=1000
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=user.slice,mems_allowed=0,global_oom,task_memcg=/user.slice/user-0.slice/session-1.scope,task=stress-ng-vm,pid=4132,uid=1000
Out of memory: Killed process 4132 (stress-ng-vm) total-vm:4234392kB, anon-rss:3512344kB, file-rss:4kB, shmem-rss:32kB, UID:1000 pgtables:6952kB oom_score_adj:1000
oom_reaper: reaped process 4132 (stress-ng-vm), now anon-rss:0kB, file-rss:0kB, shmem-rss:32kB`,
			[]Kill{{"stress-ng-vm", 4132, "/user.slice/user-0.slice/session-1.scope", Machine}}},
		"6.1, all of a cgroup": {`python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=985
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-aa.scope,mems_allowed=0,oom_memcg=/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope,task_memcg=/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope,task=python3,pid=12345,uid=0
Memory cgroup out of memory: Killed process 12345 (python3) total-vm:1068004kB, anon-rss:524032kB, file-rss:5120kB, shmem-rss:0kB, UID:0 pgtables:1136kB oom_score_adj:985
Tasks in /kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope are going to be killed due to memory.oom.group set
Memory cgroup out of memory: Killed process 12300 (sh) total-vm:2480kB, anon-rss:128kB, file-rss:896kB, shmem-rss:0kB, UID:0 pgtables:48kB oom_score_adj:985
Memory cgroup out of memory: Killed process 12345 (python3) total-vm:1068004kB, anon-rss:524032kB, file-rss:5120kB, shmem-rss:0kB, UID:0 pgtables:1136kB oom_score_adj:985`,
			[]Kill{
				{"python3", 12345, "/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope",
					"/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope"},
				{"sh", 12300, "/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope",
					"/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-aa.scope"},
			}},
		"4.19, a container": {
			`ruby invoked oom-killer: gfp_mask=0x6000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=600
ruby cpuset=1d9c mems_allowed=0-1
Task in /docker/1d9c killed as a result of limit of /docker/1d9c
memory: usage 307200kB, limit 307200kB, failcnt 28183
Memory cgroup out of memory: Kill process 13536 (ruby) score 1979 or sacrifice child
Killed process 13536 (ruby) total-vm:1132832kB, anon-rss:297548kB, file-rss:4380kB, shmem-rss:0kB`,
			[]Kill{{"ruby", 13536, "/docker/1d9c", "/docker/1d9c"}}},
		"4.9, the machine, after a container": {`Task in /docker/1d9c killed as a result of limit of /docker/1d9c
Killed process 1 (a) total-vm:1kB, anon-rss:1kB, file-rss:0kB
ruby invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0
ruby cpuset=/ mems_allowed=0
Out of memory: Kill process 19667 (evil-program2) score 1001 or sacrifice child
Killed process 19667 (evil-program2) total-vm:1460016kB, anon-rss:1414008kB, file-rss:4kB`,
			[]Kill{{"a", 1, "/docker/1d9c", "/docker/1d9c"}, {"evil-program2", 19667, "", Machine}}},
		"3.10 of RHEL": {`mysqld invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0
Out of memory: Kill process 23422 (mysqld) score 331 or sacrifice child
Killed process 23422 (mysqld), UID 27, total-vm:2345532kB, anon-rss:1224032kB, file-rss:0kB, shmem-rss:0kB`,
			[]Kill{{"mysqld", 23422, "", Machine}}},
		"3.10 of CentOS": {`Killed process 23422, UID 27, (mysqld) total-vm:2345532kB, anon-rss:1224032kB, file-rss:0kB`,
			[]Kill{{"mysqld", 23422, "", Machine}}},
		"names with all in them": {
			`oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/a,b,task_memcg=/a,b/c d,task=x) (y,pid=5,uid=0
Memory cgroup out of memory: Killed process 5 (x) (y) total-vm:25440kB, anon-rss:23296kB, file-rss:1264kB, shmem-rss:0kB, UID:0`,
			[]Kill{{"x) (y", 5, "/a,b/c d", "/a,b"}}},
		"lines of the second kill that the kernel did not write": {
			`oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=x,pid=5,uid=0
Memory cgroup out of memory: Killed process 5 (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0
Memory cgroup out of memory: Killed process 6 (y) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0
Out of memory: Killed process 7 (z) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0`,
			[]Kill{{"x", 5, "/a", "/a"}, {"y", 6, "", ""}, {"z", 7, "", Machine}}},
		"the same of Linux 4.19": {`Task in /a killed as a result of limit of /a
Memory cgroup out of memory: Kill process 5 (x) score 1979 or sacrifice child
Killed process 5 (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB
Memory cgroup out of memory: Kill process 6 (y) score 1979 or sacrifice child
Killed process 6 (y) total-vm:1kB, anon-rss:1kB, file-rss:0kB
Out of memory: Kill process 7 (z) score 1979 or sacrifice child
Killed process 7 (z) total-vm:1kB, anon-rss:1kB, file-rss:0kB`,
			[]Kill{{"x", 5, "/a", "/a"}, {"y", 6, "", ""}, {"z", 7, "", Machine}}},
		"other lines": {"eth0: Killed process\nsystemd[1]: a.service: A process of this unit has been killed by the OOM " +
			"killer.\nTask in a hurry\noom-kill: what\n", nil},
	} {
		var p Parser
		var got []Kill
		for _, line := range strings.Split(tc.lines, "\n") {
			if k, ok := p.Line(line); ok {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, tc.want)
		}
	}
}

func TestMessage(t *testing.T) {
	for record, want := range map[string]string{
		"6,339,5140900,-;NET: Registered; family 10\n SUBSYSTEM=net\n": "NET: Registered; family 10",
		"4,1,2,c,caller=T1;x\n": "x",
		"":                      "",
		"no record":             "",
	} {
		if got := message(record); got != want {
			t.Errorf("%q: %q", record, got)
		}
	}
}
