package change_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
	"github.com/podstead/podstead/test/manifestapi"
)

func TestWritesOfTheAPI(t *testing.T) {
	h := manifestapi.New(t, map[string]string{"site.yaml": manifestapi.SitePod})
	h.Await("the pod is shown", func() bool { return h.Request("GET", manifestapi.PodPath+"/web-n1", "", "").Code == 200 })

	// Either name finds the pod, and a writer sees what kubectl apply needs.
	h.Must(200, `"name":"web"`, "GET", manifestapi.PodPath+"/web", "", "")
	h.Must(200,
		`"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"annotations\":{},\"name\":\"web\",\"namespace\":\"default\"},\"spec\":{\"containers\":[{\"image\":\"a:1\",\"name\":\"main\"}]}}\n"`, "GET", manifestapi.PodPath+"/web", "", "")
	h.Must(200, `"name":"web"`, "GET", manifestapi.PodPath+"?fieldSelector=metadata.name%3Dweb", "", "")
	h.Must(404, "did you mean web-n1?", "GET", manifestapi.PodPath+"/wbe-n1", "", "")
	h.Must(404, "web-n1 is in namespace default", "GET", "/api/v1/namespaces/other/pods/web", "", "")

	// Every form of a patch, and the whole object.
	h.Must(200, `"app":"web"`, "PATCH", manifestapi.PodPath+"/web-n1", manifestapi.MergePatch,
		`{"metadata":{"labels":{"app":"web"}}}`)
	h.Must(200, `"image":"a:2"`, "PATCH", manifestapi.PodPath+"/web-n1", manifestapi.StrategicPatch,
		`{"spec":{"$setElementOrder/containers":[{"name":"main"}],"containers":[{"name":"main","image":"a:2"}]}}`)
	h.Must(200, `"image":"a:3"`, "PATCH", manifestapi.PodPath+"/web", manifestapi.JSONPatch,
		`[{"op":"replace","path":"/spec/containers/0/image","value":"a:3"}]`)
	want := strings.Replace(strings.Replace(manifestapi.SitePod, "a:1", "a:3", 1), " # short\n",
		" # short\n  labels:\n    app: web\n", 1)
	if got := h.Read("site.yaml"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	h.Await("the pod is replaced", func() bool {
		return strings.Contains(h.Request("GET", manifestapi.PodPath, "", "").Body.String(), `"image":"a:3"`)
	})
	exported := h.Must(200, "", "GET", manifestapi.PodPath+"/web-n1", "", "")
	text, err := json.Marshal(exported)
	if err != nil {
		t.Fatal(err)
	}
	// A status that has changed since is no conflict: clients write none.
	h.Mu.Lock()
	for uid, pod := range h.Pods {
		if pod.Name == "web-n1" {
			ready := pod.DeepCopy()
			ready.Status.Phase = v1.PodRunning
			h.Pods[uid] = ready
		}
	}
	h.Mu.Unlock()
	if now := h.Request("GET", manifestapi.PodPath+"/web-n1", "", "").Body.String(); !strings.Contains(now,
		`"phase":"Running"`) || strings.Contains(now,
		fmt.Sprintf(`"resourceVersion":%q`, exported["metadata"].(map[string]any)["resourceVersion"])) {
		t.Errorf("the status has not changed: %s", now)
	}
	h.Must(200, `"image":"a:4"`, "PUT", manifestapi.PodPath+"/web-n1", "application/json",
		strings.ReplaceAll(string(text), `"image":"a:3"`, `"image":"a:4"`))
	if got := h.Read("site.yaml"); got != strings.Replace(want, "a:3", "a:4", 1) {
		t.Errorf("after PUT:\n%s", got)
	}
	// What was exported before is a conflict now.
	h.Must(409, "get it again", "PUT", manifestapi.PodPath+"/web-n1", "application/json", string(text))
	h.Must(409, "has changed since resourceVersion 1", "PATCH", manifestapi.PodPath+"/web", manifestapi.MergePatch,
		`{"metadata":{"resourceVersion":"1","labels":{"x":"y"}}}`)
	h.Must(409, "not other as required", "DELETE", manifestapi.PodPath+"/web", "application/json",
		`{"preconditions":{"uid":"other"}}`)

	h.Must(409, "has changed since resourceVersion 1", "DELETE", manifestapi.PodPath+"/web", "application/json",
		`{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"1"}}`)
	h.Mu.Lock()
	if events := strings.Join(h.Events, "\n"); strings.Contains(events, "grace ") {
		t.Errorf("a refused deletion set the grace period:\n%s", events)
	}
	h.Mu.Unlock()

	// A dry run changes nothing, and shows no difference but that of the client.
	before := h.Read("site.yaml")
	h.Must(200, `"x":"y"`, "PATCH", manifestapi.PodPath+"/web?dryRun=All", manifestapi.MergePatch,
		`{"metadata":{"labels":{"x":"y"}}}`)
	h.Must(200, "deletionTimestamp", "DELETE", manifestapi.PodPath+"/web", "application/json", `{"dryRun":["All"]}`)
	h.Must(201, `"name":"new-n1"`, "POST", manifestapi.PodPath+"?dryRun=All", "application/json",
		`{"metadata":{"name":"new"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.Must(200, "deletionTimestamp", "DELETE", manifestapi.PodPath+"/web?dryRun=All", "application/json",
		`{"dryRun":[""]}`)
	h.Must(201, `"name":"new-n1"`, "POST", manifestapi.PodPath+"?dryRun=&dryRun=All", "application/json",
		`{"metadata":{"name":"new"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.Must(422, "must be All", "POST", manifestapi.PodPath+"?dryRun=some", "application/json",
		`{"metadata":{"name":"new"}}`)
	if got := h.Read("site.yaml"); got != before {
		t.Errorf("after dry runs:\n%s", got)
	}

	// New objects.
	h.Must(201, `"name":"db-n1"`, "POST", manifestapi.PodPath, "application/json",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"db","creationTimestamp":null},"spec":{"containers":[{"name":"a","image":"b","resources":{}}]},"status":{}}`)
	h.Must(409, "already exists", "POST", manifestapi.PodPath, "application/json",
		`{"metadata":{"name":"db"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	h.Must(409, "already exists", "POST", manifestapi.PodPath, "application/json",
		`{"metadata":{"name":"web-n1"},"spec":{"containers":[{"name":"a","image":"b"}]}}`)
	if got := h.Read("db.yaml"); strings.Contains(got, "status") || strings.Contains(got, "creationTimestamp") ||
		!strings.Contains(got, "name: db\n") {
		t.Errorf("the new manifest:\n%s", got)
	}
	h.Must(201, `"uid":"configmap-default-site"`, "POST", manifestapi.ConfigMapPath, "application/json",
		`{"metadata":{"name":"site"},"data":{"color":"red"}}`)
	h.Must(200, `"color":"blue"`, "PATCH", manifestapi.ConfigMapPath+"/site", manifestapi.MergePatch,
		`{"data":{"color":"blue"}}`)
	h.Must(200, `"color":"blue"`, "GET", manifestapi.ConfigMapPath+"/site", "", "")
	// Characters that a YAML text must not have as they are.
	h.Must(200, "", "PATCH", manifestapi.ConfigMapPath+"/site", manifestapi.MergePatch,
		`{"data":{"color":"a\u007fb\u0085c\u0001"}}`)
	if data := h.Must(200, "", "GET", manifestapi.ConfigMapPath+"/site", "",
		"")["data"].(map[string]any); data["color"] != "a\u007fb\u0085c\u0001" {
		t.Errorf("the value is %q", data["color"])
	}
	// What only the API shows of a claim does not get into its manifest.
	claims := "/api/v1/namespaces/default/persistentvolumeclaims"
	h.Must(201, `"name":"data"`, "POST", claims, "application/json",
		`{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	claim := h.Must(200, `"volumeName":"default.data"`, "GET", claims+"/data", "", "")
	claim["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	if text, err = json.Marshal(claim); err != nil {
		t.Fatal(err)
	}
	h.Must(200, `"a":"b"`, "PUT", claims+"/data", "application/json", string(text))
	h.Must(200, `"a":"c"`, "PATCH", claims+"/data", manifestapi.MergePatch, `{"metadata":{"labels":{"a":"c"}}}`)
	if got := h.Read("data-persistentvolumeclaim.yaml"); strings.Contains(got, "volumeName") ||
		!strings.Contains(got, "a: c") {
		t.Errorf("the manifest of the claim:\n%s", got)
	}
	// The same of a volume.
	volumes := "/api/v1/persistentvolumes"
	h.Must(201, `"name":"usb"`, "POST", volumes, "application/json",
		`{"metadata":{"name":"usb"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/usb"}}}`)
	volume := h.Must(200, `"name":"photos"`, "GET", volumes+"/usb", "", "")
	volume["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
	if text, err = json.Marshal(volume); err != nil {
		t.Fatal(err)
	}
	h.Must(200, `"phase":"Released"`, "PUT", volumes+"/usb", "application/json", string(text))
	if got := h.Read("usb-persistentvolume.yaml"); strings.Contains(got, "claimRef") || strings.Contains(got, "status") ||
		!strings.Contains(got, "a: b") {
		t.Errorf("the manifest of the volume:\n%s", got)
	}
	h.Must(422, "has become the CSI driver cephfs.csi.ceph.com", "POST", volumes, "application/json",
		`{"metadata":{"name":"x"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"cephfs":{"monitors":["a"]}}}`)
	h.Must(200, `"Success"`, "DELETE", volumes+"/usb", "", "")
	if got := h.Request("DELETE", volumes+"/default.made", "", ""); got.Code < 400 ||
		!strings.Contains(got.Body.String(), "default.made") {
		t.Errorf("deleting a volume that no manifest declares: %d %s", got.Code, got.Body)
	}
	classes := "/apis/storage.k8s.io/v1/storageclasses"
	h.Must(201, `"provisioner":"podstead.io/directory"`, "POST", classes, "application/json",
		`{"metadata":{"name":"ssd"},"provisioner":"podstead.io/directory","parameters":{"path":"/mnt/ssd"}}`)
	h.Must(200, `"path":"/mnt/nvme"`, "PATCH", classes+"/ssd", manifestapi.MergePatch,
		`{"parameters":{"path":"/mnt/nvme"}}`)
	h.Must(200, `"Success"`, "DELETE", classes+"/ssd", "", "")
	h.Must(201, `"value":1000`, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", "application/json",
		`{"metadata":{"name":"high"},"value":1000}`)
	h.Must(200, `"description":"x"`, "PATCH", "/apis/scheduling.k8s.io/v1/priorityclasses/high", manifestapi.MergePatch,
		`{"description":"x"}`)
	h.Must(200, `"Success"`, "DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/high", "", "")
	h.Must(201, `"a":"b25l"`, "POST", "/api/v1/namespaces/default/secrets", "application/json",
		`{"metadata":{"name":"login"},"stringData":{"a":"one"}}`)

	// Deletion.
	h.Must(200, `"deletionTimestamp"`, "DELETE", manifestapi.PodPath+"/db", "application/json", `{"gracePeriodSeconds":1}`)
	h.Must(200, `"status":"Success"`, "DELETE", manifestapi.ConfigMapPath+"/site", "", "")
	h.Await("the ConfigMap is gone",
		func() bool { return h.Request("GET", manifestapi.ConfigMapPath+"/site", "", "").Code == 404 })
	if _, err := os.Stat(filepath.Join(h.Dir, "db.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("db.yaml: %v", err)
	}
	h.Mu.Lock()
	defer h.Mu.Unlock()
	events := strings.Join(h.Events, "\n")
	for _, e := range []string{"ManifestChanged web-n1: Pod default/web configured in " +
		filepath.Join(h.Dir, "site.yaml") + " by ann through the API", "ConfigMap default/site created",
		"Pod default/db deleted", "grace db-n1 1"} {
		if !strings.Contains(events, e) {
			t.Errorf("no event %q in\n%s", e, events)
		}
	}
}

// A pod whose manifest was removed ends for a while. kubectl apply of a file asks for the pod under the
// name in the manifest, and creates it again if there is none.
func TestApplyAfterDelete(t *testing.T) {
	h := manifestapi.New(t, map[string]string{"site.yaml": manifestapi.SitePod})
	h.Await("the pod is shown", func() bool { return h.Request("GET", manifestapi.PodPath+"/web-n1", "", "").Code == 200 })
	h.Mu.Lock()
	h.KeepsRemoved = true
	h.Mu.Unlock()
	h.Must(200, "", "DELETE", manifestapi.PodPath+"/web", "", "")
	h.Must(404, "did you mean web-n1?", "GET", manifestapi.PodPath+"/web", "", "")
	h.Must(200, `"name":"web-n1"`, "GET", manifestapi.PodPath+"/web-n1", "", "")
	h.Must(201, `"name":"web-n1"`, "POST", manifestapi.PodPath, "application/json",
		`{"metadata":{"name":"web"},"spec":{"containers":[{"name":"main","image":"b"}]}}`)
	h.Must(200, `"image":"b"`, "GET", manifestapi.PodPath+"/web", "", "")
}

func TestRefusedWritesOfTheAPI(t *testing.T) {
	h := manifestapi.New(t, map[string]string{"site.yaml": manifestapi.SitePod})
	h.Await("the pods are shown", func() bool {
		return h.Request("GET", manifestapi.PodPath+"/web-n1", "", "").Code == 200 &&
			h.Request("GET", manifestapi.PodPath+"/remote-n1", "", "").Code == 200
	})
	const pod = `"spec":{"containers":[{"name":"a","image":"b"}]}}`
	for _, c := range []struct {
		code                            int
		words, method, path, kind, body string
	}{
		{403, "comes from https://pods.example/remote.yaml; change it there", "PATCH", manifestapi.PodPath + "/remote-n1",
			manifestapi.MergePatch, `{"metadata":{"labels":{"a":"b"}}}`},
		{403, "comes from https://pods.example/remote.yaml; change it there", "DELETE", manifestapi.PodPath + "/remote", "",
			""},
		{409, "already exists", "POST", manifestapi.PodPath, "application/json", `{"metadata":{"name":"remote"},` + pod},
		{422, "spec.restartPolicy", "PATCH", manifestapi.PodPath + "/web", manifestapi.MergePatch,
			`{"spec":{"restartPolicy":"Sometimes"}}`},
		{422, "restartPolicies", "PATCH", manifestapi.PodPath + "/web", manifestapi.MergePatch,
			`{"spec":{"restartPolicies":"Always"}}`},
		{422, "spec.containers", "POST", manifestapi.PodPath, "application/json", `{"metadata":{"name":"x"},"spec":{}}`},
		{422, "not generated", "POST", manifestapi.PodPath, "application/json", `{"metadata":{"generateName":"x-"},` + pod},
		{400, "metadata.namespace", "POST", manifestapi.PodPath, "application/json",
			`{"metadata":{"name":"x","namespace":"other"},` + pod},
		{400, "must not be set", "POST", manifestapi.PodPath, "application/json",
			`{"metadata":{"name":"x","resourceVersion":"1"},` + pod},
		{400, "must be Pod", "POST", manifestapi.PodPath, "application/json", `{"kind":"Job","metadata":{"name":"x"},` + pod},
		{400, "as JSON", "POST", manifestapi.PodPath, "application/json", `{"metadata":`},
		{400, "as JSON", "POST", manifestapi.PodPath, "application/json", `null`},
		{400, "cannot be decoded", "POST", manifestapi.PodPath, "application/vnd.kubernetes.protobuf", "k8s\x00garbage"},
		{415, "application/json", "POST", manifestapi.PodPath, "application/yaml", "metadata: {name: x}"},
		// What a page of another site can send without asking first.
		{415, "application/json", "POST", manifestapi.PodPath, "text/plain", "k8s\x00garbage"},
		{413, "larger than", "POST", manifestapi.PodPath, "application/json",
			`{"metadata":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`},
		{415, "server-side apply is not supported", "PATCH", manifestapi.PodPath + "/web", "application/apply-patch+yaml",
			"{}"},
		{415, "must be", "PATCH", manifestapi.PodPath + "/web", "application/json", "{}"},
		{422, "cannot be applied", "PATCH", manifestapi.PodPath + "/web", manifestapi.JSONPatch,
			`[{"op":"test","path":"/spec/containers/0/image","value":"z"}]`},
		{422, "cannot be applied", "PATCH", manifestapi.PodPath + "/web", manifestapi.StrategicPatch,
			`{"spec":{"containers":[{"image":"x"}]}}`},
		{422, "metadata.name", "PATCH", manifestapi.PodPath + "/web", manifestapi.MergePatch,
			`{"metadata":{"name":"other"}}`},
		{422, "metadata", "PATCH", manifestapi.PodPath + "/web", manifestapi.MergePatch, `{"metadata":null}`},
		{422, "must not be negative", "DELETE", manifestapi.PodPath + "/web", "application/json",
			`{"gracePeriodSeconds":-1}`},
		{404, `pods \"none\" not found`, "DELETE", manifestapi.PodPath + "/none", "", ""},
		{404, `pods \"none\" not found`, "PATCH", manifestapi.PodPath + "/none", manifestapi.MergePatch, "{}"},
		{404, `configmaps \"none\" not found`, "PUT", manifestapi.ConfigMapPath + "/none", "application/json",
			`{"metadata":{"name":"none"}}`},
		{405, "one by one", "DELETE", manifestapi.PodPath, "", ""},
		{405, "a namespace exists while", "POST", "/api/v1/namespaces", "application/json", `{"metadata":{"name":"x"}}`},
		{405, "flags", "PATCH", "/api/v1/nodes/n1", manifestapi.MergePatch, `{}`},
	} {
		h.Must(c.code, c.words, c.method, c.path, c.kind, c.body)
	}
	// A manifest that is broken now is corrected first; its pod goes on.
	h.Write("site.yaml", manifestapi.SitePod+"a: [\n")
	h.Await("the broken manifest was read", func() bool { return len(h.Config.Faults()) > 0 })
	h.Must(403, "correct the file first", "PATCH", manifestapi.PodPath+"/web", manifestapi.MergePatch,
		`{"metadata":{"labels":{"a":"b"}}}`)
	entries, err := os.ReadDir(h.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A body without a type is that of an old kubectl, or of a page of another site, which a browser names.
func TestWriteWithoutContentType(t *testing.T) {
	h := manifestapi.New(t, nil)
	send := func(origin string) int {
		r := httptest.NewRequest("POST", manifestapi.PodPath,
			strings.NewReader(`{"metadata":{"name":"untyped"},"spec":{"containers":[{"name":"a","image":"b"}]}}`))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.API.ServeHTTP(w,
			r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
		return w.Code
	}
	if code := send("https://other.example"); code != 415 {
		t.Errorf("from a page: %d, want 415", code)
	}
	if code := send(""); code != 201 {
		t.Errorf("from kubectl: %d, want 201", code)
	}
}

// A client that reads, changes and writes an object with its resourceVersion gets a conflict
// where podstead apply was faster, and loses nothing.
func TestConflictsOfTheAPIAndByHand(t *testing.T) {
	const rounds = 20
	h := manifestapi.New(t, map[string]string{"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  api: \"0\"\n  hand: \"0\"\n"})
	h.Await("the ConfigMap is shown",
		func() bool { return h.Request("GET", manifestapi.ConfigMapPath+"/c", "", "").Code == 200 })
	next := func(object map[string]any, key string) string {
		text, _ := object["data"].(map[string]any)[key].(string)
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Error(err)
		}
		return strconv.Itoa(n + 1)
	}
	conflicts := 0
	var both sync.WaitGroup
	both.Go(func() {
		for done := 0; done < rounds && !t.Failed(); {
			object, err := objectpatch.Decode(h.Request("GET", manifestapi.ConfigMapPath+"/c", "", "").Body.Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			object["data"].(map[string]any)["api"] = next(object, "api")
			text, err := json.Marshal(object)
			if err != nil {
				t.Error(err)
				return
			}
			switch w := h.Request("PUT", manifestapi.ConfigMapPath+"/c", "application/json", string(text)); w.Code {
			case http.StatusOK:
				done++
			case http.StatusConflict:
				conflicts++
			default:
				t.Errorf("PUT: %d %s", w.Code, w.Body)
			}
		}
	})
	both.Go(func() {
		ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "c"}
		for done := 0; done < rounds && !t.Failed(); {
			d, err := edit.Read(h.Dir)
			if err == nil {
				var found edit.Found
				if found, err = d.Find(ref); err == nil {
					var doc edit.Document
					doc, err = edit.New(objectpatch.Merge(found.Value,
						map[string]any{"data": map[string]any{"hand": next(found.Value, "hand")}}))
					if err == nil {
						_, err = d.Merge(doc)
					}
				}
			}
			if err == nil {
				err = d.Commit(t.Context())
			}
			switch {
			case err == nil:
				done++
				time.Sleep(time.Millisecond) // lets the other writer have its turn
			case !errors.Is(err, edit.ErrChanged):
				t.Error(err)
			}
		}
	})
	both.Wait()
	if got, want := h.Read("c.yaml"),
		"  api: \""+strconv.Itoa(rounds)+"\"\n  hand: \""+strconv.Itoa(rounds)+"\"\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	t.Logf("%d conflicts", conflicts)
}
