package evict

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/statefile"
)

// evictorHarness is a node with levels that a test sets, and pods that
// terminate when they are evicted.
type evictorHarness struct {
	t    *testing.T
	file string
	*Evictor
	stop func()

	mu           sync.Mutex
	levels       Levels
	separate     bool
	pods         []*v1.Pod
	usage        map[types.UID]Usage
	dead, unused int // space that Reclaim finds
	seen
	wake, alarm chan struct{}
	armed       map[Signal]int64
	onEvict     func()
	measureErr  error
	// walk is the duration of a measurement of the pods' disk usage.
	walk time.Duration
	// hangs makes the measurement of running pods hang.
	hangs bool
}

// seen records the results.
type seen struct {
	// looks counts the scans of memory, diskLooks those of the disks,
	// measured those of the pods' disk usage.
	looks, diskLooks, measured, rechecks int
	orders                               []Eviction
	events, reclaimed                    []string
}

// now returns the results once all goroutines are idle.
func (b *evictorHarness) now() seen {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func newEvictorHarness(t *testing.T) *evictorHarness {
	b := &evictorHarness{t: t, file: filepath.Join(t.TempDir(), "pressure.json"), usage: map[types.UID]Usage{},
		wake: make(chan struct{}, 1), armed: map[Signal]int64{}}
	b.levels[MemoryAvailable] = Level{Available: 8 << 30, Capacity: 10 << 30}
	b.levels[NodeFSAvailable] = Level{Available: 900, Capacity: 1000}
	return b
}

func (b *evictorHarness) start(hard string, change func(*Config)) {
	b.t.Helper()
	s := Settings{Hard: map[string]string{}}
	for _, pair := range strings.Fields(hard) {
		name, amount, _ := strings.Cut(pair, "<")
		s.Hard[name] = amount
	}
	cfg := Config{
		Thresholds: parse(b.t, s), Transition: 5 * time.Minute, Resources: b, Pods: b, Usage: b, Reclaim: b, Events: b,
		File: b.file, Boot: "boot 1",
	}
	if change != nil {
		change(&cfg)
	}
	b.Evictor = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Run(ctx) }()
	b.stop = func() { cancel(); <-done }
	b.t.Cleanup(b.stop)
	synctest.Wait()
}

func (b *evictorHarness) Memory(l *Levels) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	l[MemoryAvailable], l[AllocatableMemory] = b.levels[MemoryAvailable], b.levels[AllocatableMemory]
}

func (b *evictorHarness) Disk(l *Levels) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diskLooks++
	for _, s := range []Signal{NodeFSAvailable, NodeFSInodes, ImageFSAvailable, ImageFSInodes} {
		l[s] = b.levels[s]
	}
}

func (b *evictorHarness) PIDs(l *Levels)        { l[PIDAvailable] = b.levels[PIDAvailable] }
func (b *evictorHarness) SeparateImageFS() bool { return b.separate }

func (b *evictorHarness) List() []*v1.Pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*v1.Pod
	for _, p := range b.pods {
		list = append(list, p.DeepCopy())
	}
	return list
}

// Evict terminates a pod a second later and frees its usage.
func (b *evictorHarness) Evict(o Eviction) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pods {
		if p.UID == o.UID && p.Status.Phase == v1.PodRunning {
			p.Status.Phase, p.Status.Reason = v1.PodFailed, ReasonEvicted
			b.orders = append(b.orders, o)
			return nil
		}
	}
	return errors.New("it does not run")
}

func (b *evictorHarness) WaitEnded(ctx context.Context, uid types.UID) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.levels[MemoryAvailable].Available += b.usage[uid].Memory
	if b.onEvict != nil {
		b.onEvict()
	}
	return nil
}

func (b *evictorHarness) Changed() (<-chan struct{}, func()) { return b.wake, func() {} }
func (b *evictorHarness) Recheck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rechecks++
}

func (b *evictorHarness) Running(ctx context.Context) (map[types.UID]Usage, error) {
	if b.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.usage, b.measureErr
}

