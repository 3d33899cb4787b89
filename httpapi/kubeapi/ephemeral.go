package kubeapi

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/objectpatch"
)

// EphemeralUpdater changes the ephemeral containers of pods.
type EphemeralUpdater interface {
	// UpdateEphemeral replaces the ephemeral containers of a pod by those that wanted returns, and
	// returns when that is recorded on the disk. wanted gets the pod with the present ones, and its
	// error is returned as it is. Other errors are Failures.
	UpdateEphemeral(uid types.UID, wanted func(pod *v1.Pod) ([]v1.EphemeralContainer, error), o WriteOptions) error
}

// ephemeralKind is the kind in which clients up to Kubernetes 1.21 read and write the ephemeral
// containers of a pod; later ones use the Pod.
const ephemeralKind = "EphemeralContainers"

// ephemeralContainers serves pods/NAME/ephemeralcontainers. The table of routes requires the
// class Write for a change: it runs an image of the client's choice with privileges of the
// client's choice, as a manifest does, and more than exec in a container allows.
func (a *API) ephemeralContainers(w http.ResponseWriter, r *http.Request, res *resource, e *entry) {
	legacy := isLegacyKubectl(r.UserAgent())
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut, http.MethodPatch:
		if !a.receive(w, r) {
			return
		}
		release := acquire(r, a.writes, a.localWrites)
		if release == nil {
			tooMany(w, r, "%d writes are in progress; try again", maxWrites)
			return
		}
		defer release()
		var err error
		if legacy, err = a.writeEphemeral(r, res, e); err != nil {
			writeFailure(w, r, err)
			return
		}
		if now, _ := a.lookup(res, r.PathValue("namespace"), r.PathValue("name")); now != nil {
			e = now
		}
	default:
		apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "pods/ephemeralcontainers does not support %s", r.Method))
		return
	}
	own := e.object.DeepCopyObject().(*v1.Pod)
	own.Name = r.PathValue("name")
	if !legacy {
		writeJSON(w, http.StatusOK, own)
		return
	}
	list := own.Spec.EphemeralContainers
	if list == nil {
		list = []v1.EphemeralContainer{}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"kind": ephemeralKind, "apiVersion": "v1", "ephemeralContainers": list,
		"metadata": metav1.ObjectMeta{Name: own.Name, Namespace: own.Namespace, UID: own.UID, ResourceVersion: own.ResourceVersion},
	})
}

// isLegacyKubectl reports whether a client is a kubectl that reads EphemeralContainers, by its
// User-Agent: the request is that of later ones.
func isLegacyKubectl(agent string) bool {
	program, rest, ok := strings.Cut(agent, "/v1.")
	minor, _, dotted := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return ok && dotted && strings.HasPrefix(program, "kubectl") && err == nil && n < 22
}

// writeEphemeral changes the ephemeral containers of a pod. It reports whether the client uses
// the kind EphemeralContainers.
func (a *API) writeEphemeral(r *http.Request, res *resource, e *entry) (legacy bool, err error) {
	o, err := writeOptions(r, r.URL.Query()["dryRun"])
	if err != nil {
		return false, err
	}
	var change func(shown map[string]any) (map[string]any, error)
	versioned := true
	if r.Method == http.MethodPatch {
		p, err := patchOf(r, res)
		if err != nil {
			return false, err
		}
		versioned = p.versioned
		change = func(shown map[string]any) (map[string]any, error) {
			patched, err := p.apply(shown)
			if err != nil {
				err = fail(http.StatusUnprocessableEntity, "the patch cannot be applied: %v", err)
			}
			return patched, err
		}
	} else {
		object, isLegacy, err := readEphemeral(r, res)
		if err != nil {
			return false, err
		}
		legacy = isLegacy
		change = func(map[string]any) (map[string]any, error) { return object, nil }
	}
	return legacy, a.ephemeral.UpdateEphemeral(e.object.GetUID(), func(pod *v1.Pod) ([]v1.EphemeralContainer, error) {
		now, declared := a.lookup(res, r.PathValue("namespace"), r.PathValue("name"))
		if now == nil || now.object.GetUID() != pod.UID {
			return nil, fail(http.StatusConflict, "the pod was replaced meanwhile; get it again and repeat the change")
		}
		shown, err := objectpatch.Decode(now.bytes())
		if err != nil {
			return nil, err
		}
		object, err := change(shown)
		if err != nil {
			return nil, err
		}
		if err := checkMetadata(object, shown, now, declared, false, versioned); err != nil {
			return nil, err
		}
		return ephemeralOf(object)
	}, o)
}

// readEphemeral reads the body of a PUT: a Pod, or EphemeralContainers, which it returns as the part
// of a Pod that is changed.
func readEphemeral(r *http.Request, res *resource) (object map[string]any, legacy bool, err error) {
	body, err := readBody(r)
	if err != nil {
		return nil, false, err
	}
	var kind metav1.TypeMeta
	legacy = json.Unmarshal(body, &kind) == nil && kind.Kind == ephemeralKind
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !legacy {
		object, err = readObject(r, res)
		return object, false, err
	}
	old := *res
	old.kind = ephemeralKind
	if object, err = readObject(r, &old); err != nil {
		return nil, false, err
	}
	object = maps.Clone(object)
	object["kind"], object["spec"] = res.kind, map[string]any{"ephemeralContainers": object["ephemeralContainers"]}
	return object, true, nil
}

// ephemeralOf returns spec.ephemeralContainers of a pod. Other changes of the pod have no effect, as
// at an API server.
func ephemeralOf(object map[string]any) ([]v1.EphemeralContainer, error) {
	spec, _ := object["spec"].(map[string]any)
	text, err := json.Marshal(spec["ephemeralContainers"])
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var list []v1.EphemeralContainer
	if err := decoder.Decode(&list); err != nil {
		return nil, fail(http.StatusUnprocessableEntity, "spec.ephemeralContainers: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return list, nil
}

// withEphemeral adds the ephemeral containers of a pod that runs to what its manifest declares.
func withEphemeral(shown, live map[string]any) {
	spec, _ := live["spec"].(map[string]any)
	list := spec["ephemeralContainers"]
	declared, ok := shown["spec"].(map[string]any)
	if list == nil || !ok {
		return
	}
	declared = maps.Clone(declared)
	declared["ephemeralContainers"] = list
	shown["spec"] = declared
}

// withoutEphemeral returns a pod as it is written into its manifest. It refuses other ephemeral
// containers than those that the client was shown, and takes a pod without any for one that is not
// about them.
func withoutEphemeral(object, shown map[string]any) (map[string]any, error) {
	spec, _ := object["spec"].(map[string]any)
	list, ok := spec["ephemeralContainers"]
	if !ok {
		return object, nil
	}
	known, _ := shown["spec"].(map[string]any)
	a, _ := json.Marshal(list)
	b, _ := json.Marshal(known["ephemeralContainers"])
	if !bytes.Equal(a, b) && string(a) != "[]" && string(a) != "null" {
		return nil, fail(http.StatusUnprocessableEntity, "spec.ephemeralContainers: a manifest cannot have them; add one to the running pod with podstead debug or kubectl debug")
	}
	object, spec = maps.Clone(object), maps.Clone(spec)
	delete(spec, "ephemeralContainers")
	object["spec"] = spec
	return object, nil
}
