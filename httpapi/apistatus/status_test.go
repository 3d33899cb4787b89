package apistatus

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDetailsNameTheObjectOfThePath(t *testing.T) {
	for path, want := range map[string]metav1.StatusDetails{
		"/api/v1/pods":                                       {Kind: "pods"},
		"/api/v1/nodes/n1":                                   {Kind: "nodes", Name: "n1"},
		"/api/v1/namespaces/default":                         {Kind: "namespaces", Name: "default"},
		"/api/v1/namespaces/default/pods":                    {Kind: "pods"},
		"/api/v1/namespaces/default/pods/web":                {Kind: "pods", Name: "web"},
		"/api/v1/namespaces/default/pods/web/log":            {Kind: "pods", Name: "web"},
		"/apis/metrics.k8s.io/v1beta1/namespaces/x/pods/web": {Group: "metrics.k8s.io", Kind: "pods", Name: "web"},
		"/apis/apps/v1/deployments":                          {Group: "apps", Kind: "deployments"},
		"/podstead/v1/namespaces/default/pods/web/restart":   {Kind: "pods", Name: "web"},
		"/podstead/v1/images":                                {Kind: "images"},
		"/podstead/v1/images/load":                           {Kind: "images"},
		"/podstead/v1/volumes/default/data":                  {Kind: "persistentvolumeclaims", Name: "data"},
		"/exec/default/web/main":                             {Kind: "pods", Name: "web"},
		"/api":                                               {},
		"/api/v1":                                            {},
		"/version":                                           {},
		"/":                                                  {},
		"/apis/apps/v1":                                      {},
		"/podstead":                                          {},
		"/api/v1/namespaces/default/pods/web/ephemeralcontainers": {Kind: "pods", Name: "web"},
	} {
		w := httptest.NewRecorder()
		Write(w, httptest.NewRequest("GET", path, nil), New(http.StatusNotFound, "no"))
		var got metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got.Details == nil {
			t.Errorf("%s: no details in %s", path, w.Body)
		} else if got.Details.Group != want.Group || got.Details.Kind != want.Kind || got.Details.Name != want.Name {
			t.Errorf("%s: details %+v, want %+v", path, *got.Details, want)
		}
	}
}

func TestReasonsFollowTheCode(t *testing.T) {
	for code, want := range map[int]metav1.StatusReason{
		404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid,
		429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError, 502: metav1.StatusReasonInternalError,
	} {
		if got := New(code, "x").Reason; got != want {
			t.Errorf("%d: reason %q, want %q", code, got, want)
		}
	}
}

func TestDetailsThatAreSetAreKept(t *testing.T) {
	w := httptest.NewRecorder()
	s := New(http.StatusConflict, "changed")
	s.Details = &metav1.StatusDetails{Kind: "configmaps", Name: "site"}
	Write(w, httptest.NewRequest("GET", "/api/v1/pods", nil), WithCause(s, metav1.CauseTypeFieldValueInvalid, "data"))
	var got metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if d := got.Details; d.Kind != "configmaps" || d.Name != "site" || len(d.Causes) != 1 || d.Causes[0].Field != "data" ||
		d.Causes[0].Message != "changed" {
		t.Errorf("details are %+v", d)
	}
}

func TestErrorsOfTheKubeletsEndpointsAreText(t *testing.T) {
	w := httptest.NewRecorder()
	Error(w, httptest.NewRequest("GET", "/containerLogs/default/web/main", nil), http.StatusNotFound, "pod %q not found",
		"web")
	if got := w.Body.String(); got != "pod \"web\" not found\n" || w.Code != http.StatusNotFound {
		t.Errorf("%d %q, want text", w.Code, got)
	}
	w = httptest.NewRecorder()
	Error(w, httptest.NewRequest("GET", "/podstead/v1/images", nil), http.StatusBadGateway, "no runtime")
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q: %s", got, w.Body)
	}
}
