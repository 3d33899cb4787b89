package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/podstead/podstead/httpapi/access"
)

func TestObserveRequests(t *testing.T) {
	var calls []string
	routes := observe([]Route{
		{"GET", "/metrics", access.Metrics, func(http.ResponseWriter, *http.Request) { calls = append(calls, "answers") }},
		{"GET", "/containerLogs/{namespace}/{pod}/{container}", access.Logs, func(http.ResponseWriter, *http.Request) {}},
		{"", "/exec/{namespace}/{pod}/{container}", access.Exec, func(http.ResponseWriter, *http.Request) {}},
		{"", "/api/", access.Read, func(http.ResponseWriter, *http.Request) {}},
	}, func(r Request) func() {
		calls = append(calls, fmt.Sprintf("%s %s %t", r.Method, r.Path, r.LongRunning))
		return func() { calls = append(calls, "done") }
	})
	h := serveClasses(routes, access.All)
	for _, path := range []string{"/metrics", "/containerLogs/a/b/c", "/containerLogs/a/b/c?follow=true", "/exec/a/b/c",
		"/api/v1/pods?watch=1", "/nowhere"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	want := []string{
		"GET metrics false", "answers", "done", "GET containerLogs false", "done", "GET containerLogs true", "done",
		"GET exec true", "done", "GET api true", "done",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls: %q, want %q", calls, want)
	}
}
