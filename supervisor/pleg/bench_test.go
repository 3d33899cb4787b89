package pleg

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// thousand returns a PLEG that knows 1,000 pods, and a full list of them.
func thousand(tb testing.TB) (*PLEG, *cri.Observed) {
	tb.Helper()
	f := newFake()
	for i := range 1000 {
		uid := fmt.Sprintf("pod%d", i)
		f.run(types.UID(uid), "c-"+uid)
	}
	p := New(Config{Runtime: f})
	p.relist(context.Background())
	settle(tb, p)
	o, err := f.List(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return p, o
}

// settle performs all pending inspections.
func settle(tb testing.TB, p *PLEG) {
	tb.Helper()
	for {
		p.mu.Lock()
		uid, l, _ := p.inspections.next(time.Now())
		left := len(p.inspections.pending)
		p.mu.Unlock()
		if l == nil {
			if left > 0 {
				tb.Fatalf("%d inspections still wait", left)
			}
			return
		}
		p.inspect(context.Background(), uid, l)
	}
}

func TestIdleComparisonAllocatesNothing(t *testing.T) {
	p, o := thousand(t)
	p.Drain()
	n := testing.AllocsPerRun(10, func() {
		o.At = time.Now()
		p.mu.Lock()
		p.compareOwn(o)
		p.compareForeign(o)
		p.mu.Unlock()
	})
	if n > 0 {
		t.Errorf("%v allocations to compare 1,000 unchanged pods, want none", n)
	}
	if len(p.inspections.pending) != 0 || len(p.Drain()) != 0 {
		t.Error("unchanged pods caused inspections or events")
	}
}

// BenchmarkCompare1000 measures the daemon's part of an idle relist.
func BenchmarkCompare1000(b *testing.B) {
	p, o := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		o.At = time.Now()
		p.mu.Lock()
		p.compareOwn(o)
		p.mu.Unlock()
	}
}

// BenchmarkRelist1000 measures an idle relist over gRPC, the server's part
// included.
func BenchmarkRelist1000(b *testing.B) {
	f := critest.New(b)
	for i := range 1000 {
		putPod(f, fmt.Sprintf("pod%d", i))
	}
	p := New(Config{Runtime: f.Client(b)})
	p.relist(context.Background())
	settle(b, p)
	b.ReportAllocs()
	for b.Loop() {
		p.relist(context.Background())
	}
}
