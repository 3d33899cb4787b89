package validation

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/suggest"
)

// ownAnnotationPrefix is the prefix of the annotations of podstead.
const ownAnnotationPrefix = "podstead.io/"

// ownAnnotations are the annotations of podstead that the author of a pod can set.
var ownAnnotations = []string{
	podinfo.AnnotationAllowDevices,
	podinfo.AnnotationAutoUpdate,
	podinfo.AnnotationDependsOn,
	podinfo.AnnotationManifestRevision,
	podinfo.AnnotationMaxRestartPeriod,
	podinfo.AnnotationReplace,
	podinfo.AnnotationRestartOnChange,
	podinfo.AnnotationRollbackAfter,
}

// generatedAnnotations are those that the daemon adds to a pod, and that remain in a
// manifest made from the output of get -o yaml.
var generatedAnnotations = []string{podinfo.AnnotationTemplate, podinfo.AnnotationImages}

// checkOwnAnnotation warns of an annotation of podstead that does not exist: a typo would
// otherwise disable what the annotation is for. It is no error, since a later version may
// know it.
func (d *warningCollector) checkOwnAnnotation(at *field.Path, key string) {
	if !strings.HasPrefix(key, ownAnnotationPrefix) || slices.Contains(ownAnnotations, key) ||
		slices.Contains(generatedAnnotations, key) {
		return
	}
	remedy := "remove it, or use one of " + strings.Join(ownAnnotations, ", ")
	if meant := suggest.Nearest(key, ownAnnotations); meant != "" {
		remedy = "did you mean " + Quote(meant) + "?"
	}
	d.warn(at, "is unknown to this version of podstead and has no effect", remedy)
}

// invalidReplace finds a value that podstead.io/replace does not have. A pod of an API
// server is not checked: the annotation has no effect there.
func invalidReplace(pod *v1.Pod) field.ErrorList {
	value, ok := pod.Annotations[podinfo.AnnotationReplace]
	if !ok || value == podinfo.ReplaceKubelet {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(podinfo.AnnotationReplace)
	return field.ErrorList{field.NotSupported(path, value, []string{podinfo.ReplaceKubelet})}
}
