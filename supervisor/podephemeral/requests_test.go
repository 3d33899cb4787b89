package podephemeral_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/test/manifestapi"
)

// ephemeralNames returns the ephemeral containers in a response.
func ephemeralNames(object map[string]any) string {
	list, ok := object["ephemeralContainers"].([]any)
	if spec, isPod := object["spec"].(map[string]any); isPod && !ok {
		list, _ = spec["ephemeralContainers"].([]any)
	}
	var names []string
	for _, c := range list {
		names = append(names, fmt.Sprint(c.(map[string]any)["name"]))
	}
	return fmt.Sprint(object["kind"], names)
}

func TestEphemeralContainersOfTheAPI(t *testing.T) {
	h := manifestapi.New(t, map[string]string{"site.yaml": manifestapi.SitePod,
		"ended.yaml": strings.Replace(manifestapi.SitePod, "web #", "ended #", 1)})
	const web = manifestapi.PodPath + "/web"
	h.Await("the pod is shown", func() bool { return h.Request("GET", web, "", "").Code == 200 })
	is := func(object map[string]any, want string) {
		t.Helper()
		if got := ephemeralNames(object); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// The current kubectl patches the pod.
	is(h.Must(200, `"name":"web"`, "PATCH", web+"/ephemeralcontainers", manifestapi.StrategicPatch,
		`{"spec":{"ephemeralContainers":[{"name":"a","image":"b:1","targetContainerName":"main"}]}}`), "Pod[a]")
	is(h.Must(200, `"imagePullPolicy":"IfNotPresent"`, "PATCH", manifestapi.PodPath+"/web-n1/ephemeralcontainers",
		manifestapi.JSONPatch, `[{"op":"add","path":"/spec/ephemeralContainers/-","value":{"name":"b","image":"b:1"}}]`),
		"Pod[a b]")
	is(h.Must(200, "", "GET", web+"/ephemeralcontainers", "", ""), "Pod[a b]")
	is(h.Must(200, "", "GET", web, "", ""), "Pod[a b]")
	if text := strings.Join(h.Events, "\n"); !strings.Contains(text,
		"EphemeralContainerAdded web-n1: Ephemeral container a (image b:1) added by ann through the API") {
		t.Errorf("events:\n%s", text)
	}

	// An old one replaces EphemeralContainers, under the name of its program.
	r := httptest.NewRequest("GET", manifestapi.PodPath+"/web-n1/ephemeralcontainers", nil)
	r.Header.Set("User-Agent", "kubectl/v1.20.2 (linux/amd64) kubernetes/faecb19")
	w := httptest.NewRecorder()
	h.API.ServeHTTP(w,
		r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"kind":"EphemeralContainers"`) {
		t.Fatalf("what an old kubectl gets: %d %s", w.Code, w.Body)
	}
	body := strings.Replace(strings.TrimSpace(w.Body.String()), `"ephemeralContainers":[`,
		`"ephemeralContainers":[{"name":"c","image":"b:1"},`, 1)
	is(h.Must(200, "", "PUT", manifestapi.PodPath+"/web-n1/ephemeralcontainers", "application/json", body),
		"EphemeralContainers[c a b]")
	h.Must(409, "has changed since resourceVersion", "PUT", manifestapi.PodPath+"/web-n1/ephemeralcontainers",
		"application/json", strings.Replace(body, `"name":"c"`, `"name":"d"`, 1))

	// A client of the whole pod keeps them, and its manifest has none.
	h.Must(200, "", "PATCH", web, manifestapi.MergePatch, `{"metadata":{"annotations":{"note":"x"}}}`)
	if text := h.Read("site.yaml"); !strings.Contains(text, "note: x") || strings.Contains(text, "ephemeral") {
		t.Errorf("the manifest:\n%s", text)
	}
	h.Await("the change is shown", func() bool {
		return strings.Contains(h.Request("GET", web, "", "").Body.String(), `"note":"x"`)
	})
	h.Must(422, "a manifest cannot have them", "PATCH", web, manifestapi.StrategicPatch,
		`{"spec":{"ephemeralContainers":[{"name":"d","image":"b:1"}]}}`)
}

func TestRefusedEphemeralContainers(t *testing.T) {
	h := manifestapi.New(t, map[string]string{"site.yaml": manifestapi.SitePod,
		"ended.yaml": strings.Replace(manifestapi.SitePod, "web #", "ended #", 1)})
	h.Await("the pods are shown", func() bool {
		return h.Request("GET", manifestapi.PodPath+"/web", "", "").Code == 200 &&
			h.Request("GET", manifestapi.PodPath+"/ended", "", "").Code == 200
	})
	patch := func(code int, words, name, container string) {
		t.Helper()
		h.Must(code, words, "PATCH", manifestapi.PodPath+"/"+name+"/ephemeralcontainers", manifestapi.StrategicPatch,
			`{"spec":{"ephemeralContainers":[`+container+`]}}`)
	}
	patch(404, "not found", "none", `{"name":"a","image":"b:1"}`)
	patch(409, "would never start", "ended", `{"name":"a","image":"b:1"}`)
	patch(422, `spec.ephemeralContainers[0].targetContainerName: \"db\" is not declared`, "web",
		`{"name":"a","image":"b:1","targetContainerName":"db"}`)
	patch(422, `spec.ephemeralContainers[0].image`, "web", `{"name":"a"}`)
	patch(422, `unknown field \"imagee\"`, "web", `{"name":"a","imagee":"b:1"}`)
	patch(422, `spec.ephemeralContainers[0].resources: an ephemeral container cannot have it`, "web",
		`{"name":"a","image":"b:1","resources":{"limits":{"cpu":"1"}}}`)
	h.Must(422, "dryRun", "PATCH", manifestapi.PodPath+"/web/ephemeralcontainers?dryRun=no", manifestapi.StrategicPatch,
		`{}`)
	h.Must(200, "", "PATCH", manifestapi.PodPath+"/web/ephemeralcontainers?dryRun=All", manifestapi.StrategicPatch,
		`{"spec":{"ephemeralContainers":[{"name":"a","image":"b:1"}]}}`)
	h.Must(405, "does not support", "DELETE", manifestapi.PodPath+"/web/ephemeralcontainers", "", "")
	h.Must(415, "", "PATCH", manifestapi.PodPath+"/web/ephemeralcontainers", "application/apply-patch+yaml", `{}`)
	h.Must(400, "kind", "PUT", manifestapi.PodPath+"/web/ephemeralcontainers", "application/json",
		`{"kind":"Secret","apiVersion":"v1"}`)
	h.Verified = true
	patch(403, "verified with keys", "web", `{"name":"a","image":"b:1"}`)
	if uids := h.Ephemeral.UIDs(); len(uids) > 0 || len(h.Events) > 0 {
		t.Errorf("a refused change was made: %v, %v", uids, h.Events)
	}
}
