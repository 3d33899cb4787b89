package daemon

import (
	"iter"

	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/supervisor/pleg"
)

// ownersOf returns what lists the containers of podstead's pods as they were last observed.
func ownersOf(observer *pleg.PLEG) func() iter.Seq[oom.Owner] {
	return func() iter.Seq[oom.Owner] {
		return func(yield func(oom.Owner) bool) {
			for _, pod := range observer.Observed().Own {
				for i := range pod.Containers {
					c := &pod.Containers[i]
					if !yield(oom.Owner{Pod: pod.FullName(), PodUID: string(pod.UID), Name: c.Name, ID: c.ID}) {
						return
					}
				}
			}
		}
	}
}
