package podephemeral

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/validation"
)

// Requests changes the ephemeral containers of static pods for clients of the API, and records who did it.
type Requests struct {
	// Update replaces the ephemeral containers of a pod by those that change returns; change gets the pod with the
	// present ones.
	Update func(uid types.UID, change func(*v1.Pod) ([]v1.EphemeralContainer, error)) error
	// Verified reports that the manifests of a source are verified with keys.
	Verified func(manifest.Source) bool
	Events   Events
}

// Events records events of pods.
type Events interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// errDryRun ends an update that is not made.
var errDryRun = errors.New("dry run")

// UpdateEphemeral replaces the ephemeral containers of a pod by those of the patched pod, and returns when that is
// recorded on the disk. Other changes of the pod have no effect, as at an API server. What a client can correct is an
// objectwrite.Error.
func (r Requests) UpdateEphemeral(uid types.UID, u objectwrite.Update, o objectwrite.Options) error {
	var pod *v1.Pod
	var added []string
	err := r.Update(uid, func(present *v1.Pod) ([]v1.EphemeralContainer, error) {
		pod, added = present, nil
		if r.Verified(podinfo.SourceOf(pod)) {
			return nil, objectwrite.Errorf(objectwrite.Forbidden,
				"the manifests of this node are verified with keys, and what a client adds to a pod is not; use podstead exec")
		}
		list, err := patched(pod, &u)
		if err != nil {
			return nil, err
		}
		validation.SetEphemeralDefaults(list)
		if faults := validation.CheckEphemeral(pod, list); len(faults) > 0 {
			return nil, faultsError(pod, faults)
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
	switch {
	case errors.Is(err, errDryRun):
		return nil
	case err == nil && len(added) > 0:
		r.Events.Event(pod, v1.EventTypeNormal, "EphemeralContainerAdded",
			fmt.Sprintf("Ephemeral container %s added by %s through the API", strings.Join(added, ", "), o.User))
	}
	return err
}

// patched returns the ephemeral containers of a patched pod.
func patched(pod *v1.Pod, u *objectwrite.Update) ([]v1.EphemeralContainer, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	live, err := objectpatch.Decode(text)
	if err != nil {
		return nil, err
	}
	live["kind"], live["apiVersion"] = "Pod", "v1"
	object, err := u.View.ApplyLive(&u.Patch, live)
	if err != nil {
		return nil, err
	}
	spec, _ := object["spec"].(map[string]any)
	if text, err = json.Marshal(spec["ephemeralContainers"]); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var list []v1.EphemeralContainer
	if err := decoder.Decode(&list); err != nil {
		return nil, objectwrite.Errorf(objectwrite.Invalid, "spec.ephemeralContainers: %s",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	return list, nil
}

// faultsError returns the faults of ephemeral containers, as those of a manifest.
func faultsError(pod *v1.Pod, found []validation.FieldFault) error {
	e := &objectwrite.Error{Reason: objectwrite.Invalid, Object: manifest.BaseName(pod)}
	var texts []string
	for _, f := range found {
		text := f.Problem
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		texts = append(texts, f.Path+": "+text)
		e.Causes = append(e.Causes, objectwrite.Cause{Field: f.Path, Message: text})
	}
	e.Err = errors.New(strings.Join(texts, "\n"))
	return e
}
