package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstead/podstead/internal/usage"
)

// tree returns a Reader of a machine's cgroups in a directory, found by a
// mountinfo file: mounts maps the directory of a hierarchy to its path, files a
// file to its content.
func tree(t *testing.T, mounts map[string]string, files map[string]string) *Reader {
	t.Helper()
	root := t.TempDir()
	var info strings.Builder
	for dir, options := range mounts {
		kind := "cgroup"
		if options == "" {
			kind = "cgroup2"
		}
		fmt.Fprintf(&info, "30 20 0:1 / %s rw,relatime - %s none rw,%s\n", filepath.Join(root, dir), kind, options)
	}
	for file, text := range files {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mountinfo := filepath.Join(root, "mountinfo")
	if err := os.WriteFile(mountinfo, []byte(info.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUsage(t *testing.T) {
	processes := uint64(7)
	for _, c := range []struct {
		name          string
		mounts, files map[string]string
		want          usage.Usage
		io            []usage.DeviceIO
		first         int
	}{
		{
			"version 2", map[string]string{"u": ""},
			map[string]string{
				"u/p/cpu.stat": "usage_usec 3000\nuser_usec 2000\nsystem_usec 1000\nnr_periods 9\nnr_throttled " +
					"4\nthrottled_usec 500\n",
				"u/p/memory.current":      "1000\n",
				"u/p/memory.max":          "max\n",
				"u/p/memory.peak":         "1500\n",
				"u/p/memory.swap.current": "77\n",
				"u/p/memory.stat":         "anon 300\nfile 600\nfile_mapped 20\ninactive_file 400\npgfault 11\npgmajfault 3\n",
				"u/p/pids.current":        "7\n",
				"u/p/cgroup.procs":        "123\n124\n",
				"u/p/io.stat":             "8:0 rbytes=90 wbytes=80 rios=3 wios=2 dbytes=0 dios=0\n7:1 \n",
			},
			usage.Usage{
				CPU: &usage.CPU{Total: 3 * time.Millisecond, User: 2 * time.Millisecond, System: time.Millisecond, Periods: 9,
					Throttled: 4, ThrottledTime: 500 * time.Microsecond},
				Memory: &usage.Memory{Usage: 1000, InactiveFile: 400, RSS: 300, Cache: 600, MappedFile: 20, Swap: 77,
					PageFaults: 11, MajorPageFaults: 3, Peak: 1500},
				Processes: &processes,
			},
			[]usage.DeviceIO{{Device: "8:0", ReadBytes: 90, WriteBytes: 80, ReadOps: 3, WriteOps: 2}}, 123,
		},
		{
			"version 1, each controller apart",
			map[string]string{"cpu": "cpu", "acct": "cpuacct", "m": "memory", "pids": "pids", "b": "blkio", "u": ""},
			map[string]string{
				"acct/p/cpuacct.usage":          "3000000\n",
				"acct/p/cpuacct.stat":           "user 20\nsystem 10\n",
				"cpu/p/cpu.stat":                "nr_periods 9\nnr_throttled 4\nthrottled_time 500000\n",
				"m/p/memory.usage_in_bytes":     "1000\n",
				"m/p/memory.limit_in_bytes":     "4096\n",
				"m/p/memory.max_usage_in_bytes": "1500\n",
				"m/p/memory.stat": "cache 1\nrss 2\ninactive_file 3\ntotal_cache 600\ntotal_rss " +
					"300\ntotal_mapped_file 20\ntotal_inactive_file 400\ntotal_swap 77\ntotal_pgfault 11\ntotal_pgmajfault 3\n",
				"m/p/cgroup.procs":                              "123\n",
				"pids/p/pids.current":                           "7\n",
				"b/p/blkio.throttle.io_service_bytes_recursive": "8:0 Read 90\n8:0 Write 80\n8:0 Total 170\nTotal 170\n",
				"b/p/blkio.throttle.io_serviced_recursive":      "8:0 Read 3\n8:0 Write 2\n",
			},
			usage.Usage{
				CPU: &usage.CPU{Total: 3 * time.Millisecond, User: 200 * time.Millisecond, System: 100 * time.Millisecond,
					Periods: 9, Throttled: 4, ThrottledTime: 500 * time.Microsecond},
				Memory: &usage.Memory{Usage: 1000, InactiveFile: 400, RSS: 300, Cache: 600, MappedFile: 20, Swap: 77,
					PageFaults: 11, MajorPageFaults: 3, Limit: 4096, Peak: 1500},
				Processes: &processes,
			},
			[]usage.DeviceIO{{Device: "8:0", ReadBytes: 90, WriteBytes: 80, ReadOps: 3, WriteOps: 2}}, 123,
		},
		{
			"version 1 with memory only", map[string]string{"m": "memory"},
			map[string]string{
				"m/p/memory.usage_in_bytes": "1000\n", "m/p/memory.limit_in_bytes": "9223372036854771712\n",
				"m/p/memory.stat": "total_inactive_file 4000\n",
			},
			usage.Usage{Memory: &usage.Memory{Usage: 1000, InactiveFile: 4000}}, nil, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tree(t, c.mounts, c.files)
			got, err := r.Usage("/p")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.io, r.IO("/p")); d != "" {
				t.Error(d)
			}
			if got := r.FirstProcess("/p"); got != c.first {
				t.Errorf("first process %d, want %d", got, c.first)
			}
			if _, err := r.Usage("/gone"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of a cgroup that is gone: %v", err)
			}
			if !r.Exists("/p") || r.Exists("/gone") {
				t.Error("wrong result for existence")
			}
		})
	}
}

func TestWorkingSetIsNeverNegative(t *testing.T) {
	if w := (usage.Memory{Usage: 1000, InactiveFile: 4000}).WorkingSet(); w != 0 {
		t.Errorf("working set %d", w)
	}
	if w := (usage.Memory{Usage: 1000, InactiveFile: 400}).WorkingSet(); w != 600 {
		t.Errorf("working set %d", w)
	}
}

func TestDamagedUsageIsAnError(t *testing.T) {
	r := tree(t, map[string]string{"u": ""},
		map[string]string{"u/p/memory.current": "x\n", "u/p/cpu.stat": "", "u/p/memory.stat": ""})
	if u, err := r.Usage("/p"); err == nil {
		t.Errorf("got %+v of a file without a number", u)
	}
}

func TestDetails(t *testing.T) {
	number := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		name          string
		mounts, files map[string]string
		want          usage.Cgroup
	}{
		{
			"version 2", map[string]string{"u": ""},
			map[string]string{
				"u/p/cpu.max": "50000 100000\n", "u/p/cpu.weight": "39\n",
				"u/p/cpu.stat":   "usage_usec 1\nnr_bursts 3\nburst_usec 4000\n",
				"u/p/memory.max": "8192\n", "u/p/memory.swap.max": "max\n", "u/p/memory.min": "100\n",
				"u/p/memory.stat":   "active_file 7\ninactive_file 8\nkernel 9\n",
				"u/p/memory.events": "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 0\n",
				"u/p/pids.max":      "max\n",
				"u/p/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 " +
					"total=1000\n",
				"u/p/io.pressure": "some avg10=1.50 avg60=0.25 avg300=0.10 total=7\n",
				"u/p/io.stat": "8:0 rbytes=90 wbytes=80 rios=3 wios=2 dbytes=0 dios=0 cost.usage=10 cost.wait=20 " +
					"cost.indebt=30 cost.indelay=40\n",
			},
			usage.Cgroup{
				Path: "/p", Burst: &usage.Burst{Periods: 3, Time: 4 * time.Millisecond},
				Limits: usage.Limits{
					CPU:    &usage.CPULimits{Period: 100_000, Quota: 50_000, Shares: 998},
					Memory: &usage.MemoryLimits{Limit: 8192, Reservation: 100}, Threads: number(0),
				},
				Memory: usage.MemoryDetails{ActiveFile: number(7), InactiveFile: number(8), Kernel: number(9),
					LimitHits: number(5), OOMKills: number(1)},
				Pressure: []usage.Pressure{{Resource: "cpu", Some: 2 * time.Millisecond, Full: time.Millisecond},
					{Resource: "io", Some: 7 * time.Microsecond, SomeAverages: [3]float64{1.5, 0.25, 0.1}}},
				IO: []usage.DeviceIO{{
					Device: "8:0", ReadBytes: 90, WriteBytes: 80, ReadOps: 3, WriteOps: 2,
					Cost: &usage.IOCost{Usage: 10 * time.Microsecond, Wait: 20 * time.Microsecond, Debt: 30 * time.Microsecond,
						Delay: 40 * time.Microsecond},
				}},
			},
		},
		{
			"version 1", map[string]string{"cpu": "cpu", "m": "memory", "pids": "pids", "u": ""},
			map[string]string{
				"cpu/p/cpu.shares": "512\n", "cpu/p/cpu.cfs_period_us": "100000\n", "cpu/p/cpu.cfs_quota_us": "-1\n",
				"cpu/p/cpu.stat":            "nr_periods 0\n",
				"m/p/memory.limit_in_bytes": "4096\n", "m/p/memory.memsw.limit_in_bytes": "9223372036854771712\n",
				"m/p/memory.soft_limit_in_bytes": "9223372036854771712\n",
				"m/p/memory.stat":                "active_file 1\ntotal_active_file 7\ntotal_inactive_file 8\n",
				"m/p/memory.failcnt":             "5\n",
				"m/p/memory.oom_control":         "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
				"pids/p/pids.max":                "100\n",
			},
			usage.Cgroup{
				Path: "/p",
				Limits: usage.Limits{CPU: &usage.CPULimits{Period: 100_000, Shares: 512}, Memory: &usage.MemoryLimits{Limit: 4096},
					Threads: number(100)},
				Memory: usage.MemoryDetails{ActiveFile: number(7), InactiveFile: number(8), LimitHits: number(5),
					OOMKills: number(1)},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tree(t, c.mounts, c.files)
			if d := cmp.Diff(c.want, r.Details("/p")); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(usage.Cgroup{Path: "/gone"}, r.Details("/gone")); d != "" {
				t.Errorf("a cgroup that is gone: %s", d)
			}
		})
	}
}

// The kernel reports the pressure of the node with both versions of cgroups; a file that makes
// no sense is left out.
func TestNodePressure(t *testing.T) {
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "pressure"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cpu":    "some avg10=2.00 avg60=1.00 avg300=0.50 total=3000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"memory": "some avg10=x avg60=0.00 avg300=0.00 total=1\n",
		"io":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=4.00 total=4\n",
	} {
		if err := os.WriteFile(filepath.Join(proc, "pressure", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := []usage.Pressure{
		{Resource: "cpu", Some: 3 * time.Millisecond, SomeAverages: [3]float64{2, 1, 0.5}},
		{Resource: "io", Some: 5 * time.Microsecond, Full: 4 * time.Microsecond, FullAverages: [3]float64{0, 0, 4}},
	}
	if got := NodePressure(proc); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := NodePressure(t.TempDir()); got != nil {
		t.Errorf("without PSI: %+v", got)
	}
}
