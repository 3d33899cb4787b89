package csi

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionUnreadable is true while the record of volumes cannot be read. A node without this fault does not have
// the condition.
const ConditionUnreadable v1.NodeConditionType = "podstead.io/CSIVolumesUnreadable"

// NodeConditions returns ConditionUnreadable if the record of volumes cannot be read; none if it can.
func (m *Manager) NodeConditions() []v1.NodeCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.load()
	if err == nil {
		m.unreadableSince = time.Time{}
		return nil
	}
	if m.unreadableSince.IsZero() {
		m.unreadableSince = time.Now()
	}
	return []v1.NodeCondition{{
		Type: ConditionUnreadable, Status: v1.ConditionTrue, Reason: "CSIVolumesUnreadable", Message: err.Error(),
		LastTransitionTime: metav1.NewTime(m.unreadableSince.Truncate(time.Second)),
	}}
}
