package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/objects"
)

// rolloutDaemon responds with the states of the rollout of the pod web, one after the other; the
// last one stays. requests are what it was asked to do.
func rolloutDaemon(t *testing.T, states ...api.Rollout) (d *fakeDaemon, requests *[]string) {
	t.Helper()
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1",
		Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "old"}},
		Spec: v1.PodSpec{NodeName: "n1"}}
	d, requests = newFakeDaemon(t, pod), new([]string)
	var asked atomic.Int32
	d.routes["GET /podstead/v1/rollouts"] = func(w http.ResponseWriter, _ *http.Request) {
		n := min(int(asked.Add(1)), len(states))
		list := []api.Rollout{{Namespace: "other", Name: "web-n1", State: "Preparing"}}
		if n > 0 {
			list = append(list, states[n-1])
		}
		_ = json.NewEncoder(w).Encode(list)
	}
	d.routes["POST /podstead/v1/namespaces/default/pods/web-n1/rollout/{request}"] = func(w http.ResponseWriter,
		r *http.Request) {
		*requests = append(*requests, strings.TrimSuffix(r.PathValue("request")+" "+r.URL.Query().Get("revision"), " "))
		if r.URL.Query().Get("revision") == "none" {
			http.Error(w, "pod default/web-n1: no such revision", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(rollout("Preparing"))
	}
	d.routes["GET /podstead/v1/namespaces/default/pods/web-n1/rollout/history"] = func(w http.ResponseWriter,
		_ *http.Request) {
		_ = json.NewEncoder(w).Encode([]api.RolloutRevision{
			{Revision: "2222222222", Time: time.Now().Add(-time.Minute), InManifest: true,
				Rejected: "RolloutDeadlineExceeded: it was not\nReady within 5m0s",
				Images:   map[string]string{"b": "i:2", "a": "i@sha256:" + strings.Repeat("ab", 32)}},
			{Revision: "3333333333", Candidate: api.CandidateFailed, Message: "ErrImagePull: i:3: not found",
				Images: map[string]string{"a": "i:3"}},
			{Revision: "1111111111", Time: time.Now().Add(-time.Hour), InEffect: true, Ready: true,
				Images: map[string]string{"a": "i:1"}},
		})
	}
	d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("no such database\n"))
	}
	return d.start(), requests
}

func rollout(state api.RolloutState) api.Rollout {
	r := api.Rollout{Namespace: "default", Name: "web-n1", State: state, Revision: "1111111111"}
	if state != "Stable" {
		r.Candidate, r.Message = "2222222222", "why it is "+string(state)
	}
	return r
}

