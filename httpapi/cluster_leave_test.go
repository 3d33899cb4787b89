package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type fakeMember func(context.Context) (string, error)

func (m fakeMember) Leave(ctx context.Context) (string, error) { return m(ctx) }

func TestLeaveCluster(t *testing.T) {
	bounded := fakeMember(func(ctx context.Context) (string, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("Leave has no deadline")
		}
		return "kubectl delete node edge", nil
	})
	for name, test := range map[string]struct {
		member ClusterMember
		query  string
		code   int
		text   string
	}{
		"success": {bounded, "?timeout=1m", http.StatusOK, `"leftovers":"kubectl delete node edge"`},
		"failure": {fakeMember(func(context.Context) (string, error) { return "", errors.New("pods are left") }),
			"?timeout=1m", http.StatusConflict, "pods are left"},
		"no cluster":       {nil, "?timeout=1m", http.StatusConflict, "not joined a cluster"},
		"no timeout":       {bounded, "", http.StatusBadRequest, "timeout"},
		"negative timeout": {bounded, "?timeout=-1m", http.StatusBadRequest, "timeout"},
	} {
		srv := httptest.NewServer(leaveCluster(test.member))
		resp, err := http.Post(srv.URL+test.query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		srv.Close()
		if err != nil || resp.StatusCode != test.code ||
			!strings.Contains(strings.ReplaceAll(string(body), ": ", ":"), test.text) {
			t.Errorf("%s: %d %s, %v", name, resp.StatusCode, body, err)
		}
	}
}
