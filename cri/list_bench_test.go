package cri

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// listResponses returns the encoded responses of a runtime that runs a number of
// pods with two containers each, with the labels and annotations that this
// package writes.
func listResponses(b *testing.B, pods int) (containers, sandboxes []byte) {
	var list runtimeapi.ListContainersResponse
	var sandboxList runtimeapi.ListPodSandboxResponse
	g := config{instance: "0123456789abcdef", logRoot: "/var/log/pods"}
	for i := range pods {
		pod := &v1.Pod{}
		pod.Name, pod.Namespace, pod.UID = fmt.Sprintf("web-%d-node", i), "default", types.UID(fmt.Sprintf("%032d", i))
		pod.Labels = map[string]string{"app": "web", "tier": "front"}
		pod.Annotations = map[string]string{
			podinfo.AnnotationSource: "file", podinfo.AnnotationHash: fmt.Sprintf("%032d", i),
			podinfo.AnnotationSeen: "2026-01-01T00:00:00.123456789Z",
		}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		sandboxID := fmt.Sprintf("%064d", i)
		sandbox := g.sandbox(pod, 0, SandboxInputs{})
		sandboxList.Items = append(sandboxList.Items, &runtimeapi.PodSandbox{
			Id: sandboxID, CreatedAt: int64(1e18) + int64(i), Metadata: sandbox.Metadata, Labels: sandbox.Labels,
			Annotations: sandbox.Annotations,
		})
		for j, name := range []string{"web", "log"} {
			c := &v1.Container{Name: name, Image: "registry.example/web:1", TerminationMessagePath: "/dev/termination-log",
				TerminationMessagePolicy: "File"}
			c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"),
				v1.ResourceCPU: resource.MustParse("100m")}
			made := g.container(pod, c, containerInput{imageRef: "sha256:" + sandboxID})
			list.Containers = append(list.Containers, &runtimeapi.Container{
				Id: fmt.Sprintf("%063d%d", i, j), PodSandboxId: sandboxID, CreatedAt: int64(1e18) + int64(i),
				State:    runtimeapi.ContainerState_CONTAINER_RUNNING,
				Metadata: made.Metadata, Image: made.Image, ImageRef: made.Image.Image, ImageId: made.Image.Image,
				Labels: made.Labels, Annotations: made.Annotations,
			})
		}
	}
	containers, err1 := proto.Marshal(&list)
	sandboxes, err2 := proto.Marshal(&sandboxList)
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	return containers, sandboxes
}

// BenchmarkListDecode measures the daemon's own part of a list in which nothing
// changed: decoding both responses and applying them to the inventory. It compares
// the decoder of list_decode.go with the generated types; see the figures there.
func BenchmarkListDecode(b *testing.B) {
	for _, pods := range []int{110, 1000} {
		containers, sandboxes := listResponses(b, pods)
		for _, decoder := range []struct {
			name   string
			decode func(s *scratch, containers, sandboxes []byte) error
		}{{"scan", decodeByScan}, {"generated", decodeGenerated}} {
			b.Run(fmt.Sprintf("%s/%d", decoder.name, pods), func(b *testing.B) {
				k := newInventory("0123456789abcdef")
				list := func() {
					s := k.scratch.Get().(*scratch)
					defer s.release()
					if err := decoder.decode(s, containers, sandboxes); err != nil {
						b.Fatal(err)
					}
					if o := k.apply(s, time.Time{}); len(o.Own) != pods {
						b.Fatalf("%d pods are listed, want %d", len(o.Own), pods)
					}
				}
				list()
				b.ReportAllocs()
				for b.Loop() {
					list()
				}
			})
		}
	}
}

func decodeByScan(s *scratch, containers, sandboxes []byte) error {
	if err := (*containerItems)(s).unmarshal(containers); err != nil {
		return err
	}
	return (*sandboxItems)(s).unmarshal(sandboxes)
}

// decodeGenerated decodes the responses with the generated types, and keeps the
// identity of unchanged objects as the scan does.
func decodeGenerated(s *scratch, containers, sandboxes []byte) error {
	var list runtimeapi.ListContainersResponse
	if err := proto.Unmarshal(containers, &list); err != nil {
		return err
	}
	for _, item := range list.Containers {
		entry := s.inventory.containers[item.Id]
		if entry == nil || entry.created != item.CreatedAt {
			entry = s.inventory.newContainer(item)
		}
		s.containers = append(s.containers, containerItem{entry, int32(item.State)})
	}
	var sandboxList runtimeapi.ListPodSandboxResponse
	if err := proto.Unmarshal(sandboxes, &sandboxList); err != nil {
		return err
	}
	for _, item := range sandboxList.Items {
		entry := s.inventory.sandboxes[item.Id]
		if entry == nil || entry.created != item.CreatedAt {
			entry = s.inventory.newSandbox(item)
		}
		s.sandboxes = append(s.sandboxes, sandboxItem{entry, int32(item.State)})
	}
	return nil
}
