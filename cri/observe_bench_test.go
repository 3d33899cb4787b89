package cri

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// BenchmarkReadList is the daemon's own half of a list in which nothing
// changed: what comes off the wire until it is grouped.
func BenchmarkReadList(b *testing.B) {
	w := &world{}
	for i := range 1000 {
		labels := w.labels(i)
		w.sandboxes = append(w.sandboxes, &runtimeapi.PodSandbox{
			Id: fmt.Sprintf("%064d", i), CreatedAt: 1, Labels: labels, Metadata: &runtimeapi.PodSandboxMetadata{},
			Annotations: map[string]string{podinfo.AnnotationSource: "file", "kubernetes.io/config.hash": "0", "kubernetes.io/config.seen": "2026-01-01T00:00:00Z"},
		})
		w.containers = append(w.containers, &runtimeapi.Container{
			Id: fmt.Sprintf("%064d", i), PodSandboxId: fmt.Sprintf("%064d", i), CreatedAt: 1, Labels: labels, Metadata: &runtimeapi.ContainerMetadata{},
			State:       runtimeapi.ContainerState_CONTAINER_RUNNING,
			Annotations: map[string]string{AnnotationRestartCount: "0", AnnotationContainerHash: "ab12", AnnotationTerminationGracePeriod: "30"},
		})
	}
	containers, err1 := proto.Marshal(&runtimeapi.ListContainersResponse{Containers: w.containers})
	sandboxes, err2 := proto.Marshal(&runtimeapi.ListPodSandboxResponse{Items: w.sandboxes})
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	k := newKnown("mine")
	list := func() {
		s := k.scratch.Get().(*scratch)
		defer s.release()
		if err := (*containerItems)(s).unmarshal(containers); err != nil {
			b.Fatal(err)
		}
		if err := (*sandboxItems)(s).unmarshal(sandboxes); err != nil {
			b.Fatal(err)
		}
		if o := k.apply(s, time.Time{}); len(o.Own) == 0 {
			b.Fatal("nothing is listed")
		}
	}
	list()
	b.ReportAllocs()
	for b.Loop() {
		list()
	}
}
