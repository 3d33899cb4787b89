package kubeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
)

// maxObject is the maximum size of the body of a write in bytes: that of all requests, whose
// limit the server enforces.
const maxObject = 1 << 20

// readBody reads the body of a write.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxObject+1))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), err == nil && len(body) > maxObject:
		return nil, fail(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxObject)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, fail(http.StatusBadRequest, "failed to read the body: %v", err)
	}
	return body, nil
}

// readObject decodes the object in the body of a write, which is JSON or protobuf. kubectl 1.20 does not
// give the type. A page has to: it can send a browser's credentials to other sites along with a body
// without one. Browsers name the page in Origin.
func readObject(r *http.Request, res *resource) (map[string]any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	untyped := kind == "" && r.Header.Get("Origin") == ""
	if kind != "application/json" && kind != protobufType && !untyped {
		return nil, fail(http.StatusUnsupportedMediaType, "Content-Type: %q is not supported; must be application/json", kind)
	}
	if encoded, ok := bytes.CutPrefix(body, []byte(protobufPrefix)); ok && kind != "application/json" {
		if body, err = fromProtobuf(encoded, reflect.New(reflect.TypeOf(res.empty).Elem()).Interface()); err != nil {
			return nil, fail(http.StatusBadRequest, "the body cannot be decoded: %v", err)
		}
	}
	object, err := objectpatch.Decode(body)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "the body must be a %s as JSON: %v", res.kind, err)
	}
	for field, want := range map[string]string{"kind": res.kind, "apiVersion": res.apiVersion()} {
		switch object[field] {
		case nil, "":
			object[field] = want
		case want:
		default:
			return nil, fail(http.StatusBadRequest, "%s: is %v, must be %s", field, object[field], want)
		}
	}
	return object, nil
}

// fromProtobuf converts an object in protobuf to JSON.
func fromProtobuf(encoded []byte, into any) ([]byte, error) {
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(encoded); err != nil {
		return nil, err
	}
	message, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil, errors.New("protobuf is not supported for this kind")
	}
	if err := message.Unmarshal(wrapped.Raw); err != nil {
		return nil, err
	}
	return json.Marshal(into)
}

// patchOf returns the patch in the body of a request.
func patchOf(r *http.Request, res *resource) (objectpatch.Patch, error) {
	var none objectpatch.Patch
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return none, fail(http.StatusUnsupportedMediaType, "Content-Type: %v; must be that of a patch", err)
	}
	switch types.PatchType(kind) {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	case types.ApplyYAMLPatchType, types.ApplyCBORPatchType:
		return none, fail(http.StatusUnsupportedMediaType, "server-side apply is not supported, because a manifest does "+
			"not record which client set a field; use kubectl apply without --server-side")
	default:
		return none, fail(http.StatusUnsupportedMediaType, "Content-Type: %q is not supported; must be %s, %s or %s", kind,
			types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType)
	}
	body, err := readBody(r)
	if err != nil {
		return none, err
	}
	p := objectpatch.Patch{Type: types.PatchType(kind), Operations: body, Of: reflect.TypeOf(res.empty)}
	if p.Type == types.JSONPatchType {
		return p, nil
	}
	p.Operations = nil
	if p.Object, err = objectpatch.Decode(body); err != nil {
		return none, fail(http.StatusBadRequest, "the patch must be JSON: %v", err)
	}
	return p, nil
}

// deleteOptions reads the options of a deletion from the body and the query.
func deleteOptions(r *http.Request) (*metav1.DeleteOptions, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if encoded, ok := bytes.CutPrefix(body, []byte(protobufPrefix)); ok {
		if body, err = fromProtobuf(encoded, o); err != nil {
			return nil, fail(http.StatusBadRequest, "the body cannot be decoded: %v", err)
		}
	}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, o); err != nil {
			return nil, fail(http.StatusBadRequest, "the body must be DeleteOptions: %v", err)
		}
	}
	if text := r.URL.Query().Get("gracePeriodSeconds"); text != "" {
		var seconds int64
		if err := json.Unmarshal([]byte(text), &seconds); err != nil {
			return nil, fail(http.StatusBadRequest, "gracePeriodSeconds=%q: must be a number of seconds", text)
		}
		o.GracePeriodSeconds = &seconds
	}
	if g := o.GracePeriodSeconds; g != nil && *g < 0 {
		return nil, fail(http.StatusUnprocessableEntity, "gracePeriodSeconds: is %d, must not be negative", *g)
	}
	o.DryRun = append(o.DryRun, r.URL.Query()["dryRun"]...)
	return o, nil
}

// isDryRun parses the values of dryRun, of which one is sufficient.
func isDryRun(values []string) (bool, error) {
	for _, v := range values {
		if v != metav1.DryRunAll && v != "" {
			return false, fail(http.StatusUnprocessableEntity, "dryRun: is %q, must be All", v)
		}
	}
	return slices.Contains(values, metav1.DryRunAll), nil
}
