package registry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/podstead/podstead/test/image"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	for text, want := range map[string]Reference{
		"registry.test:5000/fleet/web:v1": {Host: "registry.test:5000", Repository: "fleet/web", Tag: "v1"},
		"registry.test/web":               {Host: "registry.test", Repository: "web", Tag: "latest"},
		"busybox:1":                       {Host: "docker.io", Repository: "library/busybox", Tag: "1"},
		"[::1]:5000/web:v1":               {Host: "[::1]:5000", Repository: "web", Tag: "v1"},
		"registry.test/web@" + someDigest: {Host: "registry.test", Repository: "web", Digest: someDigest},
		"registry.test/web:v1@" + someDigest: {Host: "registry.test", Repository: "web", Tag: "v1",
			Digest: someDigest},
		"localhost/web:sha256-0123456789abcdef.sig": {Host: "localhost", Repository: "web",
			Tag: "sha256-0123456789abcdef.sig"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%s: printed as %s, which is %+v (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{"", "https://registry.test/web", "registry.test/Web:v1", "registry.test/web@sha256:12"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "HOST/REPOSITORY:TAG") {
			t.Errorf("%q: %+v (%v)", text, got, err)
		}
	}
}

// served is a registry with one artifact, and what its requests were.
type served struct {
	*image.Registry
	ref      Reference
	digest   string
	layer    image.Layer
	requests []string
}

func serve(t *testing.T, wrap func(http.Handler) http.Handler) *served {
	t.Helper()
	s := &served{Registry: &image.Registry{}, layer: image.Blob("application/yaml", "a.yaml", []byte("kind: Pod"))}
	var handler http.Handler = s.Registry
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.requests = append(s.requests, q.Method+" "+q.URL.Path)
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	var err error
	if s.ref, err = Parse(strings.TrimPrefix(server.URL, "http://") + "/fleet/web:v1"); err != nil {
		t.Fatal(err)
	}
	if s.digest, err = s.PushArtifact(s.ref.String(),
		image.Artifact{Type: "test", Layers: []image.Layer{s.layer}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fetch resolves the tag and reads the manifest and its layer.
func (s *served) fetch(c *Client, credentials ...Credential) (string, error) {
	found, err := c.Resolve(context.Background(), s.ref, credentials...)
	if err != nil {
		return "", err
	}
	manifest, err := c.FetchManifest(context.Background(), s.ref.WithDigest(found.Digest), 1<<20, credentials...)
	if err != nil {
		return "", err
	}
	if manifest.Digest != s.digest || manifest.MediaType != TypeManifest || manifest.IsIndex() ||
		len(manifest.Layers) != 1 {
		return "", fmt.Errorf("manifest is %+v", manifest)
	}
	data, err := c.FetchBlob(context.Background(), s.ref, manifest.Layers[0], 1<<20, credentials...)
	return manifest.Layers[0].Annotations[image.AnnotationTitle] + " " + string(data), err
}

// A tag is resolved with a HEAD request, which no limit of pulls counts.
func TestResolveAndFetch(t *testing.T) {
	s := serve(t, nil)
	got, err := s.fetch(newClient(t, Options{}))
	if err != nil || got != "a.yaml kind: Pod" {
		t.Errorf("%q (%v)", got, err)
	}
	if len(s.requests) != 3 || s.requests[0] != "HEAD /v2/fleet/web/manifests/v1" {
		t.Errorf("requests: %q", s.requests)
	}
}

func TestLogin(t *testing.T) {
	good := Credential{Username: "bob", Password: "hunter2"}
	bad := Credential{Username: "bob", Password: "hunter3"}
	for name, c := range map[string]struct {
		login       *image.Login
		credentials []Credential
		class       error
	}{
		"basic":            {&image.Login{User: "bob", Password: "hunter2"}, []Credential{good}, nil},
		"the second one":   {&image.Login{User: "bob", Password: "hunter2"}, []Credential{bad, good}, nil},
		"a wrong password": {&image.Login{User: "bob", Password: "hunter2"}, []Credential{bad}, ErrUnauthorized},
		"no credential":    {&image.Login{User: "bob", Password: "hunter2"}, nil, ErrUnauthorized},
		"bearer":           {&image.Login{User: "bob", Password: "hunter2", Bearer: true}, []Credential{good}, nil},
		"bearer, second":   {&image.Login{User: "bob", Password: "hunter2", Bearer: true}, []Credential{bad, good}, nil},
		"bearer, wrong": {&image.Login{User: "bob", Password: "hunter2", Bearer: true}, []Credential{bad},
			ErrUnauthorized},
		"bearer, none": {&image.Login{User: "bob", Password: "hunter2", Bearer: true}, nil, ErrUnauthorized},
		"an identity token": {&image.Login{IdentityToken: "hunter2", Bearer: true}, []Credential{{IdentityToken: "hunter2"}},
			nil},
	} {
		s := serve(t, c.login.Require)
		client := newClient(t, Options{})
		_, err := s.fetch(client, c.credentials...)
		if !errors.Is(err, c.class) || err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v, want %v", name, err, c.class)
		}
		if c.class != nil || !c.login.Bearer {
			continue
		}
		// A token is used until it expires.
		before := c.login.Granted()
		if _, err := s.fetch(client, c.credentials...); err != nil || c.login.Granted() != before {
			t.Errorf("%s: %d tokens after %d (%v)", name, c.login.Granted(), before, err)
		}
		c.login.Expire()
		if _, err := s.fetch(client, c.credentials...); err != nil || c.login.Granted() == before {
			t.Errorf("%s: after the token expired: %v", name, err)
		}
	}
}

func TestClassesOfErrors(t *testing.T) {
	status := func(code int) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		}
	}
	for name, c := range map[string]struct {
		wrap  func(http.Handler) http.Handler
		class error
	}{
		"404": {status(404), ErrNotFound}, "401": {status(401), ErrUnauthorized}, "403": {status(403), ErrUnauthorized},
		"429": {status(429), ErrUnreachable}, "500": {status(500), ErrUnreachable}, "503": {status(503), ErrUnreachable},
		"no answer": {func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}, ErrUnreachable},
		"cut off": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == http.MethodHead {
					next.ServeHTTP(w, q)
					return
				}
				w.Header().Set("Content-Type", TypeManifest)
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("{"))
			})
		}, ErrUnreachable},
		"another content": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == http.MethodHead {
					next.ServeHTTP(w, q)
					return
				}
				w.Header().Set("Content-Type", TypeManifest)
				w.Header().Set("Docker-Content-Digest", q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:])
				_, _ = w.Write([]byte(`{"layers":[]}`))
			})
		}, ErrDigestMismatch},
	} {
		s := serve(t, c.wrap)
		if _, err := s.fetch(newClient(t, Options{})); !errors.Is(err, c.class) || err == nil {
			t.Errorf("%s: %v, want %v", name, err, c.class)
		}
	}
	s := serve(t, nil)
	client := newClient(t, Options{})
	if _, err := client.FetchManifest(t.Context(), s.ref.WithDigest(s.digest), 10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large manifest: %v", err)
	}
	if _, err := client.FetchBlob(t.Context(), s.ref, Descriptor{Digest: s.layer.Digest, Size: s.layer.Size},
		s.layer.Size-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large blob: %v", err)
	}
	if _, err := client.FetchManifest(t.Context(), s.ref, 10); err == nil ||
		!strings.Contains(err.Error(), "not a digest") {
		t.Errorf("without a digest: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutdown"))
	if _, err := client.Resolve(ctx, s.ref); err == nil || err.Error() != "shutdown" {
		t.Errorf("canceled: %v", err)
	}
}

