package validation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

var autoUpdatePath = field.NewPath("metadata", "annotations").Key(podinfo.AnnotationAutoUpdate)

// invalidAutoUpdate finds a value that podstead.io/auto-update does not have. A pod of an
// API server is not checked: the annotation has no effect there.
func invalidAutoUpdate(pod *v1.Pod) field.ErrorList {
	value, ok := pod.Annotations[podinfo.AnnotationAutoUpdate]
	if !ok || value == podinfo.AutoUpdateRegistry || value == podinfo.AutoUpdateLocal {
		return nil
	}
	return field.ErrorList{field.NotSupported(autoUpdatePath, value,
		[]string{podinfo.AutoUpdateRegistry, podinfo.AutoUpdateLocal})}
}

// checkAutoUpdate finds containers whose images podstead.io/auto-update cannot update.
func (d *warningCollector) checkAutoUpdate(mode string) {
	if mode == "" {
		return
	}
	for path, c := range containerPaths(field.NewPath("spec"), d.spec) {
		switch {
		case strings.Contains(c.Image, "@"):
			d.warn(path.Child("image"), Quote(c.Image)+" is a digest, which "+podinfo.AnnotationAutoUpdate+" does not update",
				"use a tag, or remove the annotation")
		case mode == podinfo.AutoUpdateRegistry && c.ImagePullPolicy == v1.PullNever:
			d.warn(path.Child("imagePullPolicy"),
				"Never forbids the pulls of "+podinfo.AnnotationAutoUpdate+": "+mode+", so that this container is not updated",
				"use IfNotPresent, or "+podinfo.AnnotationAutoUpdate+": "+podinfo.AutoUpdateLocal)
		}
	}
}
