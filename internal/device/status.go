package device

import v1 "k8s.io/api/core/v1"

// Allocated is a device that a container has, as the status of its pod shows it.
type Allocated struct {
	Container string
	Resource  v1.ResourceName
	ID        v1.ResourceID
	Health    v1.ResourceHealthStatus
}

// InStatus returns the devices that the containers of a pod have, init containers first. A device that
// an init container leaves to another container is that of both.
func InStatus(pod *v1.Pod) (list []Allocated) {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			for _, r := range statuses[i].AllocatedResourcesStatus {
				for _, d := range r.Resources {
					list = append(list, Allocated{statuses[i].Name, r.Name, d.ResourceID, d.Health})
				}
			}
		}
	}
	return list
}

// Count returns how many different devices of each resource the containers of pods have.
func Count(pods []*v1.Pod) map[v1.ResourceName]int64 {
	type id struct {
		resource v1.ResourceName
		id       v1.ResourceID
	}
	seen, count := map[id]bool{}, map[v1.ResourceName]int64{}
	for _, pod := range pods {
		for _, d := range InStatus(pod) {
			if key := (id{d.Resource, d.ID}); !seen[key] {
				seen[key] = true
				count[d.Resource]++
			}
		}
	}
	return count
}
