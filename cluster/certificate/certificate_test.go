package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var node = Subject{User: "system:node:edge", Group: "system:nodes"}

// authority signs requests for a lifetime from now on. It denies them while
// refusal is set, and does not respond while it is silent.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu      sync.Mutex
	life    time.Duration
	refusal error
	silent  bool
	asked   []Request
}

func newAuthority(t *testing.T, life time.Duration) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t: t, cert: cert, key: key, life: life}
}

func (a *authority) Sign(ctx context.Context, r Request) ([]byte, error) {
	a.mu.Lock()
	a.asked = append(a.asked, r)
	refusal, silent := a.refusal, a.silent
	a.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case refusal != nil:
		return nil, refusal
	}
	block, _ := pem.Decode(r.PEM)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: parsed.Subject, DNSNames: parsed.DNSNames, IPAddresses: parsed.IPAddresses,
		NotBefore: time.Now().Truncate(time.Second), NotAfter: time.Now().Add(a.life).Truncate(time.Second),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, parsed.PublicKey, a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// requests returns the names of the requests since the last call.
func (a *authority) requests() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		names = append(names, r.Name)
	}
	a.asked = nil
	return names
}

func (a *authority) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func TestRequestSaysWhatIsWanted(t *testing.T) {
	s := Store{Dir: t.TempDir(), Name: "kubelet-server"}
	key, err := s.key()
	if err != nil {
		t.Fatal(err)
	}
	want := Subject{
		User: "system:node:edge", Group: "system:nodes",
		Names: []string{"edge", "b"}, Addresses: []netip.Addr{netip.MustParseAddr("fd00::1"),
			netip.MustParseAddr("10.0.0.1")},
	}
	r, err := request(want.sorted(), key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(r.PEM)
	got, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckSignature(); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprint(got.Subject.CommonName, got.Subject.Organization, got.DNSNames,
		got.IPAddresses); text != "system:node:edge[system:nodes] [b edge] [10.0.0.1 fd00::1]" {
		t.Errorf("asks for %s", text)
	}
	// The key and the request name survive a restart of the daemon.
	again, err := s.key()
	if err != nil || !again.Equal(key) {
		t.Fatalf("another key, %v", err)
	}
	fi, err := os.Stat(s.pending().Path())
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", fi.Mode(), err)
	}
	second, err := request(want.sorted(), again)
	if err != nil || second.Name != r.Name || !Same(second.PEM, r.PEM) {
		t.Errorf("%s, then %s, %v", r.Name, second.Name, err)
	}
	want.Names = []string{"other"}
	if other, err := request(want.sorted(), key); err != nil || other.Name == r.Name || Same(other.PEM, r.PEM) ||
		!strings.HasPrefix(other.Name, "node-csr-") {
		t.Errorf("another request is %s, %v", other.Name, err)
	}
}

func TestDue(t *testing.T) {
	born := time.Unix(1000, 0)
	cert := &tls.Certificate{Leaf: &x509.Certificate{NotBefore: born, NotAfter: born.Add(100 * time.Hour),
		DNSNames: []string{"edge"}}}
	for _, c := range []struct {
		name   string
		cert   *tls.Certificate
		want   Subject
		chance float64
		age    time.Duration
		due    time.Duration
	}{
		{"none", nil, node, 0, 0, 0},
		{"new", cert, node, 0, 0, 70 * time.Hour},
		{"new and late", cert, node, 1, 0, 90 * time.Hour},
		{"half", cert, node, 0.5, 50 * time.Hour, 30 * time.Hour},
		{"time has come", cert, node, 0, 70 * time.Hour, 0},
		{"ended", cert, node, 1, 1000 * time.Hour, 0},
		{"server", cert, Subject{Names: []string{"edge"}}, 0, 0, 70 * time.Hour},
		{"other server", cert, Subject{Names: []string{"edge", "b"}}, 0, 0, 0},
	} {
		if got := due(c.cert, c.want, c.chance, born.Add(c.age)); got.Round(time.Second) != c.due {
			t.Errorf("%s: %v, want %v", c.name, got, c.due)
		}
	}
}

func TestStoreKeepsTheLayoutOfTheKubelet(t *testing.T) {
	a, dir := newAuthority(t, time.Hour), t.TempDir()
	s := Store{Dir: filepath.Join(dir, "pki"), Name: "kubelet-client"}
	for i := range 4 {
		key, err := s.key()
		if err != nil {
			t.Fatal(err)
		}
		r, err := request(node, key)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := a.Sign(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.save(signed, key, time.Unix(int64(i)*100, 0)); err != nil {
			t.Fatal(err)
		}
		cert, err := s.Load()
		if err != nil || !key.PublicKey.Equal(cert.Leaf.PublicKey) {
			t.Fatalf("loads something else: %v", err)
		}
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
			if fi, err := os.Stat(filepath.Join(s.Dir, e.Name())); err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", e.Name(), fi, err)
			}
		}
		return all
	}
	if got := fmt.Sprint(names()); got != "[kubelet-client-1970-01-01-00-03-20.pem "+
		"kubelet-client-1970-01-01-00-05-00.pem kubelet-client-current.pem]" {
		t.Errorf("files: %v", got)
	}
	if to, err := os.Readlink(s.Current()); err != nil || to != "kubelet-client-1970-01-01-00-05-00.pem" {
		t.Errorf("link to %s, %v", to, err)
	}
	// A certificate for another key is not used.
	key, err := s.key()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.Current())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.save(text[:strings.Index(string(text), "-----BEGIN EC")], key, time.Unix(900, 0)); err == nil {
		t.Error("a certificate for another key is used")
	}
	names()
}

