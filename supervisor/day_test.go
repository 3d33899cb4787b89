package supervisor

import (
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// dayPods is how many pods TestDayOfThousandPods has. All of them need minutes of processor time.
var dayPods = flag.Int("day-pods", 100, "pods of TestDayOfThousandPods; 1000 are its full size")

// dayChanges is how many pods have a killed container and a new revision in each simulated hour.
const dayChanges = 12

// A thousand pods that change all day (-day-pods 1000; a hundred in all test runs) need no more memory and goroutines
// in the end, and a change takes as long. The test logs the figures of the day, also those of the processor, which
// depend on the machine.
func TestDayOfThousandPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, hours := *dayPods, 24
		if underRace {
			hours = 6
		}
		b := newSupervisorHarness(t, false)
		defer b.kill()
		d := b.start()
		var all []*v1.Pod
		revision := func(i, n int) *v1.Pod {
			return testPod(fmt.Sprint("p", i), types.UID(fmt.Sprintf("u%04d-%04d", i, n)), fmt.Sprint("r", n))
		}
		for i := range pods {
			all = append(all, revision(i, 0))
		}
		d.config.deliver(file, all...)
		b.until(10*time.Minute, "all run", func() bool {
			n := 0
			for _, c := range b.fake.Containers() {
				if c.Running() {
					n++
				}
			}
			return n == pods
		})
		begin := measureDay()
		var first, last dayUsage
		changed := 0
		for hour := range hours {
			before := measureDay()
			var restart, replace time.Duration
			for range dayChanges {
				// Its dead container goes with the revision: nothing here collects them.
				i := changed % pods
				changed++
				b.fake.Kill(all[i].Name + "/app")
				restart = max(restart, b.runs(all[i].UID))
				old := all[i].UID
				all[i] = revision(i, changed)
				d.config.deliver(file, all...)
				replace = max(replace, b.runs(all[i].UID))
				b.gone(old)
				b.after(time.Hour/dayChanges - time.Minute)
			}
			last = measureDay()
			last.cpu, last.restart, last.replace = last.cpu-before.cpu, restart, replace
			if hour == 1 {
				first = last
			}
			if hour == 1 || hour == hours-1 {
				t.Logf("hour %d: %.1f kB for each pod, %d goroutines, %.2f ms of processor time for each pod, restart within %s, "+
					"replacement within %s",
					hour+1, float64(last.heap)/float64(pods)/1000, last.goroutines, 1000*last.cpu.Seconds()/float64(pods), restart,
					replace)
			}
		}
		// What the test itself keeps grows: its log, its runtime's calls, the events of the day. A pod
		// that is not released is about five times as much.
		if kept := uint64(8000 * dayChanges * (hours - 2)); last.heap > first.heap+first.heap/5+kept {
			t.Errorf("%d kB of heap in the last hour, %d kB in the second, %d kB at the start", last.heap/1000, first.heap/1000,
				begin.heap/1000)
		}
		if last.goroutines > first.goroutines+max(2, pods/100) {
			t.Errorf("%d goroutines in the last hour, %d in the second", last.goroutines, first.goroutines)
		}
		// In simulated time: it does not depend on the machine.
		if last.restart > 2*first.restart || last.replace > 2*first.replace {
			t.Errorf("in the last hour a restart takes %s and a replacement %s; in the second %s and %s", last.restart,
				last.replace, first.restart, first.replace)
		}
	})
}

// dayUsage is what the process uses; restart and replace are the longest of an hour.
type dayUsage struct {
	heap             uint64
	goroutines       int
	cpu              time.Duration
	restart, replace time.Duration
}

func measureDay() dayUsage {
	runtime.GC()
	runtime.GC() // the first one leaves what is in pools
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return dayUsage{heap: memory.HeapAlloc, goroutines: runtime.NumGoroutine(),
		cpu: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
}
