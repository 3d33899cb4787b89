package api

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstead/podstead/test/e2e/harness"
)

// watchCache holds the pods that a client-go informer has seen.
type watchCache struct {
	mu      sync.Mutex
	added   map[string]int
	deleted map[string]int
	now     map[string]*v1.Pod
}

func (s *watchCache) store(o any, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := o.(*v1.Pod)
	if added {
		s.added[p.Name]++
	}
	s.now[p.Name] = p
}

func (s *watchCache) remove(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	p := o.(*v1.Pod)
	s.deleted[p.Name]++
	delete(s.now, p.Name)
}

// expect returns an error unless a pod was reported as expected.
func (s *watchCache) expect(name string, added, deleted int, ready bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.now[name]
	is := false
	if p != nil {
		for _, c := range p.Status.Conditions {
			is = is || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
		}
	}
	if s.added[name] != added || s.deleted[name] != deleted || is != ready {
		return fmt.Errorf("%s: added %d times, deleted %d, ready %v; want %d, %d, %v", name, s.added[name], s.deleted[name],
			is, added, deleted, ready)
	}
	return nil
}

// TestInformer watches pods as controllers do, across a crash of the daemon: its client
// neither misses a change nor sees one twice.
func TestInformer(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		for _, name := range []string{"a", "b"} {
			n.WriteManifest(name+".yaml", harness.SleepPod(name, "x"))
		}
		n.OwnPort()
		n.MustStart()
		n.AwaitReady("a")
		n.AwaitReady("b")
		config, err := clientcmd.BuildConfigFromFlags("", harness.NewKubectl(n, "--role", "read").Config)
		if err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
		if err := v1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		config.APIPath, config.GroupVersion = "/api", &v1.SchemeGroupVersion
		config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		client, err := rest.RESTClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		s := &watchCache{added: map[string]int{}, deleted: map[string]int{}, now: map[string]*v1.Pod{}}
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.NewListWatchFromClient(client, "pods", metav1.NamespaceAll, fields.Everything()),
			ObjectType:    &v1.Pod{},
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { s.store(o, true) },
				UpdateFunc: func(_, o any) { s.store(o, false) },
				DeleteFunc: s.remove,
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { informer.RunWithContext(ctx) })
		defer done.Wait()
		defer cancel()
		a, b, c, d := n.PodName("a"), n.PodName("b"), n.PodName("c"), n.PodName("d")
		n.Await("both pods are reported", func() error {
			if err := s.expect(a, 1, 0, true); err != nil {
				return err
			}
			return s.expect(b, 1, 0, true)
		})
		n.WriteManifest("c.yaml", harness.SleepPod("c", "x"))
		n.Await("the added pod is reported", func() error { return s.expect(c, 1, 0, true) })
		// While the daemon is down, one pod is removed and one is added.
		n.Kill()
		n.RemoveManifest("b.yaml")
		n.WriteManifest("d.yaml", harness.SleepPod("d", "x"))
		n.MustStart()
		n.Await("the changes made meanwhile are reported", func() error {
			if err := s.expect(b, 1, 1, false); err != nil {
				return err
			}
			return s.expect(d, 1, 0, true)
		}, 5*time.Minute)
		n.RemoveManifest("a.yaml")
		n.Await("the deletion is reported", func() error { return s.expect(a, 1, 1, false) })
		if err := s.expect(c, 1, 0, true); err != nil {
			t.Errorf("the unchanged pod: %v", err)
		}
	})
}