// A registry that responds to HEAD requests without a digest, or not at all, is read instead.
func TestResolveWithoutDigestHeader(t *testing.T) {
	for name, head := range map[string]func(w http.ResponseWriter){
		"no digest": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", TypeManifest)
			w.Header().Set("Content-Length", "10")
		},
		"not allowed": func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) },
	} {
		s := serve(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method == http.MethodHead {
					head(w)
					return
				}
				next.ServeHTTP(w, q)
			})
		})
		if got, err := newClient(t, Options{}).Resolve(t.Context(), s.ref); err != nil || got.Digest != s.digest {
			t.Errorf("%s: %+v (%v), want %s", name, got, err, s.digest)
		}
	}
}

// A large blob may take longer than a request.
func TestSlowBlob(t *testing.T) {
	wait := make(chan struct{})
	s := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "/blobs/") {
				<-wait
			}
			next.ServeHTTP(w, q)
		})
	})
	data := make([]byte, 300*minRate)
	layer := image.Blob("application/yaml", "a.yaml", data)
	if _, err := s.PushArtifact(s.ref.String(), image.Artifact{Layers: []image.Layer{layer}}); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, Options{Timeout: time.Millisecond})
	time.AfterFunc(50*time.Millisecond, func() { close(wait) })
	got, err := client.FetchBlob(t.Context(), s.ref, Descriptor{Digest: layer.Digest, Size: layer.Size}, 1<<30)
	if err != nil || len(got) != len(data) {
		t.Errorf("%d bytes (%v)", len(got), err)
	}
}

// A server that accepts and never responds costs the timeout and no more.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	})
	defer close(release)
	if _, err := s.fetch(newClient(t, Options{Timeout: time.Millisecond})); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "within 1ms") {
		t.Errorf("%v", err)
	}
}

// The password of a registry with TLS does not leave it without TLS.
func TestTLS(t *testing.T) {
	registry := &image.Registry{}
	var elsewhere string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if elsewhere != "" {
			http.Redirect(w, q, elsewhere, http.StatusTemporaryRedirect)
			return
		}
		registry.ServeHTTP(w, q)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	// The certificate of httptest is also for example.com; a loopback host is plain.
	client := newClient(t, Options{CAFile: file})
	client.transport.DialContext = server.Client().Transport.(*http.Transport).DialContext
	ref, _ := Parse("example.com/fleet/web:v1")
	digest, err := registry.PushArtifact(ref.String(), image.Artifact{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Resolve(t.Context(), ref); err != nil || got.Digest != digest {
		t.Errorf("%+v (%v)", got, err)
	}
	strict := newClient(t, Options{})
	strict.transport.DialContext = server.Client().Transport.(*http.Transport).DialContext
	if _, err := strict.Resolve(t.Context(), ref); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	elsewhere = "http://storage.example.com/blob?signature=hunter2"
	if _, err := client.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "without TLS") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("redirected: %v", err)
	}
	if _, err := New(Options{CAFile: os.DevNull}); err == nil {
		t.Error("a CA file without certificates is accepted")
	}
}

