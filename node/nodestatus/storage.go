package nodestatus

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/unwritten"
)

// conditionStorage is true while the daemon cannot store its state.
const conditionStorage v1.NodeConditionType = "podstead.io/RootDirNotWritable"

// The reasons of the condition and of the node's events.
const (
	reasonNotWritable = "RootDirNotWritable"
	reasonWritable    = "RootDirWritable"
)

// storageMessage describes the files that could not be written, of which there is at
// least one.
func storageMessage(list []unwritten.File) string {
	more := ""
	if n := len(list) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("cannot write %s%s: %v; pods keep running, but what is not stored is lost at a restart: make "+
		"--root-dir writable and free space or inodes",
		list[0].Path, more, list[0].Err)
}

// Recorder records events; pod is nil for events of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// ReportStorage returns a function that records an event when the daemon's state can no
// longer be stored, and when it can again. changed is called each time, after the event.
func ReportStorage(events Recorder, changed func()) func([]unwritten.File) {
	failed := false
	return func(list []unwritten.File) {
		if now := len(list) > 0; now != failed {
			failed = now
			if failed {
				events.Event(nil, v1.EventTypeWarning, reasonNotWritable, storageMessage(list))
			} else {
				events.Event(nil, v1.EventTypeNormal, reasonWritable, "The state of the daemon is stored again")
			}
		}
		changed()
	}
}

// StorageCondition makes the node condition. It remembers when the condition last changed.
type StorageCondition struct {
	mu        sync.Mutex
	failed    bool
	changedAt time.Time
}

// Condition returns the condition for the files that could not be written; since is the start of the daemon.
func (c *StorageCondition) Condition(list []unwritten.File, since time.Time) v1.NodeCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changedAt.IsZero() {
		c.changedAt = since
	}
	if failed := len(list) > 0; failed != c.failed {
		c.failed, c.changedAt = failed, time.Now()
	}
	out := v1.NodeCondition{
		Type: conditionStorage, Status: v1.ConditionFalse, Reason: reasonWritable,
		Message:            "the state of the daemon is stored",
		LastTransitionTime: metav1.NewTime(c.changedAt.Truncate(time.Second)),
	}
	if c.failed {
		out.Status, out.Reason, out.Message = v1.ConditionTrue, reasonNotWritable, storageMessage(list)
	}
	return out
}
