package nodestatus

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Input is the input of a description. Zero values are left out.
type Input struct {
	Name   string
	Labels map[string]string
	// Since is the start time of podstead.
	Since time.Time
	// Addresses are the node's, the primary one first.
	Addresses []string
	// Port is the port of the kubelet API.
	Port int
	// Capacity is what the host has, Allocatable what pods can use of it.
	Capacity, Allocatable v1.ResourceList
	// Version is podstead's, Runtime the container runtime's as name://version.
	Version, Runtime string
	// NotReady is why pods cannot run, empty if they can; ReadySince is when that
	// last changed.
	NotReady   string
	ReadySince time.Time
	// Pressures are the pressure conditions.
	Pressures []v1.NodeCondition
	Host      Host
	// Inventory is what the runtime has.
	Inventory RuntimeInventory
}

// Reasons of the Ready condition, as the kubelet's.
const (
	reasonReady    = "KubeletReady"
	reasonNotReady = "KubeletNotReady"
)

// declaredFeatures are, sorted, the features of Kubernetes 1.36 that a cluster uses only on
// nodes that declare them.
var declaredFeatures = []string{
	"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
	"RestartAllContainersOnContainerExits",
}

// Describe returns a new Node.
func Describe(in Input) *v1.Node {
	n := &v1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: in.Name, UID: types.UID(in.Name), CreationTimestamp: metav1.NewTime(in.Since.Truncate(time.Second)),
			Labels: map[string]string{
				v1.LabelHostname: in.Name, v1.LabelOSStable: runtime.GOOS, v1.LabelArchStable: runtime.GOARCH,
			},
		},
		Status: v1.NodeStatus{
			Capacity: in.Capacity, Allocatable: in.Allocatable,
			// Ready is the last condition, as at the kubelet.
			Conditions: append(slices.Clone(in.Pressures), ready(in)),
			NodeInfo: v1.NodeSystemInfo{
				MachineID: in.Host.MachineID, SystemUUID: in.Host.SystemUUID, BootID: in.Host.BootID,
				KernelVersion: in.Host.Kernel, OSImage: in.Host.OS,
				ContainerRuntimeVersion: in.Runtime, KubeletVersion: in.Version,
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			},
			DeclaredFeatures: slices.Clone(declaredFeatures),
			Images:           in.Inventory.Images, RuntimeHandlers: in.Inventory.Handlers, Features: in.Inventory.Features,
		},
	}
	if swap := in.Host.Swap; swap > 0 {
		n.Status.NodeInfo.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(in.Port)
	maps.Copy(n.Labels, in.Labels)
	for _, a := range in.Addresses {
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
	}
	n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: in.Name})
	return n
}

func ready(in Input) v1.NodeCondition {
	c := v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: reasonReady, Message: "podstead is running pods",
		LastTransitionTime: metav1.NewTime(in.ReadySince.Truncate(time.Second)),
	}
	if in.NotReady != "" {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, reasonNotReady, strings.TrimSpace(in.NotReady)
	}
	return c
}
