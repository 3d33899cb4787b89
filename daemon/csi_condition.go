package daemon

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionCSI is true while the record of CSI volumes cannot be read. A node without this fault does not have
// the condition.
const conditionCSI v1.NodeConditionType = "podstead.io/CSIVolumesUnreadable"

// csiCondition makes the node condition. It remembers since when the record cannot be read.
type csiCondition struct {
	mu    sync.Mutex
	since time.Time
}

// conditions returns the condition for the error of reading the record; none without an error.
func (c *csiCondition) conditions(err error) []v1.NodeCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.since = time.Time{}
		return nil
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	return []v1.NodeCondition{{
		Type: conditionCSI, Status: v1.ConditionTrue, Reason: "CSIVolumesUnreadable", Message: err.Error(),
		LastTransitionTime: metav1.NewTime(c.since.Truncate(time.Second)),
	}}
}