func (b *evictorHarness) Disks(ctx context.Context, _ time.Duration) (map[types.UID]Disk, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(b.walk):
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measured++
	disks := map[types.UID]Disk{}
	for uid, u := range b.usage {
		if u.Disk.At.IsZero() {
			u.Disk.At = time.Now()
		}
		disks[uid] = u.Disk
	}
	return disks, b.measureErr
}

func (b *evictorHarness) Containers(context.Context) (int, error) {
	return b.free("containers", &b.dead)
}
func (b *evictorHarness) Images(context.Context) (uint64, error) {
	n, err := b.free("images", &b.unused)
	return uint64(n), err
}

// free frees this much space for each item that was found.
func (b *evictorHarness) free(what string, left *int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reclaimed = append(b.reclaimed, what)
	n := *left
	b.levels[NodeFSAvailable].Available += int64(n)
	*left = 0
	return n, nil
}

func (b *evictorHarness) Event(pod *v1.Pod, _, reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pod == nil {
		b.events = append(b.events, reason+" "+message)
	}
}

func (b *evictorHarness) C() <-chan struct{} { return b.alarm }
func (b *evictorHarness) Arm(s Signal, margin int64) error {
	if b.alarm == nil {
		return errors.ErrUnsupported
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed[s] = margin
	return nil
}

func (b *evictorHarness) set(s Signal, available int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.levels[s].Available = available
}

func (b *evictorHarness) evicted() string {
	var names []string
	for _, o := range b.now().orders {
		names = append(names, string(o.UID))
	}
	return strings.Join(names, " ")
}

func (b *evictorHarness) under(c v1.NodeConditionType) bool {
	for _, n := range b.NodeConditions(time.Time{}) {
		if n.Type == c {
			return n.Status == v1.ConditionTrue
		}
	}
	b.t.Fatalf("there is no condition %s", c)
	return false
}

func bubble(t *testing.T, f func(t *testing.T, b *evictorHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newEvictorHarness(t)) })
}

func TestLeakCostsTheLeaker(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.alarm = make(chan struct{}, 1)
		b.pods = []*v1.Pod{pod("good", 0, "memory=1Gi"), pod("leak", 0, "memory=10Mi"), pod("system", 2_000_000_000)}
		b.usage = map[types.UID]Usage{"good": {Memory: 900 << 20}, "leak": {Memory: 3 << 30}, "system": {Memory: 4 << 30}}
		b.start("memory.available<200Mi", func(c *Config) { c.Memory = b })
		if b.armed[MemoryAvailable] != 8<<30-200<<20 {
			t.Errorf("armed %v", b.armed)
		}
		time.Sleep(3 * time.Second)
		began := time.Now()
		b.set(MemoryAvailable, 150<<20)
		b.alarm <- struct{}{}
		time.Sleep(2 * time.Second)
		if got := b.evicted(); got != "leak" {
			t.Fatalf("evicted %q", got)
		}
		o := b.now().orders[0]
		for _, part := range []string{"The node was low on resource: memory.",
			"memory.available is 150Mi, below the threshold of 200Mi", "used 3Gi and requests 10Mi",
			"once MemoryPressure has been absent for 5m0s"} {
			if !strings.Contains(o.Message, part) {
				t.Errorf("message %q lacks %q", o.Message, part)
			}
		}
		if o.Signal != "memory.available" || o.Condition != v1.NodeMemoryPressure || o.GracePeriod == nil ||
			*o.GracePeriod > 1 {
			t.Errorf("order %+v", o)
		}
		if len(b.now().events) != 1 ||
			!strings.HasPrefix(b.now().events[0], "EvictionThresholdMet Attempting to reclaim memory") {
			t.Errorf("events %q", b.now().events)
		}
		// The condition stays until the pressure has been absent for
		// exactly the transition time, and Recheck notifies.
		rechecks := b.now().rechecks
		for time.Since(began) < 5*time.Minute {
			if now, _ := b.CanRestart(o.Condition, began); now || !b.under(v1.NodeMemoryPressure) {
				t.Fatalf("it may run again %s after the pressure", time.Since(began))
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if now, _ := b.CanRestart(o.Condition, began); !now || b.under(v1.NodeMemoryPressure) ||
			b.now().rechecks != rechecks+1 {
			t.Errorf("it does not restart: pressure %v, %d notifications", b.under(v1.NodeMemoryPressure),
				b.now().rechecks-rechecks)
		}
		if b.evicted() != "leak" || len(b.now().events) != 1 {
			t.Errorf("evicted %q, events %q", b.evicted(), b.now().events)
		}
		if _, err := os.Stat(b.file); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", b.file, err)
		}
	})
}

