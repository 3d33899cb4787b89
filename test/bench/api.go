package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/test/testbed"
)

// tableForm is the Accept header with which kubectl lists pods.
const tableForm = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// apiBench measures the API of one daemon that has many pods on the fake runtime.
type apiBench struct {
	ctx  context.Context
	r    *report
	opts options
	node *testbed.Node
	// local uses the socket, remote TLS with a kubeconfig.
	local, remote identity
}

// identity is one way to connect to the API.
type identity struct {
	name string
	base string
	dial func(ctx context.Context) (net.Conn, error)
}

func (a identity) client() *http.Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) }}
	t.DialTLSContext = t.DialContext
	return &http.Client{Transport: t}
}

func measureAPI(ctx context.Context, r *report, opts options) error {
	fake := critest.Start()
	defer fake.Close()
	socket := filepath.Join(testbed.Dir(), "api-fake.sock")
	if err := fake.ServeUnix(socket); err != nil {
		return err
	}
	node, err := testbed.NewNode("api", "unix://"+socket)
	if err != nil {
		return err
	}
	node.Args = []string{"--max-pods", fmt.Sprint(opts.api)}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	progress("the API with %d pods", opts.api)
	for i := range opts.api {
		name := fmt.Sprintf("p%d", i)
		if err := node.Write(name+".yaml", manifest(name, "one")); err != nil {
			return err
		}
	}
	if err := awaitAll(ctx, node, opts.api); err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	b := &apiBench{ctx: ctx, r: r, opts: opts, node: node}
	if err := b.open(); err != nil {
		return err
	}
	for _, part := range []func() error{b.measureLists, b.measureWatches, b.measureWatchers} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (b *apiBench) row(what, unit string) row { return row{Runtime: "fake", Name: what, Unit: unit} }

// open gets a kubeconfig.
func (b *apiBench) open() error {
	b.local = identity{"over the socket", "http://podstead", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.node.Socket())
	}}
	resp, err := b.local.client().Post(b.local.base+"/podstead/v1/kubeconfig?role=read&duration=1h", "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var k struct{ Server, CertificateAuthority, ClientCertificate, ClientKey string }
	if err := json.NewDecoder(resp.Body).Decode(&k); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(k.ClientCertificate), []byte(k.ClientKey))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(k.CertificateAuthority))
	address := k.Server[len("https://"):]
	b.remote = identity{"over TLS", k.Server, func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}
		return d.DialContext(ctx, "tcp", address)
	}}
	return nil
}

// measureLists measures the latency of a list of all pods.
func (b *apiBench) measureLists() error {
	for _, a := range []identity{b.local, b.remote} {
		for _, form := range []struct{ name, path, accept string }{
			{"as a table", "/api/v1/pods", tableForm}, {"in full", "/api/v1/pods", "application/json"},
			{"by the kubelet's /pods", "/pods", ""},
		} {
			c := a.client()
			var times []float64
			for range 10*b.opts.rounds + 1 {
				begin := time.Now()
				if _, err := b.get(c, a.base+form.path, form.accept); err != nil {
					return err
				}
				times = append(times, float64(time.Since(begin).Microseconds())/1e3)
			}
			c.CloseIdleConnections()
			// The first request also connects.
			b.r.add(b.row(fmt.Sprintf("%d pods %s, %s", b.opts.api, form.name, a.name), "ms"), times[1:], nil,
				atMost(50, "≤ 50 ms"))
		}
	}
	var times []float64
	for range 3 * b.opts.rounds {
		begin := time.Now()
		if out, err := b.node.Command("get", "pods", "-A", "--api-socket", b.node.Socket()).CombinedOutput(); err != nil {
			return fmt.Errorf("podstead get pods: %w: %s", err, out)
		}
		times = append(times, float64(time.Since(begin).Microseconds())/1e3)
	}
	b.r.add(b.row(fmt.Sprintf("podstead get pods -A with %d pods, entire command", b.opts.api), "ms"), times, nil, bound{})
	return nil
}

