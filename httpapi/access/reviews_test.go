package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// fakeCluster knows users by their tokens, and permissions as "user verb subresource".
type fakeCluster struct {
	mu          sync.Mutex
	users       map[string]authenticationv1.UserInfo
	rights      map[string]bool
	unreachable error
	silent      bool
	asked       []string
	specs       []authorizationv1.SubjectAccessReviewSpec
}

func (c *fakeCluster) review(ctx context.Context, what string) error {
	c.mu.Lock()
	c.asked = append(c.asked, what)
	unreachable, silent := c.unreachable, c.silent
	c.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return unreachable
}

func (c *fakeCluster) ReviewToken(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	if err := c.review(ctx, token); err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u, ok := c.users[token]
	return u, ok, nil
}

func (c *fakeCluster) ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, string,
	error) {
	what := spec.User + " " + spec.ResourceAttributes.Verb + " " + spec.ResourceAttributes.Subresource
	if err := c.review(ctx, what); err != nil {
		return false, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs = append(c.specs, spec)
	return c.rights[what], "no rule", nil
}

// questions returns the reviews since the last call.
func (c *fakeCluster) questions() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.asked, ", ")
	c.asked = nil
	return all
}

func (c *fakeCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeCluster) newReviews() *Reviews {
	return NewReviews(ReviewConfig{
		Reviewer: c, Node: "edge", Authentication: true, Authorization: true, TokenTTL: 2 * time.Minute,
		AllowedTTL: 5 * time.Minute, DeniedTTL: 30 * time.Second,
	})
}

// ask returns the HTTP status for a request with a token.
func ask(t *testing.T, a *Authenticator, token, method, route string, class Class) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return outcome(a, r, route, class)
}

func outcome(a *Authenticator, r *http.Request, route string, class Class) string {
	c, err := a.Caller(r, nil)
	if err != nil {
		if errors.Is(err, ErrClusterUnavailable) {
			return "503 " + err.Error()
		}
		return "401 " + err.Error()
	}
	c, reason, err := c.Authorize(r, class, route)
	switch {
	case err != nil:
		return "503 " + err.Error()
	case reason != "":
		return "403 " + reason
	}
	return fmt.Sprintf("200 %s %s", c.User, c.Classes)
}

func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCluster{
			users: map[string]authenticationv1.UserInfo{"secret": {Username: "ann", UID: "7", Groups: []string{"ops"},
				Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}},
			rights: map[string]bool{"ann get metrics": true},
		}
		a := &Authenticator{Reviews: c.newReviews()}
		metrics := func() string { t.Helper(); return ask(t, a, "secret", "GET", "/metrics/cadvisor", Metrics) }
		if got := metrics(); got != "200 ann metrics" {
			t.Error(got)
		}
		if got := fmt.Sprintf("%+v", c.specs[0]); !strings.Contains(got,
			"User:ann Groups:[ops system:authenticated] Extra:map[k:[v]] UID:7") ||
			!strings.Contains(c.specs[0].ResourceAttributes.String(),
				"Verb:get,Group:,Version:v1,Resource:nodes,Subresource:metrics,Name:edge") {
			t.Errorf("asked %s %s", got, c.specs[0].ResourceAttributes)
		}
		if q := c.questions(); q != "secret, ann get metrics" {
			t.Errorf("asked %s", q)
		}
		time.Sleep(110 * time.Second)
		// Cached results stay valid while the API server is unreachable.
		c.set(func() { c.unreachable = errors.New("connection refused") })
		if got := metrics(); got != "200 ann metrics" || c.questions() != "" {
			t.Error(got)
		}
		if got := ask(t, a, "other", "GET", "/metrics", Metrics); !strings.HasPrefix(got, "503 ") ||
			!strings.Contains(got, "connection refused") {
			t.Error(got)
		}
		time.Sleep(11 * time.Second)
		if got := metrics(); !strings.HasPrefix(got, "503 ") {
			t.Errorf("an expired result is used: %s", got)
		}
		c.questions()
		c.set(func() { c.unreachable = nil })
		if got := metrics(); got != "200 ann metrics" || c.questions() != "secret" {
			t.Error(got)
		}
		// Denials expire sooner.
		if got := ask(t, a, "secret", "GET", "/pods", Read); !strings.HasPrefix(got,
			`403 user "ann" cannot get nodes/pods of node edge`) || !strings.Contains(got, "no rule") {
			t.Error(got)
		}
		ask(t, a, "secret", "GET", "/pods", Read)
		if q := c.questions(); q != "ann get pods, ann get proxy" {
			t.Errorf("asked %s", q)
		}
		time.Sleep(31 * time.Second)
		c.set(func() { c.rights["ann get proxy"] = true })
		if got := ask(t, a, "secret", "GET", "/pods", Read); got != "200 ann read" {
			t.Error(got)
		}
		// Unknown tokens are cached too.
		c.questions()
		for range 3 {
			if got := ask(t, a, "wrong", "GET", "/pods", Read); !strings.HasPrefix(got, "401 ") {
				t.Error(got)
			}
		}
		if q := c.questions(); q != "wrong" {
			t.Errorf("asked %s", q)
		}
	})
}

func TestUnresponsiveClusterTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCluster{silent: true}
		a := &Authenticator{Reviews: c.newReviews()}
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if got := ask(t, a, "secret", "GET", "/pods", Read); !strings.HasPrefix(got, "503 ") {
					t.Error(got)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d != reviewTimeout || c.questions() != "secret" {
			t.Errorf("after %v", d)
		}
	})
}

// A caller that disconnects does not cancel the review for others.
func TestReviewOutlivesItsFirstCaller(t *testing.T) {
	c := newCache[int]()
	ctx, cancel := context.WithCancel(t.Context())
	got, err := c.get(ctx, [32]byte{}, func(ctx context.Context) (int, time.Duration, error) {
		cancel()
		return 7, time.Hour, ctx.Err()
	})
	if got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache[int]()
	for i := range 2 * maxCacheEntries {
		_, _ = c.get(t.Context(), [32]byte{byte(i), byte(i >> 8)},
			func(context.Context) (int, time.Duration, error) { return i, time.Hour, nil })
	}
	if n := len(c.entries); n != maxCacheEntries {
		t.Errorf("%d answers are kept", n)
	}
}

func TestResourceAttributes(t *testing.T) {
	for _, c := range []struct {
		method, path string
		class        Class
		want         string
	}{
		{"GET", "/metrics", Metrics, "get metrics"},
		{"GET", "/metrics/resource", Metrics, "get metrics"},
		{"GET", "/stats/summary", Metrics, "get stats"},
		{"GET", "/logs/", Admin, "get log"},
		{"POST", "/checkpoint/{namespace}/{pod}/{container}", Admin, "create checkpoint"},
		{"GET", "/pods", Read, "get pods, get proxy"},
		{"GET", "/runningpods/{$}", Read, "get pods, get proxy"},
		{"GET", "/healthz/syncloop", Health, "get healthz, get proxy"},
		{"GET", "/configz", Read, "get configz, get proxy"},
		{"GET", "/containerLogs/{namespace}/{pod}/{container}", Logs, "get proxy"},
		{"POST", "/exec/{namespace}/{pod}/{container}", Exec, "create proxy"},
		// A kubelet requires only the verb get for this one.
		{"GET", "/exec/{namespace}/{pod}/{container}", Exec, "create proxy"},
		{"PUT", "/x", Admin, "update proxy"},
		{"DELETE", "/podstead/v1/volumes/{namespace}/{name}", Admin, "delete proxy"},
		{"GET", "/metricsx", Metrics, "get proxy"},
	} {
		var all []string
		for _, a := range resourceAttributes(c.method, c.path, c.class, "edge") {
			if a.Resource != "nodes" || a.Name != "edge" || a.Group != "" {
				t.Errorf("%v", a)
			}
			all = append(all, a.Verb+" "+a.Subresource)
		}
		if got := strings.Join(all, ", "); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
}

// Roles apply in addition to the permissions in the cluster. Of the admin groups, only
// system:masters, whose permissions cannot be revoked, is not reviewed.
func TestRolesApplyInAdditionToTheCluster(t *testing.T) {
	own, foreign := newPool(t), newPool(t)
	c := &fakeCluster{rights: map[string]bool{"eve get proxy": true}}
	a := &Authenticator{
		Authorities: []Authority{{Pool: func() (*x509.CertPool, error) { return own.pool, nil }},
			{Pool: func() (*x509.CertPool, error) { return foreign.pool, nil }, External: true}},
		Reviews: c.newReviews(),
	}
	for _, test := range []struct {
		ca          *pool
		user, group string
		class       Class
		want, asked string
	}{
		{foreign, "api", "system:masters", Exec, "200 ", ""},
		{foreign, "api", "kubeadm:cluster-admins", Exec, "403 ", "api create proxy"},
		{foreign, "ann", "podstead:exec", Exec, "200 ", ""},
		{foreign, "eve", "people", Read, "200 eve read", "eve get proxy"},
		{foreign, "eve", "people", Exec, "403 ", "eve create proxy"},
		{own, "eve", "people", Read, "403 ", ""},
		{own, "podstead-read", "podstead:read", Read, "200 ", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{test.ca.sign(test.user, test.group)}}
		got := outcome(a, r, "/containerLogs/x", test.class)
		if asked := c.questions(); !strings.HasPrefix(got, test.want) || asked != test.asked {
			t.Errorf("%s of %s: %s, asked %q; want %s, %q", test.user, test.group, got, asked, test.want, test.asked)
		}
	}
	// Without a cluster members of both admin groups are admins.
	a.Reviews = nil
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{foreign.sign("api", "kubeadm:cluster-admins")}}
	if got := outcome(a, r, "/", Admin); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
}

