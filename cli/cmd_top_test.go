package cli

import (
	"strings"
	"testing"
)

func TestTop(t *testing.T) {
	d := newFakeDaemon(t)
	const pods = `{"items":[
		{"metadata":{"name":"web-n1","namespace":"default"},"containers":[{"name":"a","usage":{"cpu":"300000000n","memory":"64Mi"}},{"name":"b","usage":{"cpu":"1m","memory":"1Mi"}}]},
		{"metadata":{"name":"db-n1","namespace":"apps"},"containers":[{"name":"c","usage":{"cpu":"900m","memory":"8Mi"}}]}]}`
	d.routes["GET /apis/metrics.k8s.io/v1beta1/pods"] = response(pods)
	d.routes["GET /apis/metrics.k8s.io/v1beta1/nodes"] = response(
		`{"items":[{"metadata":{"name":"n1"},"usage":{"cpu":"500m","memory":"1Gi"}}]}`)
	d.routes["GET /apis/metrics.k8s.io/v1beta1/namespaces/empty/pods"] = response(`{"items":[]}`)
	d.start()
	for _, c := range []struct{ args, out, errs string }{
		{"pods", "NAMESPACE   NAME     CPU(cores)   MEMORY(bytes)\napps        db-n1    900m         8Mi\ndefault     " +
			"web-n1   301m         65Mi\n", ""},
		{"pods --sort-by memory --no-headers", "default   web-n1   301m   65Mi\napps      db-n1    900m   8Mi\n", ""},
		{"pods --containers --sort-by cpu", "NAMESPACE   POD      NAME   CPU(cores)   MEMORY(bytes)\napps        db-n1    " +
			"c      900m         8Mi\ndefault     web-n1   a      300m         64Mi\ndefault     web-n1   b      1m           " +
			"1Mi\n", ""},
		{"pod web", "NAMESPACE   NAME     CPU(cores)   MEMORY(bytes)\ndefault     web-n1   301m         65Mi\n", ""},
		{"po pod/web-n1 --no-headers", "default   web-n1   301m   65Mi\n", ""},
		{"pods -n empty", "", "no running pods found in namespace empty\n"},
		{"nodes", "NAME   CPU(cores)   CPU(%)      MEMORY(bytes)   MEMORY(%)\nn1     500m         <unknown>   1024Mi       " +
			"   <unknown>\n", ""},
	} {
		out, errs, err := execute(t, "",
			append([]string{"top"}, append(strings.Fields(c.args), "--api-socket", d.socket)...)...)
		if err != nil || out != c.out || errs != c.errs {
			t.Errorf("top %s: %v\n%s%s\nwant\n%s%s", c.args, err, out, errs, c.out, c.errs)
		}
	}
	asTop, _, _ := execute(t, "", "top", "pods", "--containers", "--sort-by", "cpu", "--api-socket", d.socket)
	if out, _, err := execute(t, "", "stats", "--sort-by", "cpu", "--api-socket", d.socket); err != nil || out != asTop {
		t.Errorf("stats: %v\n%swant\n%s", err, out, asTop)
	}
	for args, code := range map[string]int{"pods nosuch": 1, "pods --sort-by color": 2, "nodes x": 2, "pots": 2} {
		if _, _, err := execute(t, "",
			append([]string{"top"}, append(strings.Fields(args), "--api-socket", d.socket)...)...); Code(err) != code {
			t.Errorf("top %s: %v (%d), want %d", args, err, Code(err), code)
		}
	}
}

// The node shows the devices that containers have, once each, of those that can be allocated.
func TestTopDevices(t *testing.T) {
	d := newFakeDaemon(t)
	const health = `"allocatedResourcesStatus":[{"name":"example.com/gpu","resources":[{"resourceID":"0","health":"Healthy"}]}]`
	d.routes["GET /apis/metrics.k8s.io/v1beta1/nodes"] = response(
		`{"items":[{"metadata":{"name":"n1"},"usage":{"cpu":"500m","memory":"1Gi"}}]}`)
	d.routes["GET /api/v1/nodes"] = response(
		`{"items":[{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"2","memory":"2Gi","hugepages-2Mi":"0","example.com/serial":"3","example.com/gpu":"2"}}}]}`)
	d.routes["GET /api/v1/pods"] = response(
		`{"items":[{"metadata":{"name":"web-n1"},"status":{"initContainerStatuses":[{"name":"init",` + health +
			`}],"containerStatuses":[{"name":"main",` + health + `}]}}]}`)
	d.start()
	out, errs, err := execute(t, "", "top", "nodes", "--api-socket", d.socket)
	const want = "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)   DEVICES\n" +
		"n1     500m         25%      1024Mi          50%         example.com/gpu=1/2,example.com/serial=0/3\n"
	if err != nil || out != want || errs != "" {
		t.Errorf("top nodes: %v\n%s%s\nwant\n%s", err, out, errs, want)
	}
}
