package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/describe"
)

// updateDaemon responds with the updates of the pod web.
func updateDaemon(t *testing.T, response ...api.AutoUpdate) (d *fakeDaemon, asked *[]string) {
	d, asked = newFakeDaemon(t,
		v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1",
			Annotations: map[string]string{"podstead.io/auto-update": "registry", "kubernetes.io/config.source": "file"}},
			Spec: v1.PodSpec{NodeName: "n1"}}), new([]string)
	reply := func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.RawQuery)
		_ = json.NewEncoder(w).Encode(append([]api.AutoUpdate{}, response...))
	}
	d.routes["POST /podstead/v1/auto-update"], d.routes["GET /podstead/v1/auto-update"] = reply, reply
	return d.start(), asked
}

var updates = api.AutoUpdate{
	Namespace: "default", Name: "web-n1", Policy: "registry", Checked: time.Now(), Next: time.Now().Add(90 * time.Minute),
	Containers: []api.ContainerImageUpdate{
		{Container: "setup", Image: "r.test/setup@sha256:1", State: "Skipped", Message: "the manifest names a digest"},
		{Container: "web", Image: "r.test/web:1", State: "Updating", Running: "sha256:" + strings.Repeat("ab", 32),
			Latest: "sha256:" + strings.Repeat("cd", 32)},
	},
}

func TestAutoUpdate(t *testing.T) {
	d, asked := updateDaemon(t, updates)
	out, errOut, err := execute(t, "", "auto-update", "web", "--dry-run", "--api-socket", d.socket)
	want := `NAMESPACE   POD      CONTAINER   IMAGE                   POLICY     STATE      RUNNING        LATEST
default     web-n1   setup       r.test/setup@sha256:1   registry   Skipped    <none>         <none>
default     web-n1   web         r.test/web:1            registry   Updating   abababababab   cdcdcdcdcdcd
`
	if err != nil || out != want ||
		!strings.Contains(errOut, "default/web-n1: container setup: the manifest names a digest") ||
		strings.Join(*asked, "\n") != "POST dryRun=true&pod=default%2Fweb-n1" {
		t.Errorf("%v\n%s%s%q", err, out, errOut, *asked)
	}
	out, _, err = execute(t, "", "auto-update", "-o", "json", "--api-socket", d.socket)
	var list []api.AutoUpdate
	if jsonErr := json.Unmarshal([]byte(out), &list); err != nil || jsonErr != nil || len(list) != 1 ||
		list[0].Containers[1] != updates.Containers[1] || (*asked)[1] != "POST dryRun=false" {
		t.Errorf("%v, %v\n%s%q", err, jsonErr, out, *asked)
	}
	if _, _, err := execute(t, "", "auto-update", "-o", "xml", "--api-socket", d.socket); err == nil ||
		!strings.Contains(err.Error(), "must be json or yaml") {
		t.Error(err)
	}
	if _, _, err := execute(t, "", "auto-update", "other", "--api-socket", d.socket); err == nil ||
		!strings.Contains(err.Error(), `"other"`) {
		t.Error(err)
	}
}

func TestAutoUpdateFailed(t *testing.T) {
	failed := updates
	failed.Containers = []api.ContainerImageUpdate{
		{Container: "web", Image: "r.test/web:1", State: api.UpdateFailed, Message: "no route to host"}}
	d, _ := updateDaemon(t, failed)
	_, errOut, err := execute(t, "", "auto-update", "--api-socket", d.socket)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != ExitFailed || !strings.Contains(errOut, "no route to host") {
		t.Errorf("%v %s", err, errOut)
	}
	none, _ := updateDaemon(t)
	if _, errOut, err := execute(t, "", "auto-update", "--api-socket", none.socket); err != nil ||
		!strings.Contains(errOut, "no pod has the annotation podstead.io/auto-update") {
		t.Errorf("%v %s", err, errOut)
	}
}

func TestDescribeImageUpdates(t *testing.T) {
	d, _ := updateDaemon(t, updates)
	out, _, err := execute(t, "", "describe", "pod", "web", "--api-socket", d.socket)
	for _, want := range []string{"Image Updates:", "registry, checked ", "next in 89m",
		"sha256:" + strings.Repeat("cd", 32)} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, no %q in\n%s", err, want, out)
		}
	}
	never := describe.PodDescription{Pod: &v1.Pod{}, Update: &api.AutoUpdate{Policy: "local"}, Now: time.Now()}
	if text := never.Text(); !strings.Contains(text, "local, never checked, waiting for the rollout") {
		t.Error(text)
	}
}
