package cluster

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	earlier = metav1.Unix(1000, 0)
	now     = time.Unix(5000, 7)
)

func described() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "local", CreationTimestamp: earlier,
			Labels: map[string]string{"disk": "ssd"}},
		Status: v1.NodeStatus{
			Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
			Conditions: []v1.NodeCondition{
				{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(4000, 0)}},
		},
	}
}

func registered() *v1.Node {
	n := newNode(described(), nil, "", earlier.Time)
	n.UID, n.ResourceVersion = "node-1", "7"
	n.Status.Conditions[0].LastTransitionTime = earlier
	n.Status.Conditions = append([]v1.NodeCondition{{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionFalse}},
		n.Status.Conditions...)
	return n
}

func TestNewNode(t *testing.T) {
	taints := []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
	n := newNode(described(), taints, "cloud://1", now)
	if n.UID != "" || !n.CreationTimestamp.IsZero() || n.Labels["disk"] != "ssd" || n.Spec.ProviderID != "cloud://1" ||
		len(n.Spec.Taints) != 1 {
		t.Errorf("node %+v", n)
	}
	if c := n.Status.Conditions[0]; c.LastHeartbeatTime.Unix() != 5000 {
		t.Errorf("condition %+v", c)
	}
}

func TestNodeStatusPatch(t *testing.T) {
	if patch, err := nodeStatusDiff(described(), registered(), false); patch != nil || err != nil {
		t.Errorf("nothing changed, patch %s, %v", patch, err)
	}
	status := func(local *v1.Node) v1.NodeStatus {
		t.Helper()
		patch, err := nodeStatusReport(local, registered(), false, now)
		if err != nil || patch == nil {
			t.Fatalf("patch %s, %v", patch, err)
		}
		var got struct {
			Metadata metav1.ObjectMeta
			Status   v1.NodeStatus
		}
		if err := json.Unmarshal(patch, &got); err != nil {
			t.Fatal(err)
		}
		if got.Metadata.UID != "node-1" {
			t.Errorf("patch of %q", got.Metadata.UID)
		}
		return got.Status
	}
	// A report contains the heartbeat time and nothing else.
	st := status(described())
	if c := st.Conditions; len(c) != 2 || c[0].Type != v1.NodeNetworkUnavailable || !c[0].LastHeartbeatTime.IsZero() ||
		c[1].LastHeartbeatTime.Unix() != 5000 || c[1].LastTransitionTime.Unix() != 1000 || st.Capacity != nil {
		t.Errorf("report %+v", st)
	}
	// A daemon that has not observed the runtime yet does not remove the
	// runtime's fields; one that has does.
	had := registered()
	had.Status.Images = []v1.ContainerImage{{Names: []string{"a"}, SizeBytes: 1}}
	if patch, err := nodeStatusDiff(described(), had, false); patch != nil || err != nil {
		t.Errorf("before the runtime was observed: %s, %v", patch, err)
	}
	looked := described()
	looked.Status.Images = []v1.ContainerImage{}
	if patch, err := nodeStatusDiff(looked, had, false); !strings.Contains(string(patch), `"images":null`) || err != nil {
		t.Errorf("after the runtime was observed: %s, %v", patch, err)
	}
	// A change is sent at once, with its time.
	local := described()
	local.Status.Conditions[0].Status = v1.ConditionFalse
	if diff, err := nodeStatusDiff(local, registered(), false); diff == nil || err != nil {
		t.Errorf("a change: diff %s, %v", diff, err)
	}
	if c := status(local).Conditions; c[1].Status != v1.ConditionFalse || c[1].LastTransitionTime.Unix() != 4000 ||
		c[1].LastHeartbeatTime.Unix() != 5000 {
		t.Errorf("change %+v", c)
	}
}

// A field of the status that the API server does not know is sent with the reports only.
func TestNodeStatusFieldThatTheAPIServerDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.unknownStatus = "declaredFeatures"
		r.a.cfg.Node = func() *v1.Node {
			n := described()
			n.Status.DeclaredFeatures = []string{"A"}
			return n
		}
		r.start()
		defer r.end()
		pass(time.Minute)
		n := &v1.Node{}
		if !r.get(t, "nodes", "", "edge", n) {
			t.Fatal("no node")
		}
		n.Status.DeclaredFeatures = nil // the fake server keeps it at the registration
		r.replace(t, n)
		pass(time.Minute)
		r.requests()
		pass(time.Hour)
		reports := 0
		for _, q := range r.requests() {
			if q.verb == "PATCH" && q.resource == "nodes" {
				reports++
			}
		}
		if want := int(time.Hour / defaultReportInterval); reports < want-1 || reports > want+1 {
			t.Errorf("%d reports in an hour, want %d", reports, want)
		}
	})
}

func TestLabelsPatch(t *testing.T) {
	n := registered()
	n.Labels["foreign"] = "stays"
	if patch, err := labelsPatch(described(), n); patch != nil || err != nil {
		t.Errorf("patch %s, %v", patch, err)
	}
	n.Labels["disk"] = "hdd"
	if patch, err := labelsPatch(described(),
		n); string(patch) != `{"metadata":{"labels":{"disk":"ssd"},"uid":"node-1"}}` || err != nil {
		t.Errorf("patch %s, %v", patch, err)
	}
}

func TestLeaseOf(t *testing.T) {
	n := registered()
	l := leaseOf(nil, n, defaultLeaseDuration, now)
	if l.Namespace != "kube-node-lease" || l.Name != "edge" || *l.Spec.HolderIdentity != "edge" ||
		*l.Spec.LeaseDurationSeconds != 40 ||
		!l.Spec.RenewTime.Time.Equal(now) || l.OwnerReferences[0].UID != "node-1" {
		t.Errorf("lease %+v", l)
	}
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "edge", ResourceVersion: "9"}}
	if l := leaseOf(held, n, time.Minute, now); l.ResourceVersion != "9" || *l.Spec.LeaseDurationSeconds != 60 ||
		held.Spec.RenewTime != nil {
		t.Errorf("renewed %+v, held %+v", l, held)
	}
}
