package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// wireDaemon serves podstead's own endpoints with the golden files of package api.
func wireDaemon(t *testing.T) (socket string) {
	t.Helper()
	d := newFakeDaemon(t, pod("web", func(p *v1.Pod) { p.UID, p.Status.StartTime = "u-2", nil }))
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "api", "testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for route, name := range map[string]string{
		"GET /images": "images", "GET /images/archives": "image-archives", "POST /images/prune": "images",
		"POST /images/pull": "image",
		"POST /images/load": "images", "GET /starts": "starts", "GET /rollouts": "rollouts",
		"GET /auto-update": "auto-updates", "POST /auto-update": "auto-updates",
		"POST /cluster/leave": "cluster-leave", "GET /volumes": "volumes", "POST /kubeconfig": "kubeconfig",
		"POST /namespaces/{namespace}/pods/{pod}/restart":        "restart",
		"GET /namespaces/{namespace}/pods/{pod}/rollout/history": "rollout-history",
		"POST /namespaces/{namespace}/pods/{pod}/rollout/undo":   "rollout",
	} {
		method, path, _ := strings.Cut(route, " ")
		body := read(name)
		d.routes[method+" /podstead/v1"+path] = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	d.manifests, d.objects = read("manifests"), read("objects")
	return d.start().socket
}

// ages are how long ago something was, or a local time: they change with the day of the test and its time zone, and
// with them the width of columns.
var (
	ages    = regexp.MustCompile(`\b([0-9]+[ydhms])+\b|valid until .*`)
	columns = regexp.MustCompile(`(\S)  +`)
)

// TestCommandsReadTheWire prints what the commands read of each of podstead's own endpoints.
func TestCommandsReadTheWire(t *testing.T) {
	socket := wireDaemon(t)
	archive := writeFile(t, "a.tar", "x")
	var got strings.Builder
	for _, command := range []string{
		"rollout status", "rollout status -o yaml", "rollout status web --watch=false", "rollout history web",
		"rollout history web -o yaml", "rollout undo web",
		"auto-update", "auto-update -o yaml", "images ls", "images ls -o yaml", "images prune", "images pull web:1",
		"images load ARCHIVE", "get images",
		"volumes", "get volumes -o wide", "get volumes -o yaml", "get priorityclasses", "get services",
		"get priorityclasses -o yaml",
		"restart web", "cluster leave", "kubeconfig", "status", "describe pod web",
	} {
		args := strings.Fields(strings.ReplaceAll(command, "ARCHIVE", archive))
		out, errs, err := execute(t, "", append(args, "--api-socket", socket)...)
		text := out + errs
		if err != nil {
			text += "error: " + err.Error() + "\n"
		}
		text = strings.ReplaceAll(ages.ReplaceAllString(withoutDuration(text), "AGE"), archive, "ARCHIVE")
		got.WriteString("$ podstead " + command + "\n" + columns.ReplaceAllString(text, "$1  ") + "\n")
	}
	golden(t, "wire.txt", got.String())
}