// Without an alarm, memory is scanned more often the nearer it is to the
// threshold, and rarely when it is far.
func TestLooksWithoutAnAlarm(t *testing.T) {
	for name, c := range map[string]struct {
		left     int64
		min, max int // scans in a minute
	}{
		"far":    {8 << 30, 5, 7},
		"nearer": {1200 << 20, 11, 13}, // 1 GiB of margin lasts 5 s
		"near":   {300 << 20, 59, 61},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *evictorHarness) {
				b.set(MemoryAvailable, c.left)
				b.start("memory.available<200Mi nodefs.available<10%", nil)
				looks := b.now().looks
				time.Sleep(time.Minute + time.Millisecond)
				synctest.Wait()
				if n := b.now().looks - looks; n < c.min || n > c.max {
					t.Errorf("%d scans in a minute, want %d to %d", n, c.min, c.max)
				}
				if b.now().diskLooks > 8 || b.now().measured > 0 {
					t.Errorf("%d disk scans, %d measurements of pods", b.now().diskLooks, b.now().measured)
				}
			})
		})
	}
}

// A restart neither forgets the pressure nor takes it as relieved.
func TestRestartKeepsThePressure(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.pods = []*v1.Pod{pod("leak", 0)}
		b.usage = map[types.UID]Usage{"leak": {Memory: 3 << 30}}
		b.set(MemoryAvailable, 1<<20)
		b.start("memory.available<200Mi", nil)
		time.Sleep(2 * time.Second)
		began := time.Now()
		if b.evicted() != "leak" {
			t.Fatal("nothing was evicted")
		}
		time.Sleep(4 * time.Minute)
		b.stop()
		b.start("memory.available<200Mi", nil)
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if now, _ := b.CanRestart(v1.NodeMemoryPressure, began); now || !b.under(v1.NodeMemoryPressure) {
			t.Error("the pressure ended with the restart")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if now, _ := b.CanRestart(v1.NodeMemoryPressure, began); !now {
			t.Error("the pressure does not end")
		}
		// After a boot memory is free; the disk is not.
		for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure} {
			b.stop()
			if err := stateFormat.File(b.file,
				statefile.Disk{}).Save(state{Boot: "boot 1", Conditions: []v1.NodeConditionType{c}}); err != nil {
				t.Fatal(err)
			}
			b.start("memory.available<200Mi", func(cfg *Config) { cfg.Boot = "boot 2" })
			if got, want := b.under(c), c == v1.NodeDiskPressure; got != want {
				t.Errorf("after a boot %s is %v", c, got)
			}
		}
		// A damaged file loses only its own content.
		b.stop()
		if err := os.WriteFile(b.file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start("memory.available<200Mi", nil)
		if b.under(v1.NodeDiskPressure) {
			t.Error("a damaged file has an effect")
		}
	})
}