// keeper runs a Manager in a synctest bubble.
type keeper struct {
	*Manager
	mu      sync.Mutex
	renewed int
	refused []string
	want    Subject
}

func keep(dir string, a *authority, current *tls.Certificate) *keeper {
	k := &keeper{want: node}
	k.Manager = New(Config{
		Store: Store{Dir: dir, Name: "kubelet-client"}, Signer: a, Current: current,
		Subject:   func() (Subject, bool) { k.mu.Lock(); defer k.mu.Unlock(); return k.want, k.want.User != "" },
		OnRenewed: func() { k.mu.Lock(); defer k.mu.Unlock(); k.renewed++ },
		OnRefused: func(err error) { k.mu.Lock(); defer k.mu.Unlock(); k.refused = append(k.refused, err.Error()) },
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	return k
}

// run runs the Manager until the returned function is called.
func (k *keeper) run(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func TestCertificateIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, 100*time.Hour)
		k := keep(t.TempDir(), a, nil)
		end := k.run(t)
		first := k.Certificate()
		if first == nil || k.renewed != 1 || len(a.requests()) != 1 {
			t.Fatalf("the first: %v, %d", first, k.renewed)
		}
		time.Sleep(69 * time.Hour)
		if names := a.requests(); len(names) != 0 {
			t.Errorf("requested too early: %v", names)
		}
		time.Sleep(22 * time.Hour)
		synctest.Wait()
		if k.Certificate() == first || k.renewed != 2 || len(a.requests()) != 1 {
			t.Errorf("not renewed: %d", k.renewed)
		}
		end()
		// The next daemon finds the certificate.
		found, err := k.cfg.Store.Load()
		if err != nil || !found.Leaf.Equal(k.Certificate().Leaf) {
			t.Errorf("%v", err)
		}
	})
}

func TestRequestOutlivesTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir := newAuthority(t, time.Hour), t.TempDir()
		a.silent = true
		keep(dir, a, nil).run(t)()
		before := a.requests()
		a.silent = false
		k := keep(dir, a, nil)
		k.run(t)()
		if after := a.requests(); len(before) != 1 || len(after) != 1 || after[0] != before[0] || k.Certificate() == nil {
			t.Errorf("first %v, then %v", before, after)
		}
	})
}

func TestRefusedRequestIsRarelyRepeatedAndWithAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, time.Hour)
		a.refusal = fmt.Errorf("%w: no", ErrRefused)
		k := keep(t.TempDir(), a, nil)
		end := k.run(t)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		names := a.requests()
		different := map[string]bool{}
		for _, n := range names {
			different[n] = true
		}
		if len(names) < 20 || len(names) > 32 || len(different) != len(names) || len(k.refused) != len(names) {
			t.Errorf("%d requests, %d names, %d reported", len(names), len(different), len(k.refused))
		}
		a.set(func() { a.refusal = nil })
		time.Sleep(time.Hour)
		synctest.Wait()
		if k.Certificate() == nil {
			t.Error("not tried again")
		}
		end()
	})
}

func TestFaultsOfTheSignerKeepTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, time.Hour)
		a.refusal = errors.New("lost")
		k := keep(t.TempDir(), a, nil)
		end := k.run(t)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		names := a.requests()
		end()
		if len(names) != 3 || names[0] != names[1] || names[1] != names[2] {
			t.Errorf("requests: %v", names)
		}
	})
}

func TestShortLifeIsNotRenewedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, 0)
		k := keep(t.TempDir(), a, nil)
		end := k.run(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		end()
		if n := len(a.requests()); n > 10 || len(k.refused) != n {
			t.Errorf("%d requests in an hour, %v", n, k.refused)
		}
	})
}

func TestServerCertificateFollowsItsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, 100*time.Hour)
		k := keep(t.TempDir(), a, nil)
		k.want = Subject{}
		end := k.run(t)
		defer end()
		if n := len(a.requests()); n != 0 {
			t.Errorf("asked before the addresses are known: %d", n)
		}
		address := func(text string) {
			k.mu.Lock()
			k.want = Subject{User: node.User, Group: node.Group, Names: []string{"edge"},
				Addresses: []netip.Addr{netip.MustParseAddr(text)}}
			k.mu.Unlock()
			k.Check()
			synctest.Wait()
		}
		says := func(want string) {
			t.Helper()
			if c := k.Certificate(); c == nil || fmt.Sprint(subjectOf(c.Leaf).Addresses) != want {
				t.Errorf("%v, want %s", c, want)
			}
		}
		address("10.0.0.1")
		says("[10.0.0.1]")
		// A request that is never signed does not delay the next one.
		a.set(func() { a.silent = true })
		address("10.0.0.2")
		says("[10.0.0.1]")
		a.set(func() { a.silent = false })
		address("10.0.0.3")
		says("[10.0.0.3]")
		if names := a.requests(); len(names) != 3 {
			t.Errorf("requests: %v", names)
		}
		k.Check()
		synctest.Wait()
		if names := a.requests(); len(names) != 0 {
			t.Errorf("nothing changed, requested: %v", names)
		}
	})
}
