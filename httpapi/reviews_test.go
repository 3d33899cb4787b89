package httpapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/podstead/podstead/httpapi/access"
)

// reviewer knows ann, who may see pods and secrets' names; about bob it cannot
// tell.
type fakeReviewer struct{}

func (fakeReviewer) ReviewToken(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	if token == "away" {
		return authenticationv1.UserInfo{}, false, errors.New("no route to host")
	}
	return authenticationv1.UserInfo{Username: token}, token == "ann" || token == "bob" || token == "root", nil
}

func (fakeReviewer) ReviewAccess(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string,
	error) {
	if spec.User == "bob" {
		return false, "", errors.New("no route to host")
	}
	if spec.User == "root" {
		return true, "", nil
	}
	return spec.ResourceAttributes.Verb == "get" && spec.ResourceAttributes.Subresource == "proxy" &&
		spec.ResourceAttributes.Name == "edge", "", nil
}

func TestClusterReviewsCallers(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.cfg.Remote.Reviews = access.ReviewConfig{
		Reviewer: fakeReviewer{}, Node: "edge", Authentication: true, Authorization: true, TokenTTL: time.Minute,
		AllowedTTL: time.Minute, DeniedTTL: time.Minute,
	}
	b.start()
	c := b.client()
	for _, q := range []struct {
		method, path, token string
		code                int
		text                string
	}{
		{"GET", "/pods", "ann", 200, ""},
		{"GET", "/metrics", "ann", 403, "nodes/metrics of node edge"},
		{"POST", "/exec/default/web/main?command=id", "ann", 403, "cannot create nodes/proxy"},
		// A kubelet allows this.
		{"GET", "/exec/default/web/main?command=id", "ann", 403, "cannot create nodes/proxy"},
		// Anyone who writes pods is root here, which no permission of a cluster implies.
		{"POST", "/podstead/v1/namespaces/default/pods/web/restart", "root", 403,
			"the access class write is required, which no permission in the cluster grants"},
		{"POST", "/podstead/v1/images/prune?dryRun=x", "root", 400, ""},
		{"GET", "/pods", "nobody", 401, "does not know the token"},
		{"GET", "/pods", "away", 503, "no route to host"},
		{"GET", "/pods", "bob", 503, "no route to host"},
		{"GET", "/api/v1/pods", "away", 503, `"reason":"ServiceUnavailable"`},
		// Roles still apply.
		{"GET", "/pods", readerToken, 200, ""},
	} {
		if code, text := b.request(c, q.method, "https://"+b.tlsAddress+q.path, q.token); code != q.code ||
			!strings.Contains(text, q.text) {
			t.Errorf("%s %s as %s: %d %s, want %d %q", q.method, q.path, q.token, code, text, q.code, q.text)
		}
	}
}