func (b *apiBench) get(c *http.Client, url, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(b.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// podEvent is one event of a watch.
type podEvent struct {
	Object struct {
		Metadata struct{ Name, UID string }
		Status   struct{ Phase string }
	}
	at time.Time
}

// watch returns the events of a watch until the run ends.
func (b *apiBench) watch(a identity) (<-chan podEvent, error) {
	req, err := http.NewRequestWithContext(b.ctx, http.MethodGet, a.base+"/api/v1/pods?watch=1", nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client().Do(req)
	if err != nil {
		return nil, err
	}
	out := make(chan podEvent, 16*b.opts.api)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		lines := bufio.NewReaderSize(resp.Body, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			s := podEvent{at: time.Now()}
			if json.Unmarshal(line, &s) == nil {
				out <- s
			}
		}
	}()
	return out, nil
}

// latency returns the delay between the first GET of a pod that returns its new revision and
// the watch event, in milliseconds, or 0 if the event comes first. Each GET makes the daemon
// update its pods, so the GET is never later than the daemon.
func (b *apiBench) latency(events <-chan podEvent, round int) (float64, error) {
	name, file := fmt.Sprintf("p%d-%s", round, b.node.Name), fmt.Sprintf("p%d.yaml", round)
	c := b.local.client()
	defer c.CloseIdleConnections()
	uid := func() (string, error) {
		body, err := b.get(c, b.local.base+"/api/v1/namespaces/default/pods/"+name, "")
		if err != nil {
			return "", err
		}
		var pod struct{ Metadata struct{ UID string } }
		err = json.Unmarshal(body, &pod)
		return pod.Metadata.UID, err
	}
	before, err := uid()
	if err != nil {
		return 0, err
	}
	if err := b.node.Write(file, manifest(fmt.Sprintf("p%d", round),
		fmt.Sprint("word", time.Now().UnixNano()))); err != nil {
		return 0, err
	}
	var shown time.Time
	for shown.IsZero() {
		now, err := uid()
		if err != nil {
			now = before // between the two revisions
		}
		if now != before {
			shown = time.Now()
		}
		if err := sleep(b.ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
	}
	deadline := time.After(patience)
	for {
		select {
		case s, ok := <-events:
			if !ok {
				return 0, fmt.Errorf("the watch ended")
			}
			if s.Object.Metadata.Name == name && s.Object.Metadata.UID != before {
				return max(0, float64(s.at.Sub(shown).Microseconds())/1e3), nil
			}
		case <-deadline:
			return 0, fmt.Errorf("no event of %s came", name)
		}
	}
}

func (b *apiBench) latencies(events <-chan podEvent, from int) ([]float64, error) {
	var times []float64
	for i := range 3 * b.opts.rounds {
		t, err := b.latency(events, from+i)
		if err != nil {
			return nil, err
		}
		times = append(times, t)
	}
	return times, nil
}

// measureWatches measures the delay of a watch event after a change.
func (b *apiBench) measureWatches() error {
	for i, a := range []identity{b.local, b.remote} {
		events, err := b.watch(a)
		if err != nil {
			return err
		}
		times, err := b.latencies(events, i*3*b.opts.rounds)
		if err != nil {
			return err
		}
		b.r.add(b.row(fmt.Sprintf("delay of a watch event, %d pods, %s", b.opts.api, a.name), "ms"), times, nil,
			atMost(50, "≤ 50 ms"))
	}
	return nil
}

func (b *apiBench) measureRestart() error {
	b.node.Kill()
	if err := b.node.Start(b.ctx); err != nil {
		return err
	}
	if err := awaitAll(b.ctx, b.node, b.opts.api); err != nil {
		return err
	}
	// Allocations of a first request exist with or without watches.
	if _, err := b.get(b.local.client(), b.local.base+"/api/v1/pods", ""); err != nil {
		return err
	}
	return sleep(b.ctx, settle)
}

// measureWatchers measures the memory of idle watches, and whether watches whose clients do
// not read delay others.
func (b *apiBench) measureWatchers() error {
	for i, a := range []identity{b.local, b.remote} {
		// A fresh daemon, because memory that was used once would be reused.
		if err := b.measureRestart(); err != nil {
			return err
		}
		before, err := testbed.PrivateMemory(b.node.Pid())
		if err != nil {
			return err
		}
		conns, err := b.openWatches(a, b.opts.watchers)
		if err != nil {
			return err
		}
		if err := sleep(b.ctx, settle); err != nil {
			return err
		}
		after, err := testbed.PrivateMemory(b.node.Pid())
		if err != nil {
			return err
		}
		b.r.add(b.row(fmt.Sprintf("private memory of %d idle watches, one connection each, %s", b.opts.watchers, a.name),
			"MB"),
			[]float64{megabytes(after - before)}, nil, atMost(50, "≤ 50 MB"))
		if i == 0 {
			events, err := b.watch(b.local)
			if err != nil {
				return err
			}
			times, err := b.latencies(events, 6*b.opts.rounds)
			if err != nil {
				return err
			}
			b.r.add(b.row(fmt.Sprintf("a watch event with %d other watches that are not read", b.opts.watchers), "ms"), times,
				nil, bound{})
			begin := time.Now()
			if _, err := b.get(b.local.client(), b.local.base+"/api/v1/pods", tableForm); err != nil {
				return err
			}
			b.r.add(b.row(fmt.Sprintf("%d pods as a table with these watches", b.opts.api), "ms"),
				[]float64{float64(time.Since(begin).Microseconds()) / 1e3}, nil, bound{})
		}
		for _, c := range conns {
			_ = c.Close()
		}
		if err := sleep(b.ctx, settle); err != nil {
			return err
		}
	}
	return nil
}

// openWatches opens watches that start with the next change, each over a new connection, and
// reads only the response header.
func (b *apiBench) openWatches(a identity, count int) ([]net.Conn, error) {
	// Get the newest resource version first.
	body, err := b.get(b.local.client(), b.local.base+"/api/v1/pods?fieldSelector=metadata.name%3Dnone", "")
	if err != nil {
		return nil, err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var conns []net.Conn
	err = inParallel(count, func(int) error {
		c, err := a.dial(b.ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		conns = append(conns, c)
		mu.Unlock()
		if _, err := fmt.Fprintf(c, "GET /api/v1/pods?watch=1&resourceVersion=%s HTTP/1.1\r\nHost: x\r\n\r\n",
			list.Metadata.ResourceVersion); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 64), nil)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("a watch: %s", resp.Status)
		}
		return err
	})
	return conns, err
}
