package cluster

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// sizes returns the sizes of everything that could grow.
func (r *clusterHarness) sizes() map[string]int {
	w := r.a.writer
	return map[string]int{
		"busy": len(w.busy), "trouble": len(w.writeErrors), "agreed": len(w.inSync), "results": len(w.results),
		"sent patches": len(w.sentPatches),
		"sent events":  len(r.a.sent.counts),
		"pods":         len(r.a.pods.objects) + len(r.a.pods.removed),
		"nodes":        len(r.a.nodes.objects) + len(r.a.nodes.removed),
		"goroutines":   runtime.NumGoroutine(),
	}
}

// An hour without an API server, in which pods come and go, change their
// statuses and have events all the time, leaves nothing behind and causes few
// requests; a period with one leaves nothing either.
func TestNothingGrows(t *testing.T) {
	const stay = 20
	for away, lasts := range map[bool]time.Duration{true: time.Hour, false: 10 * time.Minute} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				for n := range stay {
					r.run(fmt.Sprint("stays", n), "one")
				}
				r.start()
				defer r.end()
				pass(time.Minute)
				before := r.sizes()
				r.setAway(away)
				r.requests()
				until := time.Now().Add(lasts)
				for n := 0; time.Now().Before(until); n++ {
					p := aStatic()
					p.Name, p.Annotations[podinfo.AnnotationHash], p.Annotations[podinfo.AnnotationSource] = fmt.Sprintf(
						"stays%d-edge", n%stay), "one", "file"
					p.Status.Message = fmt.Sprint(n)
					r.set(p)
					r.run(fmt.Sprint("comes", n), "one")
					harnessEvents{r}.Event(p, v1.EventTypeNormal, "Changed", fmt.Sprint(n))
					pass(5 * time.Second)
					r.removeStatic(fmt.Sprint("comes", n))
					if away && n%100 == 99 {
						// Running goroutines come and go.
						for what, size := range r.sizes() {
							if size > before[what]+maxConcurrentWrites+stay {
								t.Fatalf("%s grew from %d to %d", what, before[what], size)
							}
						}
					}
				}
				if asked := len(r.requests()); away && asked > 3600/3 {
					t.Errorf("%d requests in an hour", asked)
				}
				r.setAway(false)
				// Until the next list.
				pass(maxWatchPeriod + time.Minute)
				for what, size := range r.sizes() {
					if size > before[what]+eventsAtMost {
						t.Errorf("%s grew from %d to %d", what, before[what], size)
					}
				}
				for what, size := range r.sizes() {
					if what != "sent events" && size > before[what]+3 {
						t.Errorf("%s grew from %d to %d", what, before[what], size)
					}
				}
				if m := r.mirror("stays0"); m == nil || m.Status.Message == "" {
					t.Errorf("mirror %v", m)
				}
			})
		})
	}
}

// Many static pods cost two requests each: one creates the mirror, one reports
// its status.
func TestManyMirrors(t *testing.T) {
	const many = 500
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		for n := range many {
			r.run(fmt.Sprint("pod", n), "one")
		}
		r.start()
		defer r.end()
		shown := func() (n int) {
			for i := range many {
				if m := r.mirror(fmt.Sprint("pod", i)); m != nil && m.Status.Phase == v1.PodRunning {
					n++
				}
			}
			return n
		}
		began := time.Now()
		for shown() < many {
			pass(time.Second)
			if took := time.Since(began); took > time.Minute {
				t.Fatalf("%d of %d are shown after %v", shown(), many, took)
			}
		}
		asked := map[string]int{}
		total := 0
		for _, q := range r.requests() {
			asked[q.verb+" "+q.resource]++
			if q.resource == "pods" {
				total++
			}
		}
		t.Logf("%d pods in %v: %v", many, time.Since(began), asked)
		if asked["POST pods"] != many || asked["PATCH pods"] > many || total > 2*many+4 {
			t.Errorf("%d requests about pods: %v", total, asked)
		}
		// After that there are no requests about them.
		pass(time.Minute)
		for _, q := range r.requests() {
			if q.resource == "pods" && q.verb != "LIST" && q.verb != "WATCH" {
				t.Errorf("%v of a pod that has not changed", q)
			}
		}
	})
}
