package cri

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// plainList groups decoded lists in the simplest way, without any earlier
// state.
func plainList(instance string, sandboxes []*runtimeapi.PodSandbox,
	containers []*runtimeapi.Container) map[podKey]*Pod {
	pods := map[podKey]*Pod{}
	pod := func(key podKey, name, namespace string) *Pod {
		if pods[key] == nil {
			pods[key] = &Pod{UID: key.uid, Name: name, Namespace: namespace}
		}
		return pods[key]
	}
	for _, s := range sandboxes {
		id := identify(s)
		own := s.Labels[LabelInstance] == instance
		p := pod(podKey{id.uid, own}, id.name, id.namespace)
		p.Sandboxes = append(p.Sandboxes, observedSandbox(s, own))
	}
	for _, c := range containers {
		own := c.Labels[LabelInstance] == instance
		p := pod(podKey{types.UID(c.Labels[LabelPodUID]), own}, c.Labels[LabelPodName], c.Labels[LabelPodNamespace])
		p.Containers = append(p.Containers, observedContainer(c, own))
	}
	for _, p := range pods {
		sortSandboxes(p.Sandboxes)
		sortContainers(p.Containers)
		if len(p.Sandboxes) > 0 {
			p.Source = p.Sandboxes[0].Annotations[podinfo.AnnotationSource]
		}
	}
	return pods
}

// world is a simulated runtime that changes at random.
type world struct {
	random     *rand.Rand
	serial     int
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func (w *world) labels(pod int) map[string]string {
	labels := map[string]string{
		LabelPodUID: fmt.Sprintf("uid-%d", pod), LabelPodName: fmt.Sprintf("pod-%d", pod), LabelPodNamespace: "default",
	}
	if pod%5 != 0 {
		labels[LabelInstance] = "mine"
	}
	return labels
}

func (w *world) step() {
	w.serial++
	switch w.random.IntN(6) {
	case 0:
		pod := w.random.IntN(20)
		w.sandboxes = append(w.sandboxes, &runtimeapi.PodSandbox{
			Id: fmt.Sprintf("s%d", w.serial), CreatedAt: int64(w.serial), Labels: w.labels(pod),
			Metadata:    &runtimeapi.PodSandboxMetadata{Attempt: uint32(w.serial)},
			State:       runtimeapi.PodSandboxState(w.random.IntN(2)),
			Annotations: map[string]string{podinfo.AnnotationSource: "file", "n": strconv.Itoa(w.serial)},
		})
	case 1, 2:
		pod, name := w.random.IntN(20), fmt.Sprintf("c%d", w.random.IntN(3))
		labels := w.labels(pod)
		labels[LabelContainerName] = name
		w.containers = append(w.containers, &runtimeapi.Container{
			Id: fmt.Sprintf("c%d", w.serial), PodSandboxId: "s1", CreatedAt: int64(w.serial), Labels: labels,
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: 3},
			Image:    &runtimeapi.ImageSpec{Image: "busybox"}, ImageRef: "busybox@sha256:1",
			State: runtimeapi.ContainerState(w.random.IntN(4)),
			Annotations: map[string]string{
				AnnotationRestartCount: strconv.Itoa(w.random.IntN(4)), AnnotationContainerHash: "ab12",
				AnnotationTerminationGracePeriod: "30",
			},
		})
	case 3:
		if len(w.sandboxes) > 0 {
			s := w.sandboxes[w.random.IntN(len(w.sandboxes))]
			s.State = runtimeapi.PodSandboxState(w.random.IntN(2))
		}
		if len(w.containers) > 0 {
			c := w.containers[w.random.IntN(len(w.containers))]
			c.State = runtimeapi.ContainerState(w.random.IntN(4))
		}
	case 4:
		if n := len(w.sandboxes); n > 0 {
			w.sandboxes = slices.Delete(w.sandboxes, n-1, n)
		}
	case 5:
		if n := len(w.containers); n > 0 {
			i := w.random.IntN(n)
			w.containers = slices.Delete(w.containers, i, i+1)
		}
	}
	w.random.Shuffle(len(w.sandboxes), func(i, j int) { w.sandboxes[i], w.sandboxes[j] = w.sandboxes[j], w.sandboxes[i] })
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func listWorld(t *testing.T, k *inventory, w *world) *Observed {
	t.Helper()
	s := k.scratch.Get().(*scratch)
	defer s.release()
	if err := (*containerItems)(s).unmarshal(
		marshal(t, &runtimeapi.ListContainersResponse{Containers: w.containers})); err != nil {
		t.Fatal(err)
	}
	if err := (*sandboxItems)(s).unmarshal(
		marshal(t, &runtimeapi.ListPodSandboxResponse{Items: w.sandboxes})); err != nil {
		t.Fatal(err)
	}
	return k.apply(s, time.Unix(1, 0))
}

// TestListEqualsPlainList follows a runtime that changes at random and compares
// each list with plainList.
func TestListEqualsPlainList(t *testing.T) {
	for seed := range uint64(6) {
		w := &world{random: rand.New(rand.NewPCG(seed, 1))}
		k := newInventory("mine")
		var before map[podKey]*Pod
		for range 200 {
			w.step()
			o := listWorld(t, k, w)
			got := map[podKey]*Pod{}
			for _, p := range o.Own {
				got[podKey{p.UID, true}] = p
			}
			for _, p := range o.Foreign {
				got[podKey{p.UID, false}] = p
			}
			if len(got) != len(o.Own)+len(o.Foreign) {
				t.Fatalf("seed %d: a pod is listed twice", seed)
			}
			want := plainList("mine", w.sandboxes, w.containers)
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d step %d:\n%s", seed, w.serial, gocmp.Diff(want, got))
			}
			for key, p := range got {
				same := reflect.DeepEqual(p, before[key])
				if same != (p == before[key]) {
					t.Fatalf("seed %d: pod %v: equal %t, same pointer %t", seed, key, same, p == before[key])
				}
			}
			before = got
			if len(k.sandboxes) != len(w.sandboxes) || len(k.containers) != len(w.containers) {
				t.Fatal("removed objects are still in the inventory")
			}
		}
	}
}