func TestDiskIsReclaimedBeforePodsAreEvicted(t *testing.T) {
	for name, c := range map[string]struct {
		dead, unused int
		separate     bool
		used         int64 // used by the writer
		reclaimed    string
		evicted      string
	}{
		"containers suffice": {dead: 100, unused: 100, used: 500, reclaimed: "containers"},
		"and images":         {dead: 10, unused: 100, used: 500, reclaimed: "containers images"},
		"images are on another disk": {unused: 100, separate: true, used: 500, reclaimed: "containers",
			evicted: "writer"},
		"nothing to reclaim":              {used: 500, reclaimed: "containers images", evicted: "writer"},
		"the least use that matters":      {used: 1, reclaimed: "containers images", evicted: "writer"},
		"no pod that would free anything": {reclaimed: "containers images"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *evictorHarness) {
				b.dead, b.unused, b.separate = c.dead, c.unused, c.separate
				b.pods = []*v1.Pod{pod("quiet", -5), pod("writer", 0)}
				b.usage = map[types.UID]Usage{"writer": {Disk: Disk{Logs: space(c.used, 1)}}}
				b.onEvict = func() { b.levels[NodeFSAvailable].Available = 800 }
				b.start("nodefs.available<10%", nil)
				b.set(NodeFSAvailable, 50)
				time.Sleep(25 * time.Second)
				if got := b.evicted(); got != c.evicted || strings.Join(b.now().reclaimed, " ") != c.reclaimed ||
					!b.under(v1.NodeDiskPressure) {
					t.Errorf("evicted %q, reclaimed %q, pressure %v", got, b.now().reclaimed, b.under(v1.NodeDiskPressure))
				}
			})
		})
	}
}

// If nothing can be freed, reclaim is retried once a minute and reported once.
func TestNothingHelps(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.pods = []*v1.Pod{pod("system", 2_000_000_000)}
		b.usage = map[types.UID]Usage{"system": {Disk: Disk{Logs: space(500, 1)}}}
		b.set(NodeFSAvailable, 50)
		b.start("nodefs.available<10%", nil)
		time.Sleep(time.Hour)
		if b.evicted() != "" || len(b.now().events) != 2 || len(b.now().reclaimed) > 130 || len(b.now().reclaimed) < 100 {
			t.Errorf("evicted %q, events %q, %d attempts", b.evicted(), b.now().events, len(b.now().reclaimed))
		}
	})
}

// A disk that others filled costs no pod that uses little of it, and the pod that matters
// is evicted although others of lower priority use a little.
func TestDiskFilledByOthers(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.levels[NodeFSAvailable] = Level{Available: 900 << 20, Capacity: 1000 << 20}
		b.pods = []*v1.Pod{pod("small", -5), pod("writer", 0)}
		b.usage = map[types.UID]Usage{"small": {Disk: Disk{Logs: space(12<<10, 1)}},
			"writer": {Disk: Disk{Logs: space(1<<20-1, 1)}}}
		b.start("nodefs.available<10%", nil)
		b.set(NodeFSAvailable, 50<<20)
		time.Sleep(25 * time.Second)
		events := b.now().events
		if b.evicted() != "" || len(events) != 2 || !strings.Contains(events[1], "nodefs.available is 50Mi, below the "+
			"threshold of 10%, and no pod that may be evicted uses at least 1Mi of it: other files fill the disk") {
			t.Errorf("evicted %q, events %q", b.evicted(), events)
		}
		if !b.under(v1.NodeDiskPressure) {
			t.Error("the condition is not reported")
		}
		b.mu.Lock()
		b.usage["writer"] = Usage{Disk: Disk{Logs: space(1<<20, 1)}}
		b.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if b.evicted() != "writer" {
			t.Errorf("evicted %q", b.evicted())
		}
	})
}

