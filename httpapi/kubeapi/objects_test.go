package kubeapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/statefile"
)

const hidden = "aHVudGVyMg==" // hunter2

func objectsAPI(t *testing.T) func(may access.Class, path, accept string) (int, string) {
	t.Helper()
	versions := OpenVersions("", statefile.Disk{})
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "login", Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{v1.LastAppliedConfigAnnotation: `{"data":{"password":"` + hidden + `"}}`}}
	secret := &v1.Secret{ObjectMeta: meta, Type: v1.SecretTypeOpaque,
		Data: map[string][]byte{"password": []byte("hunter2")}}
	config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "site"},
		Data: map[string]string{"color": "red"}}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity.MustParse("1Gi")}},
		}}
	api := New(Config{Versions: versions, Sources: Sources{
		ConfigMaps: ObjectSource(func() []*v1.ConfigMap { return []*v1.ConfigMap{config} }, nil),
		Secrets:    ObjectSource(func() []*v1.Secret { return []*v1.Secret{secret} }, nil),
		Claims:     ObjectSource(func() []*v1.PersistentVolumeClaim { return []*v1.PersistentVolumeClaim{claim} }, nil),
	}})
	return func(may access.Class, path, accept string) (int, string) {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", accept)
		ctx, cancel := context.WithCancel(access.WithCaller(r.Context(), access.Caller{User: "eve", Classes: may}))
		if strings.Contains(path, "watch") {
			cancel() // the existing objects are sent nevertheless
		}
		defer cancel()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r.WithContext(ctx))
		if secret.ResourceVersion != "" || secret.UID != "" {
			t.Fatal("what is shared was written to")
		}
		return w.Code, w.Body.String()
	}
}

// Only admins see the data of Secrets, in every form of a response.
func TestOnlyAdminsSeeSecretData(t *testing.T) {
	ask := objectsAPI(t)
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, path := range []string{
		"/api/v1/secrets", "/api/v1/namespaces/shop/secrets", "/api/v1/namespaces/shop/secrets/login",
		"/api/v1/secrets?includeObject=Object", "/api/v1/namespaces/shop/secrets/login?includeObject=Object",
	} {
		for _, accept := range []string{"", table} {
			for _, may := range []access.Class{access.Health | access.Metrics | access.Read, access.RoleRead.Classes(),
				access.RoleExec.Classes()} {
				code, body := ask(may, path, accept)
				if code != 200 || !strings.Contains(body, "login") || strings.Contains(body, "aHVudGVy") ||
					strings.Contains(body, "password") {
					t.Errorf("GET %s as %v: %d %s", path, may, code, body)
				}
			}
		}
		code, body := ask(access.All, path, "")
		if code != 200 || !strings.Contains(body, hidden) {
			t.Errorf("GET %s as an admin: %d %s", path, code, body)
		}
	}
	if _, body := ask(access.Read, "/api/v1/secrets", table); !strings.Contains(body,
		`"login","Opaque","\u003chidden\u003e"`) {
		t.Errorf("the table of names: %s", body)
	}
	if _, body := ask(access.All, "/api/v1/secrets", table); !strings.Contains(body, `"login","Opaque",1`) {
		t.Errorf("the table of admins: %s", body)
	}
	// A selector must not reveal hidden data.
	if code, body := ask(access.Read, "/api/v1/secrets?fieldSelector=data.password%3D"+hidden, ""); code != 400 {
		t.Errorf("a selector over data: %d %s", code, body)
	}
}

func TestConfigMapsAndClaims(t *testing.T) {
	ask := objectsAPI(t)
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/configmaps/site":             `"data":{"color":"red"}`,
		"/api/v1/persistentvolumeclaims":                      `"storage":"1Gi"`,
		"/api/v1/configmaps?fieldSelector=metadata.name=site": `"uid":"configmap-shop-site"`,
		"/api/v1": `"shortNames":["pvc"]`,
	} {
		if code, body := ask(access.Read, path, ""); code != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s, want %s", path, code, body, want)
		}
	}
}
