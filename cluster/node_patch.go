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

// labelsPatch returns the patch that sets the local labels and leaves others
// alone; nil if there is nothing to do.
func labelsPatch(local, registered *v1.Node) ([]byte, error) {
	wanted := map[string]string{}
	for name, value := range local.Labels {
		if have, ok := registered.Labels[name]; !ok || have != value {
			wanted[name] = value
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"labels": wanted, "uid": registered.UID}})
}

// wantedNodeStatus returns the status that the API should have, with the heartbeats that
// it has.
func wantedNodeStatus(local, registered *v1.Node) *v1.NodeStatus {
	want, have := local.Status.DeepCopy(), &registered.Status
	// Fields of other writers stay.
	want.VolumesAttached, want.Config, want.Phase = have.VolumesAttached, have.Config, have.Phase
	if want.Images == nil {
		// A daemon that has just started has not asked the runtime yet.
		want.Images, want.RuntimeHandlers, want.Features = have.Images, have.RuntimeHandlers, have.Features
	}
	want.Conditions = nodeConditions(want.Conditions, have.Conditions)
	return want
}

// nodeStatusDiff returns the patch that the status needs apart from its heartbeats; nil
// if both agree.
func nodeStatusDiff(local, registered *v1.Node) ([]byte, error) {
	return statusPatch(registered.UID, &registered.Status, wantedNodeStatus(local, registered))
}

// nodeStatusReport returns the patch of the status with new heartbeats.
func nodeStatusReport(local, registered *v1.Node, now time.Time) ([]byte, error) {
	want := wantedNodeStatus(local, registered)
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
