package kubeapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/internal/statefile"
)

// createWriter only creates.
type createWriter struct{ Writer }

func (createWriter) Create(_ context.Context, object map[string]any, _ objectwrite.Options) (objectwrite.Written,
	error) {
	return objectwrite.Written{Object: object, Changed: true}, nil
}

// Clients that send their bodies slowly take no slot of a write, and get an error after a while.
func TestSlowBodiesBlockNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := New(Config{Versions: OpenVersions("", statefile.Disk{}), Writer: createWriter{}, Sources: Sources{
			ConfigMaps: ObjectSource(func() []*v1.ConfigMap { return nil }, nil),
		}})
		ln := make(pipes)
		server := &http.Server{ReadTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				api.ServeHTTP(w,
					r.WithContext(access.WithCaller(r.Context(), access.Caller{User: "ann", Classes: access.RoleEdit.Classes()})))
			})}
		go func() { _ = server.Serve(ln) }()
		defer server.Close()
		const path = "/api/v1/namespaces/default/configmaps?dryRun=All"
		var slow []io.ReadWriteCloser
		for range maxWrites + 8 {
			c, err := ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\nContent-Length: "+
				"100\r\n\r\n{", path); err != nil {
				t.Fatal(err)
			}
			slow = append(slow, c)
		}
		synctest.Wait()
		client := &http.Client{Transport: &http.Transport{DialContext: ln.dial}}
		defer client.CloseIdleConnections()
		begin := time.Now()
		res, err := client.Post("http://n"+path, "application/json", strings.NewReader(`{"metadata":{"name":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusCreated || time.Since(begin) > 0 {
			t.Errorf("a write during slow ones: %d after %v, %s, %v", res.StatusCode, time.Since(begin), body, err)
		}
		_ = res.Body.Close()
		for _, c := range slow {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusRequestTimeout ||
				!strings.Contains(string(body), `"message":"the body did not arrive within 10s","reason":"Timeout"`) ||
				time.Since(begin) > receiveTimeout {
				t.Errorf("a slow body: %d after %v, %s, %v", res.StatusCode, time.Since(begin), body, err)
			}
			_ = res.Body.Close()
		}
	})
}
