package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// informerRequests counts, by path, the requests of informers that were served.
type informerRequests struct {
	mu sync.Mutex
	// lists are those for all objects, as a list or at the start of a watch, watches all watches.
	lists, watches map[string]int
	next           http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *informerRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusOK {
		c.mu.Lock()
		defer c.mu.Unlock()
		q := r.URL.Query()
		if q.Get("watch") != "" {
			c.watches[r.URL.Path]++
		}
		if q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" {
			c.lists[r.URL.Path]++
		}
	}
	return res, err
}

// begin starts counting again.
func (c *informerRequests) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.watches = map[string]int{}, map[string]int{}
}

// servedResources returns the resources that discovery lists and that can be watched, by the path of
// their lists.
func servedResources(n *harness.Node, k *harness.Kubectl) map[string]schema.GroupVersionResource {
	n.T.Helper()
	get := func(path string, into any) {
		if err := json.Unmarshal([]byte(k.Must(nil, "get", "--raw", path)), into); err != nil {
			n.T.Fatalf("%s: %v", path, err)
		}
	}
	var groups metav1.APIGroupList
	get("/apis", &groups)
	versions := map[string]string{"v1": "/api/v1"}
	for _, g := range groups.Groups {
		versions[g.PreferredVersion.GroupVersion] = "/apis/" + g.PreferredVersion.GroupVersion
	}
	found := map[string]schema.GroupVersionResource{}
	for text, path := range versions {
		version, err := schema.ParseGroupVersion(text)
		if err != nil {
			n.T.Fatal(err)
		}
		var list metav1.APIResourceList
		get(path, &list)
		for _, r := range list.APIResources {
			if strings.Contains(r.Verbs.String(), "watch") {
				found[path+"/"+r.Name] = version.WithResource(r.Name)
			}
		}
	}
	return found
}

// TestInformersOfEveryResource runs a dynamic informer of client-go for each resource that is served,
// across a crash of the daemon. Each lists once at its start and once after the crash, and then only
// watches.
func TestInformersOfEveryResource(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	n.Args = append(n.Args, "--address", "127.0.0.1", "--port", strconv.Itoa(harness.HostPort()))
	n.WriteManifest("web.yaml", clientPod)
	n.MustStart()
	n.AwaitReady("web")
	k := harness.NewKubectl(n, "--role", "edit")
	config, err := clientcmd.BuildConfigFromFlags("", k.Config)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 1000, 1000
	requests := &informerRequests{}
	requests.begin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		requests.next = next
		return requests
	})
	client := dynamic.NewForConfigOrDie(config)
	informers := map[string]cache.SharedIndexInformer{}
	for path, resource := range servedResources(n, k) {
		of := client.Resource(resource)
		informers[path] = cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object,
				error) {
				return of.List(ctx, o)
			},
			WatchFuncWithContext: of.Watch,
		}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	}
	if len(informers) < 35 {
		t.Fatalf("only %d resources", len(informers))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	defer done.Wait()
	defer cancel()
	requests.begin()
	for _, informer := range informers {
		done.Go(func() { informer.RunWithContext(ctx) })
	}
	established := func() error {
		requests.mu.Lock()
		defer requests.mu.Unlock()
		for path, informer := range informers {
			if !informer.HasSynced() || requests.watches[path] == 0 {
				return fmt.Errorf("%s has not synced", path)
			}
		}
		return nil
	}
	n.Await("all informers have synced", established)
	for path, want := range map[string]string{
		"/api/v1/pods": "default/" + n.PodName("web"), "/api/v1/nodes": n.Name, "/api/v1/namespaces": "default",
		"/api/v1/persistentvolumeclaims": "default/data",
		"/api/v1/persistentvolumes":      "default.data", "/apis/scheduling.k8s.io/v1/priorityclasses": "high",
	} {
		if _, ok, err := informers[path].GetStore().GetByKey(want); !ok || err != nil {
			t.Errorf("%s is not in %s: %v, %v", want, path, informers[path].GetStore().ListKeys(), err)
		}
	}
	changes := func(round string) {
		t.Helper()
		for i := range 10 {
			word := round + strconv.Itoa(i)
			n.WriteManifest("site.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {word: "+word+"}\n")
			n.Await("the change is reported", func() error {
				o, _, err := informers["/api/v1/configmaps"].GetStore().GetByKey("default/site")
				if one, ok := o.(*unstructured.Unstructured); ok && err == nil {
					if got, _, _ := unstructured.NestedString(one.Object, "data", "word"); got == word {
						return nil
					}
				}
				return fmt.Errorf("the ConfigMap is %v, %v", o, err)
			})
		}
		requests.mu.Lock()
		defer requests.mu.Unlock()
		for path := range informers {
			if requests.lists[path] > 1 || requests.watches[path] > 2 {
				t.Errorf("%s: %s was listed %d times and watched %d times", round, path, requests.lists[path],
					requests.watches[path])
			}
		}
	}
	changes("first")
	n.Kill()
	requests.begin()
	n.MustStart()
	n.Await("all informers watch again", established)
	changes("second")
}
