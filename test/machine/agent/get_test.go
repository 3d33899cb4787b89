package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("a long body\n", 100_000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			http.NotFound(w, r)
			return
		}
		// Written in parts: the server does not know the length.
		for part := range strings.Lines(body) {
			_, _ = w.Write([]byte(part))
		}
	}))
	s.Listener = listener
	s.Start()
	defer s.Close()

	var out strings.Builder
	if err := get(&out, socket, "/pods"); err != nil || out.String() != body {
		t.Errorf("%v, %d bytes, want %d", err, out.Len(), len(body))
	}
	if err := get(&out, socket, "/other"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v, want the status of the response", err)
	}
	if err := get(&out, socket+"-none", "/pods"); err == nil {
		t.Error("no error without a server")
	}
}
