package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/kubeapi"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/validation"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/podephemeral"
)

// ephemeralUpdater changes the ephemeral containers of static pods for clients of the API, and
// records who did it.
type ephemeralUpdater struct {
	update func(uid types.UID, change func(*v1.Pod) ([]v1.EphemeralContainer, error)) error
	// verified says that the manifests of a source are verified with keys.
	verified func(manifest.Source) bool
	events   eventRecorder
}

func (d *daemon) newEphemeralUpdater() kubeapi.EphemeralUpdater {
	keys := &d.opts.Manifests.Keys
	return ephemeralUpdater{
		update: d.sup.UpdateEphemeralContainers, events: d.observers.events,
		verified: func(source manifest.Source) bool { return len(keys.For(source)) > 0 },
	}
}

// errDryRun ends an update that is not made.
var errDryRun = errors.New("dry run")

// UpdateEphemeral implements kubeapi.EphemeralUpdater.
func (u ephemeralUpdater) UpdateEphemeral(uid types.UID, wanted func(*v1.Pod) ([]v1.EphemeralContainer, error), o kubeapi.WriteOptions) error {
	var pod *v1.Pod
	var added []string
	err := u.update(uid, func(present *v1.Pod) ([]v1.EphemeralContainer, error) {
		pod, added = present, nil
		if u.verified(podinfo.SourceOf(pod)) {
			return nil, refused(http.StatusForbidden, "the manifests of this node are verified with keys, and what a client adds to a pod is not; use podstead exec")
		}
		list, err := wanted(pod)
		if err != nil {
			return nil, err
		}
		list = slices.Clone(list)
		validation.SetEphemeralDefaults(list)
		if faults := validation.CheckEphemeral(pod, list); len(faults) > 0 {
			return nil, ephemeralFailure(pod, faults)
		}
		for i := range list {
			if podinfo.FindContainer(&pod.Spec, list[i].Name) == nil {
				added = append(added, fmt.Sprintf("%s (image %s)", list[i].Name, list[i].Image))
			}
		}
		if o.DryRun {
			return nil, errDryRun
		}
		return list, nil
	})
	var failure *kubeapi.Failure
	switch {
	case errors.Is(err, errDryRun), err == nil && len(added) == 0:
		return nil
	case err == nil:
		u.events.Event(pod, v1.EventTypeNormal, "EphemeralContainerAdded", fmt.Sprintf("Ephemeral container %s added by %s through the API", strings.Join(added, ", "), o.User))
		return nil
	case errors.As(err, &failure):
		return err
	case errors.Is(err, supervisor.ErrNoSuchPod):
		return refused(http.StatusNotFound, "%v", err)
	case errors.Is(err, supervisor.ErrPodEnded):
		return refused(http.StatusConflict, "%v", err)
	case errors.Is(err, supervisor.ErrPodOfCluster), errors.Is(err, podephemeral.ErrTooMany):
		return refused(http.StatusForbidden, "%v", err)
	}
	return refused(http.StatusInternalServerError, "%v", err)
}

func refused(code int, format string, args ...any) error {
	return &kubeapi.Failure{Status: apistatus.New(code, format, args...)}
}

// ephemeralFailure returns the faults of ephemeral containers, as those of a manifest.
func ephemeralFailure(pod *v1.Pod, found []validation.FieldFault) error {
	var faults manifest.Faults
	var texts []string
	for _, f := range found {
		text := f.Path + ": " + f.Problem
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		texts = append(texts, text)
		faults = append(faults, manifest.Fault{Object: manifest.BaseName(pod), Path: f.Path, Problem: f.Problem, Remedy: f.Remedy})
	}
	return faultsFailure(errors.New(strings.Join(texts, "\n")), faults)
}
