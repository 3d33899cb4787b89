package cri_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// podConfig and containerConfig return the minimum that the runtime needs.
func podConfig(uid, name string, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid, Attempt: attempt},
		Labels: map[string]string{
			cri.LabelPodUID: uid, cri.LabelPodName: name, cri.LabelPodNamespace: "default", cri.LabelInstance: critest.Instance,
		},
		Annotations: map[string]string{
			"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": uid,
			"kubernetes.io/config.seen": "2026-01-01T00:00:00Z",
		},
	}
}

func containerConfig(pod *runtimeapi.PodSandboxConfig, name string, attempt uint32) *runtimeapi.ContainerConfig {
	labels := map[string]string{cri.LabelContainerName: name}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Labels:   labels,
		Annotations: map[string]string{
			cri.AnnotationContainerHash: "ab12", cri.AnnotationRestartCount: fmt.Sprint(attempt),
			cri.AnnotationTerminationMessagePath: "/dev/termination-log", cri.AnnotationTerminationPolicy: "File",
			cri.AnnotationTerminationGracePeriod: "30",
		},
	}
}

// startPod runs a pod with one container and returns the IDs.
func startPod(t testing.TB, c *cri.Client, uid, name string) (sandbox, container string) {
	t.Helper()
	pod := podConfig(uid, name, 0)
	sandbox, err := c.RunPodSandbox(t.Context(), pod, "")
	if err != nil {
		t.Fatal(err)
	}
	container, err = c.CreateContainer(t.Context(), sandbox, containerConfig(pod, "web", 0), pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

func mustList(t testing.TB, c *cri.Client) *cri.Observed {
	t.Helper()
	o, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestListSplitsOwnAndForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		startPod(t, c, "uid-1", "web-node")
		f.Put(critest.Pod{UID: "uid-2", Name: "etcd-node", Namespace: "kube-system", Containers: []string{"etcd"},
			Annotations: map[string]string{"kubernetes.io/config.source": "file"}})
		f.Put(critest.Pod{UID: "uid-3", Name: "other", Namespace: "default", Instance: "another", Containers: []string{"c"}})
		f.Put(critest.Pod{UID: "uid-4", Name: "bare", Namespace: "ops", Bare: true, Containers: []string{"c"}})
		// Another client uses one of our UIDs. Its pod still counts as
		// foreign.
		f.Put(critest.Pod{UID: "uid-1", Name: "twin", Namespace: "default"})

		o := mustList(t, c)
		if len(o.Own) != 1 || o.Own[0].UID != "uid-1" || o.Own[0].Name != "web-node" || o.Own[0].Source != "file" ||
			len(o.Own[0].Sandboxes) != 1 {
			t.Fatalf("own: %+v", o.Own)
		}
		web := o.Own[0].Containers[0]
		if web.Name != "web" || web.Hash != "ab12" || *web.TerminationGracePeriod != 30 || web.State != cri.StateRunning ||
			web.Image != "busybox" {
			t.Errorf("container: %+v", web)
		}
		var names []string
		for _, p := range o.Foreign {
			names = append(names, p.FullName())
			if !p.Running() || p.Source != "" || p.Sandboxes[0].Annotations != nil {
				t.Errorf("foreign pod: %+v", p)
			}
		}
		slices.Sort(names)
		if want := []string{"default/other", "default/twin", "kube-system/etcd-node", "ops/bare"}; !slices.Equal(names,
			want) {
			t.Errorf("foreign: %v, want %v", names, want)
		}

		// Without an instance nothing is our own, and the two pods of
		// one UID are one pod.
		if o := mustList(t, f.Client(t, "")); len(o.Own) != 0 || len(o.Foreign) != 4 {
			t.Errorf("no instance: %d own, %d foreign", len(o.Own), len(o.Foreign))
		}
	})
}

func TestListKeepsWhatDidNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		startPod(t, c, "uid-1", "a")
		startPod(t, c, "uid-2", "b")
		find := func(o *cri.Observed, name string) *cri.Pod {
			for _, p := range o.Own {
				if p.Name == name {
					return p
				}
			}
			t.Fatalf("no pod %s", name)
			return nil
		}
		first := mustList(t, c)
		f.Exit("a/web", 1)
		second := mustList(t, c)
		if find(first, "b") != find(second, "b") {
			t.Error("a pod in which nothing changed was created again")
		}
		if a := find(first, "a"); a == find(second, "a") || a.Containers[0].State != cri.StateRunning {
			t.Error("a returned object was modified")
		}
		if find(second, "a").Containers[0].State != cri.StateExited {
			t.Error("an exit was not detected")
		}
		f.EndPod("uid-2")
		if o := mustList(t, c); len(o.Own) != 1 {
			t.Errorf("%d pods", len(o.Own))
		}
	})
}

func TestListOfManyPods(t *testing.T) {
	f, c := manyPods(t, 1000)
	if o := mustList(t, c); len(o.Own) != 1000 || f.Running() != 1000 {
		t.Errorf("%d pods, %d running", len(o.Own), f.Running())
	}
}

func manyPods(t testing.TB, n int) (*critest.Fake, *cri.Client) {
	f := critest.New(t)
	c := f.Client(t)
	for i := range n {
		startPod(t, c, fmt.Sprintf("uid-%d", i), fmt.Sprintf("pod-%d", i))
	}
	return f, c
}

// BenchmarkList measures the relist of an idle node. The fake runs in the same
// process, so that its share of the work is counted too.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, c := manyPods(b, n)
			mustList(b, c)
			b.ReportAllocs()
			for b.Loop() {
				mustList(b, c)
			}
		})
	}
}
