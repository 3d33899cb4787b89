package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

type fakeVolumes struct {
	removed string
	// listed are further volumes.
	listed []api.PersistentVolume
}

func (k *fakeVolumes) PersistentVolumes(_ context.Context, measured bool) ([]api.PersistentVolume, error) {
	list := []api.PersistentVolume{{Namespace: "apps", Name: "data", Path: "/x", Requested: "1Gi"}}
	if measured {
		available, used := uint64(60), uint64(30)
		list[0].Usage = &api.VolumeUsage{Capacity: 100, Available: &available, Used: &used, Incomplete: true}
	}
	return append(list, k.listed...), nil
}

func (k *fakeVolumes) RemovePersistentVolume(namespace, name string) error {
	switch name {
	case "gone":
		return fmt.Errorf("no such volume: %w", fs.ErrNotExist)
	case "used":
		return errors.New("it is in use")
	}
	k.removed = namespace + "/" + name
	return nil
}

func TestVolumes(t *testing.T) {
	k := &fakeVolumes{}
	routes := Routes(Sources{Volumes: k, Kube: http.NotFoundHandler()})
	ask := func(allowed access.Class, method, path string) (int, string) {
		w := httptest.NewRecorder()
		serveClasses(routes, allowed).ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	if code, body := ask(access.Read, "GET", "/podstead/v1/volumes"); code != 200 ||
		body != `[{"namespace":"apps","name":"data","path":"/x","requested":"1Gi"}]` {
		t.Errorf("list: %d %s", code, body)
	}
	if code, body := ask(access.Read, "GET", "/podstead/v1/volumes?usage=true"); code != 200 ||
		!strings.Contains(body, `"usage":{"capacityBytes":100,"availableBytes":60,"usedBytes":30,"incomplete":true}`) {
		t.Errorf("list with usage: %d %s", code, body)
	}
	for _, c := range []struct {
		allowed access.Class
		name    string
		code    int
		body    string
	}{
		{access.Read | access.Logs, "data", 404, ""},
		{access.Admin, "gone", 404, "no such volume"},
		{access.Admin, "used", 409, "in use"},
		{access.Admin, "data", 204, ""},
	} {
		if code, body := ask(c.allowed, "DELETE", "/podstead/v1/volumes/apps/"+c.name); code != c.code ||
			!strings.Contains(body, c.body) {
			t.Errorf("delete %s: %d %s, want %d", c.name, code, body, c.code)
		}
		if c.code != 204 && k.removed != "" {
			t.Errorf("removed %s", k.removed)
		}
	}
	if k.removed != "apps/data" {
		t.Errorf("removed %q", k.removed)
	}
}

// A claim of a cluster is marked, and has its state and what its pods wait for.
func TestVolumesOfACluster(t *testing.T) {
	k := &fakeVolumes{listed: []api.PersistentVolume{{
		Namespace: "apps", Name: "disk", Source: "api", Volume: "pv", Type: "csi", Capacity: "2Gi", State: api.VolumeWaiting,
		Waiting: []api.VolumeWait{{Pod: "apps/web", Message: "is not attached"}},
	}}}
	w := httptest.NewRecorder()
	serveClasses(Routes(Sources{Volumes: k, Kube: http.NotFoundHandler()}), access.Read).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/podstead/v1/volumes", nil))
	want := `{"namespace":"apps","name":"disk","source":"api","path":"","volume":"pv","type":"csi","capacity":"2Gi","state":"Waiting","waiting":[{"pod":"apps/web","message":"is not attached"}]}]`
	if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), want) {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}
