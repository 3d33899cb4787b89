package addresses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kernel stands for the host's tables.
type kernel struct {
	mu     sync.Mutex
	tables tables
	err    error
	reads  int
	change chan struct{}
}

func (k *kernel) set(t tables, err error) {
	k.mu.Lock()
	k.tables, k.err = t, err
	k.mu.Unlock()
	k.change <- struct{}{}
}

func (k *kernel) read() (tables, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.tables, k.err
}

type kernelWatch struct {
	k      *kernel
	closed chan struct{}
}

func (w kernelWatch) next([]int) error {
	select {
	case <-w.k.change:
		return nil
	case <-w.closed:
		return io.EOF
	}
}

func (w kernelWatch) Close() error {
	close(w.closed)
	return nil
}

func tablesOf(addrs ...string) (t tables) {
	for _, a := range addrs {
		t.addresses = append(t.addresses, address{ip: ip(a), iface: 2})
		t.defaults = append(t.defaults, route{v6: ip(a).Is6(), iface: 2})
	}
	return t
}

func TestSourceFollowsTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{change: make(chan struct{}, 10)}
		s := New(Config{})
		s.read = k.read
		s.watch = func() (watcher, error) { return kernelWatch{k, make(chan struct{})}, nil }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		expect := func(want string, changed bool) {
			t.Helper()
			time.Sleep(2 * settleTime)
			synctest.Wait()
			if got := fmt.Sprint(s.Addresses()); got != want {
				t.Errorf("addresses are %s, want %s", got, want)
			}
			select {
			case <-s.Changed():
				if !changed {
					t.Error("woken without a change")
				}
			default:
				if changed {
					t.Error("no notification")
				}
			}
		}
		expect("[]", false)
		k.set(tablesOf("10.0.0.2"), nil)
		expect("[10.0.0.2]", true)
		k.set(tablesOf("10.0.0.2"), nil)
		expect("[10.0.0.2]", false)
		k.set(tablesOf("10.0.0.2", "2001:db8::2"), nil)
		expect("[10.0.0.2 2001:db8::2]", true)
		k.set(tablesOf(), nil) // a cable is pulled out
		expect("[10.0.0.2 2001:db8::2]", false)
		k.set(tablesOf("10.0.0.3"), nil)
		expect("[10.0.0.3]", true)

		reads := k.reads
		time.Sleep(time.Hour)
		if k.reads != reads {
			t.Errorf("%d looks in an hour without a change", k.reads-reads)
		}
		k.set(tables{}, errors.New("out of memory"))
		time.Sleep(2 * settleTime)
		k.mu.Lock()
		k.tables, k.err = tablesOf("10.0.0.4"), nil
		k.mu.Unlock()
		time.Sleep(retryInterval)
		expect("[10.0.0.4]", true)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestFixedAddressesAreNotFollowed(t *testing.T) {
	s := New(Config{Fixed: []netip.Addr{ip("10.0.0.9"), ip("2001:db8::9")}})
	s.watch = func() (watcher, error) { t.Error("asked the kernel"); return nil, io.EOF }
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = s.Run(ctx)
	if got := fmt.Sprint(s.Addresses()); got != "[10.0.0.9 2001:db8::9]" {
		t.Errorf("addresses are %s", got)
	}
}

// The real subscription ends when it is closed.
func TestSubscriptionCloses(t *testing.T) {
	w, err := watchTables()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.next(nil) }()
	time.AfterFunc(10*time.Millisecond, func() { _ = w.Close() })
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("a read outlives the socket")
	}
}