// pool returns the pool of a CA.
type pool struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newPool(t *testing.T) *pool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, key: key, pool: x509.NewCertPool()}
	p.cert = p.make(&x509.Certificate{Subject: pkix.Name{CommonName: t.Name()}, IsCA: true, BasicConstraintsValid: true})
	p.pool.AddCert(p.cert)
	return p
}

func (p *pool) make(c *x509.Certificate) *x509.Certificate {
	p.t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := p.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, p.key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

func (p *pool) sign(user, group string) *x509.Certificate {
	return p.make(&x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: []string{group}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// A group of a user in the cluster grants no role of this node, whatever its name.
func TestGroupsOfReviewedTokensGrantNoRole(t *testing.T) {
	c := &fakeCluster{users: map[string]authenticationv1.UserInfo{
		"attack": {Username: "eve", Groups: []string{"podstead:admin", "podstead:exec", "podstead:read"}},
		"master": {Username: "api", Groups: []string{"podstead:read", "system:masters"}},
	}}
	for _, authorization := range []bool{true, false} {
		reviews := c.newReviews()
		reviews.cfg.Authorization = authorization
		a := &Authenticator{Reviews: reviews}
		for _, class := range []Class{Read, Exec, Admin} {
			if got := ask(t, a, "attack", "GET", "/x", class); !strings.HasPrefix(got, "403 ") {
				t.Errorf("class %s with authorization by the cluster %v: %s", class, authorization, got)
			}
		}
		if got := ask(t, a, "master", "GET", "/x", Admin); !strings.HasPrefix(got, "200 ") {
			t.Errorf("system:masters: %s", got)
		}
	}
}

// A token of the token file is never sent to the cluster, even while the file is invalid.
func TestLocalTokensAreNotSentToTheCluster(t *testing.T) {
	f := newTokenFile(t, readToken+",ann,read\n")
	c := &fakeCluster{users: map[string]authenticationv1.UserInfo{"cluster-token": {Username: "bob"}},
		rights: map[string]bool{"bob get proxy": true}}
	a := &Authenticator{Tokens: f.file, Reviews: c.newReviews()}
	get := func(token string) string { t.Helper(); return ask(t, a, token, "GET", "/x", Read) }
	if got := get(readToken); !strings.HasPrefix(got, "200 ann") {
		t.Error(got)
	}
	f.write(readToken+",ann,read\nshort,eve,admin\n", 0o600)
	for range 2 {
		if got := get(readToken); !strings.HasPrefix(got, "401 tokens cannot be verified") {
			t.Error(got)
		}
	}
	if asked := c.questions(); asked != "" {
		t.Errorf("the cluster was sent %q", asked)
	}
	f.write(readToken+",ann,read\n", 0o600)
	if got := get("cluster-token"); !strings.HasPrefix(got, "200 bob") {
		t.Error(got)
	}
	if asked := c.questions(); asked != "cluster-token, bob get proxy" {
		t.Errorf("the cluster was asked %q", asked)
	}
}
