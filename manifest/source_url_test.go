package manifest

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// urlHarness is a URLSource and its server with a configurable response.
type urlHarness struct {
	t      *testing.T
	server *httptest.Server
	cp     string
	opts   URLSourceOptions
	lines  *logLines
	loader *scriptLoader
	sink   *sinkDeliverer
	stop   func()

	mu       sync.Mutex
	response http.HandlerFunc
	requests []*http.Request
	asked    chan struct{}
}

func newURLHarness(t *testing.T) *urlHarness {
	b := &urlHarness{t: t, cp: filepath.Join(t.TempDir(), "checkpoint.json"), lines: &logLines{},
		loader: newScriptLoader(), asked: make(chan struct{}, 10000)}
	b.server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.server.Close)
	b.opts = URLSourceOptions{URL: b.server.URL + "/pods", Interval: 10 * time.Millisecond, Timeout: time.Minute,
		Node: "node"}
	return b
}

func (b *urlHarness) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.requests = append(b.requests, r)
	response := b.response
	b.mu.Unlock()
	response(w, r)
	b.asked <- struct{}{}
}

func (b *urlHarness) set(response http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.response = response
}

func (b *urlHarness) body(script string) {
	b.set(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, script) })
}

func (b *urlHarness) status(code int) {
	b.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func (b *urlHarness) start() {
	b.t.Helper()
	if b.stop != nil {
		b.stop()
	}
	cp := openTestCheckpoint(b.t, b.cp)
	b.sink = newSink(b.t, cp, b.lines.log())
	b.opts.Loader, b.opts.Checkpoint, b.opts.Deliver = b.loader, cp, b.sink
	source, err := NewURLSource(b.opts)
	if err != nil {
		b.t.Fatal(err)
	}
	b.stop = runInBackground(b.t, source.Run)
}

// awaitRequests waits until the server has responded that many more.
func (b *urlHarness) awaitRequests(n int) {
	b.t.Helper()
	for len(b.asked) > 0 {
		<-b.asked
	}
	for range n {
		select {
		case <-b.asked:
		case <-time.After(awaitTimeout):
			b.t.Fatal("the server is not asked")
		}
	}
}

func (b *urlHarness) last() *http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[len(b.requests)-1]
}

func (b *urlHarness) wantLog(want ...string) {
	b.t.Helper()
	if got := strings.Join(b.sink.model.log, "; "); got != strings.Join(want, "; ") {
		b.t.Fatalf("updates are %s, want %s", got, strings.Join(want, "; "))
	}
}

func TestURLSourceFollowsTheBody(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.body("a 2\nb 1")
	b.sink.awaitPods("a=2", "b=1")
	b.body("empty")
	b.sink.awaitPods()
	b.wantLog("ADD http a=1", "REMOVE http a=1", "ADD http a=2 b=1", "REMOVE http a=2 b=1")
	b.awaitRequests(5)
	if len(b.sink.sets) > 0 {
		t.Error("a set was delivered without a change")
	}
}

// Any failure keeps the last good revision, is reported, and can be temporary.
func TestURLSourceKeepsLastGood(t *testing.T) {
	large := strings.Repeat("x", MaxUnitSize+1)
	for name, c := range map[string]struct {
		response http.HandlerFunc
		fault    string
	}{
		"garbage":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, ":1: is broken: <html>"},
		"empty body": {func(w http.ResponseWriter, _ *http.Request) {}, "contains no manifest"},
		"not found": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
			"answered with status 404 Not Found; must be 200"},
		"no content":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "status 204"},
		"not modified": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "status 304"},
		"large":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, large) }, "is larger than 10 MiB"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "a 2")
		}, "cannot be read: unexpected EOF"},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be read: EOF"},
		"no end": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/pods", http.StatusFound) },
			"was redirected more than 5 times"},
		"says nothing": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer within 1s"},
		"stops halfway": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "a 2")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "did not answer within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newURLHarness(t)
			if strings.Contains(c.fault, "within 1s") {
				b.opts.Timeout = time.Second
			}
			b.server.Config.ErrorLog = nil
			b.body("a 1\nb 1")
			b.start()
			b.sink.awaitPods("a=1", "b=1")
			b.set(c.response)
			set := b.sink.awaitFault(c.fault)
			if set.Restored || len(set.Units[0].Documents) != 2 {
				t.Errorf("set is %+v", set)
			}
			if !strings.Contains(b.sink.config.FaultFor("http-a-1"), c.fault) {
				t.Errorf("the pod's fault is %q", b.sink.config.FaultFor("http-a-1"))
			}
			b.body("a 1\nb 2")
			b.sink.awaitPods("a=1", "b=2")
			// a response that takes more than a second is a fault until the next one.
			for begun := time.Now(); len(b.sink.config.Faults()) > 0 && time.Since(begun) < awaitTimeout; {
				time.Sleep(10 * time.Millisecond)
			}
			if len(b.sink.config.Faults()) > 0 {
				t.Errorf("faults are %v", b.sink.config.Faults())
			}
			b.wantLog("ADD http a=1 b=1", "REMOVE http b=1", "ADD http b=2")
		})
	}
}