func TestPodOverItsLimitIsEvicted(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		fat, fine, system := volume(pod("fat", 0), "app", "50Mi"), volume(pod("fine", 0), "app", "50Mi"),
			volume(pod("system", 2_000_000_000), "app", "50Mi")
		b.pods = []*v1.Pod{fat, fine, system}
		b.usage = map[types.UID]Usage{"fat": {Disk: Disk{Volumes: space(10<<20, 1)}},
			"fine": {Disk: Disk{Volumes: space(50<<20, 1)}}, "system": {Disk: Disk{Volumes: space(500<<20, 1)}}}
		b.start("", nil)
		time.Sleep(15 * time.Second)
		if b.evicted() != "" {
			t.Fatalf("evicted %q", b.evicted())
		}
		b.mu.Lock()
		b.usage["fat"] = Usage{Disk: Disk{Volumes: space(60<<20, 1)}}
		b.mu.Unlock()
		began := time.Now()
		time.Sleep(15 * time.Second)
		if b.evicted() != "fat" || b.now().orders[0].Condition != "" || b.now().orders[0].Signal != "emptydirfs.limit" ||
			!strings.Contains(b.now().orders[0].Message, "sizeLimit") ||
			!strings.Contains(b.now().orders[0].Message, "restart in 5m0s") {
			t.Fatalf("orders %+v", b.now().orders)
		}
		if now, after := b.CanRestart("", began); now || after != 5*time.Minute-15*time.Second {
			t.Errorf("it may run again %v after %s", now, after)
		}
		time.Sleep(5 * time.Minute)
		if now, _ := b.CanRestart("", began); !now || b.evicted() != "fat" {
			t.Errorf("it does not run again; evicted %q", b.evicted())
		}
		// Usage of its previous run no longer counts.
		b.mu.Lock()
		old := b.usage["fat"]
		old.Disk.At = time.Now()
		b.usage["fat"] = old
		fat.Status.Phase, fat.Status.StartTime = v1.PodRunning, &metav1.Time{Time: time.Now().Truncate(time.Second)}
		b.mu.Unlock()
		b.wake <- struct{}{}
		time.Sleep(time.Minute)
		if b.evicted() != "fat" {
			t.Errorf("evicted %q for usage of the previous run", b.evicted())
		}
		// Without limits nothing is measured.
		b.mu.Lock()
		b.pods = b.pods[:0]
		b.mu.Unlock()
		b.wake <- struct{}{}
		time.Sleep(time.Minute)
		measured := b.now().measured
		time.Sleep(time.Hour)
		if b.now().measured != measured {
			t.Errorf("%d measurements without limits", b.now().measured-measured)
		}
	})
}

// Pods with limits may have so many files that counting them takes long.
// Eviction for memory does not wait for that.
func TestMemoryDoesNotWaitForDisks(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.walk, b.alarm = 15*time.Second, make(chan struct{}, 1)
		fat, leak := volume(pod("fat", 1), "app", "50Mi"), pod("leak", 0)
		b.pods = []*v1.Pod{fat, leak}
		b.usage = map[types.UID]Usage{"leak": {Memory: 8 << 30}, "fat": {Disk: Disk{Volumes: space(60<<20, 1)}}}
		b.start("memory.available<200Mi", func(c *Config) { c.Memory = b })
		time.Sleep(2 * time.Second)
		b.set(MemoryAvailable, 100<<20)
		b.alarm <- struct{}{}
		time.Sleep(time.Second)
		if b.evicted() != "leak" {
			t.Errorf("evicted %q a second after memory ran low", b.evicted())
		}
		time.Sleep(20 * time.Second)
		if b.evicted() != "leak fat" {
			t.Errorf("evicted %q after the files were counted", b.evicted())
		}
	})
}

// A pod that starts when no victim was available is evicted before it has used
// up the rest.
func TestVictimThatComesLater(t *testing.T) {
	bubble(t, func(t *testing.T, b *evictorHarness) {
		b.pods, b.alarm = []*v1.Pod{pod("system", 2_000_000_000)}, make(chan struct{}, 1)
		b.start("memory.available<200Mi", func(c *Config) { c.Memory = b })
		b.set(MemoryAvailable, 150<<20)
		b.alarm <- struct{}{}
		time.Sleep(time.Second)
		b.mu.Lock()
		b.pods = append(b.pods, pod("leak", 0))
		b.mu.Unlock()
		b.wake <- struct{}{}
		time.Sleep(2 * time.Second)
		if b.evicted() != "leak" {
			t.Errorf("evicted %q", b.evicted())
		}
	})
}