// TestListIgnoresDuplicates: a list with repeated entries shows each object
// once, and removed objects still disappear.
func TestListIgnoresDuplicates(t *testing.T) {
	w := &world{}
	sandbox := func(id string) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, CreatedAt: 1, Labels: w.labels(1)}
	}
	container := func(id string) *runtimeapi.Container {
		return &runtimeapi.Container{Id: id, CreatedAt: 1, Labels: w.labels(1)}
	}
	k := newInventory("mine")
	w.sandboxes = []*runtimeapi.PodSandbox{sandbox("gone")}
	w.containers = []*runtimeapi.Container{container("gone")}
	listWorld(t, k, w)
	w.sandboxes = []*runtimeapi.PodSandbox{sandbox("a"), sandbox("a")}
	w.containers = []*runtimeapi.Container{container("b"), container("b")}
	for range 2 {
		o := listWorld(t, k, w)
		if len(o.Own) != 1 || len(o.Own[0].Sandboxes) != 1 || len(o.Own[0].Containers) != 1 ||
			o.Own[0].Containers[0].ID != "b" {
			t.Errorf("%+v", o.Own[0])
		}
	}
	w.sandboxes, w.containers = nil, nil
	if o := listWorld(t, k, w); len(o.Own) != 0 || len(k.pods) != 0 {
		t.Errorf("%+v", o.Own)
	}
}

func TestListSortsNewestFirst(t *testing.T) {
	// On a board without a real-time clock the later attempt can have the
	// earlier time.
	s := []Sandbox{
		{ID: "a", Attempt: 1, CreatedAt: time.Unix(900, 0)},
		{ID: "b", Attempt: 2, CreatedAt: time.Unix(5, 0)},
		{ID: "c", Attempt: 0, CreatedAt: time.Unix(1000, 0)},
	}
	sortSandboxes(s)
	if got := s[0].ID + s[1].ID + s[2].ID; got != "bac" {
		t.Errorf("sandboxes: %s", got)
	}
	c := []Container{
		{ID: "a", Name: "web", RestartCount: 0, CreatedAt: time.Unix(900, 0)},
		{ID: "b", Name: "web", RestartCount: 1, CreatedAt: time.Unix(5, 0)},
		{ID: "c", Name: "log", RestartCount: 0, CreatedAt: time.Unix(1, 0)},
		{ID: "d", Name: "log", RestartCount: 0, CreatedAt: time.Unix(2, 0)},
	}
	sortContainers(c)
	status := PodStatus{Containers: c}
	if w, l := status.Newest("web"), status.Newest("log"); w.ID != "b" || l.ID != "d" {
		t.Errorf("newest: %s %s", w.ID, l.ID)
	}
	if !slices.IsSortedFunc(c, func(a, b Container) int { return cmp.Compare(b.RestartCount, a.RestartCount) }) {
		t.Errorf("containers: %+v", c)
	}
}

func TestListRejectsInvalidData(t *testing.T) {
	k := newInventory("mine")
	s := k.scratch.Get().(*scratch)
	good := marshal(t,
		&runtimeapi.ListPodSandboxResponse{
			Items: []*runtimeapi.PodSandbox{{Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}}}})
	for _, data := range [][]byte{good[:len(good)-1], {0x0a}, {0xff, 0xff}, {0x0a, 0x02, 0x0a, 0x7f}} {
		if err := (*sandboxItems)(s).unmarshal(data); err == nil {
			t.Errorf("%x was accepted", data)
		}
		if err := (*containerItems)(s).unmarshal(data); err == nil && len(data) < 5 {
			t.Errorf("%x was accepted", data)
		}
	}
	// Fields of a later version of CRI are skipped.
	later := append([]byte{0x12, 0x01, 'x', 0x18, 0x05}, good...)
	if err := (*sandboxItems)(s).unmarshal(later); err != nil || len(s.sandboxes) != 1 {
		t.Errorf("unknown fields: %v, %d items", err, len(s.sandboxes))
	}
}

// TestFieldNumbers compares the field numbers with the generated descriptors.
func TestFieldNumbers(t *testing.T) {
	sandbox := (&runtimeapi.PodSandbox{}).ProtoReflect().Descriptor().Fields()
	container := (&runtimeapi.Container{}).ProtoReflect().Descriptor().Fields()
	for _, c := range []struct {
		got, want int
	}{
		{int((&runtimeapi.ListPodSandboxResponse{}).ProtoReflect().Descriptor().Fields().ByName("items").Number()),
			fieldItems},
		{int((&runtimeapi.ListContainersResponse{}).ProtoReflect().Descriptor().Fields().ByName("containers").Number()),
			fieldItems},
		{int(sandbox.ByName("id").Number()), fieldSandboxID},
		{int(sandbox.ByName("state").Number()), fieldSandboxState},
		{int(sandbox.ByName("created_at").Number()), fieldSandboxCreated},
		{int(container.ByName("id").Number()), fieldContainerID},
		{int(container.ByName("state").Number()), fieldContainerState},
		{int(container.ByName("created_at").Number()), fieldContainerCreated},
	} {
		if c.got != c.want {
			t.Errorf("field number %d, the scan uses %d", c.got, c.want)
		}
	}
}