func TestURLSourceLogsOutageOnce(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.status(503)
	b.sink.awaitFault("503")
	b.awaitRequests(3)
	b.body("a 1")
	b.sink.await("recovery", func(set Set) bool { return set.Fault == nil })
	if got := b.lines.with("503"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
	if got := b.lines.with("Manifest fault resolved"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
}

// A server that is down while the host boots.
func TestURLSourceRestoresAtBoot(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1\nb 1")
	b.start()
	b.sink.awaitPods("a=1", "b=1")
	b.status(500)
	b.start()
	set := b.sink.awaitPods("a=1", "b=1")
	if !set.Restored || set.Fault == nil || b.sink.model.delivered[SourceHTTP] {
		t.Errorf("set is %+v", set)
	}
	b.body("a 1\nb 2")
	b.sink.awaitPods("a=1", "b=2")
	b.wantLog("RESTORE http a=1 b=1", "REMOVE http b=1", "ADD http b=2")
}

// With an invalid body the last good revision is its full set.
func TestURLSourceInvalidBodyAtBoot(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.body("garbage")
	b.start()
	set := b.sink.awaitPods("a=1")
	if set.Restored || !set.Units[0].Restored {
		t.Errorf("set is %+v", set)
	}
	b.wantLog("ADD http a=1")
}

// An invalid body of a URL that was never valid reports nothing about what to stop,
// not even about the pods of the previous URL.
func TestURLSourceInvalidBodyOfNewURL(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1")
	b.start()
	b.sink.awaitPods("a=1")
	b.opts.URL = b.server.URL + "/other"
	b.body("garbage")
	b.start()
	set := b.sink.awaitPods("a=1")
	if !set.Restored || !strings.Contains(setFaults(set), "garbage") ||
		!slices.Equal(set.Incomplete, []string{b.opts.URL}) {
		t.Errorf("set is %+v", set)
	}
	b.body("b 1")
	b.sink.awaitPods("b=1")
	b.wantLog("RESTORE http a=1", "REMOVE http a=1", "ADD http b=1")
}

func TestURLSourceSendsValidators(t *testing.T) {
	b := newURLHarness(t)
	b.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"1"` && r.Header.Get("If-Modified-Since") == "Mon, 01 Jan 2024 00:00:00 GMT" {
			w.WriteHeader(304)
			return
		}
		w.Header().Set("Etag", `"1"`)
		w.Header().Set("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
		fmt.Fprint(w, "garbage")
	})
	b.start()
	b.sink.awaitFault("garbage")
	b.awaitRequests(3)
	if got := b.last().Header.Get("If-None-Match"); got != `"1"` {
		t.Errorf("asked with %q", got)
	}
	if len(b.sink.sets) > 0 || !strings.Contains(Faults(b.sink.config.Faults()).Error(), "garbage") {
		t.Error("a broken body that did not change is not the fault that it was")
	}
	b.body("a 1")
	b.sink.awaitPods("a=1")
	b.awaitRequests(2)
	if got := b.last().Header.Get("If-None-Match"); got != "" {
		t.Errorf("asked with %q, which is of another body", got)
	}
}

func TestURLSourceSendsHeaders(t *testing.T) {
	b := newURLHarness(t)
	headers := make(chan http.Header, 10000)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		fmt.Fprint(w, "a 1")
	}))
	defer other.Close()
	b.set(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/x", http.StatusFound)
	})
	b.opts.URL = strings.Replace(b.opts.URL, "//", "//user:pass@", 1) + "?token=sesame"
	// As a configuration file may spell them.
	b.opts.Header = http.Header{"x-token": {"secret", "more"}, "host": {"pods.example.com"}}
	b.start()
	b.sink.awaitPods("a=1")
	b.stop()
	elsewhere := <-headers
	request := b.last()
	if user, pass, ok := request.BasicAuth(); !ok || user != "user" || pass != "pass" ||
		request.Host != "pods.example.com" ||
		strings.Join(request.Header["X-Token"], " ") != "secret more" {
		t.Errorf("request is %s %v", request.Host, request.Header)
	}
	for _, key := range []string{"X-Token", "Authorization", "Referer"} {
		if elsewhere.Get(key) != "" {
			t.Errorf("another host got %s: %s", key, elsewhere.Get(key))
		}
	}
}

// The secrets of the URL must not appear anywhere.
func TestURLSourceHidesSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		response http.HandlerFunc
		url      func(string) string
	}{
		"status":  {response: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }},
		"garbage": {response: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "garbage") }},
		"closed":  {response: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"redirect": {response: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/pods?token=sesame", http.StatusFound)
		}},
		"port": {url: func(string) string { return "http://user:sesame@127.0.0.1:1/pods?token=sesame" }},
		"scheme": {response: func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, "ftp://x/?sesame", http.StatusFound)
		}},
		"host": {url: func(string) string { return "http://user:sesame@no.such.host.invalid/pods?token=sesame#sesame" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newURLHarness(t)
			b.set(c.response)
			b.opts.URL = strings.Replace(b.opts.URL, "//", "//user:sesame@", 1) + "?token=sesame&x=sesame#sesame"
			if c.url != nil {
				b.opts.URL = c.url(b.opts.URL)
			}
			b.start()
			set := b.sink.await("a fault", func(set Set) bool { return setFaults(set) != "" })
			seen := setFaults(set) + strings.Join(b.lines.lines, "\n") + fmt.Sprintf("%+v", b.sink.config.Snapshot())
			if strings.Contains(seen, "sesame") {
				t.Errorf("a secret is seen: %s", seen)
			}
			if !strings.Contains(seen, "token=REDACTED") {
				t.Errorf("the URL is not named: %s", seen)
			}
		})
	}
}

func TestURLSourceCAFile(t *testing.T) {
	b := newURLHarness(t)
	b.body("a 1")
	secure := httptest.NewTLSServer(http.HandlerFunc(b.serve))
	defer secure.Close()
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	b.opts.URL = secure.URL + "/pods"
	b.start()
	b.sink.awaitFault("certificate")

	b.opts.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	if _, err := NewURLSource(b.opts); err == nil || !strings.Contains(err.Error(), b.opts.CAFile) {
		t.Errorf("error is %v", err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(b.opts.CAFile, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("no certificate"))
	if _, err := NewURLSource(b.opts); err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("error is %v", err)
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	b.start()
	b.sink.awaitPods("a=1")
	// It does not follow a redirect to plain http.
	b.set(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, b.server.URL+"/pods", http.StatusFound)
	})
	b.sink.awaitFault("was redirected from https to http")
}

func TestNewURLSourceRejects(t *testing.T) {
	for _, address := range []string{"", "pods.yaml", "/etc/pods", "ftp://host/x", "http://", "http://%zz", "://x",
		"http://user:sesame@\x00/"} {
		_, err := NewURLSource(URLSourceOptions{URL: address})
		if err == nil || !strings.Contains(err.Error(), "https://example.com/pods.yaml") ||
			strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://host/pods.yaml":         "https://host/pods.yaml",
		"https://u:p@host:1/x?b=1&a=2#f": "https://REDACTED@host:1/x?a=REDACTED&b=REDACTED",
		"https://u@host/?flag":           "https://REDACTED@host/?flag=REDACTED",
	} {
		address, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := redactURL(address); got != want {
			t.Errorf("%s becomes %s, want %s", raw, got, want)
		}
	}
}
