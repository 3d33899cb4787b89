package validation

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// invalidManifestRevision finds a value of podstead.io/manifest-revision that is no number.
// What comes from an API server is not checked: the annotation has no effect there.
func invalidManifestRevision(object metav1.Object) field.ErrorList {
	value, ok := object.GetAnnotations()[podinfo.AnnotationManifestRevision]
	if _, err := strconv.ParseUint(value, 10, 64); !ok || err == nil {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(podinfo.AnnotationManifestRevision)
	return field.ErrorList{field.Invalid(path, value, `must be a number without a sign, such as "42"`)}
}
