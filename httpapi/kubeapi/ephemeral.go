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
	"github.com/podstead/podstead/internal/objectwrite"
)

// EphemeralUpdater changes the ephemeral containers of pods.
type EphemeralUpdater interface {
	// UpdateEphemeral replaces the ephemeral containers of a pod by those of the patched pod, and returns when that is
	// recorded on the disk. What a client can correct is an objectwrite.Error.
	UpdateEphemeral(uid types.UID, u objectwrite.Update, o objectwrite.Options) error
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
		apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "pods/ephemeralcontainers does not support %s",
			r.Method))
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
		"metadata": metav1.ObjectMeta{Name: own.Name, Namespace: own.Namespace, UID: own.UID,
			ResourceVersion: own.ResourceVersion},
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
	var p objectpatch.Patch
	if r.Method == http.MethodPatch {
		p, err = patchOf(r, res)
	} else {
		p.Object, legacy, err = readEphemeral(r, res)
	}
	if err != nil {
		return false, err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	now, declared := a.lookup(res, namespace, name)
	if now == nil || now.object.GetUID() != e.object.GetUID() {
		return legacy, fail(http.StatusConflict, "the pod was replaced meanwhile; get it again and repeat the change")
	}
	return legacy, a.ephemeral.UpdateEphemeral(now.object.GetUID(),
		objectwrite.Update{Patch: p, View: viewOf(res, now, namespace, name, declared)}, o)
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