// A mirror is asked first, and the registry itself if the mirror cannot serve.
func TestMirrors(t *testing.T) {
	origin, mirror := serve(t, nil), serve(t, nil)
	client := newClient(t, Options{Mirrors: map[string][]string{origin.ref.Host: {"127.0.0.1:1", mirror.ref.Host}}})
	if _, err := origin.fetch(client); err != nil || len(origin.requests) != 0 || len(mirror.requests) != 3 {
		t.Errorf("%q and %q (%v)", origin.requests, mirror.requests, err)
	}
	if err := mirror.Untag(mirror.ref.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := origin.fetch(client); err != nil || len(origin.requests) != 1 {
		t.Errorf("%q (%v)", origin.requests, err)
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := Credential{Password: "hunter2"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, c); strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", verb, text)
		}
	}
}

// Tokens of old credentials do not accumulate.
func TestSessionsAreBounded(t *testing.T) {
	client := newClient(t, Options{})
	for i := range 10 * maxSessions {
		client.login(session{"registry.test", Credential{Password: fmt.Sprint(i)}})
	}
	if n := len(client.sessions); n > maxSessions {
		t.Errorf("%d sessions", n)
	}
}

// Referrers come from the API, or from the fallback tag where a registry has none.
func TestReferrers(t *testing.T) {
	const signature = `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + someDigest +
		`","size":7,"artifactType":"test/signature"}`
	const index = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + signature +
		`]}`
	for name, tc := range map[string]struct {
		path string
		want int
	}{"API": {"/v2/fleet/web/referrers/", 1}, "fallback tag": {"/v2/fleet/web/manifests/sha256-", 1},
		"none": {"/none", 0}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if strings.HasPrefix(q.URL.Path, tc.path) {
						w.Header().Set("Content-Type", TypeIndex)
						fmt.Fprint(w, index)
						return
					}
					if strings.Contains(q.URL.Path, "/referrers/") {
						http.NotFound(w, q)
						return
					}
					next.ServeHTTP(w, q)
				})
			})
			found, err := newClient(t, Options{}).Referrers(t.Context(), s.ref.WithDigest(s.digest), 1<<20)
			if err != nil || len(found) != tc.want || tc.want > 0 &&
				(found[0].Digest != someDigest || found[0].ArtifactType != "test/signature") {
				t.Errorf("%+v %v", found, err)
			}
		})
	}
	if _, err := newClient(t, Options{}).Referrers(t.Context(), Reference{Host: "r.test", Repository: "web", Tag: "v1"},
		1<<20); err == nil {
		t.Error("a reference without a digest has referrers")
	}
}

// A list of referrers of a few MB does not become hundreds of MB in memory.
func TestListOfManyReferrers(t *testing.T) {
	s := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "/referrers/") {
				w.Header().Set("Content-Type", TypeIndex)
				fmt.Fprint(w, `{"manifests":[`+strings.Repeat("{},", 1<<20)+`{}]}`)
				return
			}
			next.ServeHTTP(w, q)
		})
	})
	c := newClient(t, Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Referrers(t.Context(), s.ref.WithDigest(s.digest), 4<<20)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 {
		t.Errorf("took %d MiB of memory", took)
	}
}

// A registry that asks for a login of another scope with each response does not fill the
// memory with tokens.
func TestTokensAreBounded(t *testing.T) {
	c := newClient(t, Options{}).login(session{host: "registry.test"})
	fetched := 0
	fetch := func(context.Context) (string, error) { fetched++; return "token", nil }
	for i := range 10 * maxTokens {
		if _, err := c.Cache.Set(t.Context(), "registry.test", auth.SchemeBearer, fmt.Sprint(i), fetch); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Cache.GetToken(t.Context(), "registry.test", auth.SchemeBearer, fmt.Sprint(i)); err != nil {
			t.Fatalf("the newest token is not kept: %v", err)
		}
	}
	kept := 0
	for i := range 10 * maxTokens {
		if _, err := c.Cache.GetToken(t.Context(), "registry.test", auth.SchemeBearer, fmt.Sprint(i)); err == nil {
			kept++
		}
	}
	if kept > maxTokens || fetched != 10*maxTokens {
		t.Errorf("%d tokens are kept, %d were requested", kept, fetched)
	}
}

// Headers of megabytes, which challenges and tokens would keep, are not read.
func TestLargeHeadersAreRefused(t *testing.T) {
	s := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", `Bearer realm="http://127.0.0.1/",scope="`+strings.Repeat("a", 1<<20)+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	if _, err := newClient(t, Options{}).Resolve(t.Context(), s.ref); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "headers exceeded") {
		t.Errorf("%v", err)
	}
}
