package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// debugged is a daemon whose pod web gets the ephemeral containers of patches, in the given state.
func debugged(t *testing.T, state v1.ContainerState) (*fakeDaemon, *string) {
	t.Helper()
	d := newFakeDaemon(t, pod("web", func(*v1.Pod) {}))
	patch := new(string)
	d.routes["PATCH /api/v1/namespaces/{namespace}/pods/{pod}/ephemeralcontainers"] = func(w http.ResponseWriter,
		r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*patch = r.Header.Get("Content-Type") + " " + string(body)
		var sent v1.Pod
		if err := json.Unmarshal(body, &sent); err != nil {
			t.Error(err)
		}
		d.change(func(pods []v1.Pod) []v1.Pod {
			pods[0].Spec.EphemeralContainers = sent.Spec.EphemeralContainers
			pods[0].Status.EphemeralContainerStatuses = []v1.ContainerStatus{
				{Name: sent.Spec.EphemeralContainers[0].Name, State: state}}
			return pods
		})
		_ = json.NewEncoder(w).Encode(d.list()[0])
	}
	d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "output of "+r.PathValue("container")+"\n")
	}
	return d.start(), patch
}

func TestDebugCommand(t *testing.T) {
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	for _, tc := range []struct {
		args        string
		state       v1.ContainerState
		out, errout string
		code        int
		// patch are parts of the request, none if it is empty.
		patch []string
	}{
		{args: "web --image b -c x --target main -- ls /", state: ended(0),
			out: "container x added to pod/web-n1; see its output with: podstead logs web -c x\n",
			patch: []string{"application/strategic-merge-patch+json ", `"name":"x"`, `"image":"b"`, `"command":["ls","/"]`,
				`"targetContainerName":"main"`, `"add":["SYS_PTRACE"]`}},
		{args: "web --image b -c x --attach -- ls", state: ended(3), out: "output of x\n",
			errout: "container x ended with code 3", code: 3},
		{args: "web --image b -c x --attach --profile baseline --env A=b=c", state: ended(0), out: "output of x\n",
			patch: []string{`"env":[{"name":"A","value":"b=c"}]`}},
		{args: "web --image b -c x -i --profile sysadmin", state: ended(0), out: "output of x\n",
			patch: []string{`"stdin":true,"stdinOnce":true`, `"add":["ALL"]`}},
		{args: "web --image b -c x --attach",
			state:  v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}},
			errout: "ErrImagePull: no such host", code: 1, patch: []string{"b"}},
		{args: "web --image b --env =c", errout: `--env "=c": must be NAME=VALUE`, code: 2},
		{args: "web", errout: "name one with --image", code: 2},
		{args: "--image b", errout: "no pod given", code: 2},
		{args: "web ls --image b", errout: `unexpected argument "ls"; a command follows after --`, code: 2},
		{args: "node/n1 --image b", errout: "kubectl debug node/NAME", code: 2},
		{args: "web --image b --profile legacy", errout: `--profile "legacy": must be one of general, baseline`, code: 2},
		{args: "none --image b", errout: `pod "none" not found`, code: 1},
	} {
		d, patch := debugged(t, tc.state)
		out, errs, err := execute(t, "", append([]string{"debug", "--api-socket", d.socket}, strings.Fields(tc.args)...)...)
		if err != nil {
			errs += err.Error()
		}
		if out != tc.out || Code(err) != tc.code || !strings.Contains(errs, tc.errout) {
			t.Errorf("debug %s: code %d\n%s\n%s", tc.args, Code(err), out, errs)
		}
		for _, want := range tc.patch {
			if !strings.Contains(*patch, want) {
				t.Errorf("debug %s: no %s in %s", tc.args, want, *patch)
			}
		}
		if tc.code == 2 && *patch != "" {
			t.Errorf("debug %s: sent %s", tc.args, *patch)
		}
	}
}
