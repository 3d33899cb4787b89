package supervisor

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/podinputs"
)

// syncedRevisions remembers with which revision of the objects that it refers to
// each pod was last synced.
type syncedRevisions struct {
	inputs *podinputs.Resolver
	byUID  sync.Map
}

// note notes the present revision. It comes before the objects are used.
func (s *syncedRevisions) note(pod *v1.Pod) { s.byUID.Store(pod.UID, s.inputs.ObjectsRevision(pod)) }

// changed reports whether the revision differs from the noted one.
func (s *syncedRevisions) changed(pod *v1.Pod) bool {
	noted, _ := s.byUID.Load(pod.UID)
	text, _ := noted.(string)
	return text != s.inputs.ObjectsRevision(pod)
}

func (s *syncedRevisions) forget(uid types.UID) { s.byUID.Delete(uid) }

// notifyChangedObjects notifies the pods that were last synced with other objects.
func (s *Supervisor) notifyChangedObjects() {
	s.cfg.Sources.Rollouts.RetryPreparations()
	s.podSyncer.files.reclaimer.Wake()
	for _, pod := range s.desired.List() {
		if s.podSyncer.revisions.changed(pod) {
			s.workers.Notify(pod.UID)
		}
	}
}
