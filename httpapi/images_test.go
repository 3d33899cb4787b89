package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/httpapi/access"
)

// keeper is an ImageKeeper with one image.
type keeper struct {
	pruned []bool
	fail   error
	gone   chan error
}

func (k *keeper) Images(context.Context) ([]Image, error) {
	return []Image{{Name: "a:1", State: "unused"}}, k.fail
}

func (k *keeper) PruneImages(_ context.Context, dryRun bool) ([]Image, error) {
	k.pruned = append(k.pruned, dryRun)
	return nil, k.fail
}

func (k *keeper) PullImage(ctx context.Context, p Pull) (Image, error) {
	switch p.Image {
	case "slow:1":
		<-ctx.Done()
		k.gone <- ctx.Err()
		return Image{}, ctx.Err()
	case "Bad":
		return Image{}, fmt.Errorf("%w: no such name", ErrBadImage)
	}
	return Image{Name: fmt.Sprint(p)}, k.fail
}

func TestPullEndsWithTheCaller(t *testing.T) {
	k := &keeper{gone: make(chan error)}
	s := httptest.NewServer(serving(Routes(Sources{Images: k, Kube: http.NotFoundHandler()}), access.Admin))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/podstead/v1/images/pull?image=slow:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if resp, err := s.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Error("it was answered")
	}
	if err := <-k.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the pull ended with %v", err)
	}
}

func TestImages(t *testing.T) {
	k := &keeper{}
	all := Sources{Images: k, Kube: http.NotFoundHandler()}
	ask := func(allowed access.Class, method, path string) (int, string) {
		s := httptest.NewServer(serving(Routes(all), allowed))
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
	// A reader may not prune, and nobody by asking for a page.
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
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/pull?image=a:1&namespace=shop&secret=x&secret=y"); code != 200 || !strings.Contains(body, "{a:1 shop [x y]}") {
		t.Errorf("pull: %d %s", code, body)
	}
	k.fail = errors.New("the runtime is away")
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/pull?image=a:1"); code != 502 || !strings.Contains(body, "the runtime is away") {
		t.Errorf("pull without a runtime: %d %s", code, body)
	}
	if code, body := ask(access.Admin, "POST", "/podstead/v1/images/prune"); code != 502 || !strings.Contains(body, "the runtime is away") {
		t.Errorf("prune without a runtime: %d %s", code, body)
	}
}
