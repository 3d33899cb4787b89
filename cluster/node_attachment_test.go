package cluster

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/wakeup"
)

// The cluster's controller attaches volumes only to nodes that have its annotation: a node registers with it, and
// gets it if it registered with an earlier version. Annotations of others stay.
func TestNodeIsManagedByAttachDetachController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, registered := range map[string]bool{"registers": false, "is registered": true} {
			t.Log(name)
			r := newClusterHarness(t)
			r.a.cfg.Storage = &storageFake{changed: wakeup.NewSignal()}
			want := map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
			if registered {
				node := aNode()
				node.Annotations = map[string]string{"example.com/rack": "r1"}
				r.replace(t, node)
				maps.Copy(want, node.Annotations)
			}
			r.start()
			pass(time.Minute)
			node := &v1.Node{}
			if !r.get(t, "nodes", "", "edge", node) || !maps.Equal(node.Annotations, want) {
				t.Errorf("annotations %v, want %v", node.Annotations, want)
			}
			r.end()
		}
	})
}