func TestRolloutStatus(t *testing.T) {
	for _, c := range []struct {
		states []api.Rollout
		args   []string
		code   int
		want   string
	}{
		{[]api.Rollout{rollout("Stable")}, nil, 0, "pod/web-n1 successfully rolled out, revision 1111111111\n"},
		{[]api.Rollout{rollout("Preparing"), rollout("Progressing"), rollout("Stable")}, nil, 0,
			"pod/web-n1 successfully rolled out, revision 1111111111\n"},
		{[]api.Rollout{rollout("Progressing"), rollout("RollingBack"), rollout("RolledBack")}, nil, ExitFailed,
			"pod/web-n1 RolledBack: why it is RolledBack\n"},
		{[]api.Rollout{rollout("Undone")}, nil, 0, "pod/web-n1 Undone: why it is Undone\n"},
		{[]api.Rollout{rollout("Preparing")}, []string{"--timeout=1s"}, ExitTimeout,
			"timed out after 1s: pod/web-n1: Preparing: why it is Preparing"},
		{[]api.Rollout{rollout("Preparing")}, []string{"--watch=false"}, 0, "pod/web-n1 Preparing: why it is Preparing\n"},
		{nil, nil, ExitFailed, "pod web-n1 has no rollout; pods of an API server have none"},
		{[]api.Rollout{rollout("Stable")}, []string{"-o", "xml"}, ExitUsage, "must be json or yaml"},
		{[]api.Rollout{rollout("RolledBack")}, []string{"-o", "yaml"}, ExitFailed, "\nstate: RolledBack\n"},
	} {
		d, _ := rolloutDaemon(t, c.states...)
		out, errOut, err := execute(t, "",
			append([]string{"rollout", "status", "web", "--api-socket", d.socket}, c.args...)...)
		if err != nil && !Silent(err) {
			errOut += err.Error()
		}
		if Code(err) != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%v %v: %d\n%s%s\nwant %d\n%s", c.states, c.args, Code(err), out, errOut, c.code, c.want)
		}
	}
	d, _ := rolloutDaemon(t, rollout("Stable"))
	out, _, err := execute(t, "", "rollout", "status", "--api-socket", d.socket)
	if err != nil || !strings.Contains(out, "other       web-n1   Preparing") ||
		!strings.Contains(out, "default     web-n1   Stable      1111111111") {
		t.Errorf("all rollouts: %v\n%s", err, out)
	}
	out, _, err = execute(t, "", "rollout", "status", "-n", "default", "-o", "json", "--api-socket", d.socket)
	var list []api.Rollout
	if jsonErr := json.Unmarshal([]byte(out), &list); err != nil || jsonErr != nil || len(list) != 1 ||
		list[0].State != "Stable" {
		t.Errorf("rollouts of a namespace: %v, %v\n%s", err, jsonErr, out)
	}
}

// A revision that is in effect has rolled out when it is ready: neither one that cannot start nor one
// that has failed is reported as a success.
func TestRolloutStatusOfAPodThatIsNotReady(t *testing.T) {
	waiting := v1.PodStatus{Phase: v1.PodPending,
		ContainerStatuses: []v1.ContainerStatus{{Name: "a", Image: "i:1", State: v1.ContainerState{
			Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "i:1 not found"}}}}}
	crashed := v1.PodStatus{Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{Name: "a", Image: "i:1", State: v1.ContainerState{
			Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
				Message: "back-off 10s restarting failed container=a pod=web"}},
			LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}}
	ready := v1.PodStatus{Phase: v1.PodRunning,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	for _, c := range []struct {
		state    api.RolloutState
		statuses []v1.PodStatus
		args     []string
		code     int
		want     string
	}{
		{"Stable", []v1.PodStatus{waiting}, []string{"--timeout=1s"}, ExitTimeout, "ImagePullBackOff"},
		{"Undone", []v1.PodStatus{waiting}, []string{"--timeout=1s"}, ExitTimeout, "revision 1111111111 is in effect: "},
		{"Stable", []v1.PodStatus{waiting}, []string{"--watch=false"}, 0,
			"pod/web-n1 Stable: revision 1111111111 is in effect, but not ready: ImagePullBackOff"},
		{"Stable", []v1.PodStatus{crashed}, []string{"--timeout=1s"}, ExitTimeout,
			"a ended with code 3: no such database; back-off 10s"},
		{"Stable", []v1.PodStatus{crashed}, []string{"--watch=false"}, 0,
			"a ended with code 3: no such database; back-off 10s"},
		{"Progressing", []v1.PodStatus{crashed}, []string{"--timeout=1s"}, ExitTimeout,
			"Progressing: why it is Progressing: a ended with code 3: no such database"},
		{"Stable", []v1.PodStatus{{Phase: v1.PodFailed}}, nil, ExitFailed, "has failed"},
		{"Stable", []v1.PodStatus{waiting, ready}, nil, 0, "successfully rolled out"},
		{"Stable", []v1.PodStatus{{Phase: v1.PodSucceeded}}, nil, 0, "successfully rolled out"},
		{"RolledBack", []v1.PodStatus{waiting}, nil, ExitFailed, "pod/web-n1 RolledBack"},
	} {
		r := rollout(c.state)
		r.UID = "u1"
		d, _ := rolloutDaemon(t, r)
		setStatus := func(st v1.PodStatus) {
			d.mu.Lock()
			defer d.mu.Unlock()
			pod := d.pods[0]
			pod.UID, pod.Status = "u1", st
			pod.Spec.Containers = []v1.Container{{Name: "a", Image: "i:1"}}
			d.pods = []v1.Pod{pod}
		}
		setStatus(c.statuses[0])
		if len(c.statuses) > 1 {
			response := d.routes["GET /podstead/v1/rollouts"]
			var asked atomic.Int32
			d.stop()
			d.routes["GET /podstead/v1/rollouts"] = func(w http.ResponseWriter, q *http.Request) {
				if asked.Add(1) == 2 {
					setStatus(c.statuses[1])
				}
				response(w, q)
			}
			d.start()
		}
		out, errOut, err := execute(t, "",
			append([]string{"rollout", "status", "web", "--api-socket", d.socket}, c.args...)...)
		if err != nil && !Silent(err) {
			errOut += err.Error()
		}
		if Code(err) != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%s %v: %d\n%s%s\nwant %d\n%s", c.state, c.args, Code(err), out, errOut, c.code, c.want)
		}
	}
}

