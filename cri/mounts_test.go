package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMounts(t *testing.T) {
	got := mounts(&v1.Container{}, Inputs{Mounts: []Mount{
		{HostPath: "/h", ContainerPath: "/c", ReadOnly: true, RecursiveReadOnly: v1.RecursiveReadOnlyEnabled, Relabel: true},
		{HostPath: "/h", ContainerPath: "/d", RecursiveReadOnly: v1.RecursiveReadOnlyDisabled,
			Propagation: v1.MountPropagationBidirectional},
		{ContainerPath: "/i", ReadOnly: true, Image: &ImageMount{Reference: "x:1", SubPath: "a"}, imageRef: "sha256:1"},
	}})
	if len(got) != 3 {
		t.Fatalf("%d mounts", len(got))
	}
	if m := got[0]; m.HostPath != "/h" || !m.Readonly || !m.RecursiveReadOnly || !m.SelinuxRelabel ||
		m.Propagation != runtimeapi.MountPropagation_PROPAGATION_PRIVATE {
		t.Errorf("%v", m)
	}
	if m := got[1]; m.Readonly || m.RecursiveReadOnly || m.SelinuxRelabel ||
		m.Propagation != runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL || m.Image != nil {
		t.Errorf("%v", m)
	}
	if m := got[2]; m.HostPath != "" || m.Image.GetImage() != "sha256:1" || m.Image.GetUserSpecifiedImage() != "x:1" ||
		m.ImageSubPath != "a" {
		t.Errorf("%v", m)
	}
}