func TestSoftThresholdGivesTime(t *testing.T) {
	for own, want := range map[int64]int64{10: 10, 100: 60} {
		bubble(t, func(t *testing.T, b *evictorHarness) {
			p := pod("leak", 0)
			p.Spec.TerminationGracePeriodSeconds = &own
			b.pods = []*v1.Pod{p}
			b.usage = map[types.UID]Usage{"leak": {Memory: 3 << 30}}
			b.set(MemoryAvailable, 100<<20)
			b.start("", func(c *Config) {
				c.Thresholds = parse(t, Settings{Soft: map[string]string{"memory.available": "200Mi"},
					SoftGrace: map[string]string{"memory.available": "30s"}})
				c.MaxPodGrace = 60
			})
			time.Sleep(29 * time.Second)
			if b.evicted() != "" || !b.under(v1.NodeMemoryPressure) {
				t.Errorf("evicted %q before its time", b.evicted())
			}
			time.Sleep(2 * time.Second)
			if b.evicted() != "leak" || *b.now().orders[0].GracePeriod != want {
				t.Errorf("%+v, want a grace of %d", b.now().orders, want)
			}
		})
	}
}

// A failed measurement does not prevent an eviction, which would leave the
// choice to the kernel.
func TestEvictionWithoutMeasurements(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, func(t *testing.T, b *evictorHarness) {
			b.pods = []*v1.Pod{pod("high", 10), pod("low", -1)}
			b.usage, b.measureErr, b.hangs = nil, errors.New("the runtime hangs"), hangs
			b.onEvict = func() { b.levels[MemoryAvailable].Available = 1 << 30 }
			b.set(MemoryAvailable, 1<<20)
			b.start("memory.available<200Mi", nil)
			time.Sleep(5 * time.Second)
			if b.evicted() != "low" {
				t.Errorf("evicted %q", b.evicted())
			}
		})
	}
}

func TestAdmit(t *testing.T) {
	tolerant, stoic, indifferent := pod("tolerant", 0), pod("stoic", 0), pod("indifferent", 0)
	tolerant.Spec.Tolerations = []v1.Toleration{
		{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}
	stoic.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	// Each message asks for another action; the last is that of every
	// static pod.
	indifferent.Spec.Tolerations = []v1.Toleration{
		{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists},
		{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: v1.TaintNodeMemoryPressure, Value: "high"},
		{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	}
	api := pod("api", 0)
	api.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
	for condition, refused := range map[v1.NodeConditionType]string{
		"":                    "",
		v1.NodeMemoryPressure: "besteffort indifferent api",
		v1.NodeDiskPressure:   "tolerant stoic indifferent burstable api",
		v1.NodePIDPressure:    "besteffort tolerant stoic indifferent burstable api",
	} {
		bubble(t, func(t *testing.T, b *evictorHarness) {
			if err := stateFormat.File(b.file,
				statefile.Disk{}).Save(state{Boot: "boot 1", Conditions: []v1.NodeConditionType{condition}}); err != nil {
				t.Fatal(err)
			}
			b.start("", func(c *Config) {
				c.HasImages = func(_ context.Context, p *v1.Pod) bool { return p.Name == "besteffort" || p.Name == "api" }
			})
			var got []string
			for _, p := range []*v1.Pod{
				pod("besteffort", 0), tolerant, stoic, indifferent, pod("burstable", 0, "memory=1Mi"),
				pod("critical", 2_000_000_000), api,
			} {
				if c, message := b.Admit(p); c != "" {
					got = append(got, p.Name)
					if c != condition || !strings.Contains(message, "The node had condition: ["+string(condition)+"]") {
						t.Errorf("%s: %s", c, message)
					}
				}
				// A pod of an API server is rejected; the others wait, and say until when.
				reason, message := b.Hold(p)
				switch c, _ := b.Admit(p); {
				case c == "" && reason == "":
				case p == api && (reason != ReasonEvicted || strings.Contains(message, "has cleared")),
					p != api && (reason != string(c) || !strings.HasSuffix(message, "when the condition has cleared.")):
					t.Errorf("%s is held: %s: %s", p.Name, reason, message)
				}
			}
			if strings.Join(got, " ") != refused {
				t.Errorf("under %q: %q are refused, want %q", condition, got, refused)
			}
		})
	}
}
