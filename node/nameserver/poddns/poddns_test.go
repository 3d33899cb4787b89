package poddns

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/nameserver"
)

type recordedEvents []string

func (r *recordedEvents) Event(_ *v1.Pod, _, reason, _ string) { *r = append(*r, reason) }

func newServer(t *testing.T, events Recorder) *Server {
	t.Helper()
	return New(Config{
		Directory: nameserver.Directory(t.TempDir()), Given: true,
		Addresses:  []netip.Prefix{netip.MustParsePrefix("10.8.0.1/24"), netip.MustParsePrefix("fd00::1/64")},
		OnListener: func(string, error) {}, Events: events, Log: slog.New(slog.DiscardHandler),
	})
}

func testPod(name string, source podinfo.Source, ips ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-n1",
		Annotations: map[string]string{podinfo.AnnotationSource: string(source)}}}
	if len(ips) > 0 {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	for _, ip := range ips {
		pod.Status.PodIPs = append(pod.Status.PodIPs, v1.PodIP{IP: ip})
	}
	return pod
}

// namesOf are the names of pods that all are known; changed notifies about both pods and Services.
func namesOf(changed <-chan struct{}, pods ...*v1.Pod) Names {
	subscribe := func() (<-chan struct{}, func()) { return changed, func() {} }
	return Names{
		Known: func(context.Context) error { return nil }, Pods: func() []*v1.Pod { return pods },
		BaseName:    func(pod *v1.Pod) string { return strings.TrimSuffix(pod.Name, "-n1") },
		PodsChanged: subscribe, Services: Services{List: func() []*v1.Service { return nil }, Changed: subscribe},
		Namespace: func(context.Context, *v1.Pod) (string, error) { return "", errors.New("no namespace") },
	}
}

// A restarted daemon does not know yet how its pods are. They keep the addresses that they had; only static pods have
// names.
func TestPublishKeepsAddressesUntilStatusesAreKnown(t *testing.T) {
	s := newServer(t, &recordedEvents{})
	publish := func(pods ...*v1.Pod) {
		ctx, cancel := context.WithCancel(t.Context())
		changed := make(chan struct{})
		done := make(chan error)
		go func() { done <- s.Publish(ctx, namesOf(changed, pods...)) }()
		changed <- struct{}{} // received once the names are published
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	addresses := func(name string) []netip.Addr { return s.keeper.Zone().Names[name].Addresses }
	publish(testPod("web", podinfo.SourceFile, "10.8.0.7"), testPod("bound", podinfo.SourceAPI, "10.8.0.8"))
	if got := addresses("web.shop.svc.cluster.local"); len(got) != 1 || got[0].String() != "10.8.0.7" {
		t.Fatalf("published %v", got)
	}
	if got := addresses("bound-n1.shop.svc.cluster.local"); len(got) > 0 {
		t.Errorf("a pod of a cluster has a name: %v", got)
	}
	publish(testPod("web", podinfo.SourceFile), testPod("new", podinfo.SourceFile))
	if got := addresses("web.shop.svc.cluster.local"); len(got) != 1 || got[0].String() != "10.8.0.7" {
		t.Errorf("after a restart: %v", got)
	}
	if got := addresses("new.shop.svc.cluster.local"); len(got) > 0 {
		t.Errorf("a new pod: %v", got)
	}
	changed := testPod("web", podinfo.SourceFile)
	changed.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
	publish(changed)
	if got := addresses("web.shop.svc.cluster.local"); len(got) > 0 {
		t.Errorf("a pod that is not Ready: %v", got)
	}
}

// Pods get the name server only where it can be reached; why not is said.
func TestAddresses(t *testing.T) {
	var events recordedEvents
	s := newServer(t, &events)
	fails := func(hostNetwork bool, want string) {
		t.Helper()
		if list, err := s.Addresses(hostNetwork); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", list, err, want)
		}
	}
	fails(false, "it does not run")
	if s.reach.set(errors.New("dropped")) {
		s.reportReachable(errors.New("dropped"))
	}
	fails(false, "dropped")
	fails(true, "it does not run") // packets of the host's network are not dropped
	rules := errors.New("no iptables")
	s.noRules.Store(&rules)
	fails(true, "no iptables")
	if s.Ready() || !slices.Equal(events, []string{"NameserverUnreachable"}) {
		t.Errorf("ready: %t, events %q", s.Ready(), []string(events))
	}
	if s.Domain() != "cluster.local" || s.loopback.String() != "127.8.0.1" {
		t.Errorf("domain %s, loopback %s", s.Domain(), s.loopback)
	}
}

// One query in 30 s is sent until one was answered, and then none.
func TestReachability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reachability
		if !r.begin() || r.begin() {
			t.Error("the first query is sent, and another one only later")
		}
		if !r.set(errors.New("dropped")) || r.set(errors.New("dropped again")) {
			t.Error("a failure is reported once")
		}
		time.Sleep(reachInterval)
		if !r.begin() || r.result() == nil {
			t.Error("a query that failed is repeated")
		}
		if !r.set(nil) || r.result() != nil {
			t.Error("the answer is reported")
		}
		time.Sleep(time.Hour)
		if r.begin() {
			t.Error("a query is sent after one was answered")
		}
	})
}

// Only a pod in one of the networks shows whether pods reach the name server.
func TestHasAddressIn(t *testing.T) {
	s := newServer(t, &recordedEvents{})
	for ip, want := range map[string]bool{"10.8.0.200": true, "10.9.0.1": false, "fd00::9": true, "": false} {
		if got := hasAddressIn(testPod("a", podinfo.SourceFile, ip), s.networks); got != want {
			t.Errorf("%q: %t", ip, got)
		}
	}
}

// Services without a name server are reported once there is one.
func TestWarnOfServices(t *testing.T) {
	var events recordedEvents
	changed := make(chan struct{})
	asked := 0
	list := func() []*v1.Service {
		if asked++; asked < 3 {
			return nil
		}
		return []*v1.Service{{}}
	}
	services := Services{List: list, Changed: func() (<-chan struct{}, func()) { return changed, func() {} }}
	done := make(chan error)
	go func() { done <- WarnOfServices(t.Context(), services, &events, slog.New(slog.DiscardHandler)) }()
	changed <- struct{}{} // none yet
	changed <- struct{}{}
	if err := <-done; err != nil || !slices.Equal(events, []string{"ServiceWithoutNameserver"}) {
		t.Errorf("%v, events %q", err, []string(events))
	}
}
