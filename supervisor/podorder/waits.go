package podorder

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// waits are the pods that wait, by the names whose changes notify them. The zero
// value is empty.
type waits struct {
	byName map[string]map[types.UID]bool
	byUID  map[types.UID][]string
}

// set replaces the names that notify a pod; none removes the pod.
func (w *waits) set(uid types.UID, names ...string) {
	for _, name := range w.byUID[uid] {
		if delete(w.byName[name], uid); len(w.byName[name]) == 0 {
			delete(w.byName, name)
		}
	}
	delete(w.byUID, uid)
	if len(names) == 0 {
		return
	}
	if w.byUID == nil {
		w.byUID, w.byName = map[types.UID][]string{}, map[string]map[types.UID]bool{}
	}
	w.byUID[uid] = slices.Clone(names)
	for _, name := range names {
		if w.byName[name] == nil {
			w.byName[name] = map[types.UID]bool{}
		}
		w.byName[name][uid] = true
	}
}
