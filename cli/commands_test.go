package cli

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// An invalid command line exits with 2 and one message, also if no daemon runs.
func TestUsageErrorsWithoutDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string]string{
		"get pots":             `unknown resource type "pots"; did you mean pods?`,
		"status -o wide":       `--output "wide": must be json or yaml`,
		"kubeconfig --role x":  `--role "x": must be read, exec, edit or admin`,
		"logs":                 "POD is missing; usage: podstead logs POD",
		"logs a b":             "unexpected number of arguments (2)",
		"logs a --tail x":      `--tail "x": must be an integer; see podstead logs --help`,
		"logs a --since x":     `--since "x": must be a duration, such as 10s`,
		"logs a --timestamps=": `--timestamps "": must be true or false`,
	} {
		_, _, err := execute(t, "", append(strings.Fields(args), "--api-socket", socket)...)
		if Code(err) != ExitUsage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v (%d), want %s", args, err, Code(err), want)
		}
	}
	if _, _, err := execute(t, "", "get", "pods", "--api-socket", socket); Code(err) != ExitNoDaemon {
		t.Errorf("get pods: %v", err)
	}
}

// An unknown type is reported without the daemon, which may hang.
func TestUnknownTypeWithoutRequest(t *testing.T) {
	d := newFakeDaemon(t)
	asked := false
	d.routes["GET /api/v1"] = func(http.ResponseWriter, *http.Request) { asked = true }
	d.start()
	for _, args := range []string{"get pots", "get pods,pots", "wait pots/x"} {
		if _, _, err := execute(t, "", append(strings.Fields(args), "--api-socket", d.socket)...); Code(err) != ExitUsage {
			t.Errorf("%s: %v (%d)", args, err, Code(err))
		}
	}
	if asked {
		t.Error("the daemon was asked for its types")
	}
}

func TestVolumes(t *testing.T) {
	d := newFakeDaemon(t)
	d.routes["GET /podstead/v1/volumes"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("usage") == "" {
			response(`[]`)(w, r)
			return
		}
		response(
			`[{"namespace":"apps","name":"data","path":"/v/apps/data","usage":{"capacityBytes":4294967296,"usedBytes":1048576,"limitBytes":4294967296}},
			{"namespace":"apps","name":"large","usage":{"capacityBytes":4294967296,"usedBytes":1048576,"incomplete":true}},
			{"namespace":"apps","name":"disk","usage":{"capacityBytes":5368709120}}]`)(w, r)
	}
	d.routes["DELETE /podstead/v1/volumes/{namespace}/{name}"] = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such volume", http.StatusNotFound)
	}
	d.start()
	plain, _, err := execute(t, "", "volumes", "--api-socket", d.socket)
	listed, _, other := execute(t, "", "volumes", "ls", "--api-socket", d.socket)
	if err != nil || other != nil || plain != listed || !strings.Contains(plain, "/v/apps/data") ||
		!strings.Contains(plain, " yes        1.0 MiB ") || !strings.Contains(plain, " no         >1.0 MiB ") ||
		!strings.Contains(plain, " >1.0 MiB ") || !strings.Contains(plain, " 4.0 GiB ") ||
		!strings.Contains(plain, "<none>     5.0 GiB ") {
		t.Errorf("volumes: %v %q; volumes ls: %v %q", err, plain, other, listed)
	}
	_, _, err = execute(t, "", "volumes", "rm", "x", "--api-socket", d.socket)
	if want := `volume of claim "default/x" not found; list them with podstead volumes`; Code(err) != ExitFailed ||
		err.Error() != want {
		t.Errorf("volumes rm: %v, want %s", err, want)
	}
}

// Claims of a cluster are marked, with their state and what their pods wait for. Without any the columns for this
// are absent.
func TestVolumesOfACluster(t *testing.T) {
	const own = `{"namespace":"apps","name":"data","source":"file","state":"Bound","path":"/v/apps/data"}`
	d := newFakeDaemon(t)
	list := "[" + own + `,
		{"namespace":"shop","name":"disk","source":"api","path":"disk.example.com:d1","volume":"pv","type":"csi","capacity":"2Gi","pods":["shop/db"],"state":"Bound","usage":{"capacityBytes":2147483648,"usedBytes":1048576}},
		{"namespace":"shop","name":"one","source":"api","path":"/mnt/one","volume":"one","type":"local","capacity":"1Gi","pods":["shop/db"],"state":"Waiting",
		 "waiting":[{"pod":"shop/a","message":"is in use"},{"pod":"shop/b","message":"is not for this node"},{"pod":"shop/c","message":"is in use"}]}]`
	d.routes["GET /podstead/v1/volumes"] = func(w http.ResponseWriter, r *http.Request) { response(list)(w, r) }
	const refusal = "PersistentVolumeClaim shop/disk belongs to the cluster; delete it there: kubectl -n shop delete " +
		"pvc disk"
	d.routes["DELETE /podstead/v1/volumes/{namespace}/{name}"] = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, refusal, http.StatusConflict)
	}
	d.start()
	run := func(args ...string) (string, error) {
		out, _, err := execute(t, "", append(args, "--api-socket", d.socket)...)
		return out, err
	}
	want := `NAMESPACE   CLAIM   REQUESTED   ENFORCED   USED      CAPACITY   VOLUME   CLASS    USED BY   PATH                  VOLUME TYPE   SOURCE   STATE     MESSAGE
apps        data    <none>      <none>     <none>    <none>     <none>   <none>   <none>    /v/apps/data          <none>        file     Bound     <none>
shop        disk    <none>      no         1.0 MiB   2.0 GiB    pv       <none>   shop/db   disk.example.com:d1   csi           api      Bound     <none>
shop        one     <none>      <none>     <none>    1Gi        one      <none>   shop/db   /mnt/one              local         api      Waiting   shop/a,shop/c wait: is in use; shop/b waits: is not for this node
`
	if out, err := run("volumes"); err != nil || out != want {
		t.Errorf("volumes: %v\n%s, want\n%s", err, out, want)
	}
	want = `NAMESPACE   CLAIM   REQUESTED   USED BY   PATH                  VOLUME TYPE   SOURCE   STATE   MESSAGE
shop        disk    <none>      shop/db   disk.example.com:d1   csi           api      Bound   <none>
`
	if out, err := run("get", "volumes", "-n", "shop", "disk", "-o", "wide"); err != nil || out != want {
		t.Errorf("get volumes -o wide: %v\n%s, want\n%s", err, out, want)
	}
	for _, format := range []string{"json", "yaml"} {
		out, err := run("get", "volumes", "-A", "-o", format)
		for _, part := range []string{"source", "api", "state", "Waiting", "capacity", "2Gi", "is not for this node"} {
			if err != nil || !strings.Contains(out, part) {
				t.Errorf("get volumes -o %s has no %s: %v\n%s", format, part, err, out)
			}
		}
	}
	if _, err := run("volumes", "rm", "shop/disk"); Code(err) != ExitFailed || err.Error() != refusal {
		t.Errorf("volumes rm: %v, want %s", err, refusal)
	}
	list = "[" + own + "]"
	if out, err := run("volumes"); err != nil || strings.Contains(out, "SOURCE") {
		t.Errorf("volumes without claims of a cluster: %v\n%s", err, out)
	}
}
