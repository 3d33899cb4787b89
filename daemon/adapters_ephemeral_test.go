package daemon

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/supervisor"
)

// updateEphemeral changes the ephemeral containers as the supervisor does.
func (h *writeHarness) updateEphemeral(uid types.UID, change func(*v1.Pod) ([]v1.EphemeralContainer, error)) error {
	return h.ephemeral.Update(uid, func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		for _, pod := range h.list() {
			switch {
			case pod.UID != uid:
			case strings.HasPrefix(pod.Name, "ended"):
				return nil, supervisor.ErrPodEnded
			default:
				return change(pod)
			}
		}
		return nil, supervisor.ErrNoSuchPod
	})
}

// names returns the ephemeral containers in an answer.
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
	h := newWriteHarness(t, map[string]string{"site.yaml": sitePod, "ended.yaml": strings.Replace(sitePod, "web #", "ended #", 1)})
	const web = podPath + "/web"
	h.await("the pod is shown", func() bool { return h.request("GET", web, "", "").Code == 200 })
	is := func(object map[string]any, want string) {
		t.Helper()
		if got := ephemeralNames(object); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// The current kubectl patches the pod.
	is(h.must(200, `"name":"web"`, "PATCH", web+"/ephemeralcontainers", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"a","image":"b:1","targetContainerName":"main"}]}}`), "Pod[a]")
	is(h.must(200, `"imagePullPolicy":"IfNotPresent"`, "PATCH", podPath+"/web-n1/ephemeralcontainers", jsonPatch, `[{"op":"add","path":"/spec/ephemeralContainers/-","value":{"name":"b","image":"b:1"}}]`), "Pod[a b]")
	is(h.must(200, "", "GET", web+"/ephemeralcontainers", "", ""), "Pod[a b]")
	is(h.must(200, "", "GET", web, "", ""), "Pod[a b]")
	if text := strings.Join(h.events, "\n"); !strings.Contains(text, "EphemeralContainerAdded web-n1: Ephemeral container a (image b:1) added by ann through the API") {
		t.Errorf("events:\n%s", text)
	}

	// An old one replaces EphemeralContainers, under the name of its program.
	r := httptest.NewRequest("GET", podPath+"/web-n1/ephemeralcontainers", nil)
	r.Header.Set("User-Agent", "kubectl/v1.20.2 (linux/amd64) kubernetes/faecb19")
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"kind":"EphemeralContainers"`) {
		t.Fatalf("what an old kubectl gets: %d %s", w.Code, w.Body)
	}
	body := strings.Replace(strings.TrimSpace(w.Body.String()), `"ephemeralContainers":[`, `"ephemeralContainers":[{"name":"c","image":"b:1"},`, 1)
	is(h.must(200, "", "PUT", podPath+"/web-n1/ephemeralcontainers", "application/json", body), "EphemeralContainers[c a b]")
	h.must(409, "has changed since resourceVersion", "PUT", podPath+"/web-n1/ephemeralcontainers", "application/json", strings.Replace(body, `"name":"c"`, `"name":"d"`, 1))

	// A client of the whole pod keeps them, and its manifest has none.
	h.must(200, "", "PATCH", web, mergePatch, `{"metadata":{"annotations":{"note":"x"}}}`)
	if text := h.read("site.yaml"); !strings.Contains(text, "note: x") || strings.Contains(text, "ephemeral") {
		t.Errorf("the manifest:\n%s", text)
	}
	h.await("the change is shown", func() bool {
		return strings.Contains(h.request("GET", web, "", "").Body.String(), `"note":"x"`)
	})
	h.must(422, "a manifest cannot have them", "PATCH", web, strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"d","image":"b:1"}]}}`)
}

func TestRefusedEphemeralContainers(t *testing.T) {
	h := newWriteHarness(t, map[string]string{"site.yaml": sitePod, "ended.yaml": strings.Replace(sitePod, "web #", "ended #", 1)})
	h.await("the pods are shown", func() bool {
		return h.request("GET", podPath+"/web", "", "").Code == 200 && h.request("GET", podPath+"/ended", "", "").Code == 200
	})
	patch := func(code int, words, name, container string) {
		t.Helper()
		h.must(code, words, "PATCH", podPath+"/"+name+"/ephemeralcontainers", strategicPatch, `{"spec":{"ephemeralContainers":[`+container+`]}}`)
	}
	patch(404, "not found", "none", `{"name":"a","image":"b:1"}`)
	patch(409, "would never start", "ended", `{"name":"a","image":"b:1"}`)
	patch(422, `spec.ephemeralContainers[0].targetContainerName: \"db\" is not declared`, "web", `{"name":"a","image":"b:1","targetContainerName":"db"}`)
	patch(422, `spec.ephemeralContainers[0].image`, "web", `{"name":"a"}`)
	patch(422, `unknown field \"imagee\"`, "web", `{"name":"a","imagee":"b:1"}`)
	patch(422, `spec.ephemeralContainers[0].resources: an ephemeral container cannot have it`, "web", `{"name":"a","image":"b:1","resources":{"limits":{"cpu":"1"}}}`)
	h.must(422, "dryRun", "PATCH", podPath+"/web/ephemeralcontainers?dryRun=no", strategicPatch, `{}`)
	h.must(200, "", "PATCH", podPath+"/web/ephemeralcontainers?dryRun=All", strategicPatch, `{"spec":{"ephemeralContainers":[{"name":"a","image":"b:1"}]}}`)
	h.must(405, "does not support", "DELETE", podPath+"/web/ephemeralcontainers", "", "")
	h.must(415, "", "PATCH", podPath+"/web/ephemeralcontainers", "application/apply-patch+yaml", `{}`)
	h.must(400, "kind", "PUT", podPath+"/web/ephemeralcontainers", "application/json", `{"kind":"Secret","apiVersion":"v1"}`)
	h.verified = true
	patch(403, "verified with keys", "web", `{"name":"a","image":"b:1"}`)
	if uids := h.ephemeral.UIDs(); len(uids) > 0 || len(h.events) > 0 {
		t.Errorf("a refused change was made: %v, %v", uids, h.events)
	}
}
