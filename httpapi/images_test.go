package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// fakeImages is an ImageManager with one image.
type fakeImages struct {
	pruned []bool
	fail   error
	ended  chan error
	// slow is called by a pull that does not end.
	slow func()
}

func (k *fakeImages) Images(context.Context) ([]api.Image, error) {
	return []api.Image{{Name: "a:1", State: "unused"}}, k.fail
}

func (k *fakeImages) PruneImages(_ context.Context, dryRun bool) ([]api.Image, error) {
	k.pruned = append(k.pruned, dryRun)
	return nil, k.fail
}

func (k *fakeImages) PullImage(ctx context.Context, p api.Pull) (api.Image, error) {
	switch p.Image {
	case "slow:1":
		k.slow()
		<-ctx.Done()
		k.ended <- ctx.Err()
		return api.Image{}, ctx.Err()
	case "Bad":
		return api.Image{}, &api.InvalidImageError{Err: errors.New("no such name")}
	}
	return api.Image{Name: fmt.Sprint(p)}, k.fail
}

func (k *fakeImages) LoadImages(_ context.Context, archive io.Reader, as string) ([]api.Image, error) {
	switch as {
	case "never":
		return nil, &api.InvalidImageError{Err: errors.New("this runtime loads nothing")}
	case "late":
		_, err := io.ReadFull(archive, make([]byte, 10))
		return nil, errors.Join(&api.InvalidImageError{Err: errors.New("the archive is damaged")}, err)
	}
	n, err := io.Copy(io.Discard, archive)
	return []api.Image{{Name: as, Size: uint64(n)}}, err
}

// An archive may be larger than other request bodies. A client does not send one that is
// rejected early, and gets the reason for one that is rejected late.
func TestLoadImages(t *testing.T) {
	s := httptest.NewServer(serveClasses(Routes(Sources{Images: &fakeImages{}, Kube: http.NotFoundHandler()}),
		access.Admin))
	defer s.Close()
	client := s.Client()
	client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	const size = 20 << 20
	for as, want := range map[string]string{
		"web:1": fmt.Sprintf(`200 [{"name":"web:1","id":"","size":%d,"state":""}]`, size),
		"never": "400 this runtime loads nothing", "late": "400 the archive is damaged",
	} {
		body := &readTracker{Reader: io.LimitReader(zeros{}, size)}
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/podstead/v1/images/load?name="+as, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Expect", "100-continue")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", as, err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var failure metav1.Status
		if json.Unmarshal(text, &failure) == nil && failure.Kind == "Status" {
			text = []byte(failure.Message)
		}
		if got := strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", string(text))); got != want {
			t.Errorf("%s: got %s, want %s", as, got, want)
		}
		if body.read == (as == "never") {
			t.Errorf("%s: sent: %t", as, body.read)
		}
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestPullEndsWhenClientDisconnects(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	k := &fakeImages{ended: make(chan error), slow: cancel}
	s := httptest.NewServer(serveClasses(Routes(Sources{Images: k, Kube: http.NotFoundHandler()}), access.Admin))
	defer s.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/podstead/v1/images/pull?image=slow:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := s.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Error("it was answered")
	}
	if err := <-k.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the pull ended with %v", err)
	}
}

func TestImages(t *testing.T) {
	k := &fakeImages{}
	all := Sources{Images: k, Kube: http.NotFoundHandler()}
	ask := func(allowed access.Class, method, path string) (int, string) {
		s := httptest.NewServer(serveClasses(Routes(all), allowed))
		defer s.Close()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		_ = resp.Write(&b)
		return resp.StatusCode, b.String()
	}
	if code, body := ask(access.Read, "GET", "/podstead/v1/images"); code != 200 || !strings.Contains(body, `"a:1"`) {
		t.Errorf("images: %d %s", code, body)
	}
	// A reader must not prune, and a GET request must not either.
	for _, c := range []struct {
		allowed access.Class
		method  string
		path    string
		want    int
	}{
		{access.Read, "POST", "/podstead/v1/images/prune", 404},
		{access.Read | access.Admin, "GET", "/podstead/v1/images/prune", 405},
		{access.Admin, "POST", "/podstead/v1/images/prune?dryRun=perhaps", 400},
		{access.Read, "POST", "/podstead/v1/images/pull?image=a:1", 404},
		{access.Admin, "POST", "/podstead/v1/images/pull", 400},
		{access.Admin, "POST", "/podstead/v1/images/pull?image=Bad", 400},
	} {
		if code, body := ask(c.allowed, c.method, c.path); code != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	if len(k.pruned) != 0 {
		t.Fatalf("pruned %v", k.pruned)
	}
	ask(access.Admin, "POST", "/podstead/v1/images/prune?dryRun=true")
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/prune"); code != 200 || !strings.Contains(body, "[]") {
		t.Errorf("prune: %d %s", code, body)
	}
	if len(k.pruned) != 2 || !k.pruned[0] || k.pruned[1] {
		t.Errorf("pruned %v", k.pruned)
	}
	if code, body := ask(access.Admin, "POST",
		"/podstead/v1/images/pull?image=a:1&namespace=shop&secret=x&secret=y"); code != 200 ||
		!strings.Contains(body, "{a:1 shop [x y]}") {
		t.Errorf("pull: %d %s", code, body)
	}
	k.fail = errors.New("the runtime is away")
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/pull?image=a:1"); code != 502 ||
		!strings.Contains(body, "the runtime is away") {
		t.Errorf("pull without a runtime: %d %s", code, body)
	}
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/prune"); code != 502 ||
		!strings.Contains(body, "the runtime is away") {
		t.Errorf("prune without a runtime: %d %s", code, body)
	}
}

func (k *fakeImages) ImageArchives() api.ImageArchives {
	return api.ImageArchives{Directory: "/archives",
		Archives: []api.ImageArchive{{File: "/archives/web.tar", State: "Failed", Message: "it is empty"}}}
}

func TestImageArchives(t *testing.T) {
	s := httptest.NewServer(serveClasses(Routes(Sources{Images: &fakeImages{}, Kube: http.NotFoundHandler()}),
		access.Read))
	defer s.Close()
	r, err := s.Client().Get(s.URL + "/podstead/v1/images/archives")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	const want = `{"directory":"/archives","archives":[{"file":"/archives/web.tar","state":"Failed","message":"it is empty"}]}`
	if err != nil || r.StatusCode != 200 || strings.TrimSpace(string(body)) != want {
		t.Errorf("%d %s %v", r.StatusCode, body, err)
	}
}
