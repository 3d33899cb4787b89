package cluster

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newNode returns the Node object to register, with what only a registration sets.
func newNode(local *v1.Node, taints []v1.Taint, providerID string, now time.Time) *v1.Node {
	n := local.DeepCopy()
	n.ObjectMeta = metav1.ObjectMeta{Name: local.Name, Labels: local.Labels, Annotations: local.Annotations}
	n.Spec = v1.NodeSpec{ProviderID: providerID, Taints: taints}
	setHeartbeat(n.Status.Conditions, n.Status.Conditions, now)
	return n
}

// labelsPatch returns the patch that sets the local labels and annotations and leaves
// others alone; nil if there is nothing to do. The addresses of a node that is no longer
// configured with any are removed.
func labelsPatch(local, registered *v1.Node) ([]byte, error) {
	metadata := map[string]any{}
	if labels := changed(local.Labels, registered.Labels); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations := changed(local.Annotations, registered.Annotations)
	if local.Annotations[AnnotationNodeIP] == "" && registered.Annotations[AnnotationNodeIP] != "" {
		annotations[AnnotationNodeIP] = nil
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(metadata) == 0 {
		return nil, nil
	}
	metadata["uid"] = registered.UID
	return json.Marshal(map[string]any{"metadata": metadata})
}

// changed returns the desired values that differ.
func changed(want, have map[string]string) map[string]any {
	values := map[string]any{}
	for name, value := range want {
		if other, ok := have[name]; !ok || other != value {
			values[name] = value
		}
	}
	return values
}

// desiredNodeStatus returns the status that the API should have, with the heartbeats that
// it has. external leaves the addresses to a cloud controller manager.
func desiredNodeStatus(local, registered *v1.Node, external bool) *v1.NodeStatus {
	want, have := local.Status.DeepCopy(), &registered.Status
	// Fields of other writers stay.
	want.VolumesAttached, want.Config, want.Phase = have.VolumesAttached, have.Config, have.Phase
	if want.Images == nil {
		// A daemon that has just started has not asked the runtime yet.
		want.Images, want.RuntimeHandlers, want.Features = have.Images, have.RuntimeHandlers, have.Features
	}
	want.Conditions = nodeConditions(want.Conditions, have.Conditions)
	if external {
		want.Addresses = cloudAddresses(local, have.Addresses)
	}
	return want
}

// nodeStatusDiff returns the patch that the status needs apart from its heartbeats; nil
// if both agree.
func nodeStatusDiff(local, registered *v1.Node, external bool) ([]byte, error) {
	return statusPatch(registered.UID, &registered.Status, desiredNodeStatus(local, registered, external))
}

// nodeStatusReport returns the patch of the status with new heartbeats.
func nodeStatusReport(local, registered *v1.Node, external bool, now time.Time) ([]byte, error) {
	want := desiredNodeStatus(local, registered, external)
	setHeartbeat(want.Conditions, local.Status.Conditions, now)
	return statusPatch(registered.UID, &registered.Status, want)
}

// nodeConditions returns the own conditions after those of other writers, with the
// times in the API where nothing changed.
func nodeConditions(own, have []v1.NodeCondition) []v1.NodeCondition {
	var all []v1.NodeCondition
	for _, h := range have {
		if !slices.ContainsFunc(own, func(c v1.NodeCondition) bool { return c.Type == h.Type }) {
			all = append(all, h)
		}
	}
	for _, c := range own {
		if i := slices.IndexFunc(have, func(h v1.NodeCondition) bool { return h.Type == c.Type }); i >= 0 {
			c.LastHeartbeatTime = have[i].LastHeartbeatTime
			if have[i].Status == c.Status {
				c.LastTransitionTime = have[i].LastTransitionTime
			}
		}
		all = append(all, c)
	}
	return all
}

// setHeartbeat sets the heartbeat of the own conditions.
func setHeartbeat(conditions, own []v1.NodeCondition, now time.Time) {
	for i, c := range conditions {
		if slices.ContainsFunc(own, func(o v1.NodeCondition) bool { return o.Type == c.Type }) {
			conditions[i].LastHeartbeatTime = metav1.NewTime(now.Truncate(time.Second))
		}
	}
}