// A file that the daemon has not read yet is not taken for rolled out, and one that is invalid
// is an error.
func TestRolloutStatusOfAChangedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: i}]}\n")
	d, _ := rolloutDaemon(t, rollout("Stable"), rollout("Stable"), rollout("Preparing"), rollout("RolledBack"))
	d.manifests = fmt.Sprintf(`[{"source":"file","units":[{"name":%q,"pods":["default/web"]}]}]`, file)
	if out, _, err := execute(t, "", "rollout", "status", "web", "--api-socket", d.socket); Code(err) != ExitFailed ||
		!strings.Contains(out, "RolledBack") {
		t.Errorf("%v\n%s", err, out)
	}
	write("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, imge: i}]}\n")
	if _, _, err := execute(t, "", "rollout", "status", "web", "--api-socket", d.socket); Code(err) != ExitFailed ||
		!strings.Contains(err.Error(), "manifest is invalid, the daemon keeps the last good revision") {
		t.Errorf("an invalid manifest: %v", err)
	}
}

func TestRolloutRequests(t *testing.T) {
	d, requests := rolloutDaemon(t, rollout("Stable"))
	for _, args := range [][]string{{"undo", "web"}, {"undo", "pod", "web", "--to-revision=1111111111"},
		{"retry", "web"}} {
		out, _, err := execute(t, "", append([]string{"rollout", "--api-socket", d.socket}, args...)...)
		if err != nil || out != "pod/web-n1 Preparing: why it is Preparing; podstead rollout status shows the progress\n" {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if _, _, err := execute(t, "", "rollout", "undo", "web", "--to-revision=none", "--api-socket",
		d.socket); Code(err) != ExitFailed || !strings.Contains(err.Error(), "no such revision") {
		t.Errorf("an unknown revision: %v", err)
	}
	if want := []string{"undo", "undo 1111111111", "retry", "undo none"}; !slices.Equal(*requests, want) {
		t.Errorf("requests %q, want %q", *requests, want)
	}
	for _, args := range [][]string{{"undo"}, {"retry", "a", "b"}, {"history"}, {"status", "a", "b"}} {
		if _, _, err := execute(t, "", append([]string{"rollout", "--api-socket", d.socket}, args...)...); err == nil ||
			!strings.Contains(err.Error(), "pods given") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestRolloutHistory(t *testing.T) {
	d, _ := rolloutDaemon(t, rollout("RolledBack"))
	out, _, err := execute(t, "", "rollout", "history", "web", "--api-socket", d.socket)
	want := `REVISION     AGE      STATE                IMAGES                MESSAGE
2222222222   60s      manifest, rejected   i@abababababab, i:2   RolloutDeadlineExceeded: it was not Ready within 5m0s
3333333333   <none>   failed               i:3                   image i:3 not found in its registry; correct the name or the tag
1111111111   60m      in effect, ready     i:1                   <none>
`
	if err != nil || out != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

func TestDescribeRollout(t *testing.T) {
	d, _ := rolloutDaemon(t, rollout("RolledBack"))
	out, _, err := execute(t, "", "describe", "pod", "web", "--api-socket", d.socket)
	if want := "Rollout:          RolledBack: why it is RolledBack, revision 1111111111, candidate 2222222222\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, no %q in\n%s", err, want, out)
	}
}

// An error of the runtime is shortened to its cause everywhere but in describe.
func TestRolloutShortensErrors(t *testing.T) {
	const whole = `Back-off pulling image "i:9": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "i:9": i:9: not found`
	r := rollout("Preparing")
	r.Message = "revision 2 is not in effect yet: " + whole
	d, _ := rolloutDaemon(t, r)
	for _, args := range [][]string{{"get", "pods"}, {"status"}, {"rollout", "status"},
		{"rollout", "status", "web", "--watch=false"}, {"describe", "pod", "web"}} {
		out, errs, err := execute(t, "", append(args, "--api-socket", d.socket)...)
		full := args[0] == "describe"
		if text := strings.Join(strings.Fields(out+errs), " "); strings.Contains(text, whole) != full ||
			strings.Contains(text, "not in effect yet: image i:9 not found in its registry; correct") == full {
			t.Errorf("%v: %v\n%s%s", args, err, out, errs)
		}
	}
}

// get and status show the rollouts that have not ended as their manifests specify.
func TestRolloutNotices(t *testing.T) {
	for state, code := range map[api.RolloutState]int{"RolledBack": ExitFailed, "Undone": 0, "Stable": 0} {
		d, _ := rolloutDaemon(t, rollout(state))
		_, errOut, err := execute(t, "", "get", "pods", "--api-socket", d.socket)
		if want := "rollout: default/web-n1 " + string(state); err != nil ||
			strings.Contains(errOut, want) != (state != "Stable") ||
			!strings.Contains(errOut, "rollout: other/web-n1 Preparing\n") {
			t.Errorf("%s: %v, want %q\n%s", state, err, want, errOut)
		}
		out, _, err := execute(t, "", "status", "--api-socket", d.socket)
		if want := "Rollout:   default/web-n1 " + string(state); strings.Contains(out, want) != (state != "Stable") ||
			state == "RolledBack" && Code(err) != code {
			t.Errorf("%s: %v, want %q\n%s", state, err, want, out)
		}
	}
}

// The deadline is shown of a revision that has to become ready, not of the one that a rollback
// started.
// The time that passes is no line of its own in the output for a file.
func TestRolloutStatusPrintsChanges(t *testing.T) {
	states := append(slices.Repeat([]api.Rollout{rollout("Progressing")}, 6), rollout("Stable"))
	now := time.Now()
	for i := range states {
		states[i].Deadline = now.Add(time.Minute)
	}
	d, _ := rolloutDaemon(t, states...)
	_, errs, err := execute(t, "", "rollout", "status", "web", "--api-socket", d.socket)
	if n := strings.Count(errs, "pod/web-n1:"); err != nil || n != 1 {
		t.Errorf("%v, %d lines:\n%s", err, n, errs)
	}
}

func TestRolloutDeadline(t *testing.T) {
	now := time.Now()
	for state, want := range map[api.RolloutState]string{"Progressing": "Progressing: why it is Progressing (within 90s)",
		"RolledBack": "RolledBack: why it is RolledBack"} {
		r := rollout(state)
		r.Deadline = now.Add(90 * time.Second)
		if got := objects.RolloutSummary(&r, now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
